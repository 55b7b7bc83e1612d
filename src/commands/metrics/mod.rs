//! `--metrics-file`: the result of the run, as node_exporter's textfile collector reads it.
//!
//! Counters continue from what the file holds, so that `increase()` works over many runs. The new text is written to a
//! temporary file, which is then renamed: no reader sees half of it. Runs that end at the same time take turns. A file
//! holds the jobs that were run with it and no other; two files never hold the same series.

mod families;
mod labels;
mod metric;

use std::fs::{self, File, Permissions, TryLockError};
use std::io::{self, Write};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::thread;
use std::time::Duration;

use self::families::{ACCOUNT, Families, JOB, Keep, escaped, holds_job};
use super::Error;
use super::environment::Environment;
use super::replace::file_to_replace;
use crate::run::{self, CallStats, Candidate, LimitReport, RunOutcome, RunReport};
use ingest_base::clock::Monotonic;
use ingest_config::{Job, Region};
use ingest_quota::{Account, Cost, Timestamp};

/// The start and duration of a run.
#[derive(Debug, Clone, Copy)]
pub struct Span {
    pub began: Timestamp,
    pub took: Duration,
}

/// The figures of a run that ended with a result.
pub struct Figures<'a> {
    /// The names of the selected jobs.
    pub jobs: Vec<String>,
    /// Its result.
    pub report: &'a RunReport,
    pub requests: Vec<CallStats>,
    /// Units that the ledger has not recorded yet, by account of those jobs.
    pub unrepaid: Vec<(Arc<Account>, Cost)>,
    /// Its time.
    pub span: Span,
}

/// Writes the result of a run. A file that cannot be written is reported; the run does not fail.
pub async fn write(file: &Path, environment: &Environment, figures: Figures<'_>) {
    let written = match region_states(environment).await {
        Ok(states) => replace(file, |old| {
            of_finished(named(file), environment, &figures, &states, old)
        }),
        Err(error) => Err(io::Error::other(error.to_string())),
    };
    report_failure(file, written);
}

/// Writes that a run ended with an error before it had a result.
pub fn write_broken(file: &Path, error: &Error, span: Span) {
    let written = replace(file, |old| {
        let mut families = Families::new(named(file).as_deref());
        let is_valid = !matches!(error, Error::Config(_));
        of_every_run(&mut families, RunOutcome::Failed, is_valid, span);
        families.go_on(old, &Keep::NotSet);
        families.text()
    });
    report_failure(file, written);
}

/// Returns the state now: limits, units that the ledger has not recorded, and the age of each region. What the runs of a
/// metrics file counted is added, if `$INGEST_METRICS_FILE` names one.
#[cfg(feature = "serve")]
pub async fn current(environment: &Environment) -> Result<String, Error> {
    let ledger = super::refill::reading_ledger(environment).await?;
    let mut limits = Vec::new();
    let mut unrepaid = Vec::new();
    for account in environment.accounts() {
        // Without the ledger its gauges are missing, and a scrape has the rest.
        let usages = ledger.usage(&account).await.unwrap_or_default();
        let usage = |name: &str| ingest_quota::LimitUsage::find(&usages, name);
        let reports = account.limits.iter();
        limits.extend(
            reports.map(|(name, limit)| run::limit_report(&account, name, limit, usage(name))),
        );
        unrepaid.push((Arc::clone(&account), ledger.unrepaid(&account).await?));
    }
    let states = region_states(environment).await?;
    let mut families = Families::new(None);
    let version = [("version", env!("CARGO_PKG_VERSION"))];
    families.add(&metric::BUILD, &version, 1.0);
    families.add(&metric::CONFIG_VALID, &[], truth(true));
    of_limits(&mut families, &limits);
    of_unrepaid(&mut families, &unrepaid);
    of_jobs(&mut families, environment.config.jobs.iter());
    of_regions(&mut families, states.iter());
    let of_runs = std::env::var_os("INGEST_METRICS_FILE").filter(|file| !file.is_empty());
    let of_runs = of_runs.and_then(|file| fs::read_to_string(file).ok());
    families.go_on(&of_runs.unwrap_or_default(), &Keep::NotSet);
    Ok(families.text())
}

fn report_failure(file: &Path, written: io::Result<()>) {
    if let Err(error) = written {
        tracing::error!(
            "{}: cannot write the metrics: {error}; name another --metrics-file",
            file.display()
        );
    }
}

