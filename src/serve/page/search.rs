//! `/search`: records by their words.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use axum::extract::State;
use axum::http::{HeaderMap, Uri};
use axum::response::Response;
use maud::{Markup, html};
use url::Url;

use super::{lines, view};
use crate::catalog::{SearchHit, SearchResults};
use crate::commands::environment::Environment;
use crate::commands::search::SearchReport;
use crate::commands::table::instant;
use crate::commands::{export, search};
use crate::config::Pointer;
use crate::plain::plain;
use crate::serve::App;
use crate::serve::api::{SearchParameters, parameters, tagged_json};
use crate::serve::problem::Problem;

/// The marks of a found word in an excerpt.
const MARKS: [char; 2] = ['\u{e000}', '\u{e001}'];

/// The columns of each kind of record.
type Columns = BTreeMap<String, BTreeMap<String, Vec<Pointer>>>;

/// `GET /search`
pub async fn page(State(app): State<Arc<App>>, uri: Uri, headers: HeaderMap) -> Response {
    let content = content(&app, &uri).await;
    view(&headers, "/search", content)
}

/// `GET /search.json`
pub async fn json(
    State(app): State<Arc<App>>,
    uri: Uri,
    headers: HeaderMap,
) -> Result<Response, Problem> {
    let mut asked: SearchParameters = parameters(&uri)?;
    asked.q = with_star(&asked.q);
    let results = find(&app, &asked).await?.unwrap_or_default();
    Ok(tagged_json(&headers, &SearchReport::of(&results)))
}

async fn content(app: &App, uri: &Uri) -> Result<Markup, Problem> {
    let asked: SearchParameters = parameters(uri)?;
    let mut extended = asked.clone();
    extended.q = with_star(&asked.q);
    let found = find(app, &extended).await;
    // What is wrong stands beside the form, so that it can be corrected.
    let shown = match found {
        Ok(None) => Markup::default(),
        Ok(Some(results)) => results_shown(&app.environment, &results, uri),
        Err(problem) if problem.status == 400 => {
            html! { p role="alert" class="bad" { (plain(&problem.detail)) "." } }
        }
        Err(problem) => return Err(problem),
    };
    Ok(html! { (form(&app.environment, &asked)) (shown) })
}

/// Returns the records; `None` if no words are asked for.
async fn find(app: &App, asked: &SearchParameters) -> Result<Option<SearchResults>, Problem> {
    if asked.q.trim().is_empty() {
        return Ok(None);
    }
    let arguments = asked.arguments()?;
    app.read(move |environment| async move { search::find(&environment, &arguments).await })
        .await
        .map(Some)
}

/// The words, the last of them as the beginning of a word: it may still be typed.
fn with_star(words: &str) -> String {
    match words.chars().last() {
        Some(last) if last.is_alphanumeric() => format!("{words}*"),
        _ => words.to_owned(),
    }
}

fn form(environment: &Environment, asked: &SearchParameters) -> Markup {
    let calls = environment
        .config
        .upstreams
        .values()
        .flat_map(|upstream| upstream.calls.values());
    let kinds: BTreeSet<&str> = calls
        .filter_map(|call| Some(&*call.records.as_ref()?.kind))
        .collect();
    let regions: BTreeSet<&str> = environment
        .config
        .regions
        .iter()
        .map(|region| &*region.code)
        .collect();
    html! {
        form method="get" action="/search" role="search" {
            div class="words" {
                label for="q" { "Words; a record must contain all of them" }
                input type="search" id="q" name="q" value=(asked.q) required maxlength="1024" autocomplete="off";
            }
            (choice("kind", "Kind", &kinds, asked.kind.as_deref()))
            (choice("region", "Region", &regions, asked.region.as_deref()))
            div {
                label for="since" { "Seen within, such as 7d" }
                input type="text" id="since" name="since" value=(asked.since.as_deref().unwrap_or_default());
            }
            div { button type="submit" { "Search" } }
        }
    }
}

fn choice(name: &str, label: &str, values: &BTreeSet<&str>, chosen: Option<&str>) -> Markup {
    html! {
        div {
            label for=(name) { (label) }
            select id=(name) name=(name) {
                option value="" { "any" }
                @for value in values {
                    option value=(value) selected[chosen == Some(*value)] { (plain(value)) }
                }
            }
        }
    }
}

fn results_shown(environment: &Environment, results: &SearchResults, uri: &Uri) -> Markup {
    let mut columns = Columns::new();
    for hit in &results.hits {
        let of_kind = || export::columns(environment, &hit.kind).unwrap_or_default();
        columns.entry(hit.kind.clone()).or_insert_with(of_kind);
    }
    let twin = uri.query().map(|query| format!("/search.json?{query}"));
    html! {
        h2 { (results.hits.len()) @if results.hits.len() == 1 { " record" } @else { " records" } }
        @if let Some(bounded) = search::bounded(results) { p class="warn" { (bounded) } }
        @for hit in &results.hits { (hit_shown(hit, columns.get(&hit.kind))) }
        p class="quiet" { a href=(twin.unwrap_or_default()) { "JSON" } }
    }
}

fn hit_shown(hit: &SearchHit, columns: Option<&BTreeMap<String, Vec<Pointer>>>) -> Markup {
    let values = columns.into_iter().flatten().filter_map(|(name, places)| {
        let value = places
            .iter()
            .find_map(|at| at.find(&hit.body).filter(|value| !value.is_null()))?;
        let text = value
            .as_str()
            .map_or_else(|| value.to_string(), str::to_owned);
        Some((name, text))
    });
    let body = serde_json::to_string_pretty(&hit.body).unwrap_or_default();
    html! {
        article {
            p { (marked(&hit.excerpt)) }
            p class="quiet" { (plain(&hit.upstream)) " " (plain(&hit.kind)) " " (plain(&hit.id)) ", last seen " (instant(hit.last_seen)) }
            dl {
                @for (name, text) in values { dt { (plain(name)) } dd { (linked(&text)) } }
            }
            details {
                summary { "The record as JSON" }
                pre tabindex="0" { (lines(&body)) }
            }
        }
    }
}

/// Text with the found words marked.
fn marked(excerpt: &str) -> Markup {
    let parts: Vec<&str> = excerpt.split(MARKS).collect();
    html! {
        @for (place, part) in parts.iter().enumerate() {
            @if place % 2 == 1 { mark { (plain(part)) } } @else { (plain(part)) }
        }
    }
}

/// Text, as a link if it is an address of the web.
fn linked(text: &str) -> Markup {
    let url = Url::parse(text)
        .ok()
        .filter(|url| matches!(url.scheme(), "http" | "https"));
    html! {
        @match url {
            Some(url) => a href=(url.as_str()) rel="noreferrer" { (plain(text)) },
            None => (plain(text)),
        }
    }
}
