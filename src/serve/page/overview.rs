//! What failed last, the limits with the spend of a day, and the age of each region.

use std::sync::Arc;

use axum::extract::State;
use axum::http::Uri;
use axum::response::Response;
use serde::Deserialize;

use super::form::link;
use super::view;
use crate::commands::environment::Environment;
use crate::commands::figures::{counted, instant};
use crate::commands::status::{self, parts, standing};
use crate::doc::html;
use crate::doc::{Doc, DocBlock, PageLink, Phrase, Section, Tone};
use crate::serve::App;
use crate::serve::day::{self, DayCharts};
use crate::serve::problem::Problem;
use crate::serve::query::{Filled, parameters};
use ingest_quota::Timestamp;

#[derive(Default, Deserialize)]
#[serde(deny_unknown_fields)]
struct OverviewFilter {
    /// `all`: every region, however many there are.
    regions: Filled,
}

/// How many regions are shown unless all are asked for.
const MOST_REGIONS: usize = 100;

/// `GET /`: what failed last, the limits with the spend of a day, and the age of each region.
pub async fn overview_page(State(app): State<Arc<App>>, uri: Uri) -> Response {
    view(&app, "/", "", overview(&app, &uri).await)
}

async fn overview(app: &App, uri: &Uri) -> Result<String, Problem> {
    let asked: OverviewFilter = parameters(uri)?;
    let most = match asked.regions.get() {
        Some("all") => usize::MAX,
        Some(_) | None => MOST_REGIONS,
    };
    let read = |environment: Arc<Environment>| async move {
        let now = environment.clock.now();
        let status = status::report(&environment, None).await?;
        Ok((status, day::charts(&environment, now).await?, now))
    };
    let (status, charts, now) = app.read(read).await?;
    let mut head = Doc::default();
    head.say(parts::verdict(standing::summary_in_full(&status, now)));
    let nothing = parts::nothing_yet(&status).or_else(|| status.lost_catalog.clone());
    nothing.into_iter().for_each(|nothing| head.say(nothing));
    head.add(parts::held_back(&status.held_back));
    let mut failed = Section::headed("What failed last");
    failed.say_all(parts::failures_apart(&status, now));
    if failed.blocks.is_empty() {
        failed.say(Phrase::toned(
            "Nothing failed in the last pass over any region.",
            Tone::Good,
        ));
    }
    head.add(failed);
    let mut rest = Doc::default();
    let mut regions = parts::regions(&status, most, now);
    let hidden = status.regions.len().saturating_sub(most);
    if hidden > 0 {
        let more = format!("Show {}", counted(hidden as u64, "more region"));
        regions.say(link(&more, PageLink::to("/", &[("regions", Some("all"))])));
    }
    rest.add(regions);
    let mut notes = Section::headed("Notes");
    notes.say_all(parts::notes(&status));
    rest.add(notes);
    rest.add(parts::batches(&status.batches));
    rest.add(parts::walking(&status.walking));
    rest.add(parts::spend(&status.spend, false));
    rest.say(Phrase::toned(
        format!("As of {}.", instant(now)),
        Tone::Quiet,
    ));
    let limits = limits(&status, charts, now);
    Ok(html::html(&head) + &limits + &html::html(&rest))
}

fn limits(status: &status::Status, mut charts: DayCharts, now: Timestamp) -> String {
    let mut doc = Doc::default();
    for limit in &status.limits {
        let mut part = parts::limit(status, limit, now);
        let chart = charts.take(&limit.report.account, &limit.report.limit);
        part.blocks.extend(chart.map(DocBlock::Chart));
        doc.add(part);
    }
    let bars = doc.parts.iter().flat_map(|part| &part.blocks);
    let bars = bars.filter_map(|block| match block {
        DocBlock::Bar(bar) => Some(bar),
        _ => None,
    });
    let legend = html::legend(bars);
    format!("<h2 id=\"limits\">Limits</h2>{legend}{}", html::html(&doc))
}
