//! What the next run would spend, and what a schedule leads to.

use std::sync::Arc;
use std::time::Duration;

use axum::extract::State;
use axum::http::Uri;
use axum::response::Response;
use serde::Deserialize;

use super::form::{field, form};
use super::view;
use crate::cli::ForecastArgs;
use crate::commands::forecast;
use crate::doc::html;
use crate::doc::{Phrase, Tone};
use crate::serve::App;
use crate::serve::api;
use crate::serve::problem::Problem;
use crate::serve::query::{Filled, parameters};

/// What a plan is asked for.
#[derive(Default, Deserialize)]
#[serde(deny_unknown_fields)]
struct PlanFilter {
    region: Filled,
    job: Filled,
    schedule: Filled,
    days: Filled,
}

/// The days that a forecast looks ahead. Fewer than in the command, since a page has a deadline.
const USUAL_DAYS: u32 = 2;
/// The most days that a forecast looks ahead, as in the command.
const MOST_DAYS: u32 = 60;

/// `GET /plan`: what the next run would spend, and what a schedule leads to.
pub async fn plan_page(State(app): State<Arc<App>>, uri: Uri) -> Response {
    let asked = parameters::<PlanFilter>(&uri);
    let usual = PlanFilter::default();
    let filter = asked.as_ref().unwrap_or(&usual);
    let fields = [
        field(
            ("region", "Regions"),
            filter.region.get(),
            "all, or such as US,GB",
        ),
        field(("job", "Jobs"), filter.job.get(), "all"),
        field(
            ("schedule", "Schedule"),
            filter.schedule.get(),
            "such as hourly",
        ),
        field(
            ("days", "Days ahead"),
            filter.days.get(),
            &USUAL_DAYS.to_string(),
        ),
    ];
    let form = form("/plan", "Show", &fields);
    let shown = match &asked {
        Ok(asked) => planned(&app, asked).await,
        Err(problem) => Err(problem.clone()),
    };
    view(&app, "/plan", &form, shown)
}

async fn planned(app: &App, asked: &PlanFilter) -> Result<String, Problem> {
    let (regions, jobs) = api::selected(&asked.region, &asked.job);
    let days = asked.days.number("days", USUAL_DAYS)?;
    if days > MOST_DAYS {
        let detail = format!("days: expected a number from 1 to {MOST_DAYS}");
        return Err(Problem::bad_request(detail));
    }
    let mut doc = api::plan(app, (regions.clone(), jobs.clone())).await?.doc();
    let Some(schedule) = asked.schedule.get().filter(|text| !text.trim().is_empty()) else {
        let enter = "Enter a schedule to see what its runs spend over the days ahead, and where a limit stops them.";
        doc.say(Phrase::toned(enter, Tone::Quiet));
        return Ok(html::html(&doc));
    };
    let arguments = ForecastArgs {
        schedule: schedule.to_owned(),
        days,
        regions,
        jobs,
        concurrency: api::CONCURRENCY,
    };
    // The rest of the deadline is for what the simulation starts from.
    let within: Duration = app.environment.config.serve.query_timeout / 2;
    let forecast = app.simulate(move |environment| async move {
        forecast::report(&environment, &arguments, Some(within)).await
    });
    let forecast = forecast.await?;
    let mut ahead = forecast.doc();
    if let (true, Some(head)) = (forecast.cut, ahead.parts.first_mut()) {
        let cut = "This page has no time for more than this; `ingest forecast` has all of it.";
        head.say(Phrase::toned(cut, Tone::Warn));
    }
    doc.parts.extend(ahead.parts);
    Ok(html::html(&doc))
}
