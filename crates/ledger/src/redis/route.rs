//! Connects to each kind of Redis.

use std::time::Duration;

use percent_encoding::percent_decode_str;
use redis::aio::ConnectionLike;
use redis::cluster::{ClusterClient, ClusterClientBuilder};
use redis::cluster_async::ClusterConnection;
use redis::{
    Client, Cmd, ConnectionAddr, ConnectionInfo, ErrorKind, IntoConnectionInfo,
    RedisConnectionInfo, RedisResult, TlsMode, Value,
};
use secrecy::{ExposeSecret, SecretString};

use super::access::Keys;
use super::node::{ConnectError, Node, open};
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
            install_tls();
        }
        match url.expose().scheme() {
            "redis+sentinel" => sentinels(url, keys),
            "redis+cluster" => cluster(url, keys, deadline),
            _ => node(url, keys),
        }
    }

    pub async fn connect(&self) -> Result<Connection, ConnectError> {
        match self {
            Self::Node(client) => Node::connect(client)
                .await
                .map(Connection::Node)
                .map_err(ConnectError::Redis),
            Self::Sentinels(sentinels) => sentinels.connect().await.map(Connection::Node),
            Self::Cluster(client) => client
                .get_async_connection()
                .await
                .map(Connection::Cluster)
                .map_err(ConnectError::Redis),
        }
    }
}

fn node(url: &RedisUrl, keys: Keys) -> RedisResult<Route> {
    let info = url.expose().clone().into_connection_info()?;
    // Without CLIENT SETINFO, as in `login`.
    let mut settings = info.redis_settings().clone().set_skip_set_lib_name();
    if let Some(password) = keys.password {
        settings = settings.set_password(password.expose_secret());
    }
    let client = open(
        info.set_redis_settings(settings),
        keys.certificates.as_ref(),
    )?;
    Ok(Route::Node(Box::new(client)))
}

/// Installs the provider of cryptography that rustls requires; an error means that one is installed.
fn install_tls() {
    let _ = rustls::crypto::ring::default_provider().install_default();
}

fn sentinels(url: &RedisUrl, keys: Keys) -> RedisResult<Route> {
    let path = url.path();
    let service = path.first().copied().unwrap_or_default().to_owned();
    let mut primary = login(keys.password.as_ref());
    if let Some(database) = path.get(1).and_then(|number| number.parse().ok()) {
        primary = primary.set_db(database);
    }
    if let Some(user) = user(url) {
        primary = primary.set_username(user);
    }
    if let (None, Some(password)) = (&keys.password, password(url)) {
        primary = primary.set_password(password);
    }
    let logins = (login(keys.sentinel_password.as_ref()), primary);
    let addresses = addresses(url, SENTINEL_PORT)?;
    let sentinels = Sentinels::new(addresses, service, logins, keys.certificates)?;
    Ok(Route::Sentinels(Box::new(sentinels)))
}

/// Without CLIENT SETINFO: the permissions in deploy/redis need not allow it.
fn login(password: Option<&SecretString>) -> RedisConnectionInfo {
    let settings = RedisConnectionInfo::default().set_skip_set_lib_name();
    match password {
        Some(password) => settings.set_password(password.expose_secret()),
        None => settings,
    }
}

fn cluster(url: &RedisUrl, keys: Keys, deadline: Duration) -> RedisResult<Route> {
    let nodes = addresses(url, REDIS_PORT)?
        .into_iter()
        .map(IntoConnectionInfo::into_connection_info);
    let nodes = nodes.collect::<RedisResult<Vec<ConnectionInfo>>>()?;
    // A node that is down must leave time for the others.
    let mut builder = ClusterClientBuilder::new(nodes)
        .connection_timeout(deadline / 2)
        .response_timeout(deadline);
    if let Some(user) = user(url) {
        builder = builder.username(user);
    }
    let configured = keys
        .password
        .as_ref()
        .map(|key| key.expose_secret().to_owned());
    if let Some(password) = configured.or_else(|| password(url)) {
        builder = builder.password(password);
    }
    if url.is_tls() {
        builder = builder.tls(TlsMode::Secure);
    }
    if let Some(certificates) = keys.certificates {
        builder = builder.certs(certificates);
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
        "a port is a number of at most 65535",
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
