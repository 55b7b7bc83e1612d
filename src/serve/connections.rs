//! Accepts connections. They are bounded: in number, in the time that a head may take, and in the time that the other side
//! may take to read an answer.

use std::convert::Infallible;
use std::future::Future;
use std::io;
use std::net::SocketAddr;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use axum::Router;
use axum::body::{Body, Bytes};
use axum::http::{HeaderValue, Request, header};
use axum::response::Response;
use futures_util::future::select_all;
use http_body_util::BodyExt;
use hyper::body::{Body as _, Frame, Incoming, SizeHint};
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::{TokioIo, TokioTimer};
use hyper_util::server::graceful::{GracefulConnection, GracefulShutdown};
use parking_lot::Mutex;
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::{TcpListener, TcpStream};
use tokio::time::{Instant, Sleep, sleep, timeout};
use tower_service::Service;

use super::places::{Place, Places};
use super::unread::Unread;
use crate::run::Stop;

/// The most connections at once. Further ones wait in the socket's queue.
const MOST: usize = 4096;
/// File descriptors that are left to everything else.
const OTHER_FILES: u64 = 128;
/// How long a request's head may take, counted from the end of the last answer: idle connections are closed too.
const HEAD: Duration = Duration::from_secs(10);
/// The same while most connections are taken: slow clients must not keep the others out.
const HEAD_IN_A_CROWD: Duration = Duration::from_secs(1);
/// How long the other side may take to read [`LEAST`] bytes of an answer.
const UNREAD: Duration = Duration::from_secs(20);
/// The same while answers that nobody reads keep others waiting.
const UNREAD_OF_MANY: Duration = Duration::from_secs(1);
const LEAST: usize = 64 * 1024;
/// The longest head, in bytes.
const LONGEST_HEAD: usize = 32 * 1024;
/// How long requests in progress may take after a signal.
const GRACE: Duration = Duration::from_secs(5);
/// The most of a body, in bytes, that is read after its request was answered.
const LONGEST_REST: usize = 1024 * 1024;
/// How long that may take.
const REST_WITHIN: Duration = Duration::from_secs(1);
/// The pause after a failed accept: most often no file descriptor is left.
const PAUSE: Duration = Duration::from_millis(50);

/// The two ends of a connection.
#[derive(Debug, Clone, Copy)]
pub struct Peer {
    /// The other side.
    pub address: SocketAddr,
    /// This side.
    pub local: SocketAddr,
}

/// Serves until `stop`; then accepts no connection and gives requests in progress a few seconds.
pub async fn serve(
    listeners: Vec<TcpListener>,
    router: Router,
    (unread, is_behind_a_proxy): (Unread, bool),
    mut stop: Stop,
) {
    let places = Places::new(slots(), is_behind_a_proxy);
    let graceful = GracefulShutdown::new();
    loop {
        let accepted = async {
            // The slot comes first: a connection that was not accepted waits in the socket's queue, without a file descriptor.
            let slot = places.slot().await?;
            let stream = accept(&listeners).await?;
            Ok::<_, io::Error>((peer(&stream)?, slot, stream))
        };
        let accepted = tokio::select! {
            accepted = accepted => accepted,
            _ = stop.wait() => break,
        };
        match accepted {
            Ok((peer, slot, stream)) => {
                let place = Arc::new(places.take(slot, peer.address.ip()));
                let stream = Patient::new(stream, unread.clone());
                let connection = connection(stream, peer, Arc::clone(&place), router.clone());
                let connection = graceful.watch(connection);
                tokio::spawn(async move {
                    if let Err(error) = connection.await {
                        tracing::debug!("connection of {}: {error}", peer.address);
                    }
                    drop(place);
                });
            }
            Err(error) => {
                tracing::debug!("cannot accept a connection: {error}");
                sleep(PAUSE).await;
            }
        }
    }
    // Before the wait: a client is refused at once then, and can go to another server.
    drop(listeners);
    if timeout(GRACE, graceful.shutdown()).await.is_err() {
        tracing::warn!(
            "requests took longer than 5 s after the signal; their connections are closed"
        );
    }
}

/// The most connections that the system's limit on file descriptors allows.
fn slots() -> usize {
    let limit = getrlimit(Resource::Nofile);
    // The soft limit is often 1,024, for programs that cannot count higher; the hard limit is what the system allows.
    let raised = Rlimit {
        current: limit.maximum,
        ..limit
    };
    let current = match setrlimit(Resource::Nofile, raised) {
        Ok(()) => limit.maximum,
        Err(_) => limit.current,
    };
    // A connection needs one; a read behind it a few more, but few reads run at once.
    let allowed = current.map_or(MOST as u64, |files| files.saturating_sub(OTHER_FILES));
    usize::try_from(allowed).map_or(MOST, |allowed| allowed.clamp(16, MOST))
}

async fn accept(listeners: &[TcpListener]) -> io::Result<TcpStream> {
    let accepted = listeners.iter().map(|listener| Box::pin(listener.accept()));
    let (first, _, _) = select_all(accepted).await;
    first.map(|(stream, _)| stream)
}

fn peer(stream: &TcpStream) -> io::Result<Peer> {
    // The end of an answer does not wait until the client has acknowledged its beginning.
    stream.set_nodelay(true)?;
    Ok(Peer {
        address: stream.peer_addr()?,
        local: stream.local_addr()?,
    })
}

