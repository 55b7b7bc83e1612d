//! `/`: the limits, the spend of a day, what failed last, and the age of each region.

use std::collections::BTreeMap;
use std::time::Duration;

use axum::response::Response;
use maud::{Markup, html};
use serde::Deserialize;

use super::Reader;
use super::limit::{legend, limit_shown};
use super::spend::{self, DaySpendings};
use super::table::{Cell, table};
use crate::commands::status::{self, RegionStatus, Status, Walking};
use crate::commands::table::{count, counted, span};
use crate::serve::App;
use crate::serve::problem::Problem;
use ingest_base::plain::plain;
use ingest_catalog::{PassId, PassRecord};
use ingest_config::Region;
use ingest_quota::Timestamp;

/// How long a failed pass is shown.
const WEEK: Duration = Duration::from_secs(7 * 24 * 60 * 60);
const MOST_FAILED: u32 = 10;
/// How many regions are shown unless all are requested.
const MOST_REGIONS: usize = 100;

/// What the view shows.
pub struct Overview {
    status: Status,
    /// The spend of the last 24 hours, by account, limit and job.
    day: DaySpendings,
    /// The passes that failed last, the last one first.
    failed: Vec<Failed>,
    now: Timestamp,
}

/// A pass that failed in the last run that walked it.
struct Failed {
    pass: PassId,
    job: String,
    region: String,
    started_at: Timestamp,
    /// When that run left it.
    left_at: Option<Timestamp>,
    outcome: &'static str,
    /// Why it got no further; null where an earlier release did not store it.
    why: Option<String>,
    /// Whether a later pass over the region is complete.
    complete_since: bool,
    requests: u64,
    pages: u64,
}

#[derive(Default, Deserialize)]
#[serde(deny_unknown_fields)]
struct OverviewFilter {
    /// `all`: every region, however many there are.
    regions: Option<String>,
}

/// `GET /`
pub async fn page(reader: Reader) -> Response {
    let content = content(&reader).await;
    reader.view("/", &Markup::default(), content)
}

async fn content(reader: &Reader) -> Result<Markup, Problem> {
    let asked: OverviewFilter = reader.filters()?;
    let most = match asked.regions.as_deref() {
        Some("all") => usize::MAX,
        Some(_) | None => MOST_REGIONS,
    };
    Ok(shown(reader, &overview(&reader.app).await?, most))
}

async fn overview(app: &App) -> Result<Overview, Problem> {
    app.read(|environment| async move {
        let now = environment.clock.now();
        let archive = environment.archive().await?;
        let failed = archive.failures(now - WEEK, MOST_FAILED).await?;
        let status = status::report(&environment, None).await?;
        Ok(Overview {
            day: spend::of_the_day(&environment, now).await?,
            failed: failed
                .iter()
                .map(|pass| pass_failed(pass, &status))
                .collect(),
            status,
            now,
        })
    })
    .await
}

fn pass_failed(pass: &PassRecord, status: &Status) -> Failed {
    let is_its = |one: &&RegionStatus| {
        let region = Region::key_of(&pass.region, pass.slice);
        // Batches serve all regions of their job: a complete pass over any of them had its batches.
        let is_shared = pass.region == Region::SHARED;
        one.job == pass.job && (is_shared || one.region == region)
    };
    let later = |one: &RegionStatus| one.last_complete.is_some_and(|at| at > pass.started_at);
    Failed {
        pass: pass.id,
        job: pass.job.clone(),
        region: Region::key_of(&pass.region, pass.slice),
        started_at: pass.started_at,
        left_at: pass.left_at,
        outcome: pass.word().unwrap_or("unfinished"),
        why: pass.notes.clone(),
        complete_since: status.regions.iter().filter(is_its).any(later),
        requests: pass.requests,
        pages: pass.pages,
    }
}

fn shown(reader: &Reader, overview: &Overview, most_regions: usize) -> Markup {
    let status = &overview.status;
    html! {
        (summary(overview))
        h2 { "Limits" }
        @if status.limits.is_empty() { p { "No limit is configured." } }
        @else { (legend(&status.limits)) }
        @for limit in &status.limits {
            (limit_shown(reader, limit, overview.day.of(&limit.report.account, &limit.report.limit)))
        }
        h2 id="failed" { "What failed last" }
        @if overview.failed.is_empty() { p { "Nothing failed in the last 7 days." } }
        @else {
            ul class="plain" { @for one in &overview.failed { li { (failed_shown(reader, one, overview.now)) } } }
        }
        h2 id="regions" { "Regions" }
        (regions(reader, overview, most_regions))
        p class="quiet" { "As of " (reader.time(overview.now)) "." }
    }
}

/// Whether there is nothing in the catalog.
fn is_new(overview: &Overview) -> bool {
    let mut regions = overview.status.regions.iter();
    overview.failed.is_empty() && regions.all(|one| one.last_complete.is_none() && !one.unfinished)
}

/// The state of everything in one line, worst first.
fn summary(overview: &Overview) -> Markup {
    let status = &overview.status;
    let mut states: BTreeMap<Freshness, u64> = BTreeMap::new();
    for region in &status.regions {
        *states
            .entry(Freshness::of(status, region, overview.now))
            .or_default() += 1;
    }
    let failed = overview
        .failed
        .iter()
        .filter(|one| !one.complete_since)
        .count();
    let closed = status
        .limits
        .iter()
        .filter(|one| one.report.closed_until.is_some())
        .count();
    html! {
        @if is_new(overview) { p { "Nothing was ingested yet. The first run shows here: " code { "ingest --region all" } "." } }
        ul class="summary" aria-label="Summary" {
            @if failed > 0 { li { a class="bad" href="#failed" { (failed) " failed" } } }
            @if closed > 0 { li class="bad" { (counted(closed as u64, "limit")) " closed" } }
            @for (state, regions) in &states {
                li class=(state.class()) { (count(*regions)) " " (state.word()) }
            }
            @if !status.regions.is_empty() { li class="quiet" { "of " (counted(status.regions.len() as u64, "region")) " of all jobs" } }
        }
    }
}

