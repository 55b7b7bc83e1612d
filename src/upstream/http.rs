//! The wire: one request out, one answer in, never more of it than allowed.

use std::error::Error;
use std::time::Duration;

use reqwest::header::{ACCEPT, HeaderMap, HeaderValue, USER_AGENT};
use reqwest::redirect::Policy;
use reqwest::{Request, Response};
use tokio::time::Instant;
use url::Url;

use super::alone::{Alone, READ_TOGETHER};
use super::answer::{Answer, End};
use super::redactor::Redactor;
use super::{Failure, transient};
use crate::config;
use crate::plain::one_line;

/// Of an answer that is no success so much is read: enough to tell what it says.
const REFUSAL_BYTES: u64 = 256 * 1024;

/// Room for a long body is made at once, for as much as is usually allowed.
const LONG_BODY: usize = 32 * 1024 * 1024;

const TOO_LONG: &str = "it took too long";

const CONNECT: Duration = Duration::from_secs(10);

/// Shorter than what servers usually keep a connection for: a request on one that was just closed is charged for nothing.
const IDLE: Duration = Duration::from_secs(20);

/// Builds the client of one upstream: slow, since it reads the system's certificates.
///
/// It speaks HTTP/1.1: a handful of requests at once need no streams, and a build no second protocol.
///
/// Nothing is ever sent twice behind the ledger's back. `retry::never` switches off what reqwest would send again by
/// itself. What hyper-util does again cannot be switched off through reqwest, and need not be: it moves a request to
/// another connection only where hyper hands the whole request back, not a byte of it written.
pub fn client(upstream: &config::Upstream) -> reqwest::Result<reqwest::Client> {
    // Whoever was first, it is the same one.
    let _ = rustls::crypto::ring::default_provider().install_default();
    let mut builder = reqwest::Client::builder()
        .default_headers(headers())
        .redirect(Policy::none())
        .retry(reqwest::retry::never())
        .referer(false)
        .connect_timeout(CONNECT.min(upstream.timeout / 2))
        .pool_idle_timeout(IDLE);
    if upstream.is_loopback() {
        // A proxy could not reach it, and would be told the secret.
        builder = builder.no_proxy();
    }
    if upstream.base_url.scheme() == "http" {
        builder = builder.tls_certs_only([]);
    }
    builder.build()
}

/// What every request carries that is not configured otherwise.
fn headers() -> HeaderMap {
    let mut headers = HeaderMap::new();
    headers.insert(ACCEPT, HeaderValue::from_static("application/json"));
    headers.insert(
        USER_AGENT,
        HeaderValue::from_static(concat!("ingest/", env!("CARGO_PKG_VERSION"))),
    );
    headers
}

/// Sends a request once and reads its answer, at most `upstream.max_body` bytes of it after decompression, within
/// `upstream.timeout`.
pub async fn exchange(
    client: &reqwest::Client,
    request: Request,
    upstream: &config::Upstream,
    redactor: Redactor,
) -> Result<Answer, Failure> {
    let host = host_of(request.url());
    let patience = Patience::of(upstream.timeout);
    let Some(response) = patience.with(client.execute(request)).await else {
        return Err(too_late(&host));
    };
    let response = response.map_err(|error| unanswered(error, &host, &redactor))?;
    let (status, headers) = (response.status(), response.headers().clone());
    let most = if status.is_success() {
        upstream.max_body
    } else {
        upstream.max_body.min(REFUSAL_BYTES)
    };
    let mut alone = Alone::default();
    let (body, end) = read(response, most, patience, &redactor, &mut alone).await;
    Ok(Answer::new(status, headers, body)
        .ending(end)
        .taken(alone)
        .redacted_by(redactor))
}

/// Until when an answer is waited for. What it waits for us is no fault of the upstream's.
#[derive(Clone, Copy)]
struct Patience(Instant);

impl Patience {
    fn of(span: Duration) -> Self {
        const LONGEST: Duration = Duration::from_secs(365 * 24 * 60 * 60);
        Self(Instant::now() + span.min(LONGEST))
    }

    /// What comes in time.
    async fn with<T>(self, coming: impl Future<Output = T>) -> Option<T> {
        tokio::time::timeout_at(self.0, coming).await.ok()
    }

    /// As much longer as this takes.
    async fn after(self, ours: impl Future<Output = ()>) -> Self {
        let began = Instant::now();
        ours.await;
        Self(self.0 + began.elapsed())
    }
}

/// Reads a body until its end, or until it is longer than `most`: what is over is never held.
async fn read(
    mut response: Response,
    most: u64,
    mut patience: Patience,
    redactor: &Redactor,
    alone: &mut Alone,
) -> (Vec<u8>, End) {
    let most = usize::try_from(most).unwrap_or(usize::MAX);
    let mut body = Vec::new();
    loop {
        let Some(chunk) = patience.with(response.chunk()).await else {
            return (body, End::Broken(TOO_LONG.to_owned()));
        };
        match chunk {
            Ok(None) => return (body, End::Whole),
            Ok(Some(chunk)) if chunk.len() > most - body.len() => {
                body.extend(chunk.iter().take(most - body.len()));
                return (body, End::TooLong(most));
            }
            Ok(Some(chunk)) => {
                if body.len() + chunk.len() > READ_TOGETHER {
                    patience = patience.after(alone.wait()).await;
                    // At once, since what a buffer leaves behind that grows is seldom of use to anything.
                    body.reserve(most.min(LONG_BODY).saturating_sub(body.len()));
                }
                body.extend_from_slice(&chunk);
            }
            Err(error) => return (body, End::Broken(cause(&error, redactor))),
        }
    }
}

/// What it means that no answer came.
fn unanswered(error: reqwest::Error, host: &str, redactor: &Redactor) -> Failure {
    let error = error.without_url();
    let cause = cause(&error, redactor);
    if error.is_connect() {
        Failure::Unreachable(format!("no connection to {host}: {cause}"))
    } else if error.is_builder() {
        Failure::NotSent(format!("no request to {host} can be made of this: {cause}"))
    } else if error.is_timeout() {
        too_late(host)
    } else {
        transient(format!(
            "the connection to {host} broke before an answer came: {cause}"
        ))
    }
}

fn too_late(host: &str) -> Failure {
    transient(format!("{host} did not answer in time"))
}

/// The innermost reason of an error: the outer ones only say that there is one.
fn cause(error: &reqwest::Error, redactor: &Redactor) -> String {
    if error.is_timeout() {
        return TOO_LONG.to_owned();
    }
    let mut innermost: &dyn Error = error;
    while let Some(source) = innermost.source() {
        innermost = source;
    }
    one_line(&redactor.clean(&innermost.to_string()))
}

/// The host of a URL and its port, which may be shown.
pub fn host_of(url: &Url) -> String {
    let host = url.host_str().unwrap_or("nowhere");
    url.port()
        .map_or_else(|| host.to_owned(), |port| format!("{host}:{port}"))
}
