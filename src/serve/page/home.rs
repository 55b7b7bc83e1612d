//! `/`: the limits, the spend of a day, the age of each region, and what failed last.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use axum::extract::State;
use axum::http::{HeaderMap, Uri};
use axum::response::Response;
use maud::{Markup, html};
use serde::{Deserialize, Serialize};

use super::chart::{self, Spent};
use super::{table, view};
use crate::catalog::{PassEnd, PassRecord};
use crate::commands::environment::Environment;
use crate::commands::status::{self, LimitStatus, RegionStatus, Status};
use crate::commands::table::{count, instant, span};
use crate::commands::{Error, refill};
use crate::plain::plain;
use crate::quota::{LimitName, Timestamp, Units};
use crate::serve::App;
use crate::serve::api::{parameters, tagged_json};
use crate::serve::problem::Problem;

const HOUR: Duration = Duration::from_secs(60 * 60);
const HOURS: usize = 24;
/// How long a failed pass is shown.
const WEEK: Duration = Duration::from_secs(7 * 24 * 60 * 60);
const MOST_FAILED: usize = 10;
/// The job of charges that no job made.
const BY_HAND: &str = "by hand";

/// What the view shows.
#[derive(Serialize)]
struct Overview {
    status: Status,
    /// The spend of the last 24 hours by account, limit and job: the units until the end of each hour.
    day: BTreeMap<String, BTreeMap<LimitName, BTreeMap<String, Vec<u64>>>>,
    failed: Vec<Failed>,
    #[serde(skip)]
    now: Timestamp,
}

/// A pass that did not complete.
#[derive(Serialize)]
struct Failed {
    job: String,
    region: String,
    started_at: Timestamp,
    outcome: &'static str,
    requests: u64,
    pages: u64,
}

/// The view has no parameters.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Nothing {}

/// `GET /`
pub async fn page(State(app): State<Arc<App>>, uri: Uri, headers: HeaderMap) -> Response {
    let overview = overview(&app, &uri).await;
    view(&headers, "/", overview.map(|overview| shown(&overview)))
}

/// `GET /index.json`
pub async fn json(
    State(app): State<Arc<App>>,
    uri: Uri,
    headers: HeaderMap,
) -> Result<Response, Problem> {
    Ok(tagged_json(&headers, &overview(&app, &uri).await?))
}

async fn overview(app: &App, uri: &Uri) -> Result<Overview, Problem> {
    let Nothing {} = parameters(uri)?;
    app.read(|environment| async move {
        let now = environment.clock.now();
        let passes = environment.archive().await?.history(now - WEEK).await?;
        Ok(Overview {
            status: status::report(&environment, None).await?,
            day: day(&environment, now).await?,
            failed: failed(&passes),
            now,
        })
    })
    .await
}

async fn day(
    environment: &Environment,
    now: Timestamp,
) -> Result<BTreeMap<String, BTreeMap<LimitName, BTreeMap<String, Vec<u64>>>>, Error> {
    let ledger = refill::recorded_ledger(environment)?;
    let from = now - HOUR * HOURS as u32;
    let mut day = BTreeMap::new();
    for account in environment.accounts() {
        let limits: &mut BTreeMap<LimitName, BTreeMap<String, Vec<u64>>> =
            day.entry(account.name.clone()).or_default();
        let Ok(spending) = ledger.spent(&account, from).await else {
            continue;
        };
        for charge in spending.charges {
            let job = charge
                .purpose
                .job
                .clone()
                .unwrap_or_else(|| BY_HAND.to_owned());
            let hours = limits
                .entry(charge.limit)
                .or_default()
                .entry(job)
                .or_insert_with(|| vec![0; HOURS]);
            let hour = charge.at.since(from).as_secs() / HOUR.as_secs();
            let hour = usize::try_from(hour).unwrap_or(HOURS).min(HOURS - 1);
            let later = hours.iter_mut().skip(hour);
            later.for_each(|units| *units = units.saturating_add(charge.units.get()));
        }
    }
    Ok(day)
}

fn failed(passes: &[PassRecord]) -> Vec<Failed> {
    let newest_first = passes.iter().rev();
    let failed = newest_first.filter_map(|pass| {
        let outcome = pass.outcome.filter(|end| *end != PassEnd::Complete)?;
        Some(Failed {
            job: pass.job.clone(),
            region: pass.region.clone(),
            started_at: pass.started_at,
            outcome: outcome.as_str(),
            requests: pass.requests,
            pages: pass.pages,
        })
    });
    failed.take(MOST_FAILED).collect()
}

