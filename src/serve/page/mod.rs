//! The page, for people: rendered here, without scripts. Each view has its filters in its address, and a twin in JSON.

mod chart;
mod history;
mod home;
mod limit;
mod plan;
mod record;
mod search;
mod spend;

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;
use std::sync::{Arc, LazyLock};

use axum::Router;
use axum::http::{HeaderMap, HeaderValue, StatusCode, Uri, header};
use axum::response::{IntoResponse, Response};
use axum::routing::get;
use maud::{DOCTYPE, Markup, html};
use percent_encoding::{NON_ALPHANUMERIC, utf8_percent_encode};
use ring::digest::{SHA256, digest};
use serde_json::Value;
use url::Url;

use super::App;
use super::openapi::{Get, Record, SEARCH_QUERY, SINCE, Schemas};
use super::problem::Problem;
use super::tagged::tagged;
use crate::commands::environment::Environment;
use crate::commands::search::SearchReport;
use ingest_base::plain::{one_line, plain};
use ingest_catalog::PassId;
use ingest_config::Pointer;
use ingest_quota::Timestamp;

const STYLE: &str = include_str!("style.css");

/// The address of the style sheet, which changes with it: browsers keep it for ever.
static STYLE_PATH: LazyLock<String> = LazyLock::new(|| {
    let hash = digest(&SHA256, STYLE.as_bytes());
    let hash: String = hash
        .as_ref()
        .iter()
        .take(8)
        .map(|byte| format!("{byte:02x}"))
        .collect();
    format!("/style-{hash}.css")
});

const HTML: &str = "text/html; charset=utf-8";

/// The twins of the views in JSON.
pub const TWINS: [Get; 6] = [
    Get {
        path: "/index.json",
        summary: "The overview: status, the spend of a day by job, and what failed last",
        query: &[("regions", "Accepted, as for the page; there are always all")],
        content: Schemas::json::<home::Overview>,
    },
    Get {
        path: "/search.json",
        summary: "As /api/v1/search; the last word stands for every word that begins so",
        query: &SEARCH_QUERY,
        content: Schemas::json::<SearchReport<'_>>,
    },
    Get {
        path: "/history.json",
        summary: "As /api/v1/history; with a job or a region also its passes",
        query: &[
            SINCE,
            ("job", "Only this job"),
            ("region", "Only this region"),
        ],
        content: Schemas::json::<history::Passes>,
    },
    Get {
        path: "/pass.json",
        summary: "A pass",
        query: &[("id", "Its number; required")],
        content: Schemas::json::<history::PassShown>,
    },
    Get {
        path: "/record.json",
        summary: "As /api/v1/records/{kind}/{id}",
        query: &[
            ("kind", "Required"),
            ("id", "Required"),
            (
                "upstream",
                "Required where several upstreams have a record of this kind and id",
            ),
        ],
        content: Schemas::json::<Record>,
    },
    Get {
        path: "/plan.json",
        summary: "As /api/v1/plan; with a schedule also the forecast of its runs",
        query: &[
            ("region", "Regions, separated by commas; all if absent"),
            ("job", "Jobs, separated by commas; all if absent"),
            ("schedule", "When runs start, such as hourly"),
            ("days", "The days ahead, up to 60; 2 if absent"),
        ],
        content: Schemas::json::<plan::Planned>,
    },
];

pub fn routes() -> Router<Arc<App>> {
    Router::new()
        .route("/", get(home::page))
        .route("/index.json", get(home::json))
        .route("/search", get(search::page))
        .route("/search.json", get(search::json))
        .route("/history", get(history::page))
        .route("/history.json", get(history::json))
        .route("/pass", get(history::pass_page))
        .route("/pass.json", get(history::pass_json))
        .route("/record", get(record::page))
        .route("/record.json", get(record::json))
        .route("/plan", get(plan::page))
        .route("/plan.json", get(plan::json))
        .route(&STYLE_PATH, get(style))
}

