//! The parts of `status` in words, for the terminal and the page.

use std::cmp::Reverse;
use std::collections::BTreeMap;
use std::time::Duration;

use super::super::figures::{cost, count, counted, instant, span};
use super::super::groups::{Group, grouped};
use super::super::output::shown;
use super::super::slices::{self, Said};
use super::{
    BatchStatus, LimitStatus, RegionStatus, SliceProgress, Spend, Stale, Standing, Status, Walking,
    standing,
};
use crate::doc::{Bar, DocBlock, Grid, Head, PageLink, Phrase, Phrases, Section, Share, Tone};
use crate::review::doubt_in_words;
use crate::run::HeldBack;
use ingest_ledger::ChargeSource;
use ingest_quota::{Timestamp, Units};

/// Of more regions, only the worst are shown.
const MOST_REGIONS: usize = 20;

/// The first line with `--fail-if-stale`, which monitoring shows: it is never wrapped.
pub fn stale(stale: &[Stale], within: Duration) -> String {
    let within = span(within);
    if stale.is_empty() {
        return format!("Fresh: every region has a complete pass within {within}.");
    }
    let mut worst_first: Vec<&Stale> = stale.iter().collect();
    let age = |seconds: f64| Duration::from_secs_f64(seconds.max(0.0));
    worst_first.sort_by_key(|one| {
        let minutes = one.age_seconds.map(|seconds| age(seconds).as_secs() / 60);
        minutes.map(Reverse)
    });
    let hidden = worst_first.len().saturating_sub(MOST_REGIONS);
    worst_first.truncate(MOST_REGIONS);
    let named = worst_first.into_iter().map(|one| {
        let age = one
            .age_seconds
            .map_or_else(|| "never".to_owned(), |seconds| span(age(seconds)));
        shown(&format!("{} {} ({age})", one.job, one.region))
    });
    let named = named.collect::<Vec<_>>().join(", ");
    let more = match hidden {
        0 => String::new(),
        _ => format!(", and {}", counted(hidden as u64, "more region")),
    };
    format!("Stale, with no complete pass within {within}: {named}{more}.")
}

/// `1 doubtful · 1 limit closed · 180 due · 314 fresh`
pub fn verdict(summary: Vec<Phrase>) -> Phrases {
    Phrases::joined(summary, " · ")
}

/// A line for each credential that is not asked yet.
pub fn held_back(held_back: &[HeldBack]) -> Section {
    let mut part = Section::default();
    let line = |one: &HeldBack| Phrase::toned(format!("Not asked: {one}."), Tone::Bad);
    part.say_all(held_back.iter().map(line));
    part
}

/// A limit as a bar, with what its figures do not say.
///
/// ```text
/// youtube/daily   [██████████████░░░░░░░░░░░░░░░░░▒▒] 4,120 used, 5,380 left of 9,500
///   headroom 500 of the quota of 10,000; 3,990 since the upstream's reset
///   units back: 120 within 1h, 800 within 6h, all 4,120 by 2026-11-22 08:01:27 UTC
/// ```
pub fn limit(status: &Status, limit: &LimitStatus, now: Timestamp) -> Section {
    let names = status.limits.iter().map(name);
    let mut part = Section::default();
    part.blocks.push(DocBlock::Bar(Bar {
        name: Phrase::linked(
            name(limit),
            PageLink::passes_of_limit(&limit.report.account, &limit.report.limit),
        ),
        name_columns: names.map(|name| name.len()).max().unwrap_or_default(),
        shares: shares(limit),
        tone: scarcity(limit),
        figures: figures(limit),
    }));
    let details = [
        since(limit),
        back(limit),
        closed(limit, now),
        unrepaid(limit),
    ];
    let details = details.into_iter().flatten();
    part.say_all(details.map(|detail| Phrases::from("  ").and(detail)));
    part
}

fn name(limit: &LimitStatus) -> String {
    format!("{}/{}", limit.report.account, limit.report.limit)
}

/// The parts of a limit's bar, in units.
fn shares(limit: &LimitStatus) -> Vec<(Share, u64)> {
    let report = &limit.report;
    let enforced = report.enforced.get();
    // More can be used than is enforced, as after the quota was lowered. A bar ends at its limit.
    let used = report.used.map(|used| used.get().min(enforced));
    let left = enforced - used.unwrap_or_default();
    let unmetered = limit.unrepaid.get().min(left);
    let rest = match (used, report.closed_until) {
        (None, _) => Share::Unknown,
        (Some(_), Some(_)) => Share::Closed,
        (Some(_), None) => Share::Free,
    };
    let shares = [
        (Share::Used, used.unwrap_or_default()),
        (Share::Unmetered, unmetered),
        (rest, left - unmetered),
        (Share::Headroom, limit.headroom.get()),
    ];
    let some = shares
        .into_iter()
        .filter(|(share, units)| *units > 0 || *share == Share::Unknown);
    some.collect()
}

