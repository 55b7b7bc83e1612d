//! A local stand-in for every configured upstream, with its own count of the quota.
//!
//! A [`Sandbox`] serves each upstream under its name, from saved responses, or with records that are invented from the configuration
//! ([`AnswerOrigin`]). `/_sandbox/` reports requests and usage, and accepts faults.
//!
//! Cannot see the ledger and shares no code with it: what the two count is compared in tests. Begin with [`Sandbox`], then
//! `service.rs`.

mod answer;
mod count;
mod credential;
mod drawn;
mod encode;
mod fault;
mod log;
mod pattern;
mod pointer;
mod record;
mod refuse;
mod request;
mod route;
mod saved;
mod server;
mod service;
mod world;

use std::collections::BTreeMap;
use std::io;
use std::net::{Ipv4Addr, SocketAddr};
use std::sync::Arc;
use std::time::Duration;

use secrecy::SecretString;
use serde::Serialize;
use tokio::net::TcpListener;
use tokio::sync::oneshot;
use tokio::task::JoinHandle;
use url::Url;

use self::service::Service;
use ingest_base::clock::Clock;
use ingest_config::Config;
use ingest_quota::Units;

pub use self::count::Counted;
pub use self::saved::SavedResponses;

/// The time for requests in flight when the sandbox stops.
const PATIENCE: Duration = Duration::from_secs(1);

/// The behaviour of the sandbox.
#[derive(Debug, Clone)]
pub struct Options {
    /// The address to listen on; port 0: any free port.
    pub listen: SocketAddr,
    /// The latency of each response.
    pub latency: Duration,
    /// The share of requests, 0 to 1, that fails with 500 or 503 or is dropped: the same ones for the same seed.
    pub failure_rate: f64,
    /// The units that each limit grants per window; `None`: the configured quotas.
    pub quota: Option<Units>,
    /// Another seed gives other records.
    pub seed: u64,
    /// Responses that the user saved: they take the place of invented ones.
    pub saved: SavedResponses,
    /// The configured secrets, by credential, as far as they are known: a request with one of them is counted for it.
    pub secrets: BTreeMap<String, SecretString>,
}

impl Default for Options {
    fn default() -> Self {
        let listen = SocketAddr::from((Ipv4Addr::LOCALHOST, 0));
        Self {
            listen,
            latency: Duration::ZERO,
            failure_rate: 0.0,
            quota: None,
            seed: 0,
            saved: SavedResponses::default(),
            secrets: BTreeMap::new(),
        }
    }
}

/// Where the responses of a call come from.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum AnswerOrigin {
    /// From files of the user.
    Saved,
    /// From the configuration, so that they cannot show its mistakes.
    Generated,
}

/// A sandbox that serves until it is stopped or dropped.
pub struct Sandbox {
    address: SocketAddr,
    root: Url,
    upstreams: Vec<String>,
    service: Arc<Service>,
    stop: oneshot::Sender<()>,
    server: JoinHandle<io::Result<()>>,
}

impl Sandbox {
    /// Starts to serve every upstream of the configuration, whose `base_url`s are still the upstreams' own. The windows of
    /// the quotas follow `clock`.
    ///
    /// # Errors
    /// When it cannot listen on the address, or cannot read saved responses.
    pub async fn start(
        config: &Config,
        options: Options,
        clock: Arc<dyn Clock>,
    ) -> io::Result<Self> {
        let listener = TcpListener::bind(options.listen).await?;
        let address = listener.local_addr()?;
        let root = Url::parse(&format!("http://{address}/")).map_err(io::Error::other)?;
        let service = Arc::new(Service::new(config, options, root.clone(), clock));
        let (stop, stopped) = oneshot::channel();
        let serving = axum::serve(listener, server::router(Arc::clone(&service)))
            // A dropped sandbox stops too.
            .with_graceful_shutdown(async { drop(stopped.await) });
        let upstreams = config.upstreams.keys().cloned().collect();
        Ok(Self {
            address,
            root,
            upstreams,
            service,
            stop,
            server: tokio::spawn(serving.into_future()),
        })
    }

    /// The address that it listens on.
    pub const fn address(&self) -> SocketAddr {
        self.address
    }

    /// The URL that replaces an upstream's `base_url`.
    pub fn base_url(&self, upstream: &str) -> Url {
        base_of(&self.root, upstream)
    }

    /// Every upstream's name with the URL that replaces its `base_url`.
    pub fn base_urls(&self) -> Vec<(String, Url)> {
        self.upstreams
            .iter()
            .map(|name| (name.clone(), self.base_url(name)))
            .collect()
    }

    /// Every limit of every account, by the sandbox's own count.
    pub fn usage(&self) -> Vec<Counted> {
        self.service.usage()
    }

    /// Where the responses of each call come from, by upstream and call.
    pub fn origins(&self) -> Vec<(String, String, AnswerOrigin)> {
        self.service.origins()
    }

    /// How many requests arrived.
    pub fn requests(&self) -> u64 {
        self.service.requests()
    }

    /// The secret of a credential in the sandbox, by the credential's name.
    pub fn secret_of(credential: &str) -> String {
        credential::secret_of(credential)
    }

    /// Accepts no more requests, and returns when those in flight are done, or a second later.
    pub async fn shutdown(self) {
        let Self {
            stop, mut server, ..
        } = self;
        drop(stop);
        if tokio::time::timeout(PATIENCE, &mut server).await.is_err() {
            server.abort();
        }
    }
}

/// The URL of an upstream in the sandbox.
fn base_of(root: &Url, upstream: &str) -> Url {
    let mut url = root.clone();
    if let Ok(mut segments) = url.path_segments_mut() {
        segments.pop_if_empty().push(upstream);
    }
    url
}

/// The URL of a path below another one.
fn below(root: &Url, path: &str) -> Url {
    let mut url = root.clone();
    if let Ok(mut segments) = url.path_segments_mut() {
        segments
            .pop_if_empty()
            .extend(path.split('/').filter(|part| !part.is_empty()));
    }
    url
}