fn shown(overview: &Overview) -> Markup {
    let status = &overview.status;
    html! {
        h2 { "Limits" }
        @if status.limits.is_empty() { p { "No limit is configured." } }
        @for limit in &status.limits { (limit_shown(limit, overview)) }
        h2 { "Regions" }
        (regions(status, overview.now))
        h2 { "Passes that did not complete" }
        @if overview.failed.is_empty() {
            p { "None in the last 7 days." }
        } @else {
            (table("Passes that did not complete, of the last 7 days, newest first", &["Started", "Job", "Region", "Outcome", "Pages", "Requests"], &html! {
                @for one in &overview.failed {
                    tr {
                        td { (instant(one.started_at)) } td { (plain(&one.job)) } td { (plain(&one.region)) }
                        td class="bad" { (one.outcome) } td class="number" { (count(one.pages)) } td class="number" { (count(one.requests)) }
                    }
                }
            }))
            p class="quiet" { "The log of the run says why." }
        }
        p class="quiet" { "As of " (instant(overview.now)) ". " a href="/index.json" { "JSON" } }
    }
}

fn limit_shown(limit: &LimitStatus, overview: &Overview) -> Markup {
    let report = &limit.report;
    let (enforced, headroom) = (report.enforced.get(), limit.headroom.get());
    let words = match (report.used, report.remaining) {
        (Some(used), Some(left)) => format!(
            "{} used, {} left of {}",
            count(used.get()),
            count(left.get()),
            count(enforced)
        ),
        _ => format!("of {}: the ledger cannot be reached", count(enforced)),
    };
    let used = report.used.unwrap_or_default().get().min(enforced);
    let parts = [
        ("used", used),
        ("free", enforced - used),
        ("headroom", headroom),
    ];
    let jobs = overview
        .day
        .get(&report.account)
        .and_then(|limits| limits.get(&report.limit));
    let spent: Vec<Spent> = jobs
        .into_iter()
        .flatten()
        .map(|(job, until)| Spent {
            job: job.clone(),
            until: until.clone(),
        })
        .collect();
    let name = format!("{}/{}", report.account, report.limit);
    html! {
        h3 { (plain(&name)) }
        (chart::bar(&parts, &format!("{name}: {words}")))
        p { (words)
            @if limit.headroom > Units::ZERO { ", " (count(headroom)) " headroom" }
            "." (returns(limit))
        }
        @if let Some(until) = report.closed_until {
            p class="bad" { "Closed until " (instant(until)) "." }
        }
        @if limit.unrepaid > Units::ZERO {
            p class="warn" { (count(limit.unrepaid.get())) " units went unmetered from this machine and are not yet charged to the ledger." }
        }
        @if !spent.is_empty() {
            (chart::day(&spent, enforced, &format!("{name}: units charged in the last 24 hours by job, with the enforced line")))
        }
    }
}

fn returns(limit: &LimitStatus) -> Markup {
    let within = &limit.returns_within;
    html! {
        @if let Some(last) = limit.returns.last() {
            " Back within 1 h: " (count(within.hour.get())) ", 6 h: " (count(within.six_hours.get()))
            ", 24 h: " (count(within.day.get())) "; all by " (instant(last.at)) "."
        }
    }
}

fn regions(status: &Status, now: Timestamp) -> Markup {
    table(
        "Each region of each job",
        &["Job", "Region", "State", "Last complete", "Due"],
        &html! {
            @for one in &status.regions {
                @let (class, state) = state(status, one, now);
                tr {
                    td { (plain(&one.job)) } td { (plain(&one.region)) } td class=(class) { (state) }
                    td { @match one.last_complete {
                        Some(began) => { (span(now.since(began))) " ago" }
                        None => { "never" }
                    } }
                    td { @match one.due_at {
                        Some(at) if at > now => { "in " (span(at.since(now))) }
                        _ => { "now" }
                    } }
                }
            }
        },
    )
}

fn state(status: &Status, region: &RegionStatus, now: Timestamp) -> (&'static str, String) {
    let of_region = |one: &&status::Walking| one.job == region.job && one.region == region.region;
    let stopped = || match &region.stopped_at {
        Some(at) => format!("unfinished: {} pages of {}", count(at.pages), at.call),
        None => "unfinished".to_owned(),
    };
    match status.walking.iter().find(of_region) {
        Some(run) => (
            "good",
            format!(
                "walked by process {} on {}",
                run.process,
                plain(&run.machine)
            ),
        ),
        None if region.unfinished => ("warn", stopped()),
        None if region.due_at.is_none_or(|at| at <= now) => ("warn", "due".to_owned()),
        None => ("good", "fresh".to_owned()),
    }
}