/// The label value that distinguishes a file's samples from those of other files; `None` for `ingest.prom`, the usual name.
fn named(file: &Path) -> Option<String> {
    let name = file.file_stem()?.to_string_lossy().into_owned();
    (name != USUAL_NAME).then_some(name)
}

const USUAL_NAME: &str = "ingest";

fn of_finished(
    name: Option<String>,
    environment: &Environment,
    figures: &Figures<'_>,
    states: &[Candidate],
    old: &str,
) -> String {
    let mut families = Families::new(name.as_deref());
    of_every_run(&mut families, figures.report.outcome, true, figures.span);
    of_requests(&mut families, &figures.requests);
    of_units(&mut families, environment, figures.report);
    of_limits(&mut families, &figures.report.limits);
    of_unrepaid(&mut families, &figures.unrepaid);
    let is_own = |job: &Arc<Job>| figures.jobs.contains(&job.name) || holds_job(old, &job.name);
    of_jobs(
        &mut families,
        environment.config.jobs.iter().filter(|job| is_own(job)),
    );
    of_regions(&mut families, states.iter().filter(|one| is_own(&one.job)));
    let reported = |account: &Account| {
        let limits = &figures.report.limits;
        limits.iter().any(|limit| limit.account == account.name)
    };
    // Of an account that this run did not use, the newest figures are those in the file.
    let others = environment.accounts().into_iter();
    let others = others.filter(|account| !reported(account));
    let others = others.map(|account| escaped(&account.name)).collect();
    families.go_on(old, &Keep::OfAccounts(others));
    families.text()
}

fn of_every_run(families: &mut Families, outcome: RunOutcome, valid: bool, span: Span) {
    for one in RunOutcome::ALL {
        let (labels, value) = ([("outcome", one.name())], truth(one == outcome));
        families.add(&metric::RUNS, &labels, value);
        families.add(&metric::LAST_RUN_OUTCOME, &labels, value);
    }
    let version = [("version", env!("CARGO_PKG_VERSION"))];
    families.add(&metric::BUILD, &version, 1.0);
    families.add(&metric::CONFIG_VALID, &[], truth(valid));
    families.add(&metric::LAST_RUN, &[], seconds(span.began));
    families.add(&metric::LAST_RUN_DURATION, &[], span.took.as_secs_f64());
}

fn of_requests(families: &mut Families, requests: &[CallStats]) {
    for CallStats {
        account,
        call,
        outcome,
        count,
        took,
    } in requests
    {
        let labels = [
            (ACCOUNT, account.as_str()),
            ("call", call),
            ("class", outcome.name()),
        ];
        families.add(&metric::REQUESTS, &labels, number(*count));
        families.add(&metric::REQUEST_SECONDS, &labels, took.as_secs_f64());
    }
}

fn of_units(families: &mut Families, environment: &Environment, report: &RunReport) {
    let account = |job: &str| {
        let mut jobs = environment.config.jobs.iter();
        let job = jobs.find(|known| known.name == job);
        job.map(|job| job.credential.account.name.as_str())
            .unwrap_or_default()
    };
    for pass in &report.passes {
        let (job, region) = (pass.job.as_str(), pass.region.as_str());
        for (limit, units) in pass.units.iter() {
            let labels = [
                (ACCOUNT, account(job)),
                ("limit", limit),
                (JOB, job),
                ("region", region),
            ];
            families.add(&metric::UNITS, &labels, number(units.get()));
        }
        let labels = [(JOB, job), ("region", region)];
        families.add(&metric::RECORDS, &labels, number(pass.records));
    }
    let unmetered = report.unmetered_units.get();
    families.add(&metric::UNMETERED, &[], number(unmetered));
}

fn of_limits(families: &mut Families, limits: &[LimitReport]) {
    for limit in limits {
        let labels = [(ACCOUNT, limit.account.as_str()), ("limit", &*limit.limit)];
        let gauges = [
            (&metric::LIMIT_ENFORCED, Some(limit.enforced)),
            (&metric::LIMIT_USED, limit.used),
            (&metric::LIMIT_REMAINING, limit.remaining),
        ];
        for (metric, units) in gauges {
            if let Some(units) = units {
                families.add(metric, &labels, number(units.get()));
            }
        }
        let closed = limit.closed_until.map_or(0.0, seconds);
        families.add(&metric::LIMIT_CLOSED, &labels, closed);
    }
}

