//! `ingest --region …`: the main job.

use std::collections::BTreeSet;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use super::environment::Environment;
use super::figures::{cost, count, counted, deleted, instant, span, took, units};
use super::groups::{Group, grouped};
use super::lost_catalog::NoCatalog;
use super::metrics::{self, LastRun};
use super::output::Message;
use super::progress::watcher;
use super::refill::charging_ledger;
use super::{Error, output, signals, slices};
use crate::cli::{Global, RunArgs};
use crate::doc::{Doc, Grid, Head, Phrase, Phrases, Section, Tone};
use crate::exit::Exit;
use crate::foresight;
use crate::review::{self, ComparedRecords};
use crate::run::{
    self, Blocked, ClosedBy, Context, Credentials, InFlight, KnownCalls, LearnedCosts, LimitReport,
    PassOutcome, PassReport, RunOutcome, RunReport, Signal, Silent, Stop, StoppedBy, Upstreams,
    Waits,
};
use ingest_base::clock::{Clock, Monotonic, SystemClock};
use ingest_catalog::Catalog;
use ingest_config::Region;
use ingest_quota::Units;

/// Walks the due regions.
pub async fn run(global: &Global, args: &RunArgs) -> Result<Exit, Error> {
    // This machine's clock: with a wrong configuration there is no environment that has another.
    let (began, watch) = (SystemClock.now(), Monotonic::now());
    let ended = walk(global, args).await;
    if let (Err(error), Some(file)) = (&ended, metrics_file(args)) {
        metrics::write_broken(&file, LastRun::broken(error, began, watch.elapsed()));
    }
    ended
}

async fn walk(global: &Global, args: &RunArgs) -> Result<Exit, Error> {
    #[cfg(feature = "sandbox")]
    if global.sandbox {
        let (environment, sandbox) = super::sandbox::practise(global).await?;
        let ended = run_in(&environment, global, args).await;
        sandbox.shutdown().await;
        if ended.is_ok() && global.format == crate::cli::Format::Text && !global.quiet {
            output::text_line(&super::sandbox::next_steps(global, &environment))?;
        }
        return ended;
    }
    let environment = Environment::load(global)?;
    run_in(&environment, global, args).await
}

async fn run_in(environment: &Environment, global: &Global, args: &RunArgs) -> Result<Exit, Error> {
    tracing::debug!("configuration read");
    let selection = environment.select(args)?;
    environment.create_state_dir()?;
    let waits = Waits::listed();
    let stop = signals::listen("the page in flight is stored first", waits.clone())?;
    let _stalls = tokio::spawn(waits.clone().report_stalls());
    // Opening creates it.
    let no_catalog = NoCatalog::find(environment);
    let catalog = waits.on("the run", "the catalog", environment.catalog());
    let catalog = catalog.await?;
    let selection = run::learned(&catalog, selection);
    let selection = waits.on("the run", "the catalog", selection).await?;
    let upstreams = environment.upstreams(&selection);
    let context = context(environment, catalog, upstreams, stop.clone());
    let context = Context {
        progress: watcher(global),
        concurrency: usize::from(args.concurrency),
        waits: waits.clone(),
        ..waits.on("the run", "the ledger", context).await?
    };
    tracing::debug!("catalog and ledger opened");
    if let Some(none) = no_catalog
        && let Some(lost) = none.lost(environment, &*context.ledger).await
    {
        tracing::warn!("{lost}");
    }
    // Only now: opening the catalog and the ledger may have corrected the clock.
    let (began, watch) = (environment.clock.now(), Monotonic::now());
    // Before regions are chosen: the kept pages move cursors.
    let kept = environment.land_kept(&context);
    waits.on("the run", "the catalog", kept).await?;
    let (catalog, ledger, others) = (&*context.catalog, &*context.ledger, environment.all_jobs());
    let reserved = foresight::reserved(catalog, ledger, selection, &others, began);
    let selection = waits.on("the run", "the ledger", reserved).await?;
    let report = run::run(&context, &selection).await;
    // Also where the run failed: other machines would wait until its leases expire.
    let released = context.leases.close();
    waits
        .on("the run", "its leases to be released", released)
        .await;
    let report = report?;
    let is_written = match metrics_file(args) {
        Some(file) => {
            let last = LastRun::new(&report, began, watch.elapsed());
            metrics::write(&file, environment, last).await
        }
        None => true,
    };
    close(context, report.requests > 0).await;
    tracing::debug!("catalog and ledger closed");
    show(&report, watch.elapsed(), global)?;
    Ok(match exit(report.outcome, args.strict, stop.signal()) {
        Exit::Success if !is_written => Exit::Failed,
        exit => exit,
    })
}

