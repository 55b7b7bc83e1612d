//! The page, for people: rendered here, without scripts. Each view has its filters in its address.

mod browse;
mod charges;
mod chart;
mod frame;
mod history;
mod home;
mod limit;
mod plan;
mod reader;
mod record;
mod search;
mod spend;
mod table;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, LazyLock};

use axum::Router;
use axum::http::header;
use axum::response::{IntoResponse, Response};
use axum::routing::get;
use maud::{Markup, html};
use percent_encoding::{NON_ALPHANUMERIC, utf8_percent_encode};
use ring::digest::{SHA256, digest};
use serde_json::Value;
use url::Url;

pub use self::frame::problem_page;
pub use self::reader::Reader;
use super::App;
use crate::commands::environment::Environment;
use ingest_base::plain::{one_line, plain};
use ingest_config::{Config, Pointer};

const STYLE: &str = include_str!("style.css");
const ICON: &str = include_str!("icon.svg");

/// The addresses of the style sheet and the icon, which change with them: browsers keep them for ever.
static STYLE_PATH: LazyLock<String> = LazyLock::new(|| format!("/style-{}.css", hash_of(STYLE)));
static ICON_PATH: LazyLock<String> = LazyLock::new(|| format!("/icon-{}.svg", hash_of(ICON)));
/// Where browsers look for an icon by themselves.
const USUAL_ICON_PATH: &str = "/favicon.ico";

fn hash_of(text: &str) -> String {
    let hash = digest(&SHA256, text.as_bytes());
    let start = hash.as_ref().iter().take(8);
    start.map(|byte| format!("{byte:02x}")).collect()
}

/// Whether a browser loads this by itself, beside a page.
pub fn is_beside_pages(path: &str) -> bool {
    path == *STYLE_PATH || path == *ICON_PATH || path == USUAL_ICON_PATH
}

pub const HTML: &str = "text/html; charset=utf-8";

pub fn routes() -> Router<Arc<App>> {
    Router::new()
        .route("/", get(home::page))
        .route("/limit", get(charges::page))
        .route("/search", get(search::page))
        .route("/records", get(browse::page))
        .route("/history", get(history::page))
        .route("/pass", get(history::pass_page))
        .route("/record", get(record::page))
        .route("/plan", get(plan::page))
        .route(&STYLE_PATH, get(style))
        .route(&ICON_PATH, get(icon))
        .route(USUAL_ICON_PATH, get(icon))
}

async fn style() -> Response {
    kept("text/css; charset=utf-8", STYLE)
}

async fn icon() -> Response {
    kept("image/svg+xml", ICON)
}

/// What a browser keeps for ever under its address.
fn kept(media_type: &'static str, text: &'static str) -> Response {
    let headers = [
        (header::CONTENT_TYPE, media_type),
        (header::CACHE_CONTROL, "public, max-age=31536000, immutable"),
    ];
    (headers, text).into_response()
}

/// The views, in the order of the navigation: address and name.
const VIEWS: [(&str, &str); 4] = [
    ("/", "Overview"),
    ("/search", "Search"),
    ("/history", "History"),
    ("/plan", "Plan"),
];

/// The fields of a form for a kind and a region.
fn kind_and_region(config: &Config, kind: Option<&str>, region: Option<&str>) -> Markup {
    let regions = config.regions.iter().map(|region| &*region.code).collect();
    html! {
        (choice(("kind", "Kind"), &config.kinds(), kind, "any"))
        (choice(("region", "Region"), &regions, region, "any"))
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

/// A field of a form with these values to choose from; without one, it shows `otherwise`. The list has the chosen value even if
/// it is not one of these.
fn choice(
    (name, label): (&str, &str),
    values: &BTreeSet<&str>,
    chosen: Option<&str>,
    otherwise: &str,
) -> Markup {
    let chosen = chosen.filter(|chosen| !chosen.is_empty());
    let other = chosen.filter(|chosen| !values.contains(chosen));
    html! {
        div {
            label for=(name) { (label) }
            select id=(name) name=(name) {
                option value="" { (otherwise) }
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
    // An upstream wrote it: a link of another scheme, such as javascript, would run in this page.
    let url = Url::parse(text).ok();
    let url = url.filter(|url| matches!(url.scheme(), "http" | "https"));
    html! {
        @match url {
            Some(url) => a href=(url.as_str()) rel="noreferrer" { (plain(text)) },
            None => (plain(text)),
        }
    }
}

/// A value of a query.
fn encoded(text: &str) -> String {
    utf8_percent_encode(text, NON_ALPHANUMERIC).to_string()
}
