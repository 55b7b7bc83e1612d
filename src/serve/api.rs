//! The read API: the JSON of the commands.

use std::sync::Arc;
use std::time::Duration;

use axum::body::Bytes;
use axum::extract::rejection::PathRejection;
use axum::extract::{Path, Query, State};
use axum::http::{HeaderMap, HeaderValue, StatusCode, Uri, header};
use axum::response::{IntoResponse, Response};
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

use super::App;
use super::problem::Problem;
use crate::cli::SearchArgs;
use crate::commands::search::SearchReport;
use crate::commands::{Error, export, history, preview, search, status};
use crate::when::Since;
use ingest_base::plain::json_safe;
use ingest_catalog::{RecordsPage, RecordsQuery, StoredRecord};

/// The longest words of a search, in bytes.
const LONGEST_WORDS: usize = 1024;
/// The most records of one response.
pub const MOST: u32 = 1000;

/// The media type of JSON.
pub const JSON: &str = "application/json";

/// A body of a media type.
pub fn typed(media_type: &'static str, body: impl Into<Bytes>) -> Response {
    ([(header::CONTENT_TYPE, media_type)], body.into()).into_response()
}

pub fn json_text(value: &impl Serialize) -> Response {
    let text = serde_json::to_string(value).unwrap_or_default();
    typed(JSON, json_safe(&text).into_owned())
}

/// Reads the parameters of a request.
pub fn parameters<T: DeserializeOwned>(uri: &Uri) -> Result<T, Problem> {
    let query = Query::try_from_uri(uri);
    query.map(|Query(parameters)| parameters).map_err(|error| {
        let text = ingest_base::plain::one_line(&error.body_text());
        let why = text
            // axum's words before the reason name its types and not the parameter.
            .rsplit_once("query string: ")
            .map_or(&*text, |(_, why)| why);
        Problem::bad_request(format!("the query: {why}"))
    })
}

/// What a path names.
type InPath<T> = Result<Path<T>, PathRejection>;

fn in_path<T>(path: InPath<T>) -> Result<T, Problem> {
    let wrong = |error: PathRejection| {
        let why = ingest_base::plain::one_line(&error.body_text());
        Problem::bad_request(format!("{why}; write the path as UTF-8, percent-encoded"))
    };
    path.map(|Path(named)| named).map_err(wrong)
}

/// A time as the commands take it, such as `7d` or `2026-11-01`; an absent or empty one is `None`.
pub fn since(name: &str, text: Option<&str>) -> Result<Option<Since>, Problem> {
    let expected = "is no time; write for example 7d, 2026-11-01 or yesterday";
    parsed((name, expected), text, |text| text.parse().ok())
}

/// A span such as `7d`; an absent or empty one is `None`.
fn span(name: &str, text: Option<&str>) -> Result<Option<Duration>, Problem> {
    let expected = "is no time span; write for example 7d";
    parsed((name, expected), text, |text| {
        humantime::parse_duration(text).ok()
    })
}

fn parsed<T>(
    (name, expected): (&str, &str),
    text: Option<&str>,
    parse: impl Fn(&str) -> Option<T>,
) -> Result<Option<T>, Problem> {
    // A form of the page sends the fields that nobody filled in, as empty text.
    let Some(text) = text.filter(|text| !text.is_empty()) else {
        return Ok(None);
    };
    let wrong = || {
        let text = ingest_base::plain::one_line(text);
        Problem::bad_request(format!("{name}: `{text}` {expected}"))
    };
    parse(text).map(Some).ok_or_else(wrong)
}

