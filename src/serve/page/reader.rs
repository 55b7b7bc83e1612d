//! A request for a page, and how its reader wants to see it: the zone of its times, and how often the browser loads it again.
//! Both stand in the address, and lead on with every link.

use std::convert::Infallible;
use std::sync::Arc;
use std::time::Duration;

use axum::extract::{FromRequestParts, Request};
use axum::http::request::Parts;
use axum::http::{HeaderMap, HeaderName, HeaderValue, Method, StatusCode, Uri, header};
use axum::response::{IntoResponse, Response};
use chrono::DateTime;
use chrono_tz::{TZ_VARIANTS, Tz};
use maud::{Markup, html};
use serde::Deserialize;
use serde::de::DeserializeOwned;

use super::frame::{alert, framed, framed_problem};
use super::{HTML, VIEWS, encoded};
use crate::commands::table::span;
use crate::serve::App;
use crate::serve::api;
use crate::serve::problem::Problem;
use crate::serve::tagged::tagged;
use ingest_base::plain::{one_line, plain};
use ingest_catalog::PassId;
use ingest_config::closest;
use ingest_quota::Timestamp;

const REFRESH: HeaderName = HeaderName::from_static("refresh");
/// How soon a page is loaded again at the earliest: twelve requests of a minute, where a client has sixty unless configured.
const SOONEST: Duration = Duration::from_secs(5);
/// Times are shown to the second, rounded up, so that none is shown too early.
const UP: Duration = Duration::from_micros(999_999);

/// A request for a page.
pub struct Reader {
    pub app: Arc<App>,
    headers: HeaderMap,
    /// The address of the view and its filters.
    pub uri: Uri,
    pub zone: Tz,
    pub refresh: Option<Duration>,
    /// What is wrong with the parameters of the reader.
    mistake: Option<Problem>,
}

/// The parameters of the reader, which every page has.
#[derive(Default, Deserialize)]
struct Wishes {
    zone: Option<String>,
    refresh: Option<String>,
}

const WISHES: [&str; 2] = ["zone", "refresh"];

impl FromRequestParts<Arc<App>> for Reader {
    type Rejection = Infallible;

    async fn from_request_parts(parts: &mut Parts, app: &Arc<App>) -> Result<Self, Infallible> {
        Ok(Self::new(app, &parts.headers, &parts.uri))
    }
}

impl Reader {
    fn new(app: &Arc<App>, headers: &HeaderMap, uri: &Uri) -> Self {
        // Each view refuses parameters that it does not know, so the reader's are taken out first.
        let (wishes, filters) = parted(uri);
        let wishes = api::parameters::<Wishes>(&wishes);
        let zone = wishes.as_ref().map_err(Clone::clone).and_then(zone);
        let refresh = wishes.as_ref().map_err(Clone::clone).and_then(refresh);
        Self {
            app: Arc::clone(app),
            headers: headers.clone(),
            uri: filters,
            // Kept until the view reads its filters: a mistake is shown in a page, and the page needs a reader.
            mistake: zone.as_ref().err().or(refresh.as_ref().err()).cloned(),
            zone: zone.unwrap_or(Tz::UTC),
            refresh: refresh.ok().flatten(),
        }
    }

    /// The reader of a browser's window, who sees errors as pages too; `None` for programs.
    pub fn in_browser(app: &Arc<App>, request: &Request) -> Option<Self> {
        let mut accepted = request.headers().get_all(header::ACCEPT).iter();
        let accepts_page =
            accepted.any(|types| types.to_str().is_ok_and(|all| all.contains("text/html")));
        // No form of the page posts: a POST is a program's.
        let reads = matches!(*request.method(), Method::GET | Method::HEAD);
        (accepts_page && reads).then(|| Self::new(app, request.headers(), request.uri()))
    }

    /// Reads the filters of the view.
    ///
    /// # Errors
    /// A filter is wrong, or the zone or the time to load again.
    pub fn filters<T: DeserializeOwned>(&self) -> Result<T, Problem> {
        let filters = api::parameters(&self.uri)?;
        match &self.mistake {
            Some(mistake) => Err(mistake.clone()),
            None => Ok(filters),
        }
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
        let mut response = tagged(&self.headers, page.into_string(), HTML);
        self.load_again(response.headers_mut());
        response
    }

    fn failed(&self, problem: &Problem, page: Markup) -> Response {
        let status = StatusCode::from_u16(problem.status).unwrap_or_default();
        let content_type = [(header::CONTENT_TYPE, HTML)];
        let mut response = (status, content_type, page.into_string()).into_response();
        if let Some(seconds) = problem.retry_after {
            let headers = response.headers_mut();
            headers.insert(header::RETRY_AFTER, HeaderValue::from(seconds));
        }
        self.load_again(response.headers_mut());
        response
    }

