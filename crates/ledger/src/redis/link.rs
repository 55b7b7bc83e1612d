//! The connection to Redis: kept while it works and dropped when it does not, with one deadline for everything that an
//! operation needs.

use std::time::Duration;

use redis::{Cmd, RedisError, Value};
use tokio::sync::OnceCell;
use tokio::time::timeout;

use super::access::Keys;
use super::call::Call;
use super::connection::Connection;
use super::errors::{self, Failure};
use super::library::{LIBRARY, Operation};
use super::route::Route;
use crate::LedgerError;
use ingest_config::{LedgerConfig, RedisUrl};

/// The number of limits on which an operation must be over in the configured time. The time grows with more: a report of thousands
/// takes Redis tens of milliseconds, and a busy server many times that.
const LIMITS_IN_TIME: usize = 250;

/// The connection to one Redis, whatever its kind.
pub struct Link {
    url: RedisUrl,
    config: LedgerConfig,
    /// Made with the first operation, since it needs the secrets.
    route: OnceCell<Route>,
    /// Locked while connecting: tasks that find no connection wait for this one instead of opening their own.
    held: tokio::sync::Mutex<Option<Connection>>,
    /// Why the server runs operations as a script, in its own words; `None` where it runs them as functions.
    scripts: OnceCell<Option<String>>,
}

/// The reply to a command.
pub struct Sent {
    pub value: Value,
    /// Whether it was sent before over a connection that broke, and may still arrive.
    pub repeated: bool,
}

impl Link {
    pub fn new(url: &RedisUrl, config: &LedgerConfig) -> Result<Self, LedgerError> {
        let link = Self {
            url: url.clone(),
            config: config.clone(),
            route: OnceCell::new(),
            held: tokio::sync::Mutex::default(),
            scripts: OnceCell::new(),
        };
        // Without the secrets yet: a URL that cannot be used is refused at the start.
        link.route_with(Keys::default())?;
        Ok(link)
    }

    fn route_with(&self, keys: Keys) -> Result<Route, LedgerError> {
        let route = Route::new(&self.url, keys, self.config.timeout);
        route.map_err(|error| {
            LedgerError::Broken(format!("cannot connect to {}: {error}", self.url))
        })
    }

    /// Runs an operation within the deadline (L48).
    pub async fn run(&self, call: &Call) -> Result<Sent, LedgerError> {
        let more = u32::try_from(call.limits / LIMITS_IN_TIME).unwrap_or(u32::MAX);
        let deadline = self.config.timeout.saturating_mul(more.saturating_add(1));
        let session = self.session().await?;
        self.within(deadline, session.run(call)).await
    }

    /// Sends one command within the deadline; returns the server's own error.
    pub async fn ask(&self, command: &Cmd) -> Result<Result<Value, RedisError>, LedgerError> {
        let session = self.session().await?;
        let asked = async {
            match session.send_twice(command).await.0 {
                Err(Failure::Redis(error)) if !error.is_io_error() => Ok(Err(error)),
                reply => reply.map(Ok),
            }
        };
        self.within(self.config.timeout, asked).await
    }

    /// Why the server runs operations as a script; `None` where it runs them as functions, and before the first one.
    pub fn why_scripts(&self) -> Option<&str> {
        self.scripts.get()?.as_deref()
    }

    /// Reads passwords and certificates once. Outside the deadline, since a command that prints a password may take longer
    /// than an operation.
    async fn session(&self) -> Result<Session<'_>, LedgerError> {
        let route = self.route.get_or_try_init(|| async {
            let keys = Keys::read(&self.config).await;
            self.route_with(
                keys.map_err(|why| LedgerError::Unreachable(format!("{}: {why}", self.url)))?,
            )
        });
        let route = route.await?;
        Ok(Session { link: self, route })
    }

    /// A failure drops the connection: it is dead, or leads to a server that may no longer be the primary.
    async fn within<T>(
        &self,
        deadline: Duration,
        work: impl Future<Output = Result<T, Failure>>,
    ) -> Result<T, LedgerError> {
        let done = timeout(deadline, work).await;
        let done = done.unwrap_or(Err(Failure::Silent(deadline)));
        if done.is_err() {
            self.disconnect();
        }
        done.map_err(|failure| failure.meaning(&self.url))
    }

    fn disconnect(&self) {
        // Where another task connects, there is none to drop.
        if let Ok(mut held) = self.held.try_lock() {
            *held = None;
        }
    }
}

/// A link whose secrets are known.
struct Session<'l> {
    link: &'l Link,
    route: &'l Route,
}

impl Session<'_> {
    /// A server that does not know the text, or lost it, gets it with the second call or before it.
    async fn run(&self, call: &Call) -> Result<Sent, Failure> {
        let asked = || self.why_scripts(call.operation);
        let by_script = self.link.scripts.get_or_try_init(asked).await?.is_some();
        let by_name = match by_script {
            true => call.script("EVALSHA", &LIBRARY.sha),
            false => call.command("FCALL", &LIBRARY.function(call.operation)),
        };
        let (mut reply, mut repeated) = self.send_twice(&by_name).await;
        if reply.as_ref().is_err_and(Failure::is_unknown_text) {
            let again;
            if by_script {
                (reply, again) = self.send_twice(&call.script("EVAL", &LIBRARY.script)).await;
            } else {
                let mut load = redis::cmd("FUNCTION");
                load.arg("LOAD").arg("REPLACE").arg(&LIBRARY.functions);
                let loaded = self.send_twice(&load).await.0;
                (reply, again) = self.send_twice(&by_name).await;
                // A node of a cluster that cannot load it is perhaps not the one that is called.
                if reply.as_ref().is_err_and(Failure::is_unknown_text) {
                    reply = loaded.and(reply);
                }
            }
            repeated |= again;
        }
        let value = reply?;
        Ok(Sent { value, repeated })
    }

    /// Asks whether the server runs functions: without keys and arguments, since one that does not know the command repeats them,
    /// and they are no text.
    async fn why_scripts(&self, operation: Operation) -> Result<Option<String>, Failure> {
        let mut first = redis::cmd("FCALL");
        first.arg(LIBRARY.function(operation)).arg(0);
        match self.send_twice(&first).await.0 {
            Err(Failure::Redis(error)) if errors::lacks_functions(&error) => {
                Ok(Some(errors::own_words(&error)))
            }
            // Any other error of the server is one of functions, or comes again.
            Err(Failure::Redis(error)) if error.code().is_some() => Ok(None),
            asked => asked.map(|_| None),
        }
    }

    /// The next user of a connection finds that it had died: the same command is sent once more over a new one. Every
    /// operation is safe to repeat. Also returns whether it was sent twice.
    async fn send_twice(&self, command: &Cmd) -> (Result<Value, Failure>, bool) {
        match self.send_once(command).await {
            Err(Failure::Redis(error)) if errors::needs_another_connection(&error) => {
                self.link.disconnect();
                (self.send_once(command).await, true)
            }
            reply => (reply, false),
        }
    }

    async fn send_once(&self, command: &Cmd) -> Result<Value, Failure> {
        let reply = self.connection().await?.send(command).await;
        reply.and_then(Value::extract_error).map_err(Failure::Redis)
    }

    async fn connection(&self) -> Result<Connection, Failure> {
        let mut held = self.link.held.lock().await;
        if let Some(connection) = &*held {
            return Ok(connection.clone());
        }
        let connection = self.route.connect().await?;
        *held = Some(connection.clone());
        Ok(connection)
    }
}
