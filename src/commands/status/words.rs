//! The text of `status`.

use std::collections::BTreeMap;
use std::time::Duration;

use super::super::output::{self, Colour, Screen, Style};
use super::super::slices::{self, Said};
use super::super::table::{cost, count, counted, fitted, instant, span, table, text};
use super::{
    BatchStatus, LimitStatus, RegionStatus, SliceProgress, Spend, Stale, Standing, Status, Walking,
    bars, standing,
};
use crate::run::HeldBack;
use ingest_config::Region;
use ingest_ledger::ChargeSource;
use ingest_quota::{Cost, Timestamp, Units};

/// Columns between a name, its bar and the figures, with the brackets.
const AROUND: usize = 5;
/// The length of the words beside a bar.
const BESIDE: usize = 40;

pub fn name(limit: &LimitStatus) -> String {
    format!("{}/{}", limit.report.account, limit.report.limit)
}

/// `1 doubtful · 1 limit closed · 180 due · 314 fresh`
pub fn verdict(status: &Status, now: Timestamp, style: Style) -> String {
    let parts = standing::summary(status, now).into_iter();
    let parts = parts.map(|(text, colour)| style.paint(&text, colour));
    parts.collect::<Vec<_>>().join(" · ")
}

/// Returns a line for each credential that is not asked yet.
pub fn held_back(held_back: &[HeldBack], screen: Screen) -> String {
    let lines = held_back.iter().map(|one| {
        let line = output::shown(&format!("Not asked: {one}."));
        screen.wrapped(&screen.style.paint(&line, Colour::Red))
    });
    lines.collect::<Vec<_>>().join("\n")
}

/// Of more regions, only the worst are shown.
const MOST_REGIONS: usize = 20;

/// The first line with `--fail-if-stale`, which monitoring shows.
pub fn stale(stale: &[Stale], within: Duration) -> String {
    let within = span(within);
    if stale.is_empty() {
        return format!("Fresh: every region has a complete pass within {within}.");
    }
    let named = stale.iter().map(|one| {
        let age = one.age_seconds.map_or_else(
            || "never".to_owned(),
            |age| span(Duration::from_secs_f64(age.max(0.0))),
        );
        output::shown(&format!("{} {} ({age})", one.job, one.region))
    });
    let named = named.collect::<Vec<_>>().join(", ");
    format!("Stale, with no complete pass within {within}: {named}.")
}

/// ```text
/// youtube/daily   [██████████████░░░░░░░░░░░░░░░░░▒▒] 4,120 used, 5,380 left of 9,500
///   headroom 500 of the quota of 10,000; 3,990 since the upstream's reset
///   units back: 120 within 1h, 800 within 6h, all 4,120 by 2026-11-22 08:01:27 UTC
/// ```
pub fn limit(limit: &LimitStatus, name_width: usize, now: Timestamp, screen: Screen) -> String {
    let style = screen.style;
    let report = &limit.report;
    let name = format!("{:name_width$}", name(limit));
    let head = match (report.used, report.remaining) {
        (Some(used), Some(left)) => {
            let width = screen
                .width
                .unwrap_or(80)
                .saturating_sub(name_width + BESIDE)
                .clamp(10, 40);
            let bar = bars::bar(used, report.enforced, report.quota, width, style);
            let (used, left, of) = (
                count(used.get()),
                count(left.get()),
                count(report.enforced.get()),
            );
            let figures = format!("{used} used, {left} left of {of}");
            let beside = name_width + width + AROUND + figures.len();
            let is_wide = screen.width.is_none_or(|columns| beside <= columns);
            let between = if is_wide { " " } else { "\n  " };
            format!("{name}  {bar}{between}{figures}")
        }
        _ => {
            let silent = style.paint("the ledger cannot be reached", Colour::Red);
            format!("{name}  of {}: {silent}", count(report.enforced.get()))
        }
    };
    let details = [
        since(limit),
        back(limit),
        closed(limit, now, style),
        unrepaid(limit, style),
    ];
    let details = details
        .into_iter()
        .flatten()
        .map(|line| screen.wrapped(&line));
    std::iter::once(head)
        .chain(details)
        .collect::<Vec<_>>()
        .join("\n")
}

fn since(limit: &LimitStatus) -> Option<String> {
    let headroom = (limit.headroom > Units::ZERO).then(|| {
        let (headroom, quota) = (count(limit.headroom.get()), count(limit.report.quota.get()));
        format!("headroom {headroom} of the quota of {quota}")
    });
    let reset = limit
        .since_reset
        .map(|units| format!("{} used since the upstream's reset", count(units.get())));
    let parts: Vec<String> = headroom.into_iter().chain(reset).collect();
    (!parts.is_empty()).then(|| format!("  {}", parts.join("; ")))
}

/// Names only the spans that say more than the one before, up to the instant at which all units are back.
fn back(limit: &LimitStatus) -> Option<String> {
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
    Some(format!("  units back: {}", parts.join(", ")))
}