/// Closes catalog and ledger: beside each other if they were written, since each then waits for the disk.
async fn close(context: Context, were_written: bool) {
    let Context {
        catalog, ledger, ..
    } = context;
    if !were_written {
        return;
    }
    let closing = tokio::task::spawn_blocking(move || drop(ledger));
    drop(catalog);
    // A panic has ended the process.
    let _ = closing.await;
}

/// Returns the file for metrics; an empty variable counts as unset.
fn metrics_file(args: &RunArgs) -> Option<PathBuf> {
    let by_variable = || {
        std::env::var_os("INGEST_METRICS_FILE")
            .filter(|file| !file.is_empty())
            .map(PathBuf::from)
    };
    args.metrics_file.clone().or_else(by_variable)
}

/// Returns what the requests of a run share, for one region at a time and without progress.
pub async fn context(
    environment: &Environment,
    catalog: Arc<Catalog>,
    upstreams: Upstreams,
    stop: Stop,
) -> Result<Context, Error> {
    Ok(Context {
        catalog,
        ledger: charging_ledger(environment).await?,
        upstreams,
        clock: Arc::clone(&environment.clock),
        leases: environment.leases()?,
        unlanded: environment.unlanded(),
        stop,
        waits: Waits::default(),
        blocked: Blocked::knowing(Credentials::kept_in(environment.state_dir.clone())),
        learned_costs: LearnedCosts::default(),
        in_flight: InFlight::default(),
        known_calls: KnownCalls::default(),
        compared_records: Some(ComparedRecords::default()),
        progress: Arc::new(Silent),
        concurrency: 1,
        cheap_max: environment.config.ledger.cheap_max,
    })
}

fn exit(outcome: RunOutcome, strict: bool, signal: Option<Signal>) -> Exit {
    match (outcome, signal) {
        (RunOutcome::Interrupted, signal) => signal.unwrap_or(Signal::Interrupt).into(),
        (RunOutcome::Failed, _) => Exit::Failed,
        // A run that stops at a limit did what it should: only who asks for it gets another code than 0.
        (RunOutcome::Stopped, _) if strict => Exit::Stopped,
        _ => Exit::Success,
    }
}

/// Whether the worst outcome is a doubt.
fn only_doubtful(report: &RunReport) -> bool {
    let worst = report.passes.iter().map(|pass| pass.outcome).max();
    worst == Some(PassOutcome::Doubtful)
}

fn show(report: &RunReport, elapsed: Duration, global: &Global) -> Result<(), Error> {
    // The log contains each failure already.
    if global.quiet && !global.logs_only() {
        tell_doubts(report);
    }
    output::report(global, report, |screen| {
        // The log contains each failure already.
        let is_told =
            report.outcome >= RunOutcome::Failed && !only_doubtful(report) && !global.logs_only();
        let text = doc(report, elapsed).text(screen);
        match is_told {
            true => Message::Result(text),
            false => Message::Done(text),
        }
    })
}

/// Prints the doubts of each pass.
fn tell_doubts(report: &RunReport) {
    for pass in &report.passes {
        let (job, region) = (&pass.job, pass.key());
        for doubt in &pass.doubts {
            let line = format!("{job} {region}: {}", review::doubt_in_words(doubt));
            output::error_line(&output::shown(&line));
        }
    }
}

/// The summary for people.
fn doc(report: &RunReport, elapsed: Duration) -> Doc {
    let mut doc = Doc::default();
    let mut head = Section::default();
    head.say_all(headline(report, elapsed));
    doc.add(head);
    let mut walked = report.passes.iter();
    if walked.any(|pass| pass.outcome != PassOutcome::NotDue) {
        doc.add(passes(&report.passes));
        let mut causes = Section::default();
        causes.say_all(self::causes(&report.passes));
        doc.add(causes);
    }
    doc.add(limits(&report.limits));
    doc
}

