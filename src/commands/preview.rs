//! `ingest --region … --dry-run`: what a run would spend.

use std::collections::HashMap;
use std::sync::Arc;

use comfy_table::Cell;

use super::environment::Environment;
use super::output::{Colour, Message, Screen};
use super::table::{coloured, count, deleted, instant, span, table, text, units};
use super::{Error, output, refill, slices};
use crate::cli::{Global, RunArgs};
use crate::exit::Exit;
use crate::foresight::{
    self, FirstUnfit, Fits, JobsHeldBack, LimitPreview, PassPreview, Preview, Previous, StepPreview,
};
use crate::run::{self, Range, Rejections, Selection};
use ingest_config::{Job, Region, Slice};
use ingest_quota::Timestamp;

/// Previews the spend; charges, requests and writes nothing.
pub async fn preview(global: &Global, args: &RunArgs) -> Result<Exit, Error> {
    let environment = Environment::load(global)?;
    #[cfg(feature = "sandbox")]
    environment.tell_built_in();
    let selection = environment.select(args)?;
    let preview = report(&environment, selection, args.concurrency).await?;
    output::report(global, &preview, |screen| {
        Message::Result(in_words(&preview, screen))
    })?;
    Ok(Exit::Success)
}

/// Returns what a run over this selection would spend. The run walks `concurrency` regions at a time.
pub async fn report(
    environment: &Environment,
    selection: Selection,
    concurrency: u16,
) -> Result<Preview, Error> {
    let ledger = refill::reading_ledger(environment).await?;
    let catalog = environment.passes().await?;
    let selection = run::learned(&*catalog, selection).await?;
    let (now, concurrency) = (environment.clock.now(), usize::from(concurrency));
    let others = environment.all_jobs();
    let selection = foresight::reserved(&*catalog, &*ledger, selection, &others, now).await?;
    let (asked, held_back) = held_back(environment, &selection, now).await;
    let mut preview = foresight::preview(&*catalog, &*ledger, &asked, now, concurrency).await?;
    preview.held_back = held_back;
    for account in run::accounts(selection.iter().flat_map(|(job, _)| job.credentials())) {
        if !preview.limits.iter().any(|one| one.account == account.name) {
            let limits = run::limit_reports(&*ledger, &account).await;
            let untouched = limits.iter().map(LimitPreview::untouched);
            preview.limits.extend(untouched);
        }
    }
    Ok(preview)
}

/// Returns the selection without the credentials that the run would not ask, and these.
async fn held_back(
    environment: &Environment,
    selection: &Selection,
    now: Timestamp,
) -> (Selection, Vec<JobsHeldBack>) {
    let rejections = Rejections::read(&environment.state_dir);
    let (mut asked, mut all) = (Selection::new(), Vec::<JobsHeldBack>::new());
    for (job, regions) in selection {
        let mut credentials = Vec::new();
        for alone in job.by_credential() {
            let Some(credential) = rejections.of(&alone, now).await else {
                credentials.push(alone.credential);
                continue;
            };
            match all.iter_mut().find(|one| one.credential == credential) {
                Some(one) => one.jobs.push(job.name.clone()),
                None => all.push(JobsHeldBack {
                    jobs: vec![job.name.clone()],
                    credential,
                }),
            }
        }
        if let Some((first, others)) = credentials.split_first() {
            let job = Job {
                fallbacks: others.to_vec(),
                ..job.with(first)
            };
            asked.push((Arc::new(job), regions.clone()));
        }
    }
    (asked, all)
}

