//! `--metrics-file` and `/metrics`: the state now, in Prometheus' text format
//! (<https://prometheus.io/docs/instrumenting/exposition_formats/>). A counter is the sum over the passes of a month, and returns
//! to 0 with the next month, which Prometheus takes for a restart.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::fs::{self, Permissions};
use std::io::{self, Write as _};
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::time::Duration;

use chrono::Datelike;
use strum::VariantArray;

use super::Error;
use super::environment::Environment;
use super::replace::{Replacement, file_to_replace};
use super::status::{self, LastPasses, Status};
use crate::run::{RunOutcome, RunReport};
use ingest_catalog::PassRecord;
use ingest_config::Config;
use ingest_quota::{Timestamp, Units};

/// The last run: how it ended, and what nothing remembers of it.
#[derive(Debug, Clone, Copy)]
pub struct LastRun {
    pub outcome: RunOutcome,
    pub began: Timestamp,
    pub took: Duration,
    /// The units that it spent while the ledger could not be reached.
    pub unmetered: Units,
    pub has_valid_config: bool,
}

impl LastRun {
    pub const fn new(report: &RunReport, began: Timestamp, took: Duration) -> Self {
        Self {
            outcome: report.outcome,
            began,
            took,
            unmetered: report.unmetered_units,
            has_valid_config: true,
        }
    }

    /// A run that ended with an error before it had a result.
    pub const fn broken(error: &Error, began: Timestamp, took: Duration) -> Self {
        Self {
            outcome: RunOutcome::Failed,
            began,
            took,
            unmetered: Units::ZERO,
            has_valid_config: !matches!(error, Error::Config(_)),
        }
    }
}

/// Writes the state after a run, and returns whether it could: a file that cannot be written is reported.
pub async fn write(file: &Path, environment: &Environment, last: LastRun) -> bool {
    let written = match text(environment, Some(last)).await {
        Ok(text) => replace(file, &text),
        Err(error) => Err(io::Error::other(error.to_string())),
    };
    report_failure(file, &written);
    written.is_ok()
}

/// Writes how a run ended that could not read the state. The rest of the file stays: alerts on regions go on.
pub fn write_broken(file: &Path, last: LastRun) {
    let old = file_to_replace(file).and_then(fs::read_to_string);
    let text = families_of_run(last);
    let is_of_run = |line: &&str| {
        let name = line
            .trim_start_matches("# HELP ")
            .trim_start_matches("# TYPE ");
        let name = name.split([' ', '{']).next().unwrap_or_default();
        name.starts_with("ingest_") && !text.contains(&format!("# TYPE {name} "))
    };
    let rest = old.unwrap_or_default();
    let rest = rest.lines().filter(is_of_run);
    let rest: String = rest.map(|line| format!("{line}\n")).collect();
    report_failure(file, &replace(file, &(text + &rest)));
}

fn report_failure(file: &Path, written: &io::Result<()>) {
    if let Err(error) = written {
        tracing::error!(
            "{}: cannot write the metrics: {error}; name another --metrics-file",
            file.display()
        );
    }
}

/// Returns the state, and how the last run ended where that is known.
pub async fn text(environment: &Environment, last: Option<LastRun>) -> Result<String, Error> {
    let status = status::report(environment, None).await?;
    let since = first_of_month(environment.clock.now());
    let passes = environment.reader().await?.history(since).await?;
    let of_run = last.map(families_of_run).unwrap_or_default();
    Ok(of_run + &families_of_state(&status, &environment.config, &passes))
}

/// When the month of UTC began.
fn first_of_month(now: Timestamp) -> Timestamp {
    let today = now.to_utc().date_naive();
    let first = today.with_day(1).unwrap_or(today);
    first.and_time(chrono::NaiveTime::MIN).and_utc().into()
}

fn families_of_run(last: LastRun) -> String {
    let mut text = String::new();
    let families = [
        (
            "ingest_config_valid",
            "1 if the last run could use its configuration, 0 if the configuration is missing or invalid",
            truth(last.has_valid_config),
        ),
        (
            "ingest_last_run_timestamp_seconds",
            "When the last run began",
            seconds(last.began),
        ),
        (
            "ingest_last_run_duration_seconds",
            "Duration of the last run in seconds",
            last.took.as_secs_f64(),
        ),
        (
            "ingest_last_run_unmetered_units",
            "Units that the last run spent while the ledger could not be reached",
            number(last.unmetered.get()),
        ),
    ];
    for (name, help, value) in families {
        family(&mut text, name, help, [(labels(&[]), value)]);
    }
    let outcomes = RunOutcome::VARIANTS.iter().map(|outcome| {
        let of_outcome = labels(&[("outcome", outcome.name())]);
        (of_outcome, truth(*outcome == last.outcome))
    });
    let help = "1 for the outcome of the last run, 0 for every other";
    family(&mut text, "ingest_last_run_outcome", help, outcomes);
    text
}

fn families_of_state(status: &Status, config: &Config, passes: &[PassRecord]) -> String {
    let mut text = String::new();
    let version = labels(&[("version", env!("CARGO_PKG_VERSION"))]);
    let help = "The version that wrote this; always 1";
    family(&mut text, "ingest_build_info", help, [(version, 1.0)]);
    of_limits(&mut text, status);
    let every = config.jobs.iter().filter_map(|job| {
        let every = job.every?.as_secs_f64();
        Some((labels(&[(JOB, &job.name)]), every))
    });
    let help = "The configured `every` of a job; missing if the job is due at every run";
    family(&mut text, "ingest_job_every_seconds", help, every);
    of_regions(&mut text, status);
    of_passes(&mut text, config, passes);
    text
}