async fn style() -> Response {
    let headers = [
        (header::CONTENT_TYPE, "text/css; charset=utf-8"),
        (header::CACHE_CONTROL, "public, max-age=31536000, immutable"),
    ];
    (headers, STYLE).into_response()
}

/// The views, in the order of the navigation: address and name.
const VIEWS: [(&str, &str); 4] = [
    ("/", "Overview"),
    ("/search", "Search"),
    ("/history", "History"),
    ("/plan", "Plan"),
];

/// A view of the navigation: its form, and what it shows, or what is wrong, beside the form in which it can be corrected.
fn view(
    headers: &HeaderMap,
    path: &str,
    form: &Markup,
    content: Result<Markup, Problem>,
) -> Response {
    let name = VIEWS.iter().find(|(known, _)| *known == path);
    let name = name.map_or("ingest", |(_, name)| *name);
    match content {
        Ok(content) => found(headers, layout(path, name, &html! { (form) (content) })),
        Err(problem) => failed(
            &problem,
            layout(path, name, &html! { (form) (alert(&problem)) }),
        ),
    }
}

/// A page below a view of the navigation: its title, and what it shows, or what is wrong.
fn page_below(
    headers: &HeaderMap,
    path: &str,
    content: Result<(String, Markup), Problem>,
) -> Response {
    match content {
        Ok((title, content)) => found(headers, layout(path, &title, &content)),
        Err(problem) => failed(&problem, layout(path, &problem.title, &alert(&problem))),
    }
}

fn found(headers: &HeaderMap, page: Markup) -> Response {
    tagged(headers, page.into_string(), HTML)
}

fn failed(problem: &Problem, page: Markup) -> Response {
    let status = StatusCode::from_u16(problem.status).unwrap_or_default();
    let content_type = [(header::CONTENT_TYPE, HTML)];
    let mut response = (status, content_type, page.into_string()).into_response();
    if let Some(seconds) = problem.retry_after {
        let headers = response.headers_mut();
        headers.insert(header::RETRY_AFTER, HeaderValue::from(seconds));
    }
    response
}

fn alert(problem: &Problem) -> Markup {
    let text = plain(&problem.detail);
    let mut rest = text.chars();
    let first = rest.next().into_iter().flat_map(char::to_uppercase);
    let text: String = first.chain(rest).collect();
    html! { p role="alert" class="bad" { (text) "." } }
}

fn layout(path: &str, title: &str, content: &Markup) -> Markup {
    html! {
        (DOCTYPE)
        html lang="en" {
            head {
                meta charset="utf-8";
                title { (title) " · ingest" }
                meta name="viewport" content="width=device-width, initial-scale=1";
                meta name="color-scheme" content="light dark";
                link rel="stylesheet" href=(*STYLE_PATH);
            }
            body {
                a class="skip" href="#content" { "Skip to the content" }
                header {
                    nav aria-label="Views" {
                        ul {
                            @for (to, name) in VIEWS {
                                li { a href=(to) aria-current=[(to == path).then_some("page")] { (name) } }
                            }
                        }
                    }
                }
                main id="content" tabindex="-1" {
                    h1 { (title) }
                    (content)
                }
            }
        }
    }
}

/// A table whose columns from `numbers` on, up to the end of that range, hold numbers. It scrolls by itself where the screen is
/// narrow; the keyboard reaches it, since only then it can be scrolled.
fn table(caption: &str, heads: &[&str], numbers: Range<usize>, rows: &Markup) -> Markup {
    html! {
        div class="wide" tabindex="0" role="region" aria-label=(caption) {
            table {
                caption { (caption) }
                thead { tr {
                    @for (place, head) in heads.iter().enumerate() {
                        th scope="col" class=[numbers.contains(&place).then_some("number")] { (head) }
                    }
                } }
                tbody { (rows) }
            }
        }
    }
}