fn in_words(preview: &Preview, screen: Screen) -> String {
    let due = preview.steps.iter().filter(|step| step.due).count();
    let head = if due == 0 && !preview.held_back.is_empty() {
        "Nothing would be requested."
    } else if due == 0 {
        "Nothing is due."
    } else {
        "Estimated spend (dry run, nothing charged):"
    };
    let mut parts = vec![head.to_owned()];
    if due > 0 {
        parts.push(steps(&preview.steps, screen));
    }
    let held_back = preview.held_back.iter();
    parts.extend(held_back.map(|one| {
        let line = format!(
            "{}: not requested: {}.",
            one.jobs.join(", "),
            one.credential
        );
        screen.wrapped(&output::shown(&line))
    }));
    parts.push(limits(&preview.limits, screen));
    let deletions = preview.deletions.iter().map(|one| {
        let records = deleted(one);
        screen.wrapped(&format!(
            "The run would delete {records}, except those that it meets again."
        ))
    });
    parts.extend(deletions);
    parts.extend(stops(preview).map(|lines| screen.wrapped(&lines)));
    parts.join("\n\n")
}

/// Which regions a run would complete, and where it would stop.
fn stops(preview: &Preview) -> Option<String> {
    let unfit = preview
        .limits
        .iter()
        .filter_map(|limit| Some((limit, limit.first_unfit.as_ref()?)));
    let mut lines: Vec<String> = unfit.map(|(limit, first)| stop(limit, first)).collect();
    if lines.is_empty() {
        return None;
    }
    lines.push(format!(
        "The run would complete: {}.",
        completed(&preview.passes)
    ));
    Some(lines.join("\n"))
}

fn stop(limit: &LimitPreview, first: &FirstUnfit) -> String {
    format!(
        "{}/{} would reject {} of {} {}: the run would stop there; retry in {} ({}).",
        limit.account,
        limit.limit,
        first.call,
        first.job,
        output::shown(&first.region),
        span(first.retry_after),
        instant(first.retry_at)
    )
}

/// `trending US, GB; discover US`
fn completed(passes: &[PassPreview]) -> String {
    let mut jobs: Vec<(&str, Vec<&PassPreview>)> = Vec::new();
    for pass in passes.iter().filter(|pass| pass.fits == Fits::All) {
        match jobs.iter_mut().find(|(job, _)| *job == pass.job) {
            Some((_, passes)) => passes.push(pass),
            None => jobs.push((&pass.job, vec![pass])),
        }
    }
    if jobs.is_empty() {
        return "no region".to_owned();
    }
    jobs.iter()
        .map(|(job, passes)| {
            let regions = passes.iter().map(|pass| (pass.region.as_str(), pass.slice));
            format!("{job} {}", slices::named(regions))
        })
        .collect::<Vec<_>>()
        .join("; ")
}

fn steps(steps: &[StepPreview], screen: Screen) -> String {
    let shown = steps
        .iter()
        .filter(|step| step.due && step.requests.max != Some(0));
    let shown = rows(shown);
    let with_previous = shown.iter().any(|row| row.step.previous.is_some());
    let mut heads = vec!["JOB", "REGION", "CALL", "REQUESTS"];
    heads.extend(with_previous.then_some("LAST PASSES"));
    heads.push("UNITS");
    let mut table = table(screen, &heads, &[3]);
    for StepRow { step, slices } in shown {
        let units: Vec<String> = step
            .units
            .iter()
            .map(|(limit, units)| format!("{} {limit}", range(*units)))
            .collect();
        let mut row = vec![
            step.job.clone(),
            slices::named(slices.iter().map(|slice| (step.region.as_str(), *slice))),
            step.call.clone(),
            range(step.requests),
        ];
        row.extend(with_previous.then(|| step.previous.map_or_else(String::new, previous)));
        row.push(units.join(", "));
        table.add_row(row);
    }
    let shared = steps
        .iter()
        .any(|step| step.due && step.region == Region::SHARED);
    let batches = "* marks batches of ids, which serve several regions together.";
    let assumes_one_page = steps
        .iter()
        .any(|step| step.due && step.assumes_one_page && step.requests.max != Some(0));
    let pages = "Each batch is expected to have one page; each further page of its list is one more request.";
    let follows_first = steps
        .iter()
        .any(|step| step.due && step.follows_first_pass());
    let first = "The only pass so far over a list with {since} was the first one, which listed everything. A pass is expected to \
        have as many pages as the last one; the next lists only what is new, and so may take far fewer requests.";
    let mut parts = vec![text(&table)];
    parts.extend(follows_first.then(|| screen.wrapped(first)));
    parts.extend(shared.then(|| screen.wrapped(batches)));
    parts.extend(assumes_one_page.then(|| screen.wrapped(pages)));
    parts.push(screen.wrapped(RETRIES));
    parts.join("\n")
}