/// A number in a range; an absent or empty one is `usual`.
pub fn number(name: &str, text: Option<&str>, usual: u32) -> Result<u32, Problem> {
    let Some(text) = text.filter(|text| !text.is_empty()) else {
        return Ok(usual);
    };
    let number = text
        .parse()
        .ok()
        .filter(|number| (1..=MOST).contains(number));
    number
        .ok_or_else(|| Problem::bad_request(format!("{name}: expected a number from 1 to {MOST}")))
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub struct StatusParameters {
    fail_if_stale: Option<String>,
}

pub async fn status_json(State(app): State<Arc<App>>, uri: Uri) -> Result<Response, Problem> {
    let parameters: StatusParameters = parameters(&uri)?;
    let stale = span("fail_if_stale", parameters.fail_if_stale.as_deref())?;
    let status = app
        .read(move |environment| async move { status::report(&environment, stale).await })
        .await?;
    Ok(json_text(&status))
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub struct HistoryParameters {
    pub since: Option<String>,
}

/// The time that a history covers if nothing else is requested.
const MONTH: Duration = Duration::from_secs(30 * 24 * 60 * 60);

impl HistoryParameters {
    pub fn since(&self) -> Result<Since, Problem> {
        let since = since("since", self.since.as_deref())?;
        Ok(since.unwrap_or(Since::Ago(MONTH)))
    }
}

pub async fn history_json(State(app): State<Arc<App>>, uri: Uri) -> Result<Response, Problem> {
    let since = parameters::<HistoryParameters>(&uri)?.since()?;
    let history = app
        .read(move |environment| async move {
            let since = since.at(environment.clock.now());
            history::report(&environment, since).await
        })
        .await?;
    Ok(json_text(&history))
}

#[derive(Debug, Clone, Default, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub struct SearchParameters {
    #[serde(default)]
    pub q: String,
    pub kind: Option<String>,
    pub region: Option<String>,
    pub since: Option<String>,
    pub limit: Option<String>,
}

impl SearchParameters {
    /// The arguments of the command `search`.
    pub fn arguments(&self) -> Result<SearchArgs, Problem> {
        if self.q.len() > LONGEST_WORDS {
            let detail = format!("q: expected at most {LONGEST_WORDS} bytes");
            return Err(Problem::bad_request(detail));
        }
        let filled = |text: &Option<String>| text.clone().filter(|text| !text.is_empty());
        Ok(SearchArgs {
            words: vec![self.q.clone()],
            kind: filled(&self.kind),
            region: filled(&self.region),
            since: since("since", self.since.as_deref())?,
            limit: number("limit", self.limit.as_deref(), 20)?,
        })
    }
}

pub async fn search_json(State(app): State<Arc<App>>, uri: Uri) -> Result<Response, Problem> {
    let parameters: SearchParameters = parameters(&uri)?;
    if parameters.q.trim().is_empty() {
        return Err(Problem::bad_request("q: expected the words to search for"));
    }
    let arguments = parameters.arguments()?;
    let results = app
        .read(move |environment| async move { search::find(&environment, &arguments).await })
        .await?;
    Ok(json_text(&SearchReport::new(&results)))
}

#[derive(Debug, Clone, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PlanParameters {
    pub region: Option<String>,
    pub job: Option<String>,
}

impl PlanParameters {
    /// The regions and the jobs.
    pub fn selected(&self) -> (Vec<String>, Vec<String>) {
        (
            named(self.region.as_deref(), &["all"]),
            named(self.job.as_deref(), &[]),
        )
    }
}

/// Names that are separated by commas; absent or empty ones are `usual`.
fn named(text: Option<&str>, usual: &[&str]) -> Vec<String> {
    match text.filter(|text| !text.is_empty()) {
        Some(text) => text.split(',').map(|name| name.trim().to_owned()).collect(),
        None => usual.iter().map(|name| (*name).to_owned()).collect(),
    }
}

/// How many regions the run of a plan walks at once, as many as a run does.
pub const CONCURRENCY: u16 = 8;

/// Returns what the next run would spend.
pub async fn plan(
    app: &App,
    parameters: PlanParameters,
) -> Result<crate::foresight::Preview, Problem> {
    let (regions, jobs) = parameters.selected();
    app.simulate(move |environment| async move {
        let selection = environment.select_of(&regions, &jobs)?;
        preview::report(&environment, selection, CONCURRENCY).await
    })
    .await
}

pub async fn plan_json(State(app): State<Arc<App>>, uri: Uri) -> Result<Response, Problem> {
    let preview = plan(&app, parameters(&uri)?).await?;
    Ok(json_text(&preview))
}

#[derive(Debug, Clone, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct RecordsParameters {
    pub region: Option<String>,
    /// Changes within this time.
    pub since: Option<String>,
    /// Seen within this time.
    pub seen_since: Option<String>,
    pub limit: Option<String>,
    pub cursor: Option<String>,
    /// `ndjson` or `csv`.
    pub r#as: Option<String>,
}

pub async fn records(
    State(app): State<Arc<App>>,
    kind: InPath<String>,
    uri: Uri,
) -> Result<Response, Problem> {
    let kind = in_path(kind)?;
    let parameters: RecordsParameters = parameters(&uri)?;
    let is_csv = match parameters.r#as.as_deref() {
        None | Some("" | "ndjson") => false,
        Some("csv") => true,
        Some(_) => return Err(Problem::bad_request("as: expected `ndjson` or `csv`")),
    };
    let page = records_page(&app, &kind, &parameters).await?;
    let changes_only = parameters
        .since
        .as_deref()
        .is_some_and(|since| !since.is_empty());
    let mut response = if is_csv {
        let records = (&page.records[..], changes_only);
        let lines = export::csv_lines(&app.environment, &kind, records)?;
        typed("text/csv; charset=utf-8", lines)
    } else {
        let mut lines = Vec::new();
        for record in &page.records {
            export::json_line(&mut lines, record, changes_only)
                .map_err(|error| Problem::from(Error::io("cannot write the records")(error)))?;
        }
        typed("application/x-ndjson", lines)
    };
    let last = page.records.last().filter(|_| page.more);
    if let Some(last) = last {
        link_next(response.headers_mut(), &kind, &parameters, last.position);
    }
    Ok(response)
}