    /// Lets the browser load the page again, where its reader asked for it; behind a limit no sooner than it is answered.
    pub fn load_again(&self, headers: &mut HeaderMap) {
        let Some(refresh) = self.refresh else {
            return;
        };
        let retry_after = headers.get(header::RETRY_AFTER);
        let retry_after = retry_after.and_then(|seconds| seconds.to_str().ok()?.parse().ok());
        let seconds = refresh.as_secs().max(retry_after.unwrap_or_default());
        headers.insert(REFRESH, HeaderValue::from(seconds));
    }

    /// The address of a page, with the zone of this one. Filters without a value are left out.
    pub fn to(&self, path: &str, filters: &[(&str, Option<&str>)]) -> String {
        let zone = (self.zone != Tz::UTC).then(|| self.zone.name());
        let all = filters.iter().copied().chain([("zone", zone)]);
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

    /// The fields that keep the parameters of the reader when a form is sent.
    pub fn kept(&self) -> Markup {
        html! {
            @if self.zone != Tz::UTC { input type="hidden" name="zone" value=(self.zone.name()); }
            @if let Some(refresh) = self.refresh { input type="hidden" name="refresh" value=(span(refresh)); }
        }
    }

    /// An instant to the second.
    pub fn time(&self, at: Timestamp) -> Markup {
        self.shown(at, &self.in_zone(at + UP, "%Y-%m-%d %H:%M:%S %Z"))
    }

    /// An instant to the minute.
    pub fn minute(&self, at: Timestamp) -> Markup {
        self.shown(at, &self.in_zone(at, "%Y-%m-%d %H:%M %Z"))
    }

    /// An instant below a chart.
    pub fn tick(&self, at: Timestamp) -> String {
        self.in_zone(at, "%m-%d %H:%M")
    }

    /// How long ago or ahead an instant is, as these words say it.
    pub fn relative(&self, at: Timestamp, words: &str) -> Markup {
        self.shown(at, words)
    }

    fn shown(&self, at: Timestamp, words: &str) -> Markup {
        let exact = self.in_zone(at + UP, "%Y-%m-%d %H:%M:%S %Z");
        let title = (exact != words).then_some(exact);
        html! { time datetime=((at + UP).to_utc().format("%Y-%m-%dT%H:%M:%SZ")) title=[title] { (words) } }
    }

    fn in_zone(&self, at: Timestamp, format: &str) -> String {
        let at: DateTime<Tz> = at.to_utc().with_timezone(&self.zone);
        at.format(format).to_string()
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

    /// The link to what this page shows as JSON.
    pub fn twin(&self, path: &str) -> Markup {
        let query = self.uri.query();
        let query = query.map_or_else(String::new, |query| format!("?{query}"));
        html! { a href=(format!("{path}{query}")) { "This page as JSON" } }
    }
}

/// An address with the parameters of the reader alone, and with those of the view alone.
fn parted(uri: &Uri) -> (Uri, Uri) {
    let pairs = uri.query().unwrap_or_default().split('&');
    let is_wish = |pair: &&str| WISHES.contains(&pair.split('=').next().unwrap_or_default());
    let (wishes, filters): (Vec<&str>, Vec<&str>) = pairs
        .filter(|pair| !pair.is_empty())
        .partition(|pair| is_wish(pair));
    let with = |pairs: &[&str]| match pairs {
        [] => uri.path().parse(),
        pairs => format!("{}?{}", uri.path(), pairs.join("&")).parse(),
    };
    let with = |pairs: &[&str]| with(pairs).unwrap_or_else(|_| uri.clone());
    (with(&wishes), with(&filters))
}

fn zone(wishes: &Wishes) -> Result<Tz, Problem> {
    let Some(name) = wishes.zone.as_deref().filter(|name| !name.is_empty()) else {
        return Ok(Tz::UTC);
    };
    let unknown = |_| {
        let known: Vec<&str> = TZ_VARIANTS.iter().map(|zone| zone.name()).collect();
        let meant = closest(name, &known).map(|meant| format!("; did you mean `{meant}`?"));
        let meant = meant.unwrap_or_else(|| "; write for example Europe/Berlin".to_owned());
        Problem::bad_request(format!("zone: unknown zone `{}`{meant}", one_line(name)))
    };
    name.parse().map_err(unknown)
}

fn refresh(wishes: &Wishes) -> Result<Option<Duration>, Problem> {
    let refresh = api::span("refresh", wishes.refresh.as_deref())?;
    match refresh {
        Some(refresh) if refresh < SOONEST => Err(Problem::bad_request(format!(
            "refresh: `{}` is too often; write {} or longer",
            plain(wishes.refresh.as_deref().unwrap_or_default()),
            span(SOONEST)
        ))),
        refresh => Ok(refresh),
    }
}