fn scarcity(limit: &LimitStatus) -> Tone {
    let report = &limit.report;
    let used = report.used.unwrap_or_default().get();
    match used.saturating_mul(100) / report.enforced.get().max(1) {
        0..=74 => Tone::Good,
        75..=99 => Tone::Warn,
        _ => Tone::Bad,
    }
}

fn figures(limit: &LimitStatus) -> Phrases {
    let report = &limit.report;
    let of = count(report.enforced.get());
    match (report.used, report.remaining) {
        (Some(used), Some(left)) => {
            let (used, left) = (count(used.get()), count(left.get()));
            format!("{used} used, {left} left of {of}").into()
        }
        _ => Phrases::from(format!("of {of}: "))
            .and(Phrase::toned("the ledger cannot be reached", Tone::Bad)),
    }
}

fn since(limit: &LimitStatus) -> Option<Phrase> {
    let headroom = (limit.headroom > Units::ZERO).then(|| {
        let (headroom, quota) = (count(limit.headroom.get()), count(limit.report.quota.get()));
        format!("headroom {headroom} of the quota of {quota}")
    });
    let reset = limit
        .since_reset
        .map(|units| format!("{} used since the upstream's reset", count(units.get())));
    let parts: Vec<String> = headroom.into_iter().chain(reset).collect();
    (!parts.is_empty()).then(|| parts.join("; ").into())
}

/// Names only the spans that say more than the one before, up to the instant at which all units are back.
fn back(limit: &LimitStatus) -> Option<Phrase> {
    let last = limit.returns.last()?;
    let all: Units = limit.returns.iter().map(|back| back.units).sum();
    let within = &limit.returns_within;
    let spans = [
        ("1h", within.hour),
        ("6h", within.six_hours),
        ("24h", within.day),
    ];
    let mut said = Units::ZERO;
    let mut parts = Vec::new();
    for (span, units) in spans {
        if units > said && units < all {
            parts.push(format!("{} within {span}", count(units.get())));
            said = units;
        }
    }
    parts.push(format!("all {} by {}", count(all.get()), instant(last.at)));
    Some(format!("units back: {}", parts.join(", ")).into())
}

fn closed(limit: &LimitStatus, now: Timestamp) -> Option<Phrase> {
    let until = limit.report.closed_until?;
    let why = match limit.waits_until {
        Some(waits) if waits >= until => {
            "the ledger lost data, and `ledger.after_loss` is \"wait\""
        }
        _ => "the upstream reported the limit exhausted, or `ingest close` closed it",
    };
    let (at, after) = (instant(until), span(until.since(now)));
    let closed = format!("closed until {at} (in {after}): {why}");
    Some(Phrase::toned(closed, Tone::Bad))
}

fn unrepaid(limit: &LimitStatus) -> Option<Phrase> {
    let units = Some(limit.unrepaid).filter(|units| *units > Units::ZERO)?;
    let units = counted(units.get(), "unit");
    let owed = format!("{units} went unmetered from this machine, not yet charged to the ledger");
    Some(Phrase::toned(owed, Tone::Warn))
}

/// The charges in the windows, those of many regions together unless all are asked for.
pub fn spend(spend: &[Spend], all: bool) -> Section {
    let each = all || spend.len() <= 2 * MOST_REGIONS;
    let groups = grouped(spend, |one, other| {
        let key = |one: &Spend| {
            (
                one.account.clone(),
                one.job.clone(),
                one.origin,
                one.call.clone(),
            )
        };
        !each && key(one) == key(other)
    });
    let regions = |group: &Group<'_, Spend>| {
        let regions = group.all.iter();
        let regions = regions.map(|one| (one.region.as_deref().unwrap_or("-"), None));
        slices::named_or_counted(regions)
    };
    let table = Grid::of(&groups)
        .column(Head::text("ACCOUNT").spare(0), |group| &group.first.account)
        .column(Head::text("JOB"), |group| {
            group.first.origin.whose(group.first.job.as_deref())
        })
        .column(Head::text("REGION"), regions)
        .column(Head::text("CALL"), |group| &group.first.call)
        .column(Head::number("CHARGES").spare(1), |group| {
            count(group.sum(|one| one.charges))
        })
        .column(Head::text("UNITS IN WINDOW"), |group| {
            cost(&group.cost(|one| one.units.clone()))
        });
    let mut part = Section::headed("Charges that count now").with_rows(table);
    if spend.iter().any(|one| one.source == ChargeSource::Journal) {
        part.say(
            "Only this machine's charges are listed; the ledger does not store the purpose of other machines' charges.",
        );
    }
    part
}

