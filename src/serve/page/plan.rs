//! `/plan`: what the next run would spend, and what a schedule leads to.

use axum::response::Response;
use maud::{Markup, html};
use serde::Deserialize;

use super::chart::Columns;
use super::table::{Cell, UnitColumns, table};
use super::{Reader, lines, text_field};
use crate::cli::ForecastArgs;
use crate::commands::output::{Screen, Style};
use crate::commands::table::{count, span};
use crate::commands::{forecast, forecast_in_words};
use crate::foresight::{Fits, Forecast, LimitForecast, LimitPreview, Preview, StepPreview};
use crate::run::Range;
use crate::serve::App;
use crate::serve::api::{self, PlanParameters};
use crate::serve::problem::Problem;
use ingest_base::plain::plain;

/// `GET /plan`
pub async fn page(reader: Reader) -> Response {
    let asked = reader.filters::<PlanQuery>();
    let form = form(asked.as_ref().unwrap_or(&PlanQuery::default()));
    let content = match &asked {
        Ok(asked) => planned(&reader.app, asked)
            .await
            .map(|planned| planned_shown(&reader, &planned)),
        Err(problem) => Err(problem.clone()),
    };
    reader.view("/plan", &form, content)
}

/// What the view is asked for.
#[derive(Default, Deserialize)]
#[serde(deny_unknown_fields)]
struct PlanQuery {
    region: Option<String>,
    job: Option<String>,
    schedule: Option<String>,
    days: Option<String>,
}

/// What the view shows.
pub struct Planned {
    preview: Preview,
    /// What a schedule leads to; absent if none is asked for.
    forecast: Option<Forecast>,
}

async fn planned(app: &App, asked: &PlanQuery) -> Result<Planned, Problem> {
    let parameters = PlanParameters {
        region: asked.region.clone(),
        job: asked.job.clone(),
    };
    let (regions, jobs) = parameters.selected();
    let schedule = asked
        .schedule
        .clone()
        .filter(|text| !text.trim().is_empty());
    let days = api::number("days", asked.days.as_deref(), USUAL_DAYS)?;
    if days > MOST_DAYS {
        let detail = format!("days: expected a number from 1 to {MOST_DAYS}");
        return Err(Problem::bad_request(detail));
    }
    let preview = api::plan(app, parameters).await?;
    let Some(schedule) = schedule else {
        return Ok(Planned {
            preview,
            forecast: None,
        });
    };
    let arguments = ForecastArgs {
        schedule,
        days,
        regions,
        jobs,
        concurrency: api::CONCURRENCY,
    };
    // The rest of the deadline is for what the simulation starts from.
    let within = app.environment.config.serve.query_timeout / 2;
    let forecast = app
        .simulate(move |environment| async move {
            forecast::report(&environment, &arguments, Some(within)).await
        })
        .await?;
    Ok(Planned {
        preview,
        forecast: Some(forecast),
    })
}

/// The days that a forecast looks ahead. Fewer than in the command, since a page has a deadline.
const USUAL_DAYS: u32 = 2;
/// The most days that a forecast looks ahead, as in the command.
const MOST_DAYS: u32 = 60;
/// The forecast is a text of this many columns.
const SCREEN: Screen = Screen {
    width: Some(110),
    style: Style::Plain,
};

fn form(asked: &PlanQuery) -> Markup {
    html! {
        form method="get" action="/plan" {
            (text_field("region", "Regions", asked.region.as_deref(), "all, or such as US,GB"))
            (text_field("job", "Jobs", asked.job.as_deref(), "all"))
            (text_field("schedule", "Schedule", asked.schedule.as_deref(), "such as hourly"))
            (text_field("days", "Days ahead", asked.days.as_deref(), &USUAL_DAYS.to_string()))
            div { button type="submit" { "Show" } }
        }
    }
}

fn planned_shown(reader: &Reader, planned: &Planned) -> Markup {
    html! {
        h2 { "The next run" }
        (shown(reader, &planned.preview))
        h2 { "Forecast" }
        @match &planned.forecast {
            Some(forecast) => {
                @if forecast.cut { p class="warn" { "This page has no time for more than this; " code { "ingest forecast" } " has all of it." } }
                @for limit in &forecast.limits { (limit_ahead(reader, limit)) }
                details {
                    summary { "All of the forecast, as " code { "ingest forecast" } " writes it" }
                    pre tabindex="0" role="region" aria-label="Forecast" { (lines(&forecast_in_words(forecast, SCREEN))) }
                }
            },
            None => p class="quiet" { "Enter a schedule to see what its runs spend over the days ahead, and where a limit stops them." },
        }
    }
}

