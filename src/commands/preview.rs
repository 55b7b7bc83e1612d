//! `ingest --region … --dry-run`: what a run would spend.

use std::collections::HashMap;
use std::sync::Arc;

use super::environment::Environment;
use super::figures::{count, deleted, instant, span, units};
use super::groups::{Group, grouped};
use super::output::Message;
use super::{Error, output, refill, slices};
use crate::cli::{Global, RunArgs};
use crate::doc::{Doc, Grid, Head, Phrase, Section, Tone};
use crate::exit::Exit;
use crate::foresight::{
    self, FirstUnfit, Fits, JobsHeldBack, KnownPreview, LimitPreview, PassPreview, Preview,
    Previous, Reads, StepPreview,
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
        Message::Result(preview.doc().text(screen))
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
    let catalog = environment.reader().await?;
    let selection = run::learned(&catalog, selection).await?;
    let (now, concurrency) = (environment.clock.now(), usize::from(concurrency));
    let others = environment.all_jobs();
    let selection = foresight::reserved(&catalog, &*ledger, selection, &others, now).await?;
    let (asked, held_back) = held_back(environment, &selection, now).await;
    let mut preview = foresight::preview(&catalog, &*ledger, &asked, now, concurrency).await?;
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

impl Preview {
    /// What a run would spend, and where it would stop, in words.
    pub fn doc(&self) -> Doc {
        let mut doc = Doc::default();
        let due = self.steps.iter().any(|step| step.due);
        doc.say(match (due, self.held_back.is_empty()) {
            (true, _) => "Estimated spend (dry run, nothing charged):",
            (false, false) => "Nothing would be requested.",
            (false, true) => "Nothing is due.",
        });
        if due {
            doc.add(steps(&self.steps));
        }
        for one in &self.held_back {
            let jobs = one.jobs.join(", ");
            doc.say(format!("{jobs}: not requested: {}.", one.credential));
        }
        doc.add(limits(&self.limits));
        for one in &self.deletions {
            let records = deleted(one);
            doc.say(format!(
                "The run would delete {records}, except those that it meets again."
            ));
        }
        doc.add(stops(self));
        doc
    }
}

/// Which regions a run would complete, and where it would stop.
fn stops(preview: &Preview) -> Section {
    let limits = preview.limits.iter();
    let unfit = limits.filter_map(|limit| Some((limit, limit.first_unfit.as_ref()?)));
    let mut part = Section::default();
    part.say_all(unfit.map(|(limit, first)| stop(limit, first)));
    part.say_all(preview.limits.iter().filter_map(closed));
    if !part.blocks.is_empty() {
        let completed = completed(&preview.passes);
        part.say(format!("The run would complete: {completed}."));
    }
    part
}

fn stop(limit: &LimitPreview, first: &FirstUnfit) -> String {
    let leave = first.leave.map_or_else(String::new, |leave| {
        format!(", which leaves {} of it to other jobs", count(leave.get()))
    });
    format!(
        "{}/{} would reject {} of {} {}{leave}: the run would stop there; retry in {} ({}).",
        limit.account,
        limit.limit,
        first.call,
        first.job,
        first.region,
        span(first.retry_after),
        instant(first.retry_at)
    )
}

/// Says of a limit that rejects everything until when it does, and how it is opened.
fn closed(limit: &LimitPreview) -> Option<String> {
    limit.first_unfit.as_ref()?;
    let (account, name, until) = (&limit.account, &limit.limit, limit.closed_until?);
    let until = instant(until);
    Some(format!(
        "{account}/{name} is closed until {until}; `ingest reopen {account} {name}` opens it earlier."
    ))
}

/// `trending US, GB; discover US`
fn completed(passes: &[PassPreview]) -> String {
    let complete = passes.iter().filter(|pass| pass.fits == Fits::All);
    let jobs = grouped(complete, |one, other| one.job == other.job);
    if jobs.is_empty() {
        return "no region".to_owned();
    }
    let job = |job: &Group<'_, PassPreview>| {
        let regions = job.all.iter().map(|pass| (&*pass.region, pass.slice));
        format!("{} {}", job.first.job, slices::named(regions))
    };
    jobs.iter().map(job).collect::<Vec<_>>().join("; ")
}

