//! A request for a page, and what its answers share. Times are UTC.

use std::convert::Infallible;
use std::sync::Arc;
use std::time::Duration;

use axum::extract::{FromRequestParts, Request};
use axum::http::request::Parts;
use axum::http::{HeaderValue, Method, StatusCode, Uri, header};
use axum::response::{IntoResponse, Response};
use maud::{Markup, html};
use serde::de::DeserializeOwned;

use super::frame::{alert, framed, framed_problem};
use super::{HTML, VIEWS, encoded};
use crate::serve::App;
use crate::serve::api;
use crate::serve::problem::Problem;
use ingest_catalog::PassId;
use ingest_quota::Timestamp;

/// Times are shown to the second, rounded up, so that none is shown too early.
const UP: Duration = Duration::from_micros(999_999);

/// A request for a page.
pub struct Reader {
    pub app: Arc<App>,
    /// The address of the view and its filters.
    pub uri: Uri,
}

impl FromRequestParts<Arc<App>> for Reader {
    type Rejection = Infallible;

    async fn from_request_parts(parts: &mut Parts, app: &Arc<App>) -> Result<Self, Infallible> {
        Ok(Self::new(app, &parts.uri))
    }
}

impl Reader {
    fn new(app: &Arc<App>, uri: &Uri) -> Self {
        Self {
            app: Arc::clone(app),
            uri: uri.clone(),
        }
    }

    /// The reader of a browser's window, who sees errors as pages too; `None` for programs.
    pub fn in_browser(app: &Arc<App>, request: &Request) -> Option<Self> {
        let mut accepted = request.headers().get_all(header::ACCEPT).iter();
        let accepts_page =
            accepted.any(|types| types.to_str().is_ok_and(|all| all.contains("text/html")));
        // No form of the page posts: a POST is a program's.
        let reads = matches!(*request.method(), Method::GET | Method::HEAD);
        (accepts_page && reads).then(|| Self::new(app, request.uri()))
    }

    /// Reads the filters of the view.
    ///
    /// # Errors
    /// A filter is wrong.
    pub fn filters<T: DeserializeOwned>(&self) -> Result<T, Problem> {
        api::parameters(&self.uri)
    }

    /// A view of the navigation: its form, and what it shows, or what is wrong, beside the form in which it can be corrected.
    pub fn view(&self, path: &str, form: &Markup, content: Result<Markup, Problem>) -> Response {
        let name = VIEWS.iter().find(|(known, _)| *known == path);
        let name = name.map_or("ingest", |(_, name)| *name);
        match content {
            Ok(content) => self.found(framed(self, path, name, &html! { (form) (content) })),
            Err(problem) => self.failed(
                &problem,
                framed_problem(self, path, name, &html! { (form) (alert(&problem)) }),
            ),
        }
    }

    /// A page below a view of the navigation: its title, and what it shows, or what is wrong.
    pub fn page_below(&self, path: &str, content: Result<(String, Markup), Problem>) -> Response {
        match content {
            Ok((title, content)) => self.found(framed(self, path, &title, &content)),
            Err(problem) => {
                let page = framed_problem(self, path, &problem.title, &alert(&problem));
                self.failed(&problem, page)
            }
        }
    }

    fn found(&self, page: Markup) -> Response {
        api::typed(HTML, page.into_string())
    }

    fn failed(&self, problem: &Problem, page: Markup) -> Response {
        let status = StatusCode::from_u16(problem.status).unwrap_or_default();
        let content_type = [(header::CONTENT_TYPE, HTML)];
        let mut response = (status, content_type, page.into_string()).into_response();
        if let Some(seconds) = problem.retry_after {
            let headers = response.headers_mut();
            headers.insert(header::RETRY_AFTER, HeaderValue::from(seconds));
        }
        response
    }

    /// The address of a page. Filters without a value are left out.
    pub fn to(&self, path: &str, filters: &[(&str, Option<&str>)]) -> String {
        let all = filters.iter().copied();
        let all =
            all.filter_map(|(name, value)| Some((name, value.filter(|one| !one.is_empty())?)));
        let all: Vec<String> = all
            .map(|(name, value)| format!("{name}={}", encoded(value)))
            .collect();
        match all.is_empty() {
            true => path.to_owned(),
            false => format!("{path}?{}", all.join("&")),
        }
    }

    /// An instant to the second.
    pub fn time(&self, at: Timestamp) -> Markup {
        self.shown(at, &written(at + UP, "%Y-%m-%d %H:%M:%S UTC"))
    }

    /// An instant to the minute.
    pub fn minute(&self, at: Timestamp) -> Markup {
        self.shown(at, &written(at, "%Y-%m-%d %H:%M UTC"))
    }

    /// An instant below a chart.
    pub fn tick(&self, at: Timestamp) -> String {
        written(at, "%m-%d %H:%M")
    }

    /// How long ago or ahead an instant is, as these words say it.
    pub fn relative(&self, at: Timestamp, words: &str) -> Markup {
        self.shown(at, words)
    }

    fn shown(&self, at: Timestamp, words: &str) -> Markup {
        let exact = written(at + UP, "%Y-%m-%d %H:%M:%S UTC");
        let title = (exact != words).then_some(exact);
        html! { time datetime=((at + UP).to_utc().format("%Y-%m-%dT%H:%M:%SZ")) title=[title] { (words) } }
    }

    pub fn pass_link(&self, pass: PassId, text: &Markup) -> Markup {
        let id = pass.0.to_string();
        html! { a href=(self.to("/pass", &[("id", Some(&id))])) { (text) } }
    }

    /// The address of a record of this upstream, kind and id.
    pub fn to_record(&self, (upstream, kind, id): (&str, &str, &str)) -> String {
        let name = [("kind", kind), ("id", id), ("upstream", upstream)];
        self.to("/record", &name.map(|(name, value)| (name, Some(value))))
    }
}

fn written(at: Timestamp, format: &str) -> String {
    at.to_utc().format(format).to_string()
}