/// A row of the table: a step of a region, or of all slices of a region.
struct StepRow {
    step: StepPreview,
    slices: Vec<Option<Slice>>,
}

/// Adds the slices of a region up.
fn rows<'s>(steps: impl Iterator<Item = &'s StepPreview>) -> Vec<StepRow> {
    let mut rows: Vec<StepRow> = Vec::new();
    let mut places: HashMap<(&str, &str, &str), usize> = HashMap::new();
    for step in steps {
        let next = rows.len();
        let place = places.entry((&step.job, &step.region, &step.call));
        let same = rows.get_mut(*place.or_insert(next));
        match same.filter(|_| step.slice.is_some()) {
            Some(row) => {
                row.slices.push(step.slice);
                row.step.requests = row.step.requests.plus(step.requests);
                for (limit, units) in &step.units {
                    let sum = row.step.units.entry(limit.clone());
                    let sum = sum.or_insert(Range::exactly(0));
                    *sum = sum.plus(*units);
                }
            }
            None => rows.push(StepRow {
                step: step.clone(),
                slices: vec![step.slice],
            }),
        }
    }
    rows
}

/// What no bound includes.
const RETRIES: &str =
    "Retries are not included; each further attempt at a failed request is charged too.";

/// `4 each (5 passes)`, or `3 to 4 (5 passes)`
fn previous(previous: Previous) -> String {
    let Previous { passes, min, max } = previous;
    let pages = if min == max {
        count(min)
    } else {
        format!("{} to {}", count(min), count(max))
    };
    match passes {
        1 => format!("{pages} (1 pass)"),
        passes if min == max => format!("{pages} each ({} passes)", count(passes)),
        passes => format!("{pages} ({} passes)", count(passes)),
    }
}

fn limits(limits: &[LimitPreview], screen: Screen) -> String {
    let mut table = table(
        screen,
        &[
            "ACCOUNT", "LIMIT", "LEFT", "AT LEAST", "EXPECTED", "AT MOST", "",
        ],
        &[2, 3, 4, 5],
    );
    for limit in limits {
        table.add_row([
            Cell::new(&limit.account),
            Cell::new(&limit.limit),
            Cell::new(units(limit.remaining)),
            Cell::new(count(limit.units.min)),
            Cell::new(count(limit.units.expected)),
            Cell::new(
                limit
                    .units
                    .max
                    .map_or_else(|| "unbounded".to_owned(), count),
            ),
            fits(limit),
        ]);
    }
    text(&table)
}

fn fits(limit: &LimitPreview) -> Cell {
    match limit.fits {
        Fits::All => coloured("fits", Colour::Green),
        Fits::Part => coloured(
            &format!("fits in part: {}", units(limit.spends)),
            Colour::Yellow,
        ),
        Fits::None => coloured("does not fit now", Colour::Red),
        Fits::Unknown => coloured("unknown: no ledger", Colour::Red),
    }
}

/// `4`, or `1 to 4 (expected 2)`
fn range(range: Range) -> String {
    if range == Range::exactly(range.expected) {
        return count(range.expected);
    }
    let most = range.max.map_or_else(|| "any number".to_owned(), count);
    format!(
        "{} to {most}, expected {}",
        count(range.min),
        count(range.expected)
    )
}