fn of_unrepaid(families: &mut Families, unrepaid: &[(Arc<Account>, Cost)]) {
    for (account, cost) in unrepaid {
        for limit in account.limits.keys() {
            let labels = [(ACCOUNT, account.name.as_str()), ("limit", limit)];
            families.add(&metric::UNREPAID, &labels, number(cost.of(limit).get()));
        }
    }
}

fn of_jobs<'a>(families: &mut Families, jobs: impl Iterator<Item = &'a Arc<Job>>) {
    for job in jobs {
        if let Some(every) = job.every {
            let labels = [(JOB, job.name.as_str())];
            families.add(&metric::JOB_EVERY, &labels, every.as_secs_f64());
        }
    }
}

fn of_regions<'a>(families: &mut Families, states: impl Iterator<Item = &'a Candidate>) {
    for one in run::each_region(states) {
        let labels = [(JOB, one.job.name.as_str()), ("region", &one.region.code)];
        // Batches are walked when a region names ids.
        if one.region.code != Region::SHARED {
            let last = one.region_last_complete().map_or(0.0, seconds);
            families.add(&metric::LAST_SUCCESS, &labels, last);
        }
        let is_doubtful = truth(one.doubtful_since().is_some());
        families.add(&metric::DOUBTFUL, &labels, is_doubtful);
    }
}

/// Returns the state of every region of every job, and of its batches, including those that this run did not walk.
async fn region_states(environment: &Environment) -> Result<Vec<Candidate>, Error> {
    let (catalog, now) = (environment.passes().await?, environment.clock.now());
    let mut selection = environment.all_jobs();
    selection.extend(environment.batches());
    Ok(run::candidates(&*catalog, &selection, now).await?)
}

fn truth(is: bool) -> f64 {
    f64::from(u8::from(is))
}

fn seconds(at: Timestamp) -> f64 {
    at.since(Timestamp::from_micros(0)).as_secs_f64()
}

/// Exact up to 2^53, which no quota comes near.
#[allow(clippy::cast_precision_loss)]
const fn number(count: u64) -> f64 {
    count as f64
}

/// Writes a temporary file, then renames it. Other users can read it: the collector is one.
fn replace(file: &Path, text: impl FnOnce(&str) -> String) -> io::Result<()> {
    let file = &file_to_replace(file)?;
    // If the directory cannot be locked, figures that two simultaneous runs can lose are better than none.
    let _alone = lock_directory_of(file).ok();
    let old = fs::read_to_string(file).unwrap_or_default();
    let beside = beside(file);
    // Another user may be able to write the directory: nothing is written through a link.
    let created = fs::remove_file(&beside).or_else(|error| match error.kind() {
        io::ErrorKind::NotFound => Ok(()),
        _ => Err(error),
    });
    let written = created
        .and_then(|()| File::create_new(&beside))
        .and_then(|mut new| {
            new.set_permissions(Permissions::from_mode(0o644))?;
            new.write_all(text(&old).as_bytes())?;
            new.sync_all()?;
            fs::rename(&beside, file)
        });
    written.inspect_err(|_| drop(fs::remove_file(&beside)))
}

/// Waits until no other run replaces a file in the directory, at most 2 s: whoever may read the directory can lock it for ever.
/// Locks the directory itself: a lock file would belong to one user, and would stay in the collector's directory.
fn lock_directory_of(file: &Path) -> io::Result<File> {
    let directory = file
        .parent()
        .filter(|parent| !parent.as_os_str().is_empty())
        .unwrap_or(Path::new("."));
    let directory = File::open(directory)?;
    let began = Monotonic::now();
    loop {
        match directory.try_lock() {
            Ok(()) => return Ok(directory),
            Err(TryLockError::WouldBlock) if began.elapsed() < Duration::from_secs(2) => {
                thread::sleep(Duration::from_millis(10));
            }
            Err(error) => return Err(error.into()),
        }
    }
}

/// Returns the temporary file. The collector does not read it: its name does not end in `.prom`.
fn beside(file: &Path) -> PathBuf {
    let mut name = file.file_name().unwrap_or_default().to_owned();
    name.push(format!(".{}.tmp", std::process::id()));
    file.with_file_name(name)
}
