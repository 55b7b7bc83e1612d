//! The read API: the JSON of the commands.

use std::sync::Arc;
use std::time::Duration;

use axum::body::Bytes;
use axum::extract::State;
use axum::http::{HeaderMap, HeaderValue, StatusCode, Uri, header};
use axum::response::{IntoResponse, Response};
use percent_encoding::{NON_ALPHANUMERIC, utf8_percent_encode};
use serde::{Deserialize, Serialize};

use super::App;
use super::problem::Problem;
use super::query::{Filled, InPath, in_path, parameters};
use crate::cli::SearchArgs;
use crate::commands::{Error, export, history, preview, search, status};
use crate::doc::PageLink;
use crate::when::Since;
use ingest_base::plain::json_safe;
use ingest_catalog::{RecordsPage, RecordsQuery, StoredRecord};

/// The longest words of a search, in bytes.
const LONGEST_WORDS: usize = 1024;

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

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub struct StatusParameters {
    fail_if_stale: Filled,
}

pub async fn status_json(State(app): State<Arc<App>>, uri: Uri) -> Result<Response, Problem> {
    let parameters: StatusParameters = parameters(&uri)?;
    let stale = parameters.fail_if_stale.span("fail_if_stale")?;
    let status = app
        .read(move |environment| async move { status::report(&environment, stale).await })
        .await?;
    Ok(json_text(&status))
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct HistoryParameters {
    since: Filled,
}

/// The time that a history covers if nothing else is requested.
const MONTH: Duration = Duration::from_secs(30 * 24 * 60 * 60);

/// Since when a history is requested.
pub fn since_of_history(since: &Filled) -> Result<Since, Problem> {
    Ok(since.since("since")?.unwrap_or(Since::Ago(MONTH)))
}

pub async fn history_json(State(app): State<Arc<App>>, uri: Uri) -> Result<Response, Problem> {
    let since = since_of_history(&parameters::<HistoryParameters>(&uri)?.since)?;
    let history = app
        .read(move |environment| async move {
            let since = since.at(environment.clock.now());
            history::report(&environment, since).await
        })
        .await?;
    Ok(json_text(&history))
}

#[derive(Debug, Clone, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SearchParameters {
    #[serde(default)]
    pub q: String,
    pub kind: Filled,
    pub region: Filled,
    pub since: Filled,
    pub limit: Filled,
}

impl SearchParameters {
    /// The arguments of the command `search`.
    pub fn arguments(&self) -> Result<SearchArgs, Problem> {
        if self.q.len() > LONGEST_WORDS {
            let detail = format!("q: expected at most {LONGEST_WORDS} bytes");
            return Err(Problem::bad_request(detail));
        }
        Ok(SearchArgs {
            words: vec![self.q.clone()],
            kind: self.kind.owned(),
            region: self.region.owned(),
            since: self.since.since("since")?,
            limit: self.limit.number("limit", 20)?,
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
    Ok(json_text(&results))
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct PlanParameters {
    region: Filled,
    job: Filled,
}

/// The regions and the jobs that a plan is requested for.
pub fn selected(region: &Filled, job: &Filled) -> (Vec<String>, Vec<String>) {
    (region.names(&["all"]), job.names(&[]))
}

/// How many regions the run of a plan walks at once, as many as a run does.
pub const CONCURRENCY: u16 = 8;

/// Returns what the next run would spend.
pub async fn plan(
    app: &App,
    (regions, jobs): (Vec<String>, Vec<String>),
) -> Result<crate::foresight::Preview, Problem> {
    app.simulate(move |environment| async move {
        let selection = environment.select_of(&regions, &jobs)?;
        preview::report(&environment, selection, CONCURRENCY).await
    })
    .await
}

pub async fn plan_json(State(app): State<Arc<App>>, uri: Uri) -> Result<Response, Problem> {
    let PlanParameters { region, job } = parameters(&uri)?;
    let preview = plan(&app, selected(&region, &job)).await?;
    Ok(json_text(&preview))
}

#[derive(Debug, Clone, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct RecordsParameters {
    pub region: Filled,
    /// Changes within this time.
    pub since: Filled,
    /// Seen within this time.
    pub seen_since: Filled,
    pub limit: Filled,
    pub cursor: Filled,
    /// `ndjson` or `csv`.
    pub r#as: Filled,
}

pub async fn records(
    State(app): State<Arc<App>>,
    kind: InPath<String>,
    uri: Uri,
) -> Result<Response, Problem> {
    let kind = in_path(kind)?;
    let parameters: RecordsParameters = parameters(&uri)?;
    let is_csv = match parameters.r#as.get() {
        None | Some("ndjson") => false,
        Some("csv") => true,
        Some(_) => return Err(Problem::bad_request("as: expected `ndjson` or `csv`")),
    };
    let page = records_page(&app, &kind, &parameters).await?;
    let changes_only = parameters.since.get().is_some();
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
    let changed = parameters.since.since("since")?;
    let seen = parameters.seen_since.since("seen_since")?;
    let most = parameters.limit.number("limit", 100)?;
    let after = parameters.cursor.get().map(str::parse::<i64>);
    let after = after.transpose().map_err(|_| {
        Problem::bad_request("cursor: expected the number in the `Link` header of the page before")
    })?;
    let (kind, region) = (kind.to_owned(), parameters.region.owned());
    app.read(move |environment| async move {
        // A misspelt kind would look like an empty one.
        environment.expect_kind(&kind)?;
        environment.expect_stored(&[], region.as_slice()).await?;
        let now = environment.clock.now();
        let query = RecordsQuery {
            kind,
            region,
            since: seen.map(|since| since.at(now)),
            changed_since: changed.map(|since| since.at(now)),
        };
        let catalog = environment.reader().await?;
        Ok(catalog.records_page(query, after, most).await?)
    })
    .await
}

/// `Link: </api/v1/records/video?cursor=123>; rel="next"`
fn link_next(headers: &mut HeaderMap, kind: &str, parameters: &RecordsParameters, next: i64) {
    // All but letters and digits, so that no text of a request ends the link or the header.
    let kind = utf8_percent_encode(kind, NON_ALPHANUMERIC);
    let next = next.to_string();
    let filters = [
        ("cursor", Some(&*next)),
        ("region", parameters.region.get()),
        ("since", parameters.since.get()),
        ("seen_since", parameters.seen_since.get()),
        ("limit", parameters.limit.get()),
        ("as", parameters.r#as.get()),
    ];
    let link = PageLink::to(&format!("/api/v1/records/{kind}"), &filters);
    let link = format!("<{}>; rel=\"next\"", link.address());
    if let Ok(link) = HeaderValue::try_from(link) {
        headers.insert(header::LINK, link);
    }
}

#[derive(Debug, Clone, Default, Deserialize)]
#[serde(deny_unknown_fields)]
struct RecordParameters {
    upstream: Filled,
}

pub async fn record(
    State(app): State<Arc<App>>,
    path: InPath<(String, String)>,
    uri: Uri,
) -> Result<Response, Problem> {
    let (kind, id) = in_path(path)?;
    let RecordParameters { upstream } = parameters(&uri)?;
    let record = one_record(&app, kind, id, upstream.owned()).await?;
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
            let catalog = environment.reader().await?;
            let mut found = Vec::new();
            let all = environment.config.upstreams.keys().cloned();
            let upstreams = upstream.map_or_else(|| all.collect(), |one| vec![one]);
            for name in upstreams {
                found.extend(catalog.record(&name, &kind, &id).await?);
            }
            // A record outlives its kind in the configuration.
            if found.is_empty() {
                environment.expect_kind(&kind)?;
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