fn shown(reader: &Reader, preview: &Preview) -> Markup {
    let due: Vec<_> = preview
        .steps
        .iter()
        .filter(|step| step.due && step.requests.max != Some(0))
        .collect();
    let heads = [
        "Account", "Limit", "Left", "At least", "Expected", "At most", "Fits",
    ];
    let limits = preview.limits.iter().map(|limit| limit_row(reader, limit));
    html! {
        @for one in &preview.held_back {
            p class="warn" { (plain(&one.jobs.join(", "))) ": not requested: " (plain(&one.credential.to_string())) "." }
        }
        @if due.is_empty() && preview.held_back.is_empty() {
            p { "Nothing is due." }
        } @else if !due.is_empty() {
            (requests(&due))
            p class="quiet" { "Retries are not included; each further attempt at a failed request is charged too." }
        }
        h3 { "Limits" }
        (table("What the limits have left now, and what the run would take", &heads, limits.collect()))
    }
}

/// The most columns of a chart; each has the most used units of its hours.
const MOST_COLUMNS: usize = 120;

/// A limit over the days ahead.
fn limit_ahead(reader: &Reader, limit: &LimitForecast) -> Markup {
    let hours = limit.used.len().div_ceil(MOST_COLUMNS).max(1);
    let columns = limit.used.chunks(hours);
    let times = columns
        .clone()
        .filter_map(|hours| Some(reader.tick(hours.first()?.at)));
    let most = columns.map(|hours| {
        hours
            .iter()
            .map(|one| one.units.get())
            .max()
            .unwrap_or_default()
    });
    let name = format!("{}/{}", limit.account, limit.limit);
    let chart = Columns {
        caption: &format!("Units that {} counts, hour by hour", plain(&name)),
        limit: &name,
        jobs: vec![("used", most.collect())],
        times: times.collect(),
        enforced: Some(limit.enforced.get()),
    };
    html! {
        section class="limit" {
            h3 { (plain(&name)) }
            p { strong { (count(limit.units.get())) } " units charged, at most " (count(limit.most_used.get())) " of " (count(limit.enforced.get())) " used at an hour" }
            @if let Some(hit) = &limit.first_hit {
                p class="warn" {
                    "It stops " (plain(&hit.call)) " of " (plain(&hit.job)) " " (plain(&hit.region)) " at " (reader.minute(hit.at))
                    "; that fits at " (reader.minute(hit.retry_at)) "."
                }
            }
            (chart.shown())
        }
    }
}

/// What the run would request; the units are the expected ones.
fn requests(due: &[&StepPreview]) -> Markup {
    let units = UnitColumns::of(due.iter().flat_map(|step| step.units.keys()));
    let heads = ["Job", "Region", "Call", "At least", "Expected", "At most"];
    let heads = [&heads[..], &units.heads()].concat();
    let rows = due.iter().map(|step| {
        let charged: Vec<_> = step
            .units
            .iter()
            .map(|(limit, units)| (limit, units.expected))
            .collect();
        let mut row = vec![
            Cell::text(&step.job),
            Cell::text(&step.region),
            Cell::text(&step.call),
        ];
        row.extend(range(step.requests));
        row.extend(units.cells(&charged));
        row
    });
    table(
        "The requests of the next run, and the units that they are expected to take; nothing is charged",
        &heads,
        rows.collect(),
    )
}

fn limit_row(reader: &Reader, limit: &LimitPreview) -> Vec<Cell> {
    let (class, fits) = match limit.fits {
        Fits::All => ("good", "yes"),
        Fits::Part => ("warn", "in part"),
        Fits::None => ("bad", "not now"),
        Fits::Unknown => ("bad", "unknown: no ledger"),
    };
    let fits = html! {
        (fits)
        @if let Some(first) = &limit.first_unfit {
            ": stops at " (plain(&first.call)) " of " (plain(&first.job)) " " (plain(&first.region))
            "; fits in " (span(first.retry_after)) " (" (reader.time(first.retry_at)) ")"
        }
    };
    let left = limit
        .remaining
        .map_or_else(|| "?".to_owned(), |units| count(units.get()));
    let mut row = vec![
        Cell::text(&limit.account),
        Cell::text(&limit.limit),
        Cell::new("number", html! { (left) }),
    ];
    row.extend(range(limit.units));
    row.push(Cell::new(class, fits));
    row
}

/// At least, expected, at most.
fn range(range: Range) -> [Cell; 3] {
    let most = range.max.map_or_else(|| "unbounded".to_owned(), count);
    [
        Cell::number(range.min),
        Cell::number(range.expected),
        Cell::new("number", html! { (most) }),
    ]
}
