//! Connects to each kind of Redis.

use std::time::Duration;

use redis::aio::ConnectionLike;
use redis::cluster::{ClusterClient, ClusterClientBuilder};
use redis::cluster_async::ClusterConnection;
use redis::{
    Client, Cmd, ConnectionInfo, IntoConnectionInfo, RedisConnectionInfo, RedisResult, Value,
};
use secrecy::{ExposeSecret, SecretString};

use super::access::Keys;
use super::errors::Failure;
use super::node::{Node, open};
use super::sentinel::Sentinels;
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

/// A connection that several tasks use at once.
#[derive(Clone)]
pub enum Connection {
    Node(Node),
    Cluster(ClusterConnection),
}

impl Connection {
    /// Sends a command.
    pub async fn send(&mut self, command: &Cmd) -> RedisResult<Value> {
        match self {
            Self::Node(node) => node.send(command).await,
            Self::Cluster(cluster) => cluster.req_packed_command(command).await,
        }
    }
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
            Self::Node(client) => Node::connect(client).await.map(Connection::Node),
            Self::Sentinels(sentinels) => {
                return sentinels.connect().await.map(Connection::Node);
            }
            Self::Cluster(client) => client.get_async_connection().await.map(Connection::Cluster),
        }
        .map_err(Failure::Connecting)
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
