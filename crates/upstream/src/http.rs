//! HTTP: sends one request and reads its response, up to the largest allowed size.

use std::sync::Arc;
use std::time::Duration;

use http_body_util::{BodyExt, Full};
use hyper::Uri;
use hyper::body::{Bytes, Incoming};
use reqwest::Request;
use reqwest::header::{
    ACCEPT, ACCEPT_ENCODING, CONTENT_LENGTH, HOST, HeaderMap, HeaderValue, PROXY_AUTHORIZATION,
    TRANSFER_ENCODING, USER_AGENT,
};
use tokio::time::Instant;

use super::body::{Body, End};
use super::connect::{Connector, innermost};
use super::connection::{Broken, Connection, Open, Pool};
use super::endpoint::{Endpoint, host_of};
use super::large_body::{LargeBodySlot, READ_TOGETHER};
use super::line::Unsent;
use super::redactor::Redactor;
use super::response::Response;
use super::{Failure, transient};
use ingest_base::clock::Deadline;
use ingest_base::plain::one_line;

/// The bytes that are read of a response that is no success: enough for its message.
const REFUSAL_BYTES: u64 = 256 * 1024;

const TOO_LONG: &str = "timeout";

/// The most connections that may turn out to be closed before a byte is written to them.
const CONNECTIONS: usize = 4;

/// The HTTP/1.1 client of one upstream. A few requests at once need no streams, so HTTP/2 would only lengthen the build.
///
/// It never sends a charged request twice: another connection is tried only if no byte was written to the first one.
#[derive(Debug)]
pub struct Http {
    connector: Connector,
    pool: Arc<Pool>,
    timeout: Duration,
    max_body: u64,
}

impl Http {
    /// The client of an endpoint. This is slow, since it reads the system's certificates.
    ///
    /// # Errors
    /// No connection can be made, now or later.
    pub fn new(endpoint: Endpoint) -> Result<Self, String> {
        Ok(Self {
            timeout: endpoint.timeout,
            max_body: endpoint.max_body,
            connector: Connector::new(endpoint)?,
            pool: Arc::default(),
        })
    }

    /// A connection that is ready for a request. Nothing is sent on it.
    ///
    /// # Errors
    /// No connection can be made.
    pub async fn connect(&self) -> Result<Connection, Failure> {
        let connection = Connection::open(&self.pool, &self.connector).await;
        connection.map_err(Failure::Unreachable)
    }

    /// Sends a request once and before its deadline, and reads its response: at most `upstream.max_body` bytes after
    /// decompression, within `upstream.timeout`.
    ///
    /// # Errors
    /// There is no response. The error says whether the request was sent.
    pub async fn exchange(
        &self,
        request: &Request,
        connection: Connection,
        deadline: Deadline,
        redactor: Redactor,
    ) -> Result<Response, Failure> {
        let mut patience = Patience::new(self.timeout);
        let sending = Sending {
            http: self,
            request,
            deadline,
            redactor: &redactor,
        };
        let (response, open) = sending.send(connection, &mut patience).await?;
        let (head, body) = response.into_parts();
        let most = if head.status.is_success() {
            self.max_body
        } else {
            // A limit that the configuration sets lower holds for refusals too.
            self.max_body.min(REFUSAL_BYTES)
        };
        let mut reading = Reading {
            incoming: body,
            body: Body::new(&head.headers, most),
            slot: LargeBodySlot::default(),
        };
        let end = reading.read(patience, &redactor).await;
        // What is left of a body would be read as the beginning of the next response.
        if end == End::Whole {
            open.keep_after_answer();
        }
        let bounds = [CONTENT_LENGTH, TRANSFER_ENCODING];
        let has_bound = bounds.iter().any(|name| head.headers.contains_key(name));
        Ok(Response {
            end,
            is_unbounded: !has_bound && !reading.body.is_packed(),
            redactor,
            slot: reading.slot,
            ..Response::new(head.status, head.headers, reading.body.into_bytes())
        })
    }
}

/// A request on its way out.
struct Sending<'a> {
    http: &'a Http,
    request: &'a Request,
    deadline: Deadline,
    redactor: &'a Redactor,
}

