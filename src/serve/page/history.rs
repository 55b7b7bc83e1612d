//! `/history`: passes and spend by day, job and region.

use std::sync::Arc;

use axum::extract::State;
use axum::http::{HeaderMap, Uri};
use axum::response::Response;
use maud::{Markup, html};

use super::{table, view};
use crate::commands::history::{self, History, Row};
use crate::commands::table::count;
use crate::plain::plain;
use crate::serve::App;
use crate::serve::api::{HistoryParameters, parameters};
use crate::serve::problem::Problem;

/// `GET /history`
pub async fn page(State(app): State<Arc<App>>, uri: Uri, headers: HeaderMap) -> Response {
    let content = content(&app, &uri).await;
    view(&headers, "/history", content)
}

async fn content(app: &App, uri: &Uri) -> Result<Markup, Problem> {
    let parameters: HistoryParameters = parameters(uri)?;
    let since = parameters.since()?;
    let history = app
        .read(move |environment| async move {
            let since = environment.clock.now() - since;
            history::report(&environment, since).await
        })
        .await?;
    Ok(shown(
        &history,
        parameters.since.as_deref().unwrap_or("30d"),
        uri,
    ))
}

fn shown(history: &History, since: &str, uri: &Uri) -> Markup {
    let query = uri.query().map(|query| format!("?{query}"));
    // Newest first: a page is read from the top.
    let days: Vec<&[Row]> = history
        .rows
        .chunk_by(|one, next| one.day == next.day)
        .rev()
        .collect();
    html! {
        form method="get" action="/history" {
            div {
                label for="since" { "Started within, such as 30d" }
                input type="text" id="since" name="since" value=(since);
            }
            div { button type="submit" { "Show" } }
        }
        @if days.is_empty() { p { "Nothing was fetched or charged in this period." } }
        @for rows in days { (day(rows)) }
        p class="quiet" { a href=(format!("/history.json{}", query.unwrap_or_default())) { "JSON" } }
    }
}

fn day(rows: &[Row]) -> Markup {
    let day = rows.first().map_or("", |row| &row.day);
    let units = |row: &Row| {
        let units = row
            .units
            .iter()
            .map(|(limit, units)| format!("{} {limit}", count(*units)));
        units.collect::<Vec<_>>().join(", ")
    };
    html! {
        h2 { (day) }
        (table(&format!("Passes of {day} (UTC)"), &["Job", "Region", "Complete", "Pages", "Records", "Requests", "Units"], &html! {
            @for row in rows {
                tr {
                    td { (row.job.as_deref().map_or_else(|| "by hand".to_owned(), plain)) }
                    td { (plain(row.region.as_deref().unwrap_or("-"))) }
                    td { @if row.passes > 0 { (count(row.complete)) " of " (count(row.passes)) } @else { "-" } }
                    td class="number" { (count(row.pages)) } td class="number" { (count(row.records)) }
                    td class="number" { (count(row.requests)) } td { (plain(&units(row))) }
                }
            }
        }))
    }
}