fn of_limits(text: &mut String, status: &Status) {
    let mut gauge = |name: &str, help: &str, value: fn(&status::LimitStatus) -> Option<f64>| {
        let samples = status.limits.iter().filter_map(|limit| {
            let report = &limit.report;
            let whose = [("account", &*report.account), ("limit", &*report.limit)];
            Some((labels(&whose), value(limit)?))
        });
        family(text, name, help, samples);
    };
    gauge(
        "ingest_limit_enforced_units",
        "The most units that are granted in one window",
        |limit| Some(number(limit.report.enforced.get())),
    );
    gauge(
        "ingest_limit_used_units",
        "Units in use; missing if the ledger could not be reached",
        |limit| limit.report.used.map(|units| number(units.get())),
    );
    gauge(
        "ingest_limit_remaining_units",
        "Units left; missing if the ledger could not be reached",
        |limit| limit.report.remaining.map(|units| number(units.get())),
    );
    gauge(
        "ingest_limit_closed_until_timestamp_seconds",
        "Until when the limit is closed because the upstream reported it exhausted, or by hand; 0 while it is open",
        |limit| Some(limit.report.closed_until.map_or(0.0, seconds)),
    );
    gauge(
        "ingest_unrepaid_units",
        "Units that this machine spent while the ledger could not be reached and that the ledger has not recorded yet",
        |limit| Some(number(limit.unrepaid.get())),
    );
}

fn of_regions(text: &mut String, status: &Status) {
    let last = status.regions.iter().map(|one| {
        let last = one.last_complete.map_or(0.0, seconds);
        (labels(&[(JOB, &one.job), ("region", &one.region)]), last)
    });
    let help = "When the last complete pass over a region began; 0 if there was none";
    family(text, "ingest_last_success_timestamp_seconds", help, last);
    let mut gauge = |name: &str, help: &str, is: fn(&LastPasses) -> bool| {
        let samples = status.last_passes().map(|(job, region, last)| {
            let of_region = labels(&[(JOB, job), ("region", region)]);
            (of_region, truth(is(last)))
        });
        family(text, name, help, samples);
    };
    gauge(
        "ingest_region_doubtful",
        "1 if a list in the last pass over a region cannot be trusted, else 0",
        |last| last.doubtful_at.is_some(),
    );
    gauge(
        "ingest_region_failed",
        "1 if the last pass over a region failed, else 0",
        |last| last.failed.is_some(),
    );
}

fn of_passes(text: &mut String, config: &Config, passes: &[PassRecord]) {
    let (mut units, mut records, mut requests) =
        (BTreeMap::new(), BTreeMap::new(), BTreeMap::new());
    for pass in passes {
        let (job, region) = ((JOB, &*pass.job), ("region", &*pass.region));
        *records.entry(labels(&[job, region])).or_default() += number(pass.records);
        *requests.entry(labels(&[job, region])).or_default() += number(pass.requests);
        let account = config.account_of(&pass.job).unwrap_or_default();
        for (limit, spent) in pass.units.iter() {
            let whose = [("account", account), ("limit", limit), job, region];
            *units.entry(labels(&whose)).or_default() += number(spent.get());
        }
    }
    let help = "Units charged by the passes of this month";
    family(text, "ingest_units_total", help, units);
    let help = "Records of the passes of this month";
    family(text, "ingest_records_total", help, records);
    let help = "Requests of the passes of this month";
    family(text, "ingest_requests_total", help, requests);
}

/// The label with the name of a job. Prometheus itself sets `job`: the job that scrapes.
const JOB: &str = "ingest_job";

/// Adds a metric with its samples; nothing if there are none. What is called `_total` counts.
fn family(
    text: &mut String,
    name: &str,
    help: &str,
    samples: impl IntoIterator<Item = (String, f64)>,
) {
    let kind = if name.ends_with("_total") {
        "counter"
    } else {
        "gauge"
    };
    let head = format!("# HELP {name} {help}\n# TYPE {name} {kind}\n");
    for (place, (labels, value)) in samples.into_iter().enumerate() {
        text.push_str(if place == 0 { &head } else { "" });
        _ = writeln!(text, "{name}{labels} {value}");
    }
}

/// Labels in braces, with their values escaped; nothing if there are none.
fn labels(labels: &[(&str, &str)]) -> String {
    let escaped = |value: &str| {
        value
            .replace('\\', "\\\\")
            .replace('"', "\\\"")
            .replace('\n', "\\n")
    };
    let labels = labels
        .iter()
        .map(|(name, value)| format!("{name}=\"{}\"", escaped(value)));
    match labels.collect::<Vec<_>>() {
        none if none.is_empty() => String::new(),
        some => format!("{{{}}}", some.join(",")),
    }
}

fn seconds(at: Timestamp) -> f64 {
    at.since(Timestamp::from_micros(0)).as_secs_f64()
}

fn truth(is: bool) -> f64 {
    f64::from(u8::from(is))
}

/// Exact up to 2^53, which no quota comes near.
#[allow(clippy::cast_precision_loss)]
const fn number(count: u64) -> f64 {
    count as f64
}

/// Replaces the file as a whole. Other users can read it: the collector is one, and reads what ends in `.prom`.
fn replace(file: &Path, text: &str) -> io::Result<()> {
    let (replacement, mut file) = Replacement::create(file_to_replace(file)?)?;
    file.set_permissions(Permissions::from_mode(0o644))?;
    file.write_all(text.as_bytes())?;
    replacement.take_place(&file)
}