/// The worst regions, with what the last passes met and noticed.
pub fn regions_with_causes(status: &Status, all: bool, now: Timestamp) -> Section {
    let most = if all { usize::MAX } else { MOST_REGIONS };
    let mut part = regions(status, most, now);
    let hidden = status.regions.len().saturating_sub(most);
    if hidden > 0 {
        let more = counted(hidden as u64, "more region");
        let more = format!("... and {more}; --all shows them, --job and --region some of them");
        part.blocks.insert(1, DocBlock::Line(more.into()));
    }
    part.say_all(failures(status, now));
    part.say_all(notes(status));
    part.say_all(nothing_yet(status));
    part
}

/// The worst regions, and how far those are that are not complete.
pub fn regions(status: &Status, most: usize, now: Timestamp) -> Section {
    let regions = status.regions.iter();
    let mut worst_first: Vec<(Standing, &RegionStatus)> = regions
        .map(|region| (Standing::of(status, region, now), region))
        .collect();
    // Regions of one run differ by seconds, and stay in their order.
    let minutes = |began: Timestamp| now.since(began).as_secs() / 60;
    worst_first
        .sort_by_key(|(standing, one)| (*standing, one.last_complete.map(minutes).map(Reverse)));
    worst_first.truncate(most);
    let or = |text: Option<String>, none: &str| text.unwrap_or_else(|| none.to_owned());
    let table = Grid::of(&worst_first)
        .column(Head::text("JOB"), |(_, one)| &one.job)
        .column(Head::text("REGION"), |(_, one)| {
            Phrase::linked(&one.region, PageLink::passes(&one.job, Some(&one.region)))
        })
        .column(Head::text("STATE").of_page(), |(standing, one)| {
            state(status, one, *standing)
        })
        .column(Head::text("LAST COMPLETE").spare(0), |(_, one)| {
            or(one.last_complete.map(instant), "never")
        })
        .column(Head::number("AGE"), |(_, one)| {
            or(one.last_complete.map(|began| span(now.since(began))), "-")
        })
        .column(Head::text("DUE"), |(_, one)| due(one, now));
    let mut part = Section::headed("Regions").with_piece(table);
    part.say_all(worst_first.iter().filter_map(|(_, one)| stopped(one, now)));
    part.say_all(worst_first.iter().filter_map(|(_, one)| backfill(one)));
    part
}

fn state(status: &Status, region: &RegionStatus, standing: Standing) -> Phrases {
    let by = standing::walker(status, region)
        .map(|run| format!(" by process {} on {}", run.process, run.machine));
    Phrases::from(Phrase::toned(standing.word(), standing.tone())).and(by.unwrap_or_default())
}

fn due(region: &RegionStatus, now: Timestamp) -> String {
    match region.due_at.filter(|due| *due > now) {
        Some(due) => format!("in {}", span(due.since(now))),
        None if standing::is_ended(region) => "never".to_owned(),
        None => "now".to_owned(),
    }
}

fn stopped(region: &RegionStatus, now: Timestamp) -> Option<String> {
    let at = region.stopped_at.as_ref()?;
    let (page, began) = (count(at.pages), span(now.since(at.since)));
    let RegionStatus { job, region, .. } = region;
    Some(format!(
        "{job} {region} is unfinished: started {began} ago, stopped after page {page} of {}.",
        at.call
    ))
}

/// `backfill US: 12 of 60 slices are complete.`
fn backfill(region: &RegionStatus) -> Option<String> {
    let SliceProgress { complete, of } = region.slices.as_ref()?;
    let (complete, of) = (count(*complete), count(*of));
    let RegionStatus { job, region, .. } = region;
    Some(format!(
        "{job} {region}: {complete} of {of} slices are complete."
    ))
}

/// What needs a look: why the last passes failed, were refused or are doubtful, each cause once with its regions. The region of
/// batches is `*`.
pub fn failures(status: &Status, now: Timestamp) -> Vec<Phrases> {
    let mut lines = slices::said(failed(status, now).into_iter());
    lines.extend(refused_and_doubtful(status, now));
    lines
}

/// The same for a page, with batches apart from the regions.
#[cfg(feature = "serve")]
pub fn failures_apart(status: &Status, now: Timestamp) -> Vec<Phrases> {
    let mut lines = slices::said_apart(failed(status, now).into_iter());
    lines.extend(refused_and_doubtful(status, now));
    lines
}

