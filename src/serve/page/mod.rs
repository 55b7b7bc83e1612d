//! The page, for people: five forms over the documents of the commands, without scripts. Each has its filters in its address; times
//! are UTC.

mod form;
mod history;
mod overview;
mod plan;
mod record;
mod search;

use std::sync::{Arc, LazyLock};

use axum::Router;
use axum::extract::Request;
use axum::http::{HeaderValue, Method, StatusCode, header};
use axum::response::{IntoResponse, Response};
use axum::routing::get;
use ring::digest::{SHA256, digest};

use self::history::history_page;
use self::overview::overview_page;
use self::plan::plan_page;
use self::record::record_page;
use self::search::search_page;
use super::App;
use super::api;
use super::problem::Problem;
use crate::commands::environment::Environment;
use crate::doc::html::escaped;
use ingest_config::LedgerStore;

const STYLE: &str = include_str!("../style.css");
const ICON: &str = include_str!("../icon.svg");

/// The addresses of the style sheet and the icon, which change with them: browsers keep them for ever.
static STYLE_PATH: LazyLock<String> = LazyLock::new(|| format!("/style-{}.css", hash_of(STYLE)));
static ICON_PATH: LazyLock<String> = LazyLock::new(|| format!("/icon-{}.svg", hash_of(ICON)));
/// Where browsers look for an icon by themselves.
const USUAL_ICON_PATH: &str = "/favicon.ico";

const HTML: &str = "text/html; charset=utf-8";

/// The views, in the order of the navigation: address and name.
const VIEWS: [(&str, &str); 4] = [
    ("/", "Overview"),
    ("/search", "Search"),
    ("/history", "History"),
    ("/plan", "Plan"),
];

pub fn routes() -> Router<Arc<App>> {
    let style = || async { kept("text/css; charset=utf-8", STYLE) };
    let icon = || async { kept("image/svg+xml", ICON) };
    Router::new()
        .route("/", get(overview_page))
        .route("/search", get(search_page))
        .route("/history", get(history_page))
        .route("/record", get(record_page))
        .route("/plan", get(plan_page))
        .route(&STYLE_PATH, get(style))
        .route(&ICON_PATH, get(icon))
        .route(USUAL_ICON_PATH, get(icon))
}

fn hash_of(text: &str) -> String {
    let hash = digest(&SHA256, text.as_bytes());
    let start = hash.as_ref().iter().take(8);
    start.map(|byte| format!("{byte:02x}")).collect()
}

/// Whether a browser loads this by itself, beside a page.
pub fn is_beside_pages(path: &str) -> bool {
    path == *STYLE_PATH || path == *ICON_PATH || path == USUAL_ICON_PATH
}

/// What a browser keeps for ever under its address.
fn kept(media_type: &'static str, text: &'static str) -> Response {
    let headers = [
        (header::CONTENT_TYPE, media_type),
        (header::CACHE_CONTROL, "public, max-age=31536000, immutable"),
    ];
    (headers, text).into_response()
}

/// Whether a browser's window sends the request, whose reader sees errors as pages too. No form of the page posts.
pub fn is_read_by_person(request: &Request) -> bool {
    let mut accepted = request.headers().get_all(header::ACCEPT).iter();
    let accepts_page =
        accepted.any(|types| types.to_str().is_ok_and(|all| all.contains("text/html")));
    accepts_page && matches!(*request.method(), Method::GET | Method::HEAD)
}

/// An error as a page. It says nothing of the state, which its reader may not be allowed to see.
pub fn with_problem(response: Response) -> Response {
    let Some(problem) = response.extensions().get::<Problem>() else {
        return response;
    };
    let page = framed("", &problem.title, &alert(problem), "");
    let (mut parts, _) = response.into_parts();
    let html = HeaderValue::from_static(HTML);
    parts.headers.insert(header::CONTENT_TYPE, html);
    Response::from_parts(parts, page.into())
}

/// A view: its form, and what it shows, or what is wrong, beside the form in which it can be corrected.
fn view(app: &App, path: &str, form: &str, shown: Result<String, Problem>) -> Response {
    let name = VIEWS.iter().find(|(known, _)| *known == path);
    let name = name.map_or("ingest", |(_, name)| *name);
    titled(
        app,
        path,
        (name, form),
        shown.map(|shown| (name.to_owned(), shown)),
    )
}

/// The same for what has a title of its own.
fn titled(
    app: &App,
    path: &str,
    (name, form): (&str, &str),
    shown: Result<(String, String), Problem>,
) -> Response {
    match shown {
        Ok((title, shown)) => {
            let content = form.to_owned() + &shown;
            let page = framed(path, &title, &content, &whereabouts(&app.environment));
            api::typed(HTML, page)
        }
        Err(problem) => {
            // A server whose database is away does not say where that is.
            let page = framed(path, name, &(form.to_owned() + &alert(&problem)), "");
            let status = StatusCode::from_u16(problem.status).unwrap_or_default();
            let content_type = [(header::CONTENT_TYPE, HTML)];
            let mut response = (status, content_type, page).into_response();
            if let Some(seconds) = problem.retry_after {
                let headers = response.headers_mut();
                headers.insert(header::RETRY_AFTER, HeaderValue::from(seconds));
            }
            response
        }
    }
}

fn alert(problem: &Problem) -> String {
    let mut rest = problem.detail.chars();
    let first = rest.next().into_iter().flat_map(char::to_uppercase);
    let text: String = first.chain(rest).collect();
    format!("<p role=\"alert\" class=\"bad\">{}.</p>", escaped(&text))
}

/// What every page has around what it shows.
fn framed(path: &str, title: &str, content: &str, footer: &str) -> String {
    let (title, style, icon) = (escaped(title), &*STYLE_PATH, &*ICON_PATH);
    let views = VIEWS.iter().map(|(to, name)| {
        let current = if *to == path {
            " aria-current=\"page\""
        } else {
            ""
        };
        format!("<li><a href=\"{to}\"{current}>{name}</a></li>")
    });
    let views: String = views.collect();
    format!(
        "<!DOCTYPE html><html lang=\"en\"><head><meta charset=\"utf-8\"><title>{title} · ingest</title>\
         <meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\
         <meta name=\"color-scheme\" content=\"light dark\">\
         <link rel=\"stylesheet\" href=\"{style}\"><link rel=\"icon\" type=\"image/svg+xml\" href=\"{icon}\"></head><body>\
         <a class=\"skip\" href=\"#content\">Skip to the content</a>\
         <header><strong>ingest</strong><nav aria-label=\"Views\"><ul>{views}</ul></nav></header>\
         <main id=\"content\" tabindex=\"-1\"><h1>{title}</h1>{content}</main><footer>{footer}</footer></body></html>"
    )
}

/// What it is a page of.
fn whereabouts(environment: &Environment) -> String {
    let ledger = match &environment.config.ledger.store {
        LedgerStore::Sqlite => "a file".to_owned(),
        LedgerStore::Redis(url) => url.to_string(),
    };
    let catalog = environment.database();
    let catalog = catalog.map_or("files", |database| database.shown());
    let state = &environment.state_dir;
    let state = std::path::absolute(state).unwrap_or_else(|_| state.clone());
    let text = format!(
        "ingest {}. State directory: {}. Ledger: {ledger}. Catalog: {catalog}.",
        env!("CARGO_PKG_VERSION"),
        state.display()
    );
    format!("<p class=\"quiet\">{}</p>", escaped(&text))
}
