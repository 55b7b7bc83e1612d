//! The page, for people: rendered here, without scripts. Each view has its filters in its address, and a twin in JSON.

mod chart;
mod history;
mod home;
mod plan;
mod search;

use std::sync::{Arc, LazyLock};

use axum::Router;
use axum::http::{HeaderMap, HeaderValue, StatusCode, header};
use axum::response::{IntoResponse, Response};
use axum::routing::get;
use maud::{DOCTYPE, Markup, html};
use ring::digest::{SHA256, digest};

use super::App;
use super::api::{self, tagged};
use super::problem::Problem;
use crate::plain::plain;

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

pub fn routes() -> Router<Arc<App>> {
    Router::new()
        .route("/", get(home::page))
        .route("/index.json", get(home::json))
        .route("/search", get(search::page))
        .route("/search.json", get(search::json))
        .route("/history", get(history::page))
        .route("/history.json", get(api::history_json))
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

/// A view, or what is wrong with its parameters, as a page.
fn view(headers: &HeaderMap, path: &str, content: Result<Markup, Problem>) -> Response {
    match content {
        Ok(content) => {
            let page = layout(path, &content).into_string();
            tagged(headers, page.clone().into_bytes(), HTML, page.as_bytes())
        }
        Err(problem) => {
            let content = html! {
                p role="alert" class="bad" { (plain(&problem.detail)) "." }
            };
            let status = StatusCode::from_u16(problem.status).unwrap_or_default();
            let page = layout(path, &content).into_string();
            let mut response = (status, [(header::CONTENT_TYPE, HTML)], page).into_response();
            if let Some(seconds) = problem.retry_after {
                let headers = response.headers_mut();
                headers.insert(header::RETRY_AFTER, HeaderValue::from(seconds));
            }
            response
        }
    }
}

fn layout(path: &str, content: &Markup) -> Markup {
    let name = VIEWS.iter().find(|(known, _)| *known == path);
    let name = name.map_or("ingest", |(_, name)| *name);
    html! {
        (DOCTYPE)
        html lang="en" {
            head {
                meta charset="utf-8";
                title { (name) " · ingest" }
                meta name="viewport" content="width=device-width, initial-scale=1";
                meta name="color-scheme" content="light dark";
                link rel="stylesheet" href=(*STYLE_PATH);
            }
            body {
                a class="skip" href="#content" { "Skip to the content" }
                nav aria-label="Views" {
                    ul {
                        @for (to, name) in VIEWS {
                            li { a href=(to) aria-current=[(to == path).then_some("page")] { (name) } }
                        }
                    }
                }
                main id="content" {
                    h1 { (name) }
                    (content)
                }
            }
        }
    }
}

/// A table that scrolls by itself where the screen is narrow. The keyboard reaches it, since only then it can be scrolled.
fn table(caption: &str, heads: &[&str], rows: &Markup) -> Markup {
    html! {
        div class="wide" tabindex="0" role="region" aria-label=(caption) {
            table {
                caption { (caption) }
                thead { tr { @for head in heads { th scope="col" { (head) } } } }
                tbody { (rows) }
            }
        }
    }
}

/// Text of several lines, without characters that mislead.
fn lines(text: &str) -> String {
    text.split('\n').map(plain).collect::<Vec<_>>().join("\n")
}
