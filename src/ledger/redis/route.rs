//! How a connection to each kind of Redis is made.

use std::time::Duration;

use futures_util::future::select_ok;
use percent_encoding::percent_decode_str;
use redis::aio::MultiplexedConnection;
use redis::cluster::{ClusterClient, ClusterClientBuilder};
use redis::sentinel::{SentinelClient, SentinelClientBuilder, SentinelServerType};
use redis::{
    Client, ConnectionAddr, ConnectionInfo, ErrorKind, IntoConnectionInfo, RedisResult, TlsMode,
};
use tokio::sync::Mutex;

use super::link::{Connection, patient};
use crate::config::RedisUrl;

const REDIS_PORT: u16 = 6379;
const SENTINEL_PORT: u16 = 26379;

/// Where a connection comes from.
pub enum Route {
    /// One server, by address or socket.
    Node(Box<Client>),
    /// The server that a Sentinel calls the primary: whichever answers first, since some may be away.
    Sentinels(Vec<Mutex<SentinelClient>>),
    /// The nodes of a cluster.
    Cluster(Box<ClusterClient>),
}

impl Route {
    pub fn new(url: &RedisUrl, deadline: Duration) -> RedisResult<Self> {
        if url.is_tls() {
            install_tls();
        }
        match url.expose().scheme() {
            "redis+sentinel" => sentinels(url),
            "redis+cluster" => cluster(url, deadline),
            _ => node(url),
        }
    }

    pub async fn connect(&self) -> RedisResult<Connection> {
        match self {
            Self::Node(client) => client
                .get_multiplexed_async_connection_with_config(&patient())
                .await
                .map(Connection::Node),
            Self::Sentinels(clients) => {
                let connections = clients.iter().map(|client| Box::pin(primary(client)));
                select_ok(connections)
                    .await
                    .map(|(connection, _)| Connection::Node(connection))
            }
            Self::Cluster(client) => client.get_async_connection().await.map(Connection::Cluster),
        }
    }
}

/// Without the library telling its name: the permissions that we ship do not need to allow that.
fn node(url: &RedisUrl) -> RedisResult<Route> {
    let info = url.expose().clone().into_connection_info()?;
    let settings = info.redis_settings().clone().set_skip_set_lib_name();
    Ok(Route::Node(Box::new(Client::open(
        info.set_redis_settings(settings),
    )?)))
}

/// The provider of cryptography that rustls asks for; the first to install one decides for the process.
fn install_tls() {
    let _ = rustls::crypto::ring::default_provider().install_default();
}

fn sentinels(url: &RedisUrl) -> RedisResult<Route> {
    let addresses = addresses(url, SENTINEL_PORT)?;
    let clients = addresses
        .into_iter()
        .map(|address| Ok(Mutex::new(sentinel(url, address)?)));
    Ok(Route::Sentinels(clients.collect::<RedisResult<_>>()?))
}

fn sentinel(url: &RedisUrl, address: ConnectionAddr) -> RedisResult<SentinelClient> {
    let path = url.path();
    let service = path.first().copied().unwrap_or_default();
    let mut builder = SentinelClientBuilder::new([address], service, SentinelServerType::Master)?;
    if let Some(database) = path.get(1).and_then(|number| number.parse().ok()) {
        builder = builder.set_client_to_redis_db(database);
    }
    if let Some(user) = user(url) {
        builder = builder.set_client_to_redis_username(user);
    }
    if let Some(password) = password(url) {
        builder = builder.set_client_to_redis_password(password);
    }
    if url.is_tls() {
        builder = builder.set_client_to_redis_tls_mode(TlsMode::Secure);
    }
    builder.build()
}

async fn primary(sentinel: &Mutex<SentinelClient>) -> RedisResult<MultiplexedConnection> {
    sentinel
        .lock()
        .await
        .get_async_connection_with_config(&patient())
        .await
}

fn cluster(url: &RedisUrl, deadline: Duration) -> RedisResult<Route> {
    let nodes = addresses(url, REDIS_PORT)?
        .into_iter()
        .map(IntoConnectionInfo::into_connection_info);
    let nodes = nodes.collect::<RedisResult<Vec<ConnectionInfo>>>()?;
    // A node that is away must leave time for those that are not.
    let mut builder = ClusterClientBuilder::new(nodes)
        .connection_timeout(deadline / 2)
        .response_timeout(deadline);
    if let Some(user) = user(url) {
        builder = builder.username(user);
    }
    if let Some(password) = password(url) {
        builder = builder.password(password);
    }
    if url.is_tls() {
        builder = builder.tls(TlsMode::Secure);
    }
    Ok(Route::Cluster(Box::new(builder.build()?)))
}

fn addresses(url: &RedisUrl, usual_port: u16) -> RedisResult<Vec<ConnectionAddr>> {
    url.hosts()
        .iter()
        .map(|host| address(host, usual_port, url.is_tls()))
        .collect()
}

fn address(host: &str, usual_port: u16, tls: bool) -> RedisResult<ConnectionAddr> {
    let (host, port) = match host
        .rsplit_once(':')
        .filter(|(_, port)| !port.ends_with(']'))
    {
        Some((host, port)) => (host, port.parse().map_err(|_| bad_port())?),
        None => (host, usual_port),
    };
    let host = host.trim_matches(['[', ']']).to_owned();
    Ok(match tls {
        true => ConnectionAddr::TcpTls {
            host,
            port,
            insecure: false,
            tls_params: None,
        },
        false => ConnectionAddr::Tcp(host, port),
    })
}

fn bad_port() -> redis::RedisError {
    (
        ErrorKind::InvalidClientConfig,
        "a port is a number up to 65535",
    )
        .into()
}

fn user(url: &RedisUrl) -> Option<String> {
    Some(url.expose().username())
        .filter(|user| !user.is_empty())
        .map(decoded)
}

fn password(url: &RedisUrl) -> Option<String> {
    url.expose().password().map(decoded)
}

fn decoded(text: &str) -> String {
    percent_decode_str(text).decode_utf8_lossy().into_owned()
}