/// `8 regions of 2 jobs`, `3 slices`
fn completed(report: &RunReport) -> Vec<String> {
    let complete =
        |pass: &&PassReport| pass.outcome == PassOutcome::Complete && pass.region != Region::SHARED;
    let complete = report.passes.iter().filter(complete);
    let (slices, regions): (Vec<_>, Vec<_>) = complete.partition(|pass| pass.slice.is_some());
    let distinct = |name: fn(&PassReport) -> &str| {
        let names: BTreeSet<&str> = regions.iter().map(|pass| name(pass)).collect();
        names.len() as u64
    };
    let (codes, jobs) = (distinct(|pass| &pass.region), distinct(|pass| &pass.job));
    let of_jobs = (jobs > 1).then(|| format!(" of {}", counted(jobs, "job")));
    let of_regions = counted(codes, "region") + &of_jobs.unwrap_or_default();
    let of_slices = counted(slices.len() as u64, "slice");
    let all = [
        (codes > 0 || slices.is_empty()).then_some(of_regions),
        (!slices.is_empty()).then_some(of_slices),
    ];
    all.into_iter().flatten().collect()
}

fn headline(report: &RunReport, elapsed: Duration) -> Vec<String> {
    let requests = format!(
        "{} in {}",
        counted(report.requests, "request"),
        took(elapsed)
    );
    let is_busy = |pass: &PassReport| pass.outcome == PassOutcome::Busy;
    let head = match report.outcome {
        RunOutcome::NothingDue if report.passes.iter().any(is_busy) => {
            "Skipped: another run is in progress.".to_owned()
        }
        RunOutcome::NothingDue => "Nothing was due.".to_owned(),
        RunOutcome::Complete => {
            format!("Complete: {}, {requests}.", completed(report).join(", "))
        }
        RunOutcome::Stopped => {
            format!("Stopped at a limit after {requests}; the next run resumes here.")
        }
        RunOutcome::Failed if only_doubtful(report) => {
            format!("Doubtful in part, after {requests}: a list cannot be trusted; see below.")
        }
        RunOutcome::Failed => format!("Failed or refused in part, after {requests}; see below."),
        RunOutcome::Interrupted => {
            format!("Interrupted after {requests}; the next run resumes here.")
        }
    };
    let waits = report
        .stopped_by
        .as_ref()
        .map(|stop| stopped(stop, &report.limits));
    let unmetered = (report.unmetered_units > Units::ZERO).then(|| {
        let units = counted(report.unmetered_units.get(), "unit");
        format!(
            "{units} went unmetered during an outage of the ledger; the next run charges them \
            to it."
        )
    });
    let deletions = report.deletions.iter();
    let deleted = deletions.map(|one| format!("Deleted {}.", deleted(one)));
    [Some(head), left(report), waits, unmetered]
        .into_iter()
        .flatten()
        .chain(deleted)
        .collect()
}

/// `Left to do: videos 3 of 8 regions.`; `None` where a limit stopped no region.
fn left(report: &RunReport) -> Option<String> {
    let is_due =
        |pass: &&PassReport| pass.region != Region::SHARED && pass.outcome != PassOutcome::NotDue;
    let of = |pass: &PassReport| (pass.job.clone(), pass.slice.is_some());
    let due = report.passes.iter().filter(is_due);
    let jobs = grouped(due, |one, other| of(one) == of(other));
    let left = |jobs: &Group<'_, PassReport>| {
        let left = jobs.sum(|pass| u64::from(pass.outcome == PassOutcome::Stopped));
        let (job, is_slice) = of(jobs.first);
        let what = if is_slice { "slice" } else { "region" };
        let due = counted(jobs.all.len() as u64, what);
        (left > 0).then(|| format!("{job} {} of {due}", count(left)))
    };
    let all: Vec<String> = jobs.iter().filter_map(left).collect();
    (!all.is_empty()).then(|| format!("Left to do: {}.", all.join(", ")))
}

/// Returns why passes ended as they did.
fn causes(passes: &[PassReport]) -> Vec<Phrases> {
    slices::said(passes.iter().filter_map(|pass| {
        let region = (pass.region.as_str(), pass.slice);
        Some((pass.job.as_str(), region, pass.detail.clone()?))
    }))
}