fn closed(limit: &LimitStatus, now: Timestamp, style: Style) -> Option<String> {
    let until = limit.report.closed_until?;
    let why = match limit.waits_until {
        Some(waits) if waits >= until => {
            "the ledger lost data, and `ledger.after_loss` is \"wait\""
        }
        _ => "the upstream reported the limit exhausted, or `ingest close` closed it",
    };
    let closed = format!(
        "closed until {} (in {}): {why}",
        instant(until),
        span(until.since(now))
    );
    Some(format!("  {}", style.paint(&closed, Colour::Red)))
}

fn unrepaid(limit: &LimitStatus, style: Style) -> Option<String> {
    let units = Some(limit.unrepaid).filter(|units| *units > Units::ZERO)?;
    let owed = format!(
        "{} went unmetered from this machine, not yet charged to the ledger",
        counted(units.get(), "unit")
    );
    Some(format!("  {}", style.paint(&owed, Colour::Yellow)))
}

pub fn spend(spend: &[Spend], all: bool, screen: Screen) -> String {
    if spend.is_empty() {
        return String::new();
    }
    let mut table = table(
        screen,
        &[
            "ACCOUNT",
            "JOB",
            "REGION",
            "CALL",
            "CHARGES",
            "UNITS IN WINDOW",
        ],
        &[4],
    );
    let each = all || spend.len() <= 2 * MOST_REGIONS;
    let mut groups: Vec<Vec<&Spend>> = Vec::new();
    for one in spend {
        let alike = |other: &Spend| {
            let key = |one: &Spend| {
                (
                    one.account.clone(),
                    one.job.clone(),
                    one.origin,
                    one.call.clone(),
                )
            };
            !each && key(one) == key(other)
        };
        let is_alike = |group: &&mut Vec<&Spend>| group.first().is_some_and(|first| alike(first));
        match groups.iter_mut().find(is_alike) {
            Some(group) => group.push(one),
            None => groups.push(vec![one]),
        }
    }
    for group in groups {
        let [one, ..] = &*group else { continue };
        let regions = group
            .iter()
            .map(|one| (one.region.as_deref().unwrap_or("-"), None));
        let mut units = Cost::none();
        group.iter().for_each(|one| units.add(&one.units));
        table.add_row([
            one.account.clone(),
            one.origin.whose(one.job.as_deref()).to_owned(),
            slices::named(regions),
            one.call.clone(),
            count(group.iter().map(|one| one.charges).sum()),
            cost(&units),
        ]);
    }
    let partial = spend.iter().any(|one| one.source == ChargeSource::Journal);
    let note = "Only this machine's charges are listed; the ledger does not store the purpose of \
        other machines' charges.";
    let shown = fitted(table, &[0, 4]);
    if partial {
        format!("{shown}\n{}", screen.wrapped(note))
    } else {
        shown
    }
}

pub fn regions(status: &Status, all: bool, now: Timestamp, screen: Screen) -> String {
    let regions = &status.regions;
    let mut table = table(
        screen,
        &["JOB", "REGION", "LAST COMPLETE", "AGE", "DUE"],
        &[3],
    );
    let mut worst_first: Vec<&RegionStatus> = regions.iter().collect();
    worst_first.sort_by_key(|region| Standing::of(status, region, now));
    let most = if all { usize::MAX } else { MOST_REGIONS };
    let left = worst_first.len().saturating_sub(most);
    worst_first.truncate(most);
    for region in &worst_first {
        let due = region.due_at.filter(|due| *due > now);
        table.add_row([
            region.job.clone(),
            output::shown(&region.region),
            region
                .last_complete
                .map_or_else(|| "never".to_owned(), instant),
            region
                .last_complete
                .map_or_else(|| "-".to_owned(), |began| span(now.since(began))),
            match (due, &region.slices) {
                (Some(due), _) => format!("in {}", span(due.since(now))),
                (None, Some(slices)) if slices.complete == slices.of => "never".to_owned(),
                (None, _) => "now".to_owned(),
            },
        ]);
    }
    let mut lines = vec![fitted(table, &[2])];
    lines.extend((left > 0).then(|| {
        let more = counted(left as u64, "more region");
        format!("... and {more}; --all shows them, --job and --region some of them")
    }));
    lines.extend(worst_first.iter().filter_map(|region| stopped(region, now)));
    lines.extend(worst_first.iter().filter_map(|region| backfill(region)));
    lines.extend(failed(status, now));
    lines.extend(refused(regions, now));
    lines.extend(slices::said(regions.iter().flat_map(doubts)));
    lines.extend(slices::said(regions.iter().filter_map(note)));
    lines.extend(slices::said(regions.iter().filter_map(at_cursor)));
    if standing::is_new(status) {
        let nothing = "Nothing was ingested yet; `ingest --region all --dry-run` shows what a run would spend.";
        lines.push(
            status
                .lost_catalog
                .clone()
                .unwrap_or_else(|| nothing.to_owned()),
        );
    }
    let lines = lines.iter().enumerate();
    // The first is the table, which fits the screen by its columns.
    let wrapped = lines.map(|(at, line)| match at {
        0 => line.clone(),
        _ => screen.wrapped(line),
    });
    wrapped.collect::<Vec<_>>().join("\n")
}