fn steps(steps: &[StepPreview]) -> Section {
    let due = || steps.iter().filter(|step| step.due);
    let shown = rows(due().filter(|step| step.requests.max != Some(0)));
    let with_previous = shown.iter().any(|row| row.step.previous.is_some());
    let units = |row: &StepRow| {
        let units = row.step.units.iter();
        let units = units.map(|(limit, units)| format!("{} {limit}", range(*units)));
        units.collect::<Vec<_>>().join(", ")
    };
    let mut table = Grid::of(&shown)
        .column(Head::text("JOB"), |row| &row.step.job)
        .column(Head::text("REGION"), |row| {
            let slices = row.slices.iter();
            slices::named(slices.map(|slice| (&*row.step.region, *slice)))
        })
        .column(Head::text("CALL").spare(1), |row| &row.step.call)
        .column(Head::number("REQUESTS").spare(2), |row| {
            range(row.step.requests)
        });
    if with_previous {
        table = table.column(Head::text("LAST PASSES").spare(0), |row| {
            row.step.previous.map_or_else(String::new, previous)
        });
    }
    let table = table.column(Head::text("UNITS"), units);
    let follows_first = due().any(StepPreview::follows_first_pass);
    let is_shared = due().any(|step| step.region == Region::SHARED);
    let assumes_one_page = due().any(|step| step.assumes_one_page && step.requests.max != Some(0));
    let said = [
        (follows_first, FIRST),
        (is_shared, BATCHES),
        (assumes_one_page, PAGES),
        (true, RETRIES),
    ];
    let mut part = Section::headed("The next run").with_piece(table);
    part.say_all(known(steps));
    part.say_all(
        said.iter()
            .filter(|(holds, _)| *holds)
            .map(|(_, text)| *text),
    );
    part
}

const FIRST: &str = "The only pass so far over a list with {since} was the first one, which listed everything. A pass is expected to have as many \
     pages as the last one; the next lists only what is new, and so may take far fewer requests.";
const BATCHES: &str = "* marks batches of ids, which serve several regions together.";
const PAGES: &str =
    "Each batch is expected to have one page; each further page of its list is one more request.";

/// How lists are read that can end at what is known: a line for each call, and for what its passes read.
fn known(steps: &[StepPreview]) -> Vec<String> {
    let due = steps.iter().filter(|step| step.due);
    let known = due.filter_map(|step| Some((&*step.call, step.stops_at_known?)));
    let known: Vec<(&str, KnownPreview)> = known.collect();
    let line = |group: &Group<'_, (&str, KnownPreview)>| {
        let (call, known) = group.first;
        if known.reads == Reads::Everything {
            return format!("{call} is read to its end in this pass.");
        }
        // The first of its regions.
        let at = group.all.iter().filter_map(|(_, known)| known.complete_at);
        let again = at.min().map_or_else(
            || "it is read to its end by --relist only".to_owned(),
            |at| format!("everything is read again from {} on", instant(at)),
        );
        format!(
            "{call} stops at the first page that is known and unchanged, which is expected to be its first; each page of new \
             records is one more request, and {again}."
        )
    };
    let groups = grouped(&known, |one, other| {
        (one.0, one.1.reads) == (other.0, other.1.reads)
    });
    groups.iter().map(line).collect()
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

fn limits(limits: &[LimitPreview]) -> Section {
    let most = |limit: &LimitPreview| match limit.units.max {
        Some(most) => count(most),
        None => "unbounded".to_owned(),
    };
    let table = Grid::of(limits)
        .column(Head::text("ACCOUNT").spare(3), |limit| &limit.account)
        .column(Head::text("LIMIT"), |limit| &limit.limit)
        .column(Head::number("LEFT").spare(2), |limit| {
            units(limit.remaining)
        })
        .column(Head::number("AT LEAST").spare(0), |limit| {
            count(limit.units.min)
        })
        .column(Head::number("EXPECTED"), |limit| {
            count(limit.units.expected)
        })
        .column(Head::number("AT MOST").spare(1), most)
        .column(Head::text(""), fits);
    Section::headed("Limits").with_piece(table)
}

fn fits(limit: &LimitPreview) -> Phrase {
    match limit.fits {
        Fits::All => Phrase::toned("fits", Tone::Good),
        Fits::Part => {
            let part = format!("fits in part: {}", units(limit.spends));
            Phrase::toned(part, Tone::Warn)
        }
        Fits::None => Phrase::toned("does not fit now", Tone::Bad),
        Fits::Unknown => Phrase::toned("unknown: no ledger", Tone::Bad),
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