/// Returns a page of the records of a kind.
pub async fn records_page(
    app: &App,
    kind: &str,
    parameters: &RecordsParameters,
) -> Result<RecordsPage, Problem> {
    let changed = since("since", parameters.since.as_deref())?;
    let seen = since("seen_since", parameters.seen_since.as_deref())?;
    let most = number("limit", parameters.limit.as_deref(), 100)?;
    let filled = |text: &Option<String>| text.clone().filter(|text| !text.is_empty());
    let after = filled(&parameters.cursor).map(|cursor| cursor.parse::<i64>());
    let after = after.transpose().map_err(|_| {
        Problem::bad_request("cursor: expected the number in the `Link` header of the page before")
    })?;
    let (kind, region) = (kind.to_owned(), filled(&parameters.region));
    app.read(move |environment| async move {
        // For its error alone: a kind that no call returns is refused, or a misspelt one would look like an empty one.
        export::columns(&environment, &kind)?;
        let now = environment.clock.now();
        let query = RecordsQuery {
            kind,
            region,
            since: seen.map(|since| since.at(now)),
            changed_since: changed.map(|since| since.at(now)),
        };
        let archive = environment.archive().await?;
        Ok(archive.records_page(query, after, most).await?)
    })
    .await
}

/// `Link: </api/v1/records/video?cursor=123>; rel="next"`
fn link_next(headers: &mut HeaderMap, kind: &str, parameters: &RecordsParameters, next: i64) {
    let encoded = |text: &str| {
        // All but letters and digits, so that no text of a request ends the link or the header.
        percent_encoding::utf8_percent_encode(text, percent_encoding::NON_ALPHANUMERIC).to_string()
    };
    let others = [
        ("region", &parameters.region),
        ("since", &parameters.since),
        ("seen_since", &parameters.seen_since),
        ("limit", &parameters.limit),
        ("as", &parameters.r#as),
    ];
    let others = others
        .iter()
        .filter_map(|(name, value)| Some(format!("&{name}={}", encoded(value.as_deref()?))));
    let kind = encoded(kind);
    let link = format!(
        "</api/v1/records/{kind}?cursor={next}{}>; rel=\"next\"",
        others.collect::<String>()
    );
    if let Ok(link) = HeaderValue::try_from(link) {
        headers.insert(header::LINK, link);
    }
}

#[derive(Debug, Clone, Default, Deserialize)]
#[serde(deny_unknown_fields)]
struct RecordParameters {
    upstream: Option<String>,
}

pub async fn record(
    State(app): State<Arc<App>>,
    path: InPath<(String, String)>,
    uri: Uri,
) -> Result<Response, Problem> {
    let (kind, id) = in_path(path)?;
    let RecordParameters { upstream } = parameters(&uri)?;
    let record = one_record(&app, kind, id, upstream).await?;
    let mut line = Vec::new();
    export::json_line(&mut line, &record, false)
        .map_err(|error| Problem::from(Error::io("cannot write the record")(error)))?;
    Ok(typed(JSON, line))
}

/// Returns the record of this kind and id.
///
/// # Errors
/// There is none, or there are several and no upstream is named.
pub async fn one_record(
    app: &App,
    kind: String,
    id: String,
    upstream: Option<String>,
) -> Result<StoredRecord, Problem> {
    let mut found = app
        .read(move |environment| async move {
            let archive = environment.archive().await?;
            let mut found = Vec::new();
            let all = environment.config.upstreams.keys().cloned();
            let upstreams = upstream.map_or_else(|| all.collect(), |one| vec![one]);
            for name in upstreams {
                found.extend(archive.record(&name, &kind, &id).await?);
            }
            // A record outlives its kind in the configuration.
            if found.is_empty() {
                export::columns(&environment, &kind)?;
            }
            Ok(found)
        })
        .await?;
    if found.len() > 1 {
        let upstreams: Vec<&str> = found.iter().map(|one| one.upstream.as_str()).collect();
        let detail = format!(
            "records of {} have this kind and id; add ?upstream=",
            upstreams.join(" and ")
        );
        return Err(Problem::bad_request(detail));
    }
    let missing = || Problem::new(StatusCode::NOT_FOUND, "no record has this kind and id");
    found.pop().ok_or_else(missing)
}
