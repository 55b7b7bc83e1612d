//! `/search`: records by their words.

use axum::response::Response;
use maud::{Markup, html};
use std::collections::BTreeMap;

use super::{
    Detail, Reader, columns_of, details, kind_and_region, lines, linked, name_of, text_field,
};
use crate::commands::table::counted;
use crate::commands::{export, search};
use crate::serve::App;
use crate::serve::api::{MOST, SearchParameters};
use crate::serve::problem::Problem;
use ingest_base::plain::{one_line, plain};
use ingest_catalog::{SearchHit, SearchResults};
use ingest_config::Pointer;

/// The marks of a found word in an excerpt.
const MARKS: [char; 2] = ['\u{e000}', '\u{e001}'];

/// The columns of each kind of record.
type Columns = BTreeMap<String, BTreeMap<String, Vec<Pointer>>>;

/// `GET /search`
pub async fn page(reader: Reader) -> Response {
    let asked = reader.filters::<SearchParameters>();
    let form = form(
        &reader,
        asked.as_ref().unwrap_or(&SearchParameters::default()),
    );
    let content = match &asked {
        Ok(asked) => content(&reader, asked).await,
        Err(problem) => Err(problem.clone()),
    };
    reader.view("/search", &form, content)
}

async fn content(reader: &Reader, asked: &SearchParameters) -> Result<Markup, Problem> {
    let mut extended = asked.clone();
    extended.q = with_star(&asked.q);
    Ok(match find(&reader.app, &extended).await? {
        None => html! { (hint()) (browse(reader)) },
        Some(results) => results_shown(reader, &results, asked),
    })
}

/// The ways to records without words.
fn browse(reader: &Reader) -> Markup {
    html! {
        ul class="legend" {
            @for kind in reader.app.environment.config.kinds() {
                li { a href=(reader.to("/records", &[("kind", Some(kind))])) { "All records of kind " (plain(kind)) } }
            }
        }
    }
}

fn hint() -> Markup {
    html! {
        p class="quiet" {
            "A record is found if it contains all of the words. " code { "pupp*" }
            " stands for every word that begins so; the last word does so by itself."
        }
    }
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

fn form(reader: &Reader, asked: &SearchParameters) -> Markup {
    html! {
        form method="get" action="/search" role="search" {
            div class="words" {
                label for="q" { "Words" }
                input type="search" id="q" name="q" value=(asked.q) required maxlength="1024" autocomplete="off";
            }
            (kind_and_region(&reader.app.environment.config, asked.kind.as_deref(), asked.region.as_deref()))
            (text_field("since", "Seen within", asked.since.as_deref(), "such as 7d"))
            div { button type="submit" { "Search" } }
        }
    }
}

fn results_shown(reader: &Reader, results: &SearchResults, asked: &SearchParameters) -> Markup {
    let mut columns = Columns::new();
    for hit in &results.hits {
        // The catalog has records of kinds that the configuration has no longer.
        let of_kind = || export::columns(&reader.app.environment, &hit.kind).unwrap_or_default();
        columns.entry(hit.kind.clone()).or_insert_with(of_kind);
    }
    html! {
        h2 { (found_words(results, asked)) }
        // The command names its options there, which are fields on the page.
        @if let Some(bounded) = search::bounded(results) { p class="warn" { (bounded.replace("--", "")) } }
        @if results.hits.is_empty() { (hint()) }
        @for hit in &results.hits { (hit_shown(reader, hit, columns.get(&hit.kind))) }
        @if let Some(more) = more(reader, results, asked) { p { a href=(more) { "Show more" } } }
    }
}

fn found_words(results: &SearchResults, asked: &SearchParameters) -> String {
    match results.hits.len() as u64 {
        0 => "No record contains these words".to_owned(),
        hits if hits == limit(asked) => format!("The best {}", counted(hits, "record")),
        hits => counted(hits, "record"),
    }
}

/// The number of hits that are asked for.
fn limit(asked: &SearchParameters) -> u64 {
    asked
        .arguments()
        .map_or(0, |arguments| u64::from(arguments.limit))
}

/// The address of the same search with more hits; `None` where there are no more, or not more than are shown.
fn more(reader: &Reader, results: &SearchResults, asked: &SearchParameters) -> Option<String> {
    let limit = limit(asked);
    let next = (limit * 5).min(u64::from(MOST));
    let has_more = results.hits.len() as u64 == limit && next > limit;
    let next = next.to_string();
    let filters = [
        ("q", Some(&*asked.q)),
        ("kind", asked.kind.as_deref()),
        ("region", asked.region.as_deref()),
        ("since", asked.since.as_deref()),
        ("limit", Some(&next)),
    ];
    has_more.then(|| reader.to("/search", &filters))
}

fn hit_shown(
    reader: &Reader,
    hit: &SearchHit,
    columns: Option<&BTreeMap<String, Vec<Pointer>>>,
) -> Markup {
    let name = name_of(
        &reader.app.environment,
        (&hit.upstream, &hit.kind, &hit.id),
        &hit.body,
    );
    let values = columns.map_or_else(Vec::new, |columns| columns_of(columns, &hit.body));
    let body = serde_json::to_string_pretty(&hit.body).unwrap_or_default();
    let to = reader.to_record((&hit.upstream, &hit.kind, &hit.id));
    html! {
        article {
            h3 { a href=(to) { (name) } }
            p class="quiet" { (plain(&hit.upstream)) " " (plain(&hit.kind)) " " (plain(&hit.id)) ", last seen " (reader.time(hit.last_seen)) }
            p { (marked(&hit.excerpt)) }
            (details(values.iter().filter(|(_, text)| one_line(text) != name).map(|(name, text)| Detail::new(name, linked(text)))))
            details {
                summary { "The record as JSON" }
                pre tabindex="0" role="region" aria-label="The record as JSON" { (lines(&body)) }
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
