//! The connection to Redis: kept while it works and dropped when it does not, with one deadline for everything that an
//! operation needs.

use std::borrow::Cow;
use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use redis::aio::ConnectionLike;
use redis::cluster_async::ClusterConnection;
use redis::{AsyncConnectionConfig, Cmd, RedisError, Value};
use tokio::sync::OnceCell;
use tokio::time::timeout;

use super::access::{Access, Keys};
use super::errors;
use super::node::Node;
use super::route::{ConnectError, Route};
use super::scripts::Script;
use crate::LedgerError;
use ingest_config::{RedisAccess, RedisUrl};

/// The number of limits on which an operation must be over in the configured time.
const LIMITS_IN_TIME: usize = 250;

/// The connection to one Redis, whatever its kind.
#[derive(Clone)]
pub struct Link {
    url: RedisUrl,
    access: Arc<Access>,
    /// Made with the first operation, since it needs the secrets.
    route: Arc<OnceCell<Route>>,
    held: Arc<Mutex<Option<Connection>>>,
    /// Held while connecting: tasks that find no connection wait for this one instead of opening their own.
    connecting: Arc<tokio::sync::Mutex<()>>,
    deadline: Duration,
    shown: Arc<str>,
}

/// The reply to a command.
pub struct Sent {
    pub value: Value,
    /// Whether it was sent before over a connection that broke, and may still arrive.
    pub repeated: bool,
}

/// A connection that several tasks use at once.
#[derive(Clone)]
pub enum Connection {
    Node(Node),
    Cluster(ClusterConnection),
}

impl Link {
    pub fn new(
        url: &RedisUrl,
        access: &RedisAccess,
        deadline: Duration,
    ) -> Result<Self, LedgerError> {
        let link = Self {
            url: url.clone(),
            access: Arc::new(Access::new(access)),
            route: Arc::default(),
            held: Arc::default(),
            connecting: Arc::default(),
            deadline,
            shown: Arc::from(url.to_string()),
        };
        // Without the secrets yet: a URL that cannot be used is refused at the start.
        link.route_with(Keys::default())?;
        Ok(link)
    }

