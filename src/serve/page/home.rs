//! `/`: the limits, the spend of a day, what failed last, and the age of each region.

use std::time::Duration;

use axum::response::Response;
use maud::{Markup, html};
use serde::Deserialize;

use super::Reader;
use super::limit::{legend, limit_shown};
use super::spend::{self, DaySpendings};
use super::table::{Cell, table};
use crate::commands::output::Colour;
use crate::commands::status::{self, RegionStatus, Standing, Status, standing};
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
    /// Why it got no further; null where it said nothing.
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
        @for one in &status.held_back { p class="warn" { "Not asked: " (plain(&one.to_string())) "." } }
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

/// The state of everything in one line, worst first: the line of `ingest status`.
fn summary(overview: &Overview) -> Markup {
    let status = &overview.status;
    html! {
        @if let Some(lost) = &status.lost_catalog { p class="bad" { (plain(lost)) } }
        @else if standing::is_new(status) { p { "Nothing was ingested yet. The first run shows here: " code { "ingest --region all" } "." } }
        ul class="summary" aria-label="Summary" {
            @for (text, colour) in standing::summary(status, overview.now) {
                li class=(class(colour)) { (text) }
            }
            @if !status.regions.is_empty() { li class="quiet" { "of " (counted(status.regions.len() as u64, "region")) " of all jobs" } }
        }
    }
}

/// Returns the class of the style sheet for what the terminal shows in this colour.
const fn class(colour: Colour) -> &'static str {
    match colour {
        Colour::Red => "bad",
        Colour::Yellow => "warn",
        Colour::Green => "good",
        Colour::Grey => "quiet",
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

fn regions(reader: &Reader, overview: &Overview, most: usize) -> Markup {
    let (status, now) = (&overview.status, overview.now);
    let mut regions: Vec<(Standing, &RegionStatus)> = status
        .regions
        .iter()
        .map(|one| (Standing::of(status, one, now), one))
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
    (state, region): (Standing, &RegionStatus),
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
        _ if standing::is_ended(region) => html! {},
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
            class(state.colour()),
            html! { (state.word()) (details(status, region)) },
        ),
        Cell::new("", complete.unwrap_or_else(|| html! { "never" })),
        Cell::new("", due),
    ]
}

/// What the state of a region does not say by itself.
fn details(status: &Status, region: &RegionStatus) -> String {
    let by = standing::walker(status, region).map(|run| {
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
