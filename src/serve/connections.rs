//! Accepts connections. They are bounded in number, and in the time that a head may take.

use std::convert::Infallible;
use std::io;
use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use axum::http::Request;
use futures_util::future::select_all;
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::{TokioIo, TokioTimer};
use hyper_util::server::graceful::{GracefulConnection, GracefulShutdown};
use tokio::net::{TcpListener, TcpStream};
use tokio::time::{sleep, timeout};

use super::auth::Peer;
use super::patient::Patient;
use super::places::{ConnectionPlace, Places};
use super::rest::{answer, close_after};
use super::unread::UnreadAnswers;
use crate::run::Stop;

/// How long a request's head may take, counted from the end of the last answer: idle connections are closed too.
const HEAD: Duration = Duration::from_secs(10);
/// The same while most connections are taken: slow clients must not keep the others out.
const HEAD_IN_A_CROWD: Duration = Duration::from_secs(1);
/// The longest head, in bytes.
const LONGEST_HEAD: usize = 32 * 1024;
/// How long requests in progress may take after a signal.
const GRACE: Duration = Duration::from_secs(5);
/// The pause after a failed accept: most often no file descriptor is left.
const PAUSE: Duration = Duration::from_millis(50);

/// Serves until `stop`; then accepts no connection and gives requests in progress a few seconds.
pub async fn serve(
    listeners: Vec<TcpListener>,
    router: Router,
    (unread, is_behind_a_proxy): (UnreadAnswers, bool),
    mut stop: Stop,
) {
    let places = Places::new(is_behind_a_proxy);
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
    place: Arc<ConnectionPlace>,
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