    /// Returns the connection with a deadline that grows with the number of limits: a report of thousands takes Redis tens of
    /// milliseconds, and a busy server many times that.
    pub fn for_limits(&self, limits: usize) -> Cow<'_, Self> {
        match u32::try_from(limits / LIMITS_IN_TIME).unwrap_or(u32::MAX) {
            0 => Cow::Borrowed(self),
            more => Cow::Owned(Self {
                deadline: self.deadline.saturating_mul(more.saturating_add(1)),
                ..self.clone()
            }),
        }
    }

    /// Reads passwords and certificates once. Outside the deadline, since a command that prints a password may take longer
    /// than an operation.
    pub async fn ready(&self) -> Result<(), LedgerError> {
        self.route
            .get_or_try_init(|| async {
                let keys = self.access.read().await;
                let keys = keys.map_err(|why| self.unreachable(why))?;
                self.route_with(keys)
            })
            .await
            .map(drop)
    }

    fn route_with(&self, keys: Keys) -> Result<Route, LedgerError> {
        Route::new(&self.url, keys, self.deadline).map_err(|error| {
            LedgerError::Broken(format!("cannot connect to {}: {error}", self.shown))
        })
    }

    fn unreachable(&self, why: impl std::fmt::Display) -> LedgerError {
        LedgerError::Unreachable(format!("{}: {why}", self.shown))
    }

    /// Runs a script within the deadline: by its name, and by its text when the server does not know it yet (L48). A failure
    /// drops the connection: it is dead, or leads to a server that may no longer be the primary.
    pub async fn run(
        &self,
        script: Script,
        keys: &[String; 5],
        arguments: &[Vec<u8>],
    ) -> Result<Sent, LedgerError> {
        self.ready().await?;
        let reply = timeout(self.deadline, self.run_patiently(script, keys, arguments)).await;
        let reply = reply.unwrap_or(Err(Failure::Silent));
        if reply.is_err() {
            self.disconnect();
        }
        reply.map_err(|failure| self.explain(failure))
    }

    async fn run_patiently(
        &self,
        script: Script,
        keys: &[String; 5],
        arguments: &[Vec<u8>],
    ) -> Result<Sent, Failure> {
        let source = script.source();
        let (reply, repeated) = self
            .send_twice(&evaluation("EVALSHA", &source.sha, keys, arguments))
            .await;
        match reply {
            // A server forgets its scripts when it restarts or fails over. `EVAL` runs the script and loads it.
            Err(Failure::Redis(error)) if errors::is_unknown_script(&error) => {
                let (reply, again) = self
                    .send_twice(&evaluation("EVAL", &source.code, keys, arguments))
                    .await;
                Ok(Sent {
                    value: reply?,
                    repeated: repeated || again,
                })
            }
            reply => Ok(Sent {
                value: reply?,
                repeated,
            }),
        }
    }

    /// The next user of a connection finds that it had died: the same command is sent once more over a new one. Every
    /// operation is safe to repeat. Also returns whether it was sent twice.
    async fn send_twice(&self, command: &Cmd) -> (Result<Value, Failure>, bool) {
        match self.send_once(command).await {
            Err(Failure::Redis(error)) if errors::needs_another_connection(&error) => {
                self.disconnect();
                (self.send_once(command).await, true)
            }
            reply => (reply, false),
        }
    }

    async fn send_once(&self, command: &Cmd) -> Result<Value, Failure> {
        let mut connection = self.connection().await.map_err(Failure::Connecting)?;
        let reply = match &mut connection {
            Connection::Node(node) => node.send(command).await,
            Connection::Cluster(cluster) => cluster.req_packed_command(command).await,
        };
        reply.and_then(Value::extract_error).map_err(Failure::Redis)
    }

    async fn connection(&self) -> Result<Connection, ConnectError> {
        if let Some(connection) = self.held() {
            return Ok(connection);
        }
        let _alone = self.connecting.lock().await;
        if let Some(connection) = self.held() {
            return Ok(connection);
        }
        let route = self.route.get().ok_or_else(not_ready)?;
        let connection = route.connect().await?;
        *self.held.lock() = Some(connection.clone());
        Ok(connection)
    }

    fn held(&self) -> Option<Connection> {
        self.held.lock().clone()
    }

    fn disconnect(&self) {
        *self.held.lock() = None;
    }

    fn explain(&self, failure: Failure) -> LedgerError {
        let error = match &failure {
            Failure::Silent => {
                LedgerError::Unreachable(format!("no answer within {:?}", self.deadline))
            }
            Failure::Connecting(ConnectError::UnknownService(service)) => LedgerError::Unreachable(
                format!("the Sentinels do not monitor a service `{service}`; correct ledger.url"),
            ),
            Failure::Connecting(ConnectError::Sentinel(error)) => errors::of_sentinel(error),
            Failure::Connecting(ConnectError::Redis(error)) => errors::of_connection(error),
            Failure::Redis(error) => errors::of_script(error),
        };
        match error {
            LedgerError::Unreachable(why) => {
                self.unreachable(format!("{why}{}", self.hint(&failure)))
            }
            other => other,
        }
    }

    /// Whether TLS on one side only may be the cause: such a server closes the connection, or does not answer.
    fn hint(&self, failure: &Failure) -> &'static str {
        let (Failure::Connecting(ConnectError::Redis(error) | ConnectError::Sentinel(error))
        | Failure::Redis(error)) = failure
        else {
            return match failure {
                Failure::Silent if self.url.is_tls() => {
                    " (rediss:// requires TLS: does the \
                    server support it?)"
                }
                _ => "",
            };
        };
        match self.url.expose().scheme() {
            _ if self.url.is_tls() || !errors::may_expect_tls(error) => "",
            "redis" => " (if the server expects TLS, write rediss://)",
            "unix" => "",
            _ => " (if the server expects TLS, append ?tls=true)",
        }
    }
}

/// Cannot happen: every operation reads the keys first.
fn not_ready() -> ConnectError {
    ConnectError::Redis((redis::ErrorKind::Client, "the connection is not prepared").into())
}

/// Why a command got no reply.
enum Failure {
    Silent,
    Connecting(ConnectError),
    Redis(RedisError),
}

fn evaluation(how: &str, script: &str, keys: &[String; 5], arguments: &[Vec<u8>]) -> Cmd {
    let mut command = redis::cmd(how);
    command
        .arg(script)
        .arg(keys.len())
        .arg(keys.as_slice())
        .arg(arguments);
    command
}

/// A configuration without timeouts of the library: one deadline covers the whole operation.
pub fn patient() -> AsyncConnectionConfig {
    AsyncConnectionConfig::new()
        .set_connection_timeout(None)
        .set_response_timeout(None)
}