fn failed_shown(reader: &Reader, one: &Failed, now: Timestamp) -> Markup {
    html! {
        p {
            strong { (plain(&one.job)) " " (plain(&one.region)) } " "
            span class="bad" { (one.outcome) }
            @if let Some(at) = one.left_at { " " (reader.relative(at, &format!("{} ago", span(now.since(at))))) }
            @if one.complete_since { ", " span class="good" { "complete since" } }
        }
        p { (plain(one.why.as_deref().unwrap_or("Why was not stored."))) }
        p class="quiet" {
            (reader.pass_link(one.pass, &html! { "The pass" })) " of " (reader.minute(one.started_at)) ": "
            (counted(one.pages, "page")) ", " (counted(one.requests, "request"))
        }
    }
}

/// Whether a region needs a look, most of all first.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Freshness {
    Walked,
    Unfinished,
    Due,
    Fresh,
}

impl Freshness {
    fn of(status: &Status, region: &RegionStatus, now: Timestamp) -> Self {
        let is_due = region.due_at.is_none_or(|at| at <= now);
        match walker(status, region) {
            Some(_) => Self::Walked,
            None if region.unfinished => Self::Unfinished,
            None if is_due && !is_complete(region) => Self::Due,
            None => Self::Fresh,
        }
    }

    const fn word(self) -> &'static str {
        match self {
            Self::Walked => "being walked",
            Self::Unfinished => "unfinished",
            Self::Due => "due",
            Self::Fresh => "fresh",
        }
    }

    const fn class(self) -> &'static str {
        match self {
            Self::Walked | Self::Fresh => "good",
            Self::Unfinished | Self::Due => "warn",
        }
    }
}

/// Whether it is a backfill that has everything.
fn is_complete(region: &RegionStatus) -> bool {
    let slices = region.slices.as_ref();
    slices.is_some_and(|slices| slices.complete >= slices.of)
}

/// The run that walks a region, or a slice of it.
fn walker<'s>(status: &'s Status, region: &RegionStatus) -> Option<&'s Walking> {
    let is_slice = |name: &str| {
        // A backfill is one row for a region, and its runs take leases of slices: the region, a space, the slice.
        let of_region = name.strip_prefix(&*region.region);
        region.slices.is_some() && of_region.is_some_and(|rest| rest.starts_with(' '))
    };
    let its = |one: &&Walking| {
        one.job == region.job && (one.region == region.region || is_slice(&one.region))
    };
    status.walking.iter().find(its)
}

fn regions(reader: &Reader, overview: &Overview, most: usize) -> Markup {
    let (status, now) = (&overview.status, overview.now);
    let mut regions: Vec<(Freshness, &RegionStatus)> = status
        .regions
        .iter()
        .map(|one| (Freshness::of(status, one, now), one))
        .collect();
    regions.sort_by_key(|(state, _)| *state);
    let others = regions.len().saturating_sub(most);
    let heads = ["Job", "Region", "State", "Last complete", "Due"];
    let shown = regions.iter().take(most);
    let rows = shown.map(|(state, one)| region_row(reader, overview, (*state, one)));
    let caption = "Each region of each job, those that are not fresh first";
    html! {
        (table(caption, &heads, rows.collect()))
        @if others > 0 {
            p { a href=(format!("{}#regions", reader.to("/", &[("regions", Some("all"))]))) { "Show " (counted(others as u64, "more region")) } }
        }
    }
}

fn region_row(
    reader: &Reader,
    overview: &Overview,
    (state, region): (Freshness, &RegionStatus),
) -> Vec<Cell> {
    let (status, now) = (&overview.status, overview.now);
    let passes = [
        ("job", Some(&*region.job)),
        ("region", Some(&*region.region)),
    ];
    let complete = region
        .last_complete
        .map(|began| reader.relative(began, &format!("{} ago", span(now.since(began)))));
    let due = match region.due_at {
        _ if is_complete(region) => html! {},
        Some(at) if at > now => reader.relative(at, &format!("in {}", span(at.since(now)))),
        _ => html! { "now" },
    };
    vec![
        Cell::text(&region.job),
        Cell::new(
            "",
            html! { a href=(reader.to("/history", &passes)) { (plain(&region.region)) } },
        ),
        Cell::new(
            state.class(),
            html! { (state.word()) (details(status, region)) },
        ),
        Cell::new("", complete.unwrap_or_else(|| html! { "never" })),
        Cell::new("", due),
    ]
}

/// What the state of a region does not say by itself.
fn details(status: &Status, region: &RegionStatus) -> String {
    let by = walker(status, region).map(|run| {
        let machine = plain(&run.machine);
        format!(" by process {} on {machine}", run.process)
    });
    let at = region.stopped_at.as_ref();
    let at = at.map(|at| format!(", {} of {}", counted(at.pages, "page"), plain(&at.call)));
    let slices = region.slices.as_ref();
    let slices =
        slices.map(|done| format!(", {} of {} slices", count(done.complete), count(done.of)));
    [by, at, slices].into_iter().flatten().collect()
}
