//! Connections that are open, each for one request at a time.

use std::fmt;
use std::sync::{Arc, Weak};
use std::time::Duration;

use http_body_util::Full;
use hyper::body::{Bytes, Incoming};
use hyper::client::conn::http1::{self, SendRequest};
use hyper::{Request, Response};
use hyper_util::rt::TokioIo;
use parking_lot::Mutex;

use super::connect::Connector;
use super::line::{Unsent, Watch};
use ingest_base::clock::{Deadline, Monotonic};

/// For how long a connection is kept: shorter than servers usually do. A request on one that was just closed is in doubt.
const IDLE: Duration = Duration::from_secs(20);

/// A server that sends more header lines than this is not understood.
const MOST_HEADERS: usize = 256;

/// A connection that is ready for one request, made before the request is charged: connecting can take longer than a
/// charge may wait for its request. Dropped without a request it is closed: a server with one thread answers nobody else meanwhile.
#[derive(Debug, Default)]
pub struct Connection(Option<Open>);

/// An open connection to the upstream.
pub struct Open {
    sender: SendRequest<Full<Bytes>>,
    watch: Arc<Watch>,
    /// When it began to wait; `None` before its first request.
    idle_since: Option<Monotonic>,
    // Weak, since the pool holds the connections that wait.
    pool: Weak<Pool>,
}

/// After this many broken requests, connections are no longer kept.
const TRUSTED: u32 = 3;

/// The connections that wait for a request.
#[derive(Debug)]
pub struct Pool(Mutex<Waiting>);

#[derive(Debug)]
struct Waiting {
    open: Vec<Open>,
    /// How long we assume that the server keeps a connection.
    kept_for: Duration,
    /// The number of requests that broke on a connection that had waited.
    broken: u32,
}

/// Why there is no response.
pub enum Broken {
    /// No byte of the request was written.
    Unsent(Unsent),
    /// A part of the request was written: it is unknown whether the server counted it.
    InDoubt(hyper::Error),
}

impl Default for Pool {
    fn default() -> Self {
        Self(Mutex::new(Waiting {
            open: Vec::new(),
            kept_for: IDLE,
            broken: 0,
        }))
    }
}

impl Pool {
    /// The connection that has waited for the shortest time: the server closes the others first.
    pub fn take(&self) -> Option<Open> {
        let mut waiting = self.0.lock();
        let kept_for = waiting.kept_for;
        // One without a request yet has not waited. Whether it is still open is looked at when a request is written to
        // it.
        let is_kept = |open: &Open| open.idle_for().is_none_or(|span| span < kept_for);
        waiting
            .open
            .retain(|open| !open.sender.is_closed() && is_kept(open));
        waiting.open.pop()
    }

    fn put(&self, open: Open) {
        self.0.lock().open.push(open);
    }

    /// Records that a connection broke during a request after it had waited for `span`: from now on connections wait for at
    /// most half as long. After `TRUSTED` such requests, each of which may have been counted, no connection is kept. A server
    /// that closes early then costs a few units in a run instead of one unit a page.
    fn broke_after(&self, span: Duration) {
        let mut waiting = self.0.lock();
        waiting.broken += 1;
        waiting.kept_for = match waiting.broken {
            ..TRUSTED => waiting.kept_for.min(span / 2),
            _ => Duration::ZERO,
        };
    }
}

impl Connection {
    /// A waiting connection of the pool, else a new one.
    ///
    /// # Errors
    /// No connection can be made.
    pub async fn open(pool: &Arc<Pool>, connector: &Connector) -> Result<Self, String> {
        let open = match pool.take() {
            Some(open) => open,
            None => Open::new(pool, connector).await?,
        };
        Ok(Self(Some(open)))
    }

    /// Whether it can take a request, as far as is known.
    pub fn is_open(&self) -> bool {
        self.0.as_ref().is_some_and(|open| !open.sender.is_closed())
    }

    /// The connection itself; `None` if none was made.
    #[must_use]
    pub fn take(self) -> Option<Open> {
        self.0
    }
}

impl Open {
    /// Makes a connection.
    ///
    /// # Errors
    /// No connection can be made.
    pub async fn new(pool: &Arc<Pool>, connector: &Connector) -> Result<Self, String> {
        let (bytes, watch) = connector.connect().await?;
        let mut http = http1::Builder::new();
        http.max_headers(MOST_HEADERS)
            .allow_obsolete_multiline_headers_in_responses(true);
        let made = http.handshake(TokioIo::new(bytes)).await;
        let (sender, connection) = made.map_err(|error| error.to_string())?;
        // The task ends with the connection; its errors are those of the request.
        tokio::spawn(connection);
        Ok(Self {
            sender,
            watch,
            idle_since: None,
            pool: Arc::downgrade(pool),
        })
    }

    /// Sends a request unless its deadline has passed, and returns the head of its response. If this future is dropped, the
    /// request may have been sent.
    ///
    /// # Errors
    /// There is no response.
    pub async fn send(
        &mut self,
        request: Request<Full<Bytes>>,
        deadline: Deadline,
    ) -> Result<Response<Incoming>, Broken> {
        // Before the watch is armed, so nothing of this request can have been written.
        if self.sender.ready().await.is_err() {
            return Err(Broken::Unsent(Unsent::Stale));
        }
        self.watch.arm(deadline);
        let answered = self.sender.send_request(request).await;
        match (answered, self.watch.disarm()) {
            // Whatever the answer is: not a byte was written, so the server cannot have counted the request.
            (_, Some(unsent)) => Err(Broken::Unsent(unsent)),
            (Ok(response), None) => Ok(response),
            (Err(error), None) => {
                // Only one that had waited tells how long the server keeps connections.
                if let (Some(span), Some(pool)) = (self.idle_for(), self.pool.upgrade()) {
                    pool.broke_after(span);
                }
                Err(Broken::InDoubt(error))
            }
        }
    }

    /// Ends the wait for a response. `Some` if no byte of the request was written, and none will be.
    pub fn give_up(&self) -> Option<Unsent> {
        self.watch.disarm()
    }

    /// Keeps it for another request.
    pub fn keep(self) {
        if let Some(pool) = self.pool.upgrade().filter(|_| !self.sender.is_closed()) {
            pool.put(self);
        }
    }

    /// Keeps it for another request, after a complete response.
    pub fn keep_after_answer(mut self) {
        self.idle_since = Some(Monotonic::now());
        self.keep();
    }

    fn idle_for(&self) -> Option<Duration> {
        Some(self.idle_since.as_ref()?.elapsed())
    }
}

impl fmt::Debug for Open {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("Open").finish_non_exhaustive()
    }
}
