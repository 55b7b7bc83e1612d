//! Envoy's rate limit service: descriptors charge the ledger as `POST /api/v1/charge` does. Envoy speaks gRPC, which is
//! HTTP/2, so it has an address of its own.

mod descriptors;
mod messages;

use std::convert::Infallible;
use std::future::Future;
use std::net::SocketAddr;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use axum::http::{HeaderMap, Request, Response};
use hyper::body::Incoming;
use hyper::server::conn::http2;
use hyper::service::service_fn;
use hyper_util::rt::{TokioExecutor, TokioIo, TokioTimer};
use tokio::net::{TcpListener, TcpStream};
use tonic::Status;
use tonic::body::Body;
use tonic::server::{Grpc, UnaryService};
use tonic_prost::ProstCodec;

use self::descriptors::Descriptors;
use self::messages::{RateLimitRequest, RateLimitResponse};
use super::App;
use super::client::{Client, Presented};
use super::connections::{self, HEAD, HttpConnection, LONGEST_HEAD, Patient, Peer, UNREAD};
use super::listen;
use crate::commands::Error;
use crate::run::Stop;
use ingest_config::May;

const METHOD: &str = "/envoy.service.ratelimit.v3.RateLimitService/ShouldRateLimit";
/// The longest message, in bytes.
const LONGEST_MESSAGE: usize = 64 * 1024;
/// The most requests of a connection at once.
const MOST_STREAMS: u32 = 256;

/// The service, and where it listens; `None` if it is not configured.
pub struct Envoy(Option<(TcpListener, Arc<Service>)>);

struct Service {
    app: Arc<App>,
    descriptors: Descriptors,
}

impl Envoy {
    /// Binds the address.
    ///
    /// # Errors
    /// The address cannot be bound, nobody may charge, or a descriptor charges what does not exist.
    pub fn bind(app: &Arc<App>) -> Result<Self, Error> {
        let config = &app.environment.config.serve;
        let Some(envoy) = &config.envoy else {
            return Ok(Self(None));
        };
        if !config
            .clients
            .values()
            .any(|client| client.may(May::Charge))
        {
            let why = "[serve.envoy] needs a client that may charge: add [serve.clients.NAME] with a token and \
                may = [\"charge\"]";
            return Err(Error::Usage(why.to_owned()));
        }
        let service = Service {
            descriptors: Descriptors::new(&app.environment, envoy)?,
            app: Arc::clone(app),
        };
        let listener = listen::bind(envoy.listen)?;
        Ok(Self(Some((listener, Arc::new(service)))))
    }

    /// Where it listens.
    pub fn address(&self) -> Option<SocketAddr> {
        let (listener, _) = self.0.as_ref()?;
        listener.local_addr().ok()
    }

    /// Answers until `stop`.
    pub async fn serve(self, stop: Stop) {
        let Some((listener, service)) = self.0 else {
            return;
        };
        let connect =
            move |stream, peer, head| connection(stream, peer, head, Arc::clone(&service));
        connections::serve(vec![listener], connect, stop).await;
    }
}

fn connection(
    stream: TcpStream,
    peer: Peer,
    head: Duration,
    service: Arc<Service>,
) -> impl HttpConnection {
    let answer = service_fn(move |request: Request<Incoming>| {
        let service = Arc::clone(&service);
        async move { Ok::<_, Infallible>(service.answer(request, peer).await) }
    });
    let longest_head = u32::try_from(LONGEST_HEAD).unwrap_or(u32::MAX);
    http2::Builder::new(TokioExecutor::new())
        .timer(TokioTimer::new())
        // Envoy keeps a connection open between requests: only a ping tells that the other side is gone.
        .keep_alive_interval(Some(UNREAD))
        .keep_alive_timeout(HEAD)
        .max_concurrent_streams(MOST_STREAMS)
        .max_header_list_size(longest_head)
        .serve_connection(TokioIo::new(Patient::until_begun(stream, head)), answer)
}

impl Service {
    async fn answer(self: Arc<Self>, request: Request<Incoming>, peer: Peer) -> Response<Body> {
        let client = match self.client(request.headers(), peer) {
            Ok(client) => client,
            Err(status) => return status.into_http(),
        };
        if request.uri().path() != METHOD {
            return Status::unimplemented("only ShouldRateLimit is answered").into_http();
        }
        let method = ShouldRateLimit {
            service: self,
            client,
        };
        let codec = ProstCodec::<RateLimitResponse, RateLimitRequest>::default();
        let mut grpc = Grpc::new(codec).max_decoding_message_size(LONGEST_MESSAGE);
        // The message of the request arrives within this time too.
        let answered = tokio::time::timeout(UNREAD, grpc.unary(method, request)).await;
        answered.unwrap_or_else(|_| Status::deadline_exceeded("it took too long").into_http())
    }

    /// The client of a request: every one needs a bearer token of a client that may charge, on loopback too.
    fn client(&self, headers: &HeaderMap, peer: Peer) -> Result<Arc<Client>, Status> {
        let identity = self.app.clients.identify(headers, peer);
        let bearer = identity
            .client
            .filter(|_| identity.presented == Presented::Bearer);
        match bearer {
            Some(client) if client.config.may(May::Charge) => Ok(client),
            Some(client) => Err(Status::permission_denied(format!(
                "client `{}` may not charge; add \"charge\" to its `may`",
                client.name
            ))),
            None => Err(Status::unauthenticated(
                "a charge needs the token of a client, as metadata `authorization: Bearer TOKEN`",
            )),
        }
    }
}

struct ShouldRateLimit {
    service: Arc<Service>,
    client: Arc<Client>,
}

impl UnaryService<RateLimitRequest> for ShouldRateLimit {
    type Response = RateLimitResponse;
    type Future =
        Pin<Box<dyn Future<Output = Result<tonic::Response<RateLimitResponse>, Status>> + Send>>;

    fn call(&mut self, request: tonic::Request<RateLimitRequest>) -> Self::Future {
        let (service, client) = (Arc::clone(&self.service), Arc::clone(&self.client));
        Box::pin(async move {
            // A client that hangs up must not leave a charge that it would have got back.
            let task = tokio::spawn(async move {
                let descriptors = &service.descriptors;
                descriptors
                    .charge(&service.app, &client, &request.into_inner())
                    .await
            });
            let ended = task
                .await
                .map_err(|_| Status::internal("a charge did not finish"))?;
            ended.map(tonic::Response::new)
        })
    }
}
