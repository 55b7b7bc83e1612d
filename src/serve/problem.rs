//! Errors as `application/problem+json` (RFC 9457).

use axum::http::{HeaderValue, StatusCode, header};
use axum::response::{IntoResponse, Response};
use serde::Serialize;

use crate::commands::Error;
use ingest_base::plain::json_safe;
use ingest_ledger::ClientError;

/// The type of a problem that needs no more than its status.
const BLANK: &str = "about:blank";
/// The type of a request beyond the limit on requests.
pub const QUOTA: &str = "https://iana.org/assignments/http-problem-types#quota-exceeded";
/// How long a client waits after a 503, in seconds.
pub const RETRY: u64 = 5;

/// An error.
#[derive(Debug, Clone, Serialize)]
#[serde(rename_all = "kebab-case")]
pub struct Problem {
    /// The kind of problem, as a URI.
    pub r#type: &'static str,
    /// The kind of problem in words.
    pub title: String,
    /// The status of the response.
    pub status: u16,
    /// What happened, and what to do.
    pub detail: String,
    /// The limits on requests that the request exceeds; only in a response 429.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub violated_policies: Vec<&'static str>,
    /// The seconds after which the request can be repeated.
    #[serde(skip)]
    pub retry_after: Option<u64>,
}

impl Problem {
    /// A problem with a status.
    pub fn new(status: StatusCode, detail: impl Into<String>) -> Self {
        Self {
            r#type: BLANK,
            title: status.canonical_reason().unwrap_or_default().to_owned(),
            status: status.as_u16(),
            detail: detail.into(),
            violated_policies: Vec::new(),
            retry_after: (status == StatusCode::SERVICE_UNAVAILABLE).then_some(RETRY),
        }
    }

    /// A request that makes no sense.
    pub fn bad_request(detail: impl Into<String>) -> Self {
        Self::new(StatusCode::BAD_REQUEST, detail)
    }

    /// A read that took too long.
    pub fn too_slow() -> Self {
        let detail = "the query took longer than serve.query_timeout and was cancelled; narrow it, or try again later";
        Self::new(StatusCode::SERVICE_UNAVAILABLE, detail)
    }

    /// A request that had no turn in time.
    pub fn busy() -> Self {
        let detail = "too many other requests are in progress; try again later";
        Self::new(StatusCode::SERVICE_UNAVAILABLE, detail)
    }
}

impl From<Error> for Problem {
    fn from(error: Error) -> Self {
        if error.is_forgotten_ledger() {
            tracing::error!("{error}");
            let detail = "the ledger of this server is gone, was replaced or emptied since it granted charges: it grants nothing \
                          more; its operator puts the ledger back, or restarts this server and charges again what is missing; \
                          the log of this server says more";
            return Self::new(StatusCode::INTERNAL_SERVER_ERROR, detail);
        }
        match &error {
            Error::Usage(what) => Self::bad_request(what),
            Error::Refused(what) => Self::new(StatusCode::NOT_FOUND, what),
            Error::Client(client) if client.is_outage() => {
                Self::new(StatusCode::SERVICE_UNAVAILABLE, error.to_string())
            }
            Error::Catalog(away) if away.is_retryable() => {
                tracing::error!("{error}");
                let detail = "the catalog cannot be reached now; the log of this server says why";
                Self::new(StatusCode::SERVICE_UNAVAILABLE, detail)
            }
            Error::Config(_)
            | Error::State(_)
            | Error::Catalog(_)
            | Error::Ledger(_)
            | Error::Client(_)
            | Error::Io { .. } => {
                // The error names files and databases of this machine, which are not the client's to know.
                tracing::error!("{error}");
                let detail = "the state of this server cannot be read or written; its log says why";
                Self::new(StatusCode::INTERNAL_SERVER_ERROR, detail)
            }
        }
    }
}

impl From<ClientError> for Problem {
    fn from(error: ClientError) -> Self {
        Error::from(error).into()
    }
}

impl IntoResponse for Problem {
    fn into_response(self) -> Response {
        let status = StatusCode::from_u16(self.status).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
        let body = serde_json::to_string(&self).unwrap_or_default();
        let body = json_safe(&body).into_owned();
        let fields = [
            (header::CONTENT_TYPE, "application/problem+json"),
            // A browser gets a page in its place.
            (header::VARY, "accept"),
        ];
        let mut response = (status, fields, body).into_response();
        let headers = response.headers_mut();
        if let Some(seconds) = self.retry_after {
            headers.insert(header::RETRY_AFTER, HeaderValue::from(seconds));
        }
        if status == StatusCode::UNAUTHORIZED {
            // Basic too: it makes a browser ask for a password, which is how a person presents a token.
            for challenge in [
                "Bearer realm=\"ingest\"",
                "Basic realm=\"ingest\", charset=\"UTF-8\"",
            ] {
                headers.append(
                    header::WWW_AUTHENTICATE,
                    HeaderValue::from_static(challenge),
                );
            }
        }
        // For `guard`, which shows it to a browser as a page.
        response.extensions_mut().insert(self);
        response
    }
}
