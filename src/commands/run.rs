//! `ingest --region …`: the main job.

use std::path::PathBuf;
use std::sync::Arc;

use comfy_table::Cell;

use super::environment::Environment;
use super::metrics::{self, Figures, Span};
use super::notify::{Event, notify};
use super::output::{Colour, Screen};
use super::progress::watcher;
use super::refill::charging_ledger;
use super::table::{coloured, cost, count, counted, deleted, instant, span, table, text, units};
use super::{Error, output, signals, slices};
use crate::cli::{Format, Global, RunArgs};
use crate::exit::Exit;
use crate::run::{
    self, Blocked, Context, InFlight, KnownCalls, LearnedCosts, LimitReport, PassOutcome,
    PassReport, RegionalRecords, RequestStats, RunOutcome, RunReport, Signal, Silent, Stop,
    StoppedBy, Waits,
};
use ingest_base::clock::{Clock, Monotonic, SystemClock};
use ingest_catalog::PassStore;
use ingest_config::Region;
use ingest_ledger::LedgerClient;
use ingest_quota::{Account, Cost, Units};

/// Walks the due regions.
pub async fn run(global: &Global, args: &RunArgs) -> Result<Exit, Error> {
    let (began, watch) = (SystemClock.now(), Monotonic::now());
    let ended = walk(global, args).await;
    if let (Err(error), Some(file)) = (&ended, metrics_file(args)) {
        let took = watch.elapsed();
        metrics::write_broken(&file, error, Span { began, took });
    }
    ended
}

async fn walk(global: &Global, args: &RunArgs) -> Result<Exit, Error> {
    #[cfg(feature = "sandbox")]
    if global.sandbox {
        let (environment, sandbox) = super::sandbox::practise(global).await?;
        let ended = run_in(&environment, global, args).await;
        sandbox.shutdown().await;
        if ended.is_ok() && global.format == Format::Text && !global.quiet {
            output::text_line(&super::sandbox::next_steps(global, &environment))?;
        }
        return ended.map(|ended| ended.exit);
    }
    let environment = Environment::load(global)?;
    let notified = &environment.config.notify;
    notify(notified, Event::Start).await;
    let ended = run_in(&environment, global, args).await;
    match &ended {
        Ok(Ended { report, .. }) => notify(notified, Event::End(report, message(report))).await,
        Err(error) => notify(notified, Event::Broken(error)).await,
    }
    ended.map(|ended| ended.exit)
}

/// The result of a run, and its exit code.
struct Ended {
    report: RunReport,
    exit: Exit,
}

async fn run_in(
    environment: &Environment,
    global: &Global,
    args: &RunArgs,
) -> Result<Ended, Error> {
    let selection = environment.select(args)?;
    environment.create_state_dir()?;
    let waits = Waits::default();
    let stop = signals::listen("the page in flight is stored first", waits.clone())?;
    let _stalls = tokio::spawn(waits.clone().report_stalls());
    let catalog = waits.on("the run", "the catalog", environment.catalog());
    let catalog = catalog.await?;
    let selection = run::learned(&*catalog, selection);
    let selection = waits.on("the run", "the catalog", selection).await?;
    let context = context(environment, catalog, &selection, stop.clone());
    let context = Context {
        progress: watcher(global),
        concurrency: usize::from(args.concurrency),
        waits: waits.clone(),
        ..waits.on("the run", "the ledger", context).await?
    };
    let (began, watch) = (environment.clock.now(), Monotonic::now());
    let kept = environment.land_kept(&context);
    waits.on("the run", "the catalog", kept).await?;
    let (catalog, ledger, others) = (&*context.catalog, &*context.ledger, environment.all_jobs());
    let reserved = run::reserved(catalog, ledger, selection, &others, began);
    let selection = waits.on("the run", "the ledger", reserved).await?;
    let report = run::run(&context, &selection).await;
    let released = context.leases.close();
    waits
        .on("the run", "its leases to be released", released)
        .await;
    let report = report?;
    if let Some(file) = metrics_file(args) {
        let figures = Figures {
            jobs: selection.iter().map(|(job, _)| job.name.clone()).collect(),
            report: &report,
            requests: context.request_stats.all(),
            unrepaid: unrepaid(&selection, &*context.ledger).await,
            span: Span {
                began,
                took: watch.elapsed(),
            },
        };
        metrics::write(&file, environment, figures).await;
    }
    close(context).await;
    show(&report, global)?;
    let exit = exit(report.outcome, args.strict, stop.signal());
    Ok(Ended { report, exit })
}

