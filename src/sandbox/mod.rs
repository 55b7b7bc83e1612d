//! A local stand-in for every configured upstream, with its own count of the quota.
//!
//! Each upstream is served under its name; `/_sandbox/` tells what was asked and counted, and takes faults to come.

mod answer;
mod asked;
mod chance;
mod count;
mod credential;
mod fault;
mod generic;
mod log;
mod pattern;
mod refusal;
mod route;
mod server;
mod stand_in;
mod state;
mod token;
mod words;
mod youtube;

use std::io;
use std::net::{Ipv4Addr, SocketAddr};
use std::sync::Arc;
use std::time::Duration;

use tokio::net::TcpListener;
use tokio::sync::oneshot;
use tokio::task::JoinHandle;
use url::Url;

use self::state::State;
use crate::clock::Clock;
use crate::config::Config;
use crate::quota::Units;

pub use self::count::Counted;

/// How long requests in flight have when the sandbox is stopped.
const PATIENCE: Duration = Duration::from_secs(1);

/// How the stand-in behaves.
#[derive(Debug, Clone)]
pub struct Options {
    /// Where it listens; port 0 for any that is free.
    pub listen: SocketAddr,
    /// How long each answer takes.
    pub latency: Duration,
    /// The share of requests, 0 to 1, that is answered with 500 or 503, or dropped. The same ones for the same seed.
    pub failure_rate: f64,
    /// What it grants, in units a window, instead of every configured quota.
    pub quota: Option<Units>,
    /// Another seed is another world.
    pub seed: u64,
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
        }
    }
}

/// A stand-in that serves until it is stopped or dropped.
pub struct Sandbox {
    address: SocketAddr,
    root: Url,
    upstreams: Vec<String>,
    state: Arc<State>,
    stop: oneshot::Sender<()>,
    server: JoinHandle<io::Result<()>>,
}

impl Sandbox {
    /// Starts to serve every upstream of the configuration, as it is before its `base_url`s are pointed here. `clock` is what the quota's windows go by.
    ///
    /// # Errors
    /// When the address cannot be listened on.
    pub async fn start(
        config: &Config,
        options: Options,
        clock: Arc<dyn Clock>,
    ) -> io::Result<Self> {
        let listener = TcpListener::bind(options.listen).await?;
        let address = listener.local_addr()?;
        let root = Url::parse(&format!("http://{address}/")).map_err(io::Error::other)?;
        let state = Arc::new(State::new(config, &options, root.clone(), clock)?);
        let (stop, stopped) = oneshot::channel();
        let serving = axum::serve(listener, server::router(Arc::clone(&state)))
            // A sandbox that was dropped is stopped too.
            .with_graceful_shutdown(async { drop(stopped.await) });
        let upstreams = config.upstreams.keys().cloned().collect();
        Ok(Self {
            address,
            root,
            upstreams,
            state,
            stop,
            server: tokio::spawn(serving.into_future()),
        })
    }

    /// Where it listens.
    #[must_use]
    pub const fn address(&self) -> SocketAddr {
        self.address
    }

    /// What takes the place of an upstream's `base_url`.
    #[must_use]
    pub fn base_url(&self, upstream: &str) -> Url {
        below(&self.root, upstream, "")
    }

    /// Every upstream's name with the URL that stands in for its `base_url`.
    #[must_use]
    pub fn base_urls(&self) -> Vec<(String, Url)> {
        self.upstreams
            .iter()
            .map(|name| (name.clone(), self.base_url(name)))
            .collect()
    }

    /// Every limit of every account, by the stand-in's own count.
    #[must_use]
    pub fn usage(&self) -> Vec<Counted> {
        self.state.usage()
    }

    /// How many requests arrived.
    #[must_use]
    pub fn requests(&self) -> u64 {
        self.state.requests()
    }

    /// The secret by which the stand-in knows a credential, by the credential's name.
    #[must_use]
    pub fn secret_of(credential: &str) -> String {
        credential::secret_of(credential)
    }

    /// Takes no more requests, and returns once those in flight are answered, or a second later.
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

/// Where the stand-in serves a path of an upstream.
fn below(root: &Url, upstream: &str, path: &str) -> Url {
    let mut url = root.clone();
    if let Ok(mut segments) = url.path_segments_mut() {
        segments
            .pop_if_empty()
            .push(upstream)
            .extend(path.split('/').filter(|part| !part.is_empty()));
    }
    url
}