/// Text of several lines, without characters that mislead.
fn lines(text: &str) -> String {
    text.split('\n').map(plain).collect::<Vec<_>>().join("\n")
}

/// A field of a form, with an example.
fn text_field(name: &str, label: &str, value: Option<&str>, example: &str) -> Markup {
    html! {
        div {
            label for=(name) { (label) }
            input type="text" id=(name) name=(name) value=(value.unwrap_or_default()) placeholder=(example) autocomplete="off";
        }
    }
}

/// A field of a form that has one of these values, or any. The list has the chosen one even if it is none of them.
fn choice(name: &str, label: &str, values: &BTreeSet<&str>, chosen: Option<&str>) -> Markup {
    let other = chosen.filter(|chosen| !values.contains(chosen));
    html! {
        div {
            label for=(name) { (label) }
            select id=(name) name=(name) {
                option value="" { "any" }
                @for value in other.iter().chain(values) {
                    option value=(value) selected[chosen == Some(*value)] { (plain(value)) }
                }
            }
        }
    }
}

/// A name and what it stands for; `None`: it is left out.
struct Detail<'a>(&'a str, Option<Markup>);

impl<'a> Detail<'a> {
    fn new(name: &'a str, value: Markup) -> Self {
        Self(name, Some(value))
    }

    const fn maybe(name: &'a str, value: Option<Markup>) -> Self {
        Self(name, value)
    }
}

fn details<'a>(all: impl IntoIterator<Item = Detail<'a>>) -> Markup {
    html! {
        dl {
            @for Detail(name, value) in all {
                @if let Some(value) = value { div { dt { (plain(name)) } dd { (value) } } }
            }
        }
    }
}

/// What people call a record: the first of its texts; its id if it has none.
fn name_of(
    environment: &Environment,
    (upstream, kind, id): (&str, &str, &str),
    body: &Value,
) -> String {
    let upstream = environment.config.upstreams.get(upstream);
    let calls = upstream
        .into_iter()
        .flat_map(|upstream| upstream.calls.values());
    let records = calls.filter_map(|call| call.records.as_deref());
    let texts = records
        .filter(|records| records.kind == kind)
        .flat_map(|records| &records.text);
    let mut texts = texts.filter_map(|at| at.find(body)?.as_str());
    let name = texts.find(|text| !text.trim().is_empty()).map(one_line);
    name.unwrap_or_else(|| plain(id))
}

/// The columns that a record has values for.
fn columns_of<'c>(
    columns: &'c BTreeMap<String, Vec<Pointer>>,
    body: &Value,
) -> Vec<(&'c str, String)> {
    let values = columns.iter().filter_map(|(name, places)| {
        let found = |at: &Pointer| at.find(body).filter(|value| !value.is_null()).cloned();
        let text = match places.iter().find_map(found)? {
            Value::String(text) => text,
            value => value.to_string(),
        };
        Some((name.as_str(), text))
    });
    values.collect()
}

/// Text, as a link if it is an address of the web.
fn linked(text: &str) -> Markup {
    let url = Url::parse(text).ok();
    let url = url.filter(|url| matches!(url.scheme(), "http" | "https"));
    html! {
        @match url {
            Some(url) => a href=(url.as_str()) rel="noreferrer" { (plain(text)) },
            None => (plain(text)),
        }
    }
}

fn pass_link(pass: PassId, text: &str) -> Markup {
    html! { a href=(format!("/pass?id={}", pass.0)) { (text) } }
}

/// An instant to the minute.
fn minute(at: Timestamp) -> String {
    at.to_utc().format("%Y-%m-%d %H:%M UTC").to_string()
}

/// A value of a query.
fn encoded(text: &str) -> String {
    utf8_percent_encode(text, NON_ALPHANUMERIC).to_string()
}

/// The query of an address with its question mark; empty if it has none.
fn query_of(uri: &Uri) -> String {
    uri.query()
        .map_or_else(String::new, |query| format!("?{query}"))
}