/// Closes catalog and ledger beside each other, since each waits for the disk.
async fn close(context: Context) {
    let Context {
        catalog, ledger, ..
    } = context;
    let closing = tokio::task::spawn_blocking(move || drop(ledger));
    drop(catalog);
    // A panic has ended the process.
    let _ = closing.await;
}

/// Returns the units that the ledger has not recorded yet, by account. An account whose journal cannot be read is left out and
/// logged.
async fn unrepaid(
    selection: &run::Selection,
    ledger: &dyn LedgerClient,
) -> Vec<(Arc<Account>, Cost)> {
    let mut all = Vec::new();
    for account in run::accounts(selection.iter().flat_map(|(job, _)| job.credentials())) {
        match ledger.unrepaid(&account).await {
            Ok(units) => all.push((account, units)),
            Err(error) => tracing::error!(account = account.name, "{error}"),
        }
    }
    all
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

/// Returns what the regions of a run share, for one region at a time and without progress.
async fn context(
    environment: &Environment,
    catalog: Arc<dyn PassStore>,
    selection: &run::Selection,
    stop: Stop,
) -> Result<Context, Error> {
    Ok(Context {
        catalog,
        ledger: charging_ledger(environment).await?,
        upstreams: environment.upstreams(selection),
        clock: Arc::clone(&environment.clock),
        leases: environment.leases()?,
        unlanded: environment.unlanded(),
        stop,
        waits: Waits::default(),
        blocked: Blocked::default(),
        learned_costs: LearnedCosts::default(),
        in_flight: InFlight::default(),
        known_calls: KnownCalls::default(),
        regional_records: Some(RegionalRecords::default()),
        request_stats: RequestStats::default(),
        progress: Arc::new(Silent),
        concurrency: 1,
        cheap_max: environment.config.ledger.cheap_max,
    })
}

fn exit(outcome: RunOutcome, strict: bool, signal: Option<Signal>) -> Exit {
    match (outcome, signal) {
        (RunOutcome::Interrupted, Some(Signal::Terminate)) => Exit::Terminated,
        (RunOutcome::Interrupted, _) => Exit::Interrupted,
        (RunOutcome::Failed, _) => Exit::Failed,
        (RunOutcome::Stopped, _) if strict => Exit::Stopped,
        _ => Exit::Success,
    }
}

/// Whether nothing is worse than a doubt.
fn only_doubtful(report: &RunReport) -> bool {
    let worst = report.passes.iter().map(|pass| pass.outcome).max();
    worst == Some(PassOutcome::Doubtful)
}

fn show(report: &RunReport, global: &Global) -> Result<(), Error> {
    // The log contains each failure already.
    if global.quiet && !global.logs_only() {
        tell_doubts(report);
    }
    match global.format {
        Format::Json => output::json(report),
        Format::Text if global.quiet && report.outcome < RunOutcome::Failed => Ok(()),
        Format::Text if global.quiet && only_doubtful(report) => Ok(()),
        // The log contains each failure already.
        Format::Text if global.logs_only() => Ok(()),
        Format::Text => output::text_line(&summary(report, Screen::of_stdout())),
    }
}

/// Prints the doubts of each pass.
fn tell_doubts(report: &RunReport) {
    for pass in &report.passes {
        let (job, region) = (&pass.job, pass.key());
        for doubt in &pass.doubts {
            let line = format!("{job} {region}: {}", run::in_words(doubt));
            output::error_line(&output::shown(&line));
        }
    }
}

/// Returns the summary for people.
fn summary(report: &RunReport, screen: Screen) -> String {
    let mut parts = vec![screen.wrapped(&headline(report))];
    if report
        .passes
        .iter()
        .any(|pass| pass.outcome != PassOutcome::NotDue)
    {
        parts.push(passes(&report.passes, screen));
    }
    parts.push(limits(&report.limits, screen));
    parts.join("\n\n")
}

fn headline(report: &RunReport) -> String {
    let ended = |outcome, of_slices: bool| {
        let passes = report.passes.iter();
        let passes = passes
            .filter(|pass| pass.region != Region::SHARED && pass.slice.is_some() == of_slices);
        passes.filter(|pass| pass.outcome == outcome).count() as u64
    };
    let requests = counted(report.requests, "request");
    let head = match report.outcome {
        RunOutcome::NothingDue
            if ended(PassOutcome::Busy, false) + ended(PassOutcome::Busy, true) > 0 =>
        {
            "Skipped: another run is in progress.".to_owned()
        }
        RunOutcome::NothingDue => "Nothing was due.".to_owned(),
        RunOutcome::Complete => {
            let (regions, slices) = (
                ended(PassOutcome::Complete, false),
                ended(PassOutcome::Complete, true),
            );
            let of_regions = (regions > 0 || slices == 0).then(|| counted(regions, "region"));
            let of_slices = (slices > 0).then(|| counted(slices, "slice"));
            let parts: Vec<String> = of_regions.into_iter().chain(of_slices).collect();
            format!("Complete: {}, {requests}.", parts.join(", "))
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
    [Some(head), waits, unmetered]
        .into_iter()
        .flatten()
        .chain(deleted)
        .collect::<Vec<_>>()
        .join("\n")
}

/// Returns the text of a notification: the headline, and the cause of each region that failed, was refused or was stopped.
fn message(report: &RunReport) -> String {
    let headline = headline(report).replace("; see below.", ":");
    let mut parts = vec![headline];
    for alike in report.passes.chunk_by(untouched_alike) {
        parts.extend(cause(alike));
    }
    parts.join("\n")
}

/// Returns why regions with the same result have it; `None` where the outcome says it all.
fn cause(alike: &[PassReport]) -> Option<String> {
    let detail = alike.first()?.detail.as_deref().map(output::shown)?;
    Some(format!(
        "{} {}: {detail}.",
        alike.first()?.job,
        regions(alike)
    ))
}

fn regions(alike: &[PassReport]) -> String {
    let all = alike.iter().map(|pass| (pass.region.as_str(), pass.slice));
    slices::names(all).join(" ")
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
        return format!(
            "The upstream reported {account}/{limit} exhausted: the limit is closed for {after}, \
            until {at}; {remedy}."
        );
    }
    let (call, units, left) = (
        &stop.call,
        count(stop.units.get()),
        count(stop.remaining.get()),
    );
    let leaves = format!(
        ", {} of them reserved for other jobs",
        count(stop.leave().get())
    );
    let leaves = if stop.leave() == Units::ZERO {
        String::new()
    } else {
        leaves
    };
    format!(
        "{call} needs {units} {account}/{limit}; {left} remaining{leaves}; retry in {after} ({at})."
    )
}

fn passes(passes: &[PassReport], screen: Screen) -> String {
    let mut table = table(
        screen,
        &[
            "JOB", "REGION", "OUTCOME", "PAGES", "RECORDS", "REQUESTS", "UNITS",
        ],
        &[3, 4, 5],
    );
    let mut details = Vec::new();
    for alike in passes.chunk_by(untouched_alike) {
        let [pass, ..] = alike else { continue };
        details.extend(cause(alike));
        table.add_row([
            Cell::new(&pass.job),
            Cell::new(regions(alike)),
            outcome(pass),
            Cell::new(count(pass.pages)),
            Cell::new(count(pass.records)),
            Cell::new(count(pass.requests)),
            Cell::new(cost(&pass.units)),
        ]);
    }
    let details = screen.wrapped(&details.join("\n"));
    if details.is_empty() {
        text(&table)
    } else {
        format!("{}\n\n{details}", text(&table))
    }
}

/// Whether two passes of a job were not walked for the same reason, which is then shown once.
fn untouched_alike(a: &PassReport, b: &PassReport) -> bool {
    let untouched = |pass: &PassReport| pass.requests == 0 && pass.pages == 0 && !pass.resumed;
    untouched(a) && untouched(b) && (&a.job, a.outcome, &a.detail) == (&b.job, b.outcome, &b.detail)
}

fn outcome(pass: &PassReport) -> Cell {
    let (word, colour) = match pass.outcome {
        PassOutcome::NotDue => ("not due", Colour::Grey),
        PassOutcome::Busy => ("busy", Colour::Grey),
        PassOutcome::Complete => ("complete", Colour::Green),
        PassOutcome::Stopped => ("stopped", Colour::Yellow),
        PassOutcome::Doubtful => ("doubtful", Colour::Red),
        PassOutcome::Refused => ("refused", Colour::Red),
        PassOutcome::Failed => ("failed", Colour::Red),
        PassOutcome::Interrupted => ("interrupted", Colour::Yellow),
    };
    let resumed = if pass.resumed { " (resumed)" } else { "" };
    coloured(&format!("{word}{resumed}"), colour)
}

fn limits(limits: &[LimitReport], screen: Screen) -> String {
    let mut table = table(
        screen,
        &["ACCOUNT", "LIMIT", "USED", "OF", "LEFT", ""],
        &[2, 3, 4],
    );
    for limit in limits {
        table.add_row([
            limit.account.clone(),
            limit.limit.clone(),
            units(limit.used),
            count(limit.enforced.get()),
            units(limit.remaining),
            limit
                .closed_until
                .map(|until| format!("closed until {}", instant(until)))
                .unwrap_or_default(),
        ]);
    }
    text(&table)
}