fn refused_and_doubtful(status: &Status, now: Timestamp) -> Vec<Phrases> {
    let mut lines = refused(&status.regions, now);
    lines.extend(slices::said(status.regions.iter().flat_map(doubts)));
    lines
}

/// Returns why the last passes failed, with one time for each cause: that of the last pass which it failed.
fn failed(status: &Status, now: Timestamp) -> Vec<Said<'_>> {
    let all = status.last_passes();
    let failed = all.filter_map(|(job, region, last)| Some((job, region, last.failed.as_ref()?)));
    let failed: Vec<_> = failed.collect();
    let mut last = BTreeMap::new();
    for (job, _, failure) in &failed {
        let at = last.entry((*job, &*failure.why)).or_insert(failure.at);
        *at = failure.at.max(*at);
    }
    let said = failed.iter().map(|(job, region, failure)| {
        let at = last.get(&(*job, &*failure.why)).copied();
        let ago = span(now.since(at.unwrap_or(failure.at)));
        let why = format!("failed {ago} ago: {}", failure.why);
        (*job, (*region, None), why)
    });
    said.collect()
}

/// What the last complete passes noticed, and what the next ones begin at.
pub fn notes(status: &Status) -> Vec<Phrases> {
    let mut lines = slices::said(status.regions.iter().filter_map(note));
    lines.extend(slices::said(status.regions.iter().filter_map(at_cursor)));
    lines
}

/// That nothing was ingested yet, or why nothing is known of it.
pub fn nothing_yet(status: &Status) -> Option<String> {
    let nothing =
        "Nothing was ingested yet; `ingest --region all --dry-run` shows what a run would spend.";
    let lost = status.lost_catalog.clone();
    standing::is_new(status).then(|| lost.unwrap_or_else(|| nothing.to_owned()))
}

/// Returns the doubts about a region.
fn doubts(region: &RegionStatus) -> impl Iterator<Item = Said<'_>> {
    let doubts = region.last.doubts.iter();
    doubts.map(|one| (&*region.job, (&*region.region, None), doubt_in_words(one)))
}

/// Returns the note of a region's last complete pass.
fn note(region: &RegionStatus) -> Option<Said<'_>> {
    let note = region.last.notes.clone()?;
    Some((&region.job, (&region.region, None), note))
}

/// What the last batches of ids noticed.
pub fn batches(batches: &[BatchStatus]) -> Section {
    let mut part = Section::headed("Batches of ids");
    for one in batches {
        let doubts = one.last.doubts.iter().map(doubt_in_words);
        let said = doubts.chain(one.last.notes.clone());
        part.say_all(said.map(|said| format!("{} (ids): {said}.", one.job)));
    }
    part
}

/// Returns which lists of a region begin at a cursor of its last complete pass.
fn at_cursor(region: &RegionStatus) -> Option<Said<'_>> {
    let calls = region.begins_at_cursor.join(", ");
    let said = format!(
        "{calls} goes on at the cursor of the last complete pass and lists what changed since; `--relist` lists everything"
    );
    (!calls.is_empty()).then(|| (&*region.job, (&*region.region, None), said))
}

/// Returns which regions the upstream refused, with the cause where the next run requests them again.
fn refused(regions: &[RegionStatus], now: Timestamp) -> Vec<Phrases> {
    let refused = regions.iter().filter(|one| one.refused_at.is_some());
    slices::said(refused.map(|one| {
        let job = &one.job;
        let said = match one.due_at.is_some_and(|due| due > now) {
            true => format!(
                "refused by the upstream. A refused region is requested again when it is due, or as soon as its configuration \
                 changes; to request it now, run it with `--set jobs.{job}.every=1s`"
            ),
            false => {
                let why = one.refused_why.iter().map(|why| format!(": {why}"));
                let why = why.collect::<String>();
                format!("refused by the upstream, and requested again by the next run{why}")
            }
        };
        (&**job, (&*one.region, None), said)
    }))
}

/// Who walks which region now.
pub fn walking(walking: &[Walking]) -> Section {
    let until = |one: &Walking| match one.until {
        Some(until) => format!("{}, if it dies", instant(until)),
        None => "when it ends".to_owned(),
    };
    let table = Grid::of(walking)
        .column(Head::text("JOB"), |one| &one.job)
        .column(Head::text("WALKED NOW"), |one| &one.region)
        .column(Head::text("BY"), |one| {
            format!("process {} on {}", one.process, one.machine)
        })
        .column(Head::text("SINCE"), |one| {
            one.since.map_or_else(|| "-".to_owned(), instant)
        })
        .column(Head::text("FREE AGAIN AT THE LATEST"), until);
    Section::headed("Walked now").with_rows(table)
}
