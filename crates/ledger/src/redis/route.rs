//! Finds the server to connect to, of each kind of Redis.

use std::time::Duration;

use futures_util::StreamExt;
use futures_util::stream::FuturesUnordered;
use redis::cluster::{ClusterClient, ClusterClientBuilder};
use redis::{
    Client, ConnectionAddr, ConnectionInfo, IntoConnectionInfo, RedisConnectionInfo, RedisResult,
    TlsCertificates, from_redis_value,
};
use secrecy::{ExposeSecret, SecretString};

use super::access::Keys;
use super::connection::Connection;
use super::errors::Failure;
use ingest_config::RedisUrl;

const REDIS_PORT: u16 = 6379;
const SENTINEL_PORT: u16 = 26379;

/// The servers that a connection is made to.
pub enum Route {
    /// One server, by address or socket.
    Node(Box<Client>),
    /// The server that a Sentinel names as the primary.
    Sentinels(Box<Sentinels>),
    /// The nodes of a cluster.
    Cluster(Box<ClusterClient>),
}

/// Sentinels that watch one primary.
pub struct Sentinels {
    sentinels: Vec<Client>,
    service: String,
    /// How to connect to the primary; its address is the one that the Sentinels report.
    primary: RedisConnectionInfo,
    is_tls: bool,
    certificates: Option<TlsCertificates>,
}

impl Route {
    pub fn new(url: &RedisUrl, keys: Keys, deadline: Duration) -> RedisResult<Self> {
        if url.is_tls() {
            // An error means that a provider of cryptography is installed.
            let _ = rustls::crypto::ring::default_provider().install_default();
        }
        match url.expose().scheme() {
            "redis+sentinel" => sentinels(url, keys),
            "redis+cluster" => cluster(url, keys, deadline),
            _ => {
                let info = url.expose().clone().into_connection_info()?;
                let info = with_password(info, keys.password.as_ref());
                let client = open(info, keys.certificates.as_ref())?;
                Ok(Self::Node(Box::new(client)))
            }
        }
    }

    pub async fn connect(&self) -> Result<Connection, Failure> {
        match self {
            Self::Node(client) => Connection::to(client).await,
            Self::Sentinels(sentinels) => return sentinels.connect().await,
            Self::Cluster(client) => client.get_async_connection().await.map(Connection::Cluster),
        }
        .map_err(Failure::Connecting)
    }
}

impl Sentinels {
    /// Connects to the primary that the first Sentinel to reply names. All are requested at once, since one that is down would
    /// use up the deadline. Returns the failure that says most about the cause.
    async fn connect(&self) -> Result<Connection, Failure> {
        let attempts = self.sentinels.iter();
        let attempts = attempts.map(|sentinel| Box::pin(self.connect_by(sentinel)));
        let mut attempts: FuturesUnordered<_> = attempts.collect();
        let mut failures = Vec::new();
        while let Some(attempt) = attempts.next().await {
            match attempt {
                Ok(connection) => return Ok(connection),
                Err(failure) => failures.push(failure),
            }
        }
        let most = failures.into_iter().max_by_key(Failure::weight);
        Err(most.unwrap_or_else(|| Failure::UnknownService(self.service.clone())))
    }

    async fn connect_by(&self, sentinel: &Client) -> Result<Connection, Failure> {
        let mut ask = redis::cmd("SENTINEL");
        ask.arg("GET-MASTER-ADDR-BY-NAME").arg(&self.service);
        let asked = async {
            let answer = Connection::to(sentinel).await?.send(&ask).await?;
            Ok(from_redis_value(answer.extract_error()?)?)
        };
        let named: Option<(String, u16)> = asked.await.map_err(Failure::Sentinel)?;
        let (host, port) = named.ok_or_else(|| Failure::UnknownService(self.service.clone()))?;
        let address = match self.is_tls {
            true => ConnectionAddr::TcpTls {
                host,
                port,
                insecure: false,
                tls_params: None,
            },
            false => ConnectionAddr::Tcp(host, port),
        };
        let connected = async {
            let info = address.into_connection_info()?;
            let info = info.set_redis_settings(self.primary.clone());
            Connection::to(&open(info, self.certificates.as_ref())?).await
        };
        connected.await.map_err(Failure::Connecting)
    }
}

fn sentinels(url: &RedisUrl, keys: Keys) -> RedisResult<Route> {
    let path = url.path();
    let part = |place: usize| path.get(place).copied().unwrap_or_default();
    let hosts = servers(url, SENTINEL_PORT, part(1))?;
    // The user, the password and the database of the URL are those of the Redis.
    let primary = hosts.first().cloned();
    let primary = primary.map(|primary| with_password(primary, keys.password.as_ref()));
    let sentinels = hosts.into_iter().map(|host| {
        let nobody = host.set_redis_settings(RedisConnectionInfo::default());
        let info = with_password(nobody, keys.sentinel_password.as_ref());
        open(info, keys.certificates.as_ref())
    });
    Ok(Route::Sentinels(Box::new(Sentinels {
        sentinels: sentinels.collect::<RedisResult<_>>()?,
        service: part(0).to_owned(),
        primary: primary.map_or_else(RedisConnectionInfo::default, |info| {
            info.redis_settings().clone()
        }),
        is_tls: url.is_tls(),
        certificates: keys.certificates,
    })))
}

fn cluster(url: &RedisUrl, keys: Keys, deadline: Duration) -> RedisResult<Route> {
    let nodes = servers(url, REDIS_PORT, "")?.into_iter();
    let nodes = nodes.map(|node| with_password(node, keys.password.as_ref()));
    // A node that is down must leave time for the others.
    let mut builder = ClusterClientBuilder::new(nodes)
        .connection_timeout(deadline / 2)
        .response_timeout(deadline);
    if let Some(certificates) = keys.certificates {
        builder = builder.certs(certificates);
    }
    Ok(Route::Cluster(Box::new(builder.build()?)))
}

/// Each server of a URL that names several, with the URL's user and password.
fn servers(url: &RedisUrl, usual_port: u16, database: &str) -> RedisResult<Vec<ConnectionInfo>> {
    let scheme = if url.is_tls() { "rediss" } else { "redis" };
    let login = match (url.expose().username(), url.expose().password()) {
        ("", None) => String::new(),
        (user, password) => format!("{user}:{}@", password.unwrap_or_default()),
    };
    let server = |host: String| {
        let has_port = host.contains(':') && !host.ends_with(']');
        let port = if has_port {
            String::new()
        } else {
            format!(":{usual_port}")
        };
        format!("{scheme}://{login}{host}{port}/{database}").into_connection_info()
    };
    url.hosts().into_iter().map(server).collect()
}

/// With the password that is configured beside the URL. Without CLIENT SETINFO: the permissions in deploy/redis need not allow it.
fn with_password(info: ConnectionInfo, password: Option<&SecretString>) -> ConnectionInfo {
    let settings = info.redis_settings().clone().set_skip_set_lib_name();
    info.set_redis_settings(match password {
        Some(password) => settings.set_password(password.expose_secret()),
        None => settings,
    })
}

/// A client of one server; nothing is connected yet.
fn open(info: ConnectionInfo, certificates: Option<&TlsCertificates>) -> RedisResult<Client> {
    match certificates {
        Some(certificates) => Client::build_with_tls(info, certificates.clone()),
        None => Client::open(info),
    }
}