/// `backfill US: 12 of 60 slices are complete.`
fn backfill(region: &RegionStatus) -> Option<String> {
    let SliceProgress { complete, of } = region.slices.as_ref()?;
    Some(format!(
        "{} {}: {} of {} slices are complete.",
        region.job,
        output::shown(&region.region),
        count(*complete),
        count(*of)
    ))
}

/// Returns why the last passes failed, each cause once with its regions. The region of batches is `*`.
fn failed(status: &Status, now: Timestamp) -> Vec<String> {
    let regions = status.regions.iter();
    let regions = regions.map(|one| (&*one.job, &*one.region, &one.failed));
    let batches = status.batches.iter();
    let batches = batches.map(|one| (&*one.job, Region::SHARED, &one.failed));
    slices::said(regions.chain(batches).filter_map(|(job, region, failed)| {
        let failed = failed.as_ref()?;
        let ago = span(now.since(failed.at));
        Some((
            job,
            (region, None),
            format!("failed {ago} ago: {}", failed.why),
        ))
    }))
}

/// Returns the doubts about a region.
fn doubts(region: &RegionStatus) -> impl Iterator<Item = Said<'_>> {
    region.doubts.iter().map(|one| {
        let said = format!("doubtful ({}): {}", one.doubt, one.text);
        (&*region.job, (&*region.region, None), said)
    })
}

/// Returns the note of a region's last complete pass.
fn note(region: &RegionStatus) -> Option<Said<'_>> {
    let note = region.notes.clone()?;
    Some((&region.job, (&region.region, None), note))
}

/// What the last batches of ids noticed.
pub fn batches(batches: &[BatchStatus], screen: Screen) -> String {
    let lines = batches.iter().flat_map(|one| {
        let doubts = one.doubts.iter();
        let doubts = doubts.map(|one| format!("doubtful ({}): {}", one.doubt, one.text));
        let said = doubts.chain(one.notes.clone());
        said.map(|said| format!("{} (ids): {}.", one.job, output::shown(&said)))
    });
    let lines: Vec<String> = lines.map(|line| screen.wrapped(&line)).collect();
    lines.join("\n")
}

/// Returns which lists of a region begin at a cursor of its last complete pass.
fn at_cursor(region: &RegionStatus) -> Option<Said<'_>> {
    let calls = region.begins_at_cursor.join(", ");
    let said = format!(
        "{calls} goes on at the cursor of the last complete pass and lists what changed since; `--relist` lists everything"
    );
    (!calls.is_empty()).then(|| (&*region.job, (&*region.region, None), said))
}

/// Returns a line for each job with regions that the upstream refused and that are not due again.
fn refused(regions: &[RegionStatus], now: Timestamp) -> impl Iterator<Item = String> {
    let waits = move |one: &&RegionStatus| {
        one.refused_at.is_some() && one.due_at.is_some_and(|due| due > now)
    };
    let mut jobs: BTreeMap<&str, Vec<&str>> = BTreeMap::new();
    for one in regions.iter().filter(waits) {
        jobs.entry(&one.job).or_default().push(&one.region);
    }
    jobs.into_iter().map(|(job, codes)| {
        format!(
            "{job} {}: refused by the upstream. A refused region is requested again when it is due, or as soon as its \
            configuration changes; to request it now, run it with `--set jobs.{job}.every=1s`.",
            slices::named(codes.into_iter().map(|code| (code, None)))
        )
    })
}

pub fn walking(walking: &[Walking], screen: Screen) -> String {
    if walking.is_empty() {
        return String::new();
    }
    let headers = [
        "JOB",
        "WALKED NOW",
        "BY",
        "SINCE",
        "FREE AGAIN AT THE LATEST",
    ];
    let mut table = table(screen, &headers, &[]);
    for one in walking {
        table.add_row([
            one.job.clone(),
            output::shown(&one.region),
            format!("process {} on {}", one.process, output::shown(&one.machine)),
            one.since.map_or_else(|| "-".to_owned(), instant),
            one.until.map_or_else(
                || "when it ends".to_owned(),
                |until| format!("{}, if it dies", instant(until)),
            ),
        ]);
    }
    text(&table)
}

fn stopped(region: &RegionStatus, now: Timestamp) -> Option<String> {
    let at = region.stopped_at.as_ref()?;
    let (page, whose) = (
        count(at.pages),
        format!("{} {}", region.job, output::shown(&region.region)),
    );
    let began = span(now.since(at.since));
    Some(format!(
        "{whose} is unfinished: started {began} ago, stopped after page {page} of {}.",
        at.call
    ))
}