impl Sending<'_> {
    /// Sends the request on the given connection, or on another one as long as no byte was written. Connecting again counts
    /// against the same deadline.
    async fn send(
        &self,
        connection: Connection,
        patience: &mut Patience,
    ) -> Result<(hyper::Response<Incoming>, Open), Failure> {
        let host = host_of(self.request.url());
        let mut given = connection.take();
        for _ in 0..CONNECTIONS {
            let mut open = match given.take() {
                Some(open) => open,
                None => self.another().await?,
            };
            if self.deadline.is_past() {
                // Nothing was sent on it: it serves the next request.
                open.keep();
                return Err(Failure::TooLate);
            }
            let sent = patience
                .with(open.send(self.outgoing()?, self.deadline))
                .await;
            match sent {
                Some(Ok(response)) => return Ok((response, open)),
                Some(Err(Broken::Unsent(Unsent::TooLate))) => return Err(Failure::TooLate),
                Some(Err(Broken::Unsent(Unsent::Stale))) => {}
                Some(Err(Broken::InDoubt(error))) => {
                    return Err(transient(format!(
                        "the connection to {host} broke before the response: {}",
                        one_line(&self.redactor.clean(&innermost(&error)))
                    )));
                }
                // Not a byte was written, so another connection may be tried.
                None if open.give_up().is_some() => {}
                None => return Err(transient(format!("{host} did not respond in time"))),
            }
        }
        Err(Failure::Unreachable(format!(
            "cannot connect to {host}: {CONNECTIONS} connections were closed before a request \
            could be sent"
        )))
    }

    async fn another(&self) -> Result<Open, Failure> {
        match self.http.connect().await?.take() {
            Some(open) => Ok(open),
            // Cannot happen: `connect` makes a connection or fails.
            None => Err(Failure::TooLate),
        }
    }

    /// The request as it is written to a connection.
    fn outgoing(&self) -> Result<hyper::Request<Full<Bytes>>, Failure> {
        let url = self.request.url();
        let unfit = |why: &dyn std::fmt::Display| {
            let host = host_of(url);
            Failure::NotSent(format!("cannot build a request to {host}: {why}"))
        };
        let body = self.request.body().and_then(reqwest::Body::as_bytes);
        let mut outgoing =
            hyper::Request::new(Full::new(Bytes::copy_from_slice(body.unwrap_or_default())));
        *outgoing.method_mut() = self.request.method().clone();
        // A configured header replaces the usual one of its name.
        *outgoing.headers_mut() = headers(self.request.headers());
        let host = HeaderValue::try_from(host_of(url)).map_err(|error| unfit(&error))?;
        outgoing.headers_mut().entry(HOST).or_insert(host);
        // A proxy that forwards needs the whole URL, and its own credentials. Through a tunnel, these must not reach
        // the host.
        let target = match self.http.connector.forwarded() {
            None => url[url::Position::BeforePath..url::Position::AfterQuery].to_owned(),
            Some(authorization) => {
                if let Some(value) = authorization {
                    outgoing
                        .headers_mut()
                        .insert(PROXY_AUTHORIZATION, value.clone());
                }
                url[..url::Position::AfterQuery].to_owned()
            }
        };
        *outgoing.uri_mut() = Uri::try_from(target).map_err(|error| unfit(&error))?;
        Ok(outgoing)
    }
}

/// The headers of every request, unless the configuration sets them.
pub fn headers(own: &HeaderMap) -> HeaderMap {
    let usual = [
        (ACCEPT, "application/json"),
        (ACCEPT_ENCODING, "gzip"),
        (USER_AGENT, concat!("ingest/", env!("CARGO_PKG_VERSION"))),
    ];
    let mut headers = own.clone();
    for (name, value) in usual {
        headers
            .entry(name)
            .or_insert(HeaderValue::from_static(value));
    }
    headers
}

/// The deadline of a response. Time that the response waits for this process does not count.
#[derive(Clone, Copy)]
struct Patience {
    until: Instant,
    /// Whether it has passed once: then only what has arrived by now is read.
    is_over: bool,
}

/// After the deadline, what has already arrived is read for this long: the process may have been suspended meanwhile.
const LAST_LOOK: Duration = Duration::from_millis(500);

impl Patience {
    fn new(span: Duration) -> Self {
        const LONGEST: Duration = Duration::from_secs(365 * 24 * 60 * 60);
        Self {
            // A longer span could not be added to an instant.
            until: Instant::now() + span.min(LONGEST),
            is_over: false,
        }
    }

    /// Returns what arrives in time, or has arrived when the deadline is noticed.
    async fn with<T>(&mut self, coming: impl Future<Output = T>) -> Option<T> {
        let mut coming = std::pin::pin!(coming);
        if let Ok(came) = tokio::time::timeout_at(self.until, &mut coming).await {
            return Some(came);
        }
        if self.is_over {
            return None;
        }
        self.is_over = true;
        self.until = Instant::now() + LAST_LOOK;
        tokio::time::timeout_at(self.until, coming).await.ok()
    }

    /// Extends the deadline by the time that this takes.
    async fn after(&mut self, ours: impl Future<Output = ()>) {
        let began = Instant::now();
        ours.await;
        self.until += began.elapsed();
    }
}

/// A body that is being received.
struct Reading {
    incoming: Incoming,
    body: Body,
    slot: LargeBodySlot,
}

impl Reading {
    /// Reads a body to its end, or until it exceeds the allowed size; the excess is never kept.
    async fn read(&mut self, mut patience: Patience, redactor: &Redactor) -> End {
        loop {
            let Some(frame) = patience.with(self.incoming.frame()).await else {
                return End::Broken(TOO_LONG.to_owned());
            };
            let chunk = match frame {
                None => return self.body.finish(),
                Some(Ok(frame)) => frame.into_data().unwrap_or_default(),
                Some(Err(error)) => {
                    return End::Broken(one_line(&redactor.clean(&innermost(&error))));
                }
            };
            for part in self.body.parts(&chunk) {
                if self.body.len() + part.len() > READ_TOGETHER {
                    patience.after(self.slot.wait()).await;
                    self.body.reserve();
                }
                if let Err(end) = self.body.push(part) {
                    return end;
                }
            }
        }
    }
}
