//! The connection to Redis: kept while it works and dropped when it does not, with one deadline for everything that an
//! operation needs.

use std::borrow::Cow;
use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use redis::{Cmd, RedisError, Value};
use tokio::sync::OnceCell;
use tokio::time::timeout;

use super::access::{Access, Keys};
use super::errors;
use super::library::{LIBRARY, Operation};
use super::node::ConnectError;
use super::route::{Connection, Route};
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
    way: Arc<Mutex<Way>>,
    /// Held while connecting: tasks that find no connection wait for this one instead of opening their own.
    connecting: Arc<tokio::sync::Mutex<()>>,
    deadline: Duration,
    shown: Arc<str>,
}

/// How a server runs operations.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub enum Way {
    /// No operation was run yet.
    #[default]
    Undecided,
    /// As functions.
    Functions,
    /// As a script, since it refused to run functions: with these words.
    Scripts(String),
}

/// The reply to a command.
pub struct Sent {
    pub value: Value,
    /// Whether it was sent before over a connection that broke, and may still arrive.
    pub repeated: bool,
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
            way: Arc::default(),
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

    /// Runs an operation within the deadline (L48). A failure drops the connection: it is dead, or leads to a server that may no
    /// longer be the primary.
    pub async fn run(
        &self,
        operation: Operation,
        keys: &[String; 3],
        arguments: &[Vec<u8>],
    ) -> Result<Sent, LedgerError> {
        self.within(self.run_patiently(operation, keys, arguments))
            .await
    }

    /// Sends one command within the deadline; returns the server's own error.
    pub async fn ask(&self, command: &Cmd) -> Result<Result<Value, RedisError>, LedgerError> {
        self.within(async {
            match self.send_twice(command).await.0 {
                Err(Failure::Redis(error)) if !error.is_io_error() => Ok(Err(error)),
                reply => reply.map(Ok),
            }
        })
        .await
    }

    /// How the server runs operations; undecided before the first one.
    pub fn way(&self) -> Way {
        self.way.lock().clone()
    }

    async fn within<T>(
        &self,
        work: impl Future<Output = Result<T, Failure>>,
    ) -> Result<T, LedgerError> {
        self.ready().await?;
        let done = timeout(self.deadline, work).await;
        let done = done.unwrap_or(Err(Failure::Silent));
        if done.is_err() {
            self.disconnect();
        }
        done.map_err(|failure| self.explain(failure))
    }

    /// A server that does not know the text, or lost it, gets it with the second call or before it.
    async fn run_patiently(
        &self,
        operation: Operation,
        keys: &[String; 3],
        arguments: &[Vec<u8>],
    ) -> Result<Sent, Failure> {
        if self.way() == Way::Undecided {
            self.ask_for_functions(operation).await?;
        }
        let calls = Calls::new(&self.way(), operation, keys, arguments);
        let (mut reply, mut repeated) = self.send_twice(&calls.by_name).await;
        if is_unknown(&reply) {
            let loaded = match &calls.load {
                Some(load) => self.send_twice(load).await.0,
                None => Ok(Value::Nil),
            };
            let (second, again) = self.send_twice(&calls.with_text).await;
            // A node of a cluster that cannot load it is perhaps not the one that is called.
            reply = match is_unknown(&second) {
                true => loaded.and(second),
                false => second,
            };
            repeated |= again;
        }
        let value = reply?;
        let mut way = self.way.lock();
        if *way == Way::Undecided {
            *way = Way::Functions;
        }
        Ok(Sent { value, repeated })
    }

    /// Asks whether the server runs functions: without keys and arguments, since one that does not know the command repeats them,
    /// and they are no text.
    async fn ask_for_functions(&self, operation: Operation) -> Result<(), Failure> {
        let mut first = redis::cmd("FCALL");
        first.arg(LIBRARY.function(operation)).arg(0);
        match self.send_twice(&first).await.0 {
            Err(Failure::Redis(error)) if errors::lacks_functions(&error) => {
                *self.way.lock() = Way::Scripts(errors::shown(&error));
                Ok(())
            }
            // Any other error of the server is one of functions, or comes again.
            Err(Failure::Redis(error)) if error.code().is_some() => Ok(()),
            asked => asked.map(drop),
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
        let reply = connection.send(command).await;
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

fn is_unknown(reply: &Result<Value, Failure>) -> bool {
    matches!(reply, Err(Failure::Redis(error)) if errors::is_unknown(error))
}

/// How an operation is called.
struct Calls {
    by_name: Cmd,
    /// Loads the text, where a call does not bring it.
    load: Option<Cmd>,
    /// For a server that did not know the name.
    with_text: Cmd,
}

impl Calls {
    fn new(way: &Way, operation: Operation, keys: &[String; 3], arguments: &[Vec<u8>]) -> Self {
        let call = |how: &str, what: &str| {
            let mut command = redis::cmd(how);
            command.arg(what).arg(keys.len()).arg(keys.as_slice());
            command.arg(arguments);
            command
        };
        if let Way::Scripts(_) = way {
            let [mut by_name, mut with_text] =
                [call("EVALSHA", &LIBRARY.sha), call("EVAL", &LIBRARY.script)];
            by_name.arg(<&str>::from(operation));
            with_text.arg(<&str>::from(operation));
            return Self {
                by_name,
                load: None,
                with_text,
            };
        }
        let mut load = redis::cmd("FUNCTION");
        load.arg("LOAD").arg("REPLACE").arg(&LIBRARY.functions);
        let by_name = call("FCALL", &LIBRARY.function(operation));
        Self {
            with_text: by_name.clone(),
            by_name,
            load: Some(load),
        }
    }
}