fn connection(
    stream: Patient,
    peer: Peer,
    place: Arc<Place>,
    router: Router,
) -> impl GracefulConnection<Error = hyper::Error> + Send {
    // For all requests of the connection: the time of a head is set once, when it begins.
    let head = match place.is_crowded() {
        true => HEAD_IN_A_CROWD,
        false => HEAD,
    };
    let service = service_fn(move |mut request: Request<Incoming>| {
        request.extensions_mut().insert(peer);
        let (router, place) = (router.clone(), Arc::clone(&place));
        async move {
            let mut response = answer(router, request).await?;
            if place.is_crowded() {
                close_after(&mut response);
            }
            Ok::<_, Infallible>(response)
        }
    });
    http1::Builder::new()
        .timer(TokioTimer::new())
        .header_read_timeout(head)
        .max_buf_size(LONGEST_HEAD)
        .serve_connection(TokioIo::new(stream), service)
}

/// Answers a request. A body that nobody read is read here, or else the answer says that the connection ends with it: the
/// client would take it for a failure of its next request.
async fn answer(mut router: Router, request: Request<Incoming>) -> Result<Response, Infallible> {
    // A client that asks before it sends its body sends none to a request that is refused.
    let asks = request.headers().contains_key(header::EXPECT);
    let (head, body) = request.into_parts();
    let body = SharedBody(Arc::new(Mutex::new(body)));
    let request = Request::from_parts(head, Body::new(body.clone()));
    let mut response = router.call(request).await?;
    let is_read = body.is_end_stream()
        || !asks && matches!(timeout(REST_WITHIN, body.discard()).await, Ok(true));
    if !is_read {
        close_after(&mut response);
    }
    Ok(response)
}

/// Says that the connection ends with its answer, as it then does.
fn close_after(response: &mut Response) {
    let close = HeaderValue::from_static("close");
    response.headers_mut().insert(header::CONNECTION, close);
}

/// The body of a request, of which the rest can be read when it is answered.
#[derive(Clone)]
struct SharedBody(Arc<Mutex<Incoming>>);

impl SharedBody {
    /// Reads what is left of a short body. Returns whether it came to its end.
    async fn discard(mut self) -> bool {
        let mut left = LONGEST_REST;
        loop {
            let bytes = match self.frame().await {
                None => return true,
                Some(Ok(frame)) => frame.data_ref().map_or(0, Bytes::len),
                Some(Err(_)) => return false,
            };
            match left.checked_sub(bytes) {
                Some(rest) => left = rest,
                None => return false,
            }
        }
    }
}

impl hyper::body::Body for SharedBody {
    type Data = Bytes;
    type Error = hyper::Error;

    fn poll_frame(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, hyper::Error>>> {
        Pin::new(&mut *self.0.lock()).poll_frame(context)
    }

    fn is_end_stream(&self) -> bool {
        self.0.lock().is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.0.lock().size_hint()
    }
}

/// A connection that fails when the other side reads too slowly.
struct Patient {
    stream: TcpStream,
    unread: Unread,
    /// The write that waits for the other side; `None`: none does.
    waiting: Option<Waiting>,
}

struct Waiting {
    since: Instant,
    /// The bytes that the other side has read since then.
    read: usize,
    /// When to look next whether it waits for too long.
    next_look: Pin<Box<Sleep>>,
}

impl Patient {
    fn new(stream: TcpStream, unread: Unread) -> Self {
        Self {
            stream,
            unread,
            waiting: None,
        }
    }

    fn written(
        &mut self,
        written: Poll<io::Result<usize>>,
        context: &mut Context<'_>,
    ) -> Poll<io::Result<usize>> {
        if let Poll::Ready(written) = written {
            let read = *written.as_ref().unwrap_or(&0);
            self.waiting = self.waiting.take().and_then(|waiting| waiting.after(read));
            return Poll::Ready(written);
        }
        let waiting = self.waiting.get_or_insert_with(Waiting::begin);
        // Looked at every second, and not once at the end: the patience shrinks when other answers begin to wait.
        while waiting.next_look.as_mut().poll(context).is_ready() {
            let patience = match self.unread.are_many() {
                true => UNREAD_OF_MANY,
                false => UNREAD,
            };
            if waiting.since.elapsed() >= patience {
                return Poll::Ready(Err(io::ErrorKind::TimedOut.into()));
            }
            waiting.next_look = Box::pin(sleep(UNREAD_OF_MANY));
        }
        Poll::Pending
    }
}

impl Waiting {
    fn begin() -> Self {
        Self {
            since: Instant::now(),
            read: 0,
            next_look: Box::pin(sleep(UNREAD_OF_MANY)),
        }
    }

    /// The same after the other side has read some bytes; `None` after enough of them.
    fn after(mut self, read: usize) -> Option<Self> {
        self.read += read;
        (self.read < LEAST).then_some(self)
    }
}

impl AsyncRead for Patient {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        into: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_read(context, into)
    }
}

impl AsyncWrite for Patient {
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        let written = Pin::new(&mut self.stream).poll_write(context, bytes);
        self.written(written, context)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        parts: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let written = Pin::new(&mut self.stream).poll_write_vectored(context, parts);
        self.written(written, context)
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        // Comes behind the last byte of an answer.
        self.waiting = None;
        Pin::new(&mut self.stream).poll_flush(context)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(context)
    }
}
