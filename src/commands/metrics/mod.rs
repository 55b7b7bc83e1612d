//! `--metrics-file`: what became of the run, as node_exporter's textfile collector reads it.
//!
//! Counters go on from what the file holds, so that `increase()` works over many runs. It is written beside and renamed:
//! nobody ever reads half of it. Runs that end at once take turns: each goes on from what the other wrote.

mod families;

use std::fs::{self, File, Permissions};
use std::io::{self, Write};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use self::families::{Families, RECORDS, REQUEST_SECONDS, REQUESTS, RUNS, UNITS, UNMETERED};
use super::Error;
use super::environment::Environment;
use super::replace::file_to_replace;
use crate::quota::Timestamp;
use crate::run::{self, Requests, RunOutcome, RunReport};

/// What a run left to be counted.
pub struct Figures<'a> {
    /// What became of it.
    pub report: &'a RunReport,
    /// What it asked.
    pub requests: Vec<Requests>,
    /// When it began.
    pub began: Timestamp,
    /// How long it took.
    pub took: Duration,
}

/// Writes the file anew. That it cannot be written is said, and fails no run.
pub async fn write(file: &Path, environment: &Environment, figures: Figures<'_>) {
    let written = match collect(environment, &figures).await {
        Ok(families) => replace(file, |old| families.text(old)),
        Err(error) => Err(io::Error::other(error.to_string())),
    };
    if let Err(error) = written {
        tracing::error!(
            "{}: cannot write the metrics: {error}; name another --metrics-file",
            file.display()
        );
    }
}

async fn collect(environment: &Environment, figures: &Figures<'_>) -> Result<Families, Error> {
    let mut families = Families::default();
    of_run(&mut families, figures);
    of_requests(&mut families, &figures.requests);
    of_units(&mut families, environment, figures.report);
    of_limits(&mut families, figures.report);
    of_regions(&mut families, environment).await?;
    Ok(families)
}

fn of_run(
    families: &mut Families,
    Figures {
        report,
        began,
        took,
        ..
    }: &Figures<'_>,
) {
    let runs = families.counter(RUNS);
    for outcome in RunOutcome::ALL {
        runs.add(
            &[("outcome", outcome.name())],
            f64::from(u8::from(outcome == report.outcome)),
        );
    }
    let last = families.gauge(
        "ingest_last_run_timestamp_seconds",
        "When the last run began",
    );
    last.add(&[], seconds(*began));
    let took_seconds = took.as_secs_f64();
    families
        .gauge(
            "ingest_last_run_duration_seconds",
            "How long the last run took",
        )
        .add(&[], took_seconds);
    families
        .counter(UNMETERED)
        .add(&[], number(report.unmetered_units.get()));
}

fn of_requests(families: &mut Families, requests: &[Requests]) {
    for Requests {
        account,
        call,
        led,
        count,
        took,
    } in requests
    {
        let labels = [
            ("account", account.as_str()),
            ("call", call),
            ("class", led.name()),
        ];
        families.counter(REQUESTS).add(&labels, number(*count));
        families
            .counter(REQUEST_SECONDS)
            .add(&labels, took.as_secs_f64());
    }
}

fn of_units(families: &mut Families, environment: &Environment, report: &RunReport) {
    let account = |job: &str| {
        let job = environment
            .config
            .jobs
            .iter()
            .find(|known| known.name == job);
        job.map(|job| job.credential.account.name.as_str())
            .unwrap_or_default()
    };
    for pass in &report.passes {
        let (job, region) = (pass.job.as_str(), pass.region.as_str());
        for (limit, units) in pass.units.iter() {
            let labels = [
                ("account", account(job)),
                ("limit", limit),
                ("job", job),
                ("region", region),
            ];
            families.counter(UNITS).add(&labels, number(units.get()));
        }
        families
            .counter(RECORDS)
            .add(&[("job", job), ("region", region)], number(pass.records));
    }
}

fn of_limits(families: &mut Families, report: &RunReport) {
    for limit in &report.limits {
        let labels = [
            ("account", limit.account.as_str()),
            ("limit", &*limit.limit),
        ];
        let gauges = [
            (
                "ingest_limit_enforced_units",
                "What is let through in a window",
                Some(limit.enforced),
            ),
            ("ingest_limit_used_units", "What counts now", limit.used),
            (
                "ingest_limit_remaining_units",
                "What is left now; missing while the ledger cannot be reached",
                limit.remaining,
            ),
        ];
        for (name, help, units) in gauges {
            if let Some(units) = units {
                families.gauge(name, help).add(&labels, number(units.get()));
            }
        }
        let closed = limit.closed_until.map_or(0.0, seconds);
        let help = "Until when the upstream's \"spent\" closes it; 0 while it is open";
        families
            .gauge("ingest_limit_closed_until_timestamp_seconds", help)
            .add(&labels, closed);
    }
}

/// Every region of every job, whichever this run walked.
async fn of_regions(families: &mut Families, environment: &Environment) -> Result<(), Error> {
    let all = environment
        .config
        .jobs
        .iter()
        .map(|job| (Arc::clone(job), job.regions.clone()))
        .collect();
    for one in run::candidates(
        &*environment.catalog_to_read()?,
        &all,
        environment.clock.now(),
    )
    .await?
    {
        let labels = [("job", one.job.name.as_str()), ("region", &one.region.code)];
        let help = "When the last complete pass over a region began; 0 where there was none";
        let last = one.standing.last_complete.map_or(0.0, seconds);
        families
            .gauge("ingest_last_success_timestamp_seconds", help)
            .add(&labels, last);
    }
    Ok(())
}

fn seconds(at: Timestamp) -> f64 {
    at.since(Timestamp::from_micros(0)).as_secs_f64()
}

/// Exact up to 2^53, which no quota comes near.
#[allow(clippy::cast_precision_loss)]
const fn number(count: u64) -> f64 {
    count as f64
}

/// Writes beside, then renames. Others may read it: the collector is another user.
fn replace(file: &Path, text: impl FnOnce(&str) -> String) -> io::Result<()> {
    let file = &file_to_replace(file)?;
    // Where the directory cannot be locked, figures that two runs at once may lose are better than none.
    let _alone = lock_directory_of(file).ok();
    let old = fs::read_to_string(file).unwrap_or_default();
    let beside = beside(file);
    let written = File::create(&beside).and_then(|mut new| {
        new.set_permissions(Permissions::from_mode(0o644))?;
        new.write_all(text(&old).as_bytes())?;
        new.sync_all()?;
        fs::rename(&beside, file)
    });
    written.inspect_err(|_| drop(fs::remove_file(&beside)))
}

/// Waits until no other run replaces a file there. The directory itself is locked: a file for this would have an owner,
/// whom others may not be, and would lie in the collector's directory for ever.
fn lock_directory_of(file: &Path) -> io::Result<File> {
    let directory = file
        .parent()
        .filter(|parent| !parent.as_os_str().is_empty())
        .unwrap_or(Path::new("."));
    let directory = File::open(directory)?;
    directory.lock()?;
    Ok(directory)
}

/// The collector reads what ends in `.prom`; this does not.
fn beside(file: &Path) -> PathBuf {
    let mut name = file.file_name().unwrap_or_default().to_owned();
    name.push(format!(".{}.tmp", std::process::id()));
    file.with_file_name(name)
}
