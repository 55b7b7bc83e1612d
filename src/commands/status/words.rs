//! The text of `status`.

use std::collections::BTreeMap;
use std::time::Duration;

use super::super::output::{self, Colour, Screen, Style};
use super::super::table::{cost, count, counted, instant, span, table, text};
use super::{LimitStatus, RegionStatus, SliceProgress, Spend, Stale, Walking, bars};
use ingest_ledger::ChargeSource;
use ingest_quota::{Timestamp, Units};

/// The length of the words beside a bar.
const BESIDE: usize = 40;

pub fn name(limit: &LimitStatus) -> String {
    format!("{}/{}", limit.report.account, limit.report.limit)
}

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
///   back within 1h 120, 6h 800, 24h 4,120; all by 2026-11-22 08:01:27 UTC
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
            format!("{name}  {bar} {used} used, {left} left of {of}")
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

fn back(limit: &LimitStatus) -> Option<String> {
    let within = &limit.returns_within;
    let [hour, six_hours, day] =
        [within.hour, within.six_hours, within.day].map(|units| count(units.get()));
    let last = limit.returns.last()?;
    Some(format!(
        "  back within 1h {hour}, 6h {six_hours}, 24h {day}; all by {}",
        instant(last.at)
    ))
}

fn closed(limit: &LimitStatus, now: Timestamp, style: Style) -> Option<String> {
    let until = limit.report.closed_until?;
    let why = match limit.waits_until {
        Some(waits) if waits >= until => {
            "the ledger lost data, and `ledger.after_loss` is \"wait\""
        }
        _ => "the upstream reported the limit exhausted",
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

pub fn spend(spend: &[Spend], screen: Screen) -> String {
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
    for one in spend {
        table.add_row([
            one.account.clone(),
            one.origin.whose(one.job.as_deref()).to_owned(),
            output::shown(one.region.as_deref().unwrap_or("-")),
            one.call.clone(),
            count(one.charges),
            cost(&one.units),
        ]);
    }
    let partial = spend.iter().any(|one| one.source == ChargeSource::Journal);
    let note = "Only this machine's charges are listed; the ledger does not store the purpose of \
        other machines' charges.";
    if partial {
        format!("{}\n{}", text(&table), screen.wrapped(note))
    } else {
        text(&table)
    }
}

pub fn regions(regions: &[RegionStatus], now: Timestamp, screen: Screen) -> String {
    let mut table = table(
        screen,
        &["JOB", "REGION", "LAST COMPLETE", "AGE", "DUE"],
        &[3],
    );
    for region in regions {
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
    let stopped = regions
        .iter()
        .filter_map(|region| stopped(region, now))
        .map(|line| screen.wrapped(&line));
    let backfills = regions.iter().filter_map(backfill);
    let backfills = backfills.map(|line| screen.wrapped(&line));
    let mut lines: Vec<String> = std::iter::once(text(&table)).chain(stopped).collect();
    lines.extend(backfills);
    lines.extend(refused(regions, now).map(|line| screen.wrapped(&line)));
    lines.extend(
        regions
            .iter()
            .flat_map(doubtful)
            .map(|line| screen.wrapped(&line)),
    );
    lines.extend(noted(regions).map(|line| screen.wrapped(&line)));
    lines.extend(at_cursors(regions).map(|line| screen.wrapped(&line)));
    if regions
        .iter()
        .all(|region| region.last_complete.is_none() && !region.unfinished)
    {
        lines.push(screen.wrapped(
            "Nothing was ingested yet; `ingest --region all --dry-run` shows what a run would \
            spend.",
        ));
    }
    lines.join("\n")
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

/// Returns a line for each doubt about a region.
fn doubtful(region: &RegionStatus) -> impl Iterator<Item = String> {
    let whose = format!("{} {}", region.job, output::shown(&region.region));
    region.doubts.iter().map(move |one| {
        let text = output::shown(&one.text);
        format!("{whose} is doubtful ({}): {text}.", one.doubt)
    })
}

/// Returns a line for each note of the last complete passes, with the regions of a job that have the same.
fn noted(regions: &[RegionStatus]) -> impl Iterator<Item = String> {
    let mut notes: BTreeMap<(&str, &str), Vec<&str>> = BTreeMap::new();
    for one in regions {
        if let Some(note) = &one.notes {
            let of_job = notes.entry((&one.job, note)).or_default();
            of_job.push(&one.region);
        }
    }
    notes.into_iter().map(|((job, note), codes)| {
        let (named, note) = (output::shown(&named(&codes)), output::shown(note));
        format!("{job} {named}: {note}.")
    })
}

/// Returns a line for each job with regions whose next lists begin with a cursor of the last complete pass.
fn at_cursors(regions: &[RegionStatus]) -> impl Iterator<Item = String> {
    let mut jobs: BTreeMap<(&str, &[String]), Vec<&str>> = BTreeMap::new();
    for one in regions
        .iter()
        .filter(|one| !one.begins_at_cursor.is_empty())
    {
        let of_job = jobs.entry((&one.job, &one.begins_at_cursor)).or_default();
        of_job.push(&one.region);
    }
    jobs.into_iter().map(|((job, calls), codes)| {
        let (named, calls) = (output::shown(&named(&codes)), calls.join(", "));
        format!(
            "{job} {named}: {calls} goes on at the cursor of the last complete pass and lists what changed since; `--relist` lists \
            everything."
        )
    })
}

/// Returns the first regions, and how many more there are.
fn named(codes: &[&str]) -> String {
    let more = match codes.len().saturating_sub(NAMED) {
        0 => String::new(),
        more => format!(" and {} more", count(more as u64)),
    };
    let first: Vec<&str> = codes.iter().take(NAMED).copied().collect();
    format!("{}{more}", first.join(", "))
}

/// The most regions that a line names.
const NAMED: usize = 5;

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
            output::shown(&named(&codes))
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