/// Returns which limit stopped the run, and when a retry fits.
fn stopped(stop: &StoppedBy, limits: &[LimitReport]) -> String {
    let StoppedBy { account, limit, .. } = stop;
    let (after, at) = (span(stop.retry_after), instant(stop.retry_at));
    let is_closed = |one: &LimitReport| {
        one.account == *account && one.limit == *limit && one.closed_until.is_some()
    };
    if limits.iter().any(is_closed) {
        let remedy = format!("`ingest reopen {account} {limit}` opens it earlier");
        let why = match stop.closed_by {
            ClosedBy::Others => {
                format!("reported {account}/{limit} exhausted, or `ingest close` closed it")
            }
            ClosedBy::Report => format!("reported {account}/{limit} exhausted"),
            ClosedBy::Pause => format!("requests a pause of {account}/{limit}"),
        };
        return format!(
            "The upstream {why}: the limit is closed for {after}, until {at}; {remedy}."
        );
    }
    let (call, units, left) = (
        &stop.call,
        count(stop.units.get()),
        count(stop.remaining.get()),
    );
    let leaves = stop.reserved();
    format!(
        "{call} needs {units} {account}/{limit}; {left} remaining{leaves}; retry in {after} ({at})."
    )
}

fn passes(passes: &[PassReport]) -> Section {
    let complete = passes.iter().filter(|pass| is_plain(pass)).count();
    let groups = grouped(passes, |a, b| {
        let is_sum = complete > MOST_COMPLETE && is_plain(a) && is_plain(b) && a.job == b.job;
        is_sum || untouched_alike(a, b)
    });
    let regions = |group: &Group<'_, PassReport>| {
        let regions = group.all.iter();
        slices::named_or_counted(regions.map(|pass| (pass.region.as_str(), pass.slice)))
    };
    let table = Grid::of(&groups)
        .column(Head::text("JOB"), |group| &group.first.job)
        .column(Head::text("REGION"), regions)
        .column(Head::text("OUTCOME"), |group| outcome(group.first))
        .column(Head::number("PAGES").spare(0), |group| {
            count(group.sum(|pass| pass.pages))
        })
        .column(Head::number("RECORDS").spare(2), |group| {
            count(group.sum(|pass| pass.records))
        })
        .column(Head::number("REQUESTS").spare(1), |group| {
            count(group.sum(|pass| pass.requests))
        })
        .column(Head::text("UNITS"), |group| {
            cost(&group.cost(|pass| pass.units.clone()))
        });
    Section::default().with_piece(table)
}

/// Of more complete passes, those of a job are one row.
const MOST_COMPLETE: usize = 40;

/// Whether a region was completed by this run alone, and there is nothing to say about it.
fn is_plain(pass: &PassReport) -> bool {
    let is_complete = pass.outcome == PassOutcome::Complete && pass.detail.is_none();
    is_complete && !pass.resumed && pass.region != Region::SHARED
}

/// Whether two passes of a job were not walked for the same reason, which is then shown once.
fn untouched_alike(a: &PassReport, b: &PassReport) -> bool {
    let untouched = |pass: &PassReport| pass.requests == 0 && pass.pages == 0 && !pass.resumed;
    untouched(a) && untouched(b) && (&a.job, a.outcome, &a.detail) == (&b.job, b.outcome, &b.detail)
}

fn outcome(pass: &PassReport) -> Phrase {
    let (word, tone) = match pass.outcome {
        PassOutcome::NotDue => ("not due", Tone::Quiet),
        PassOutcome::Busy => ("busy", Tone::Quiet),
        PassOutcome::Complete => ("complete", Tone::Good),
        PassOutcome::Stopped => ("stopped", Tone::Warn),
        PassOutcome::Doubtful => ("doubtful", Tone::Bad),
        PassOutcome::Refused => ("refused", Tone::Bad),
        PassOutcome::Failed => ("failed", Tone::Bad),
        PassOutcome::Interrupted => ("interrupted", Tone::Warn),
    };
    let resumed = if pass.resumed { " (resumed)" } else { "" };
    Phrase::toned(format!("{word}{resumed}"), tone)
}

fn limits(limits: &[LimitReport]) -> Section {
    let closed = |limit: &LimitReport| {
        let closed = limit.closed_until;
        closed.map(|until| format!("closed until {}", instant(until)))
    };
    let table = Grid::of(limits)
        .column(Head::text("ACCOUNT"), |limit| &limit.account)
        .column(Head::text("LIMIT"), |limit| &limit.limit)
        .column(Head::number("USED"), |limit| units(limit.used))
        .column(Head::number("OF").spare(0), |limit| {
            count(limit.enforced.get())
        })
        .column(Head::number("LEFT"), |limit| units(limit.remaining))
        .column(Head::text(""), |limit| closed(limit).unwrap_or_default());
    Section::default().with_piece(table)
}
