//! How a connection is made: the hosts in their order, TLS, the role and its password.

use std::time::Duration;

use parking_lot::Mutex;
use secrecy::ExposeSecret;
use tokio::task::AbortHandle;
use tokio::time::timeout;
use tokio_postgres::config::{SslMode, TargetSessionAttrs};
use tokio_postgres::tls::TlsStream;
use tokio_postgres::{Client, Config, Connection, NoTls, Socket};

use super::error::{self, PostgresError};
use super::password::Password;
use super::tls::{Tls, tls};
use ingest_config::{PostgresAddress, PostgresHost, PostgresUrl, SecretSource};

/// Sent data that nobody acknowledges for this long ends the connection, as does a peer that is silent for as long.
const DEAD_PEER: Duration = Duration::from_secs(10);
const KEEPALIVE: Duration = Duration::from_secs(5);
const KEEPALIVES: u32 = 2;

/// The way to a database.
pub struct Route {
    url: PostgresUrl,
    password: Password,
    /// Where a connection was made last: hosts that answer nothing each cost a timeout.
    last: Mutex<usize>,
}

/// A connection. Dropping it lets the statements in flight end.
pub struct Connected {
    pub client: Client,
    pub tls: Tls,
    /// Ends the connection at once.
    pub driver: AbortHandle,
}

impl Connected {
    /// Cancels on the server what runs there.
    pub async fn cancel(&self) -> Result<(), tokio_postgres::Error> {
        let token = self.client.cancel_token();
        match &self.tls {
            Some(encrypted) => token.cancel_query(encrypted.clone()).await,
            None => token.cancel_query(NoTls).await,
        }
    }
}

impl Route {
    pub fn new(url: PostgresUrl, password: Option<SecretSource>) -> Self {
        Self {
            url,
            password: Password::new(password),
            last: Mutex::new(0),
        }
    }

    /// Reads the configured password.
    ///
    /// # Errors
    /// It cannot be read; the error says why.
    pub async fn read_password(&self) -> Result<(), String> {
        self.password.ready().await
    }

    /// Connects to the first host that answers and takes writes.
    ///
    /// # Errors
    /// What failed at each host. It can pass if it can at one of them.
    pub async fn connect(&self) -> Result<Connected, PostgresError> {
        let first = *self.last.lock();
        let count = self.url.hosts.len();
        let (mut failures, mut passing) = (Vec::new(), false);
        for index in (0..count).map(|at| (first + at) % count.max(1)) {
            let Some(host) = self.url.hosts.get(index) else {
                continue;
            };
            match self.connect_to(host).await {
                Ok(connected) => {
                    *self.last.lock() = index;
                    return Ok(connected);
                }
                Err(PostgresError::Connect { why, is_passing }) => {
                    failures.push(format!("{host}: {why}"));
                    passing |= is_passing;
                }
                Err(other) => return Err(other),
            }
        }
        let remedy = match passing {
            true => "; check that the server runs, the network, and catalog.url",
            false => "",
        };
        Err(PostgresError::Connect {
            why: format!("cannot connect to {}{remedy}", failures.join("; ")),
            is_passing: passing,
        })
    }

    async fn connect_to(&self, host: &PostgresHost) -> Result<Connected, PostgresError> {
        let lasting = |why| PostgresError::Connect {
            why,
            is_passing: false,
        };
        let tls = tls(&self.url.tls_of(host)).map_err(lasting)?;
        let config = self.config(host, &tls).await.map_err(lasting)?;
        let connecting = async {
            match &tls {
                Some(encrypted) => Ok(driven(config.connect(encrypted.clone()).await?)),
                None => Ok(driven(config.connect(NoTls).await?)),
            }
        };
        // The timeout of the client's own does not include the handshakes.
        let connected = timeout(self.url.connect_timeout, connecting).await;
        let connected = connected.map_err(|_| PostgresError::Connect {
            why: format!("no answer within {:?}", self.url.connect_timeout),
            is_passing: true,
        })?;
        let (client, driver) = connected.map_err(|error| refused(&error, &tls))?;
        Ok(Connected {
            client,
            tls,
            driver,
        })
    }

    async fn config(&self, host: &PostgresHost, tls: &Tls) -> Result<Config, String> {
        let user = self.user()?;
        let mut config = Config::new();
        match &host.address {
            PostgresAddress::Tcp(name) => config.host(name),
            PostgresAddress::Socket(directory) => config.host_path(directory),
        };
        if let Some(password) = self.password.read(&self.url, host, &user).await? {
            config.password(password.expose_secret());
        }
        config
            .port(host.port)
            .dbname(self.url.database.as_deref().unwrap_or(&user))
            .user(user)
            .application_name(&self.url.application)
            .ssl_mode(match tls.is_some() {
                true => SslMode::Require,
                false => SslMode::Disable,
            })
            .connect_timeout(self.url.connect_timeout)
            .target_session_attrs(TargetSessionAttrs::ReadWrite)
            .tcp_user_timeout(DEAD_PEER)
            .keepalives_idle(KEEPALIVE)
            .keepalives_interval(KEEPALIVE)
            .keepalives_retries(KEEPALIVES);
        Ok(config)
    }

    fn user(&self) -> Result<String, String> {
        let variable = |name| std::env::var(name).ok().filter(|name| !name.is_empty());
        let user = self.url.user.clone();
        user.or_else(|| variable("PGUSER"))
            .or_else(|| variable("USER"))
            .or_else(|| variable("LOGNAME"))
            .ok_or_else(|| "no role: write it in catalog.url: postgres://ROLE@HOST".to_owned())
    }
}

/// Lets the runtime drive a connection.
fn driven<T>((client, connection): (Client, Connection<Socket, T>)) -> (Client, AbortHandle)
where
    T: TlsStream + Unpin + Send + 'static,
{
    let driver = tokio::spawn(async move {
        if let Err(error) = connection.await {
            tracing::debug!(
                "the connection to PostgreSQL ended: {}",
                error::explain(&error)
            );
        }
    });
    (client, driver.abort_handle())
}

/// Why a host refused, with what to do where the cause is known.
fn refused(error: &tokio_postgres::Error, tls: &Tls) -> PostgresError {
    let explained = error::explain(error);
    // The caller names the server.
    let why = explained
        .strip_prefix("error connecting to server: ")
        .unwrap_or(&explained);
    let is_issuer_unknown = ["UnknownIssuer", "CaUsedAsEndEntity"]
        .iter()
        .any(|cause| why.contains(cause));
    let remedy = match () {
        () if why.contains("does not support TLS") => {
            "; set up TLS on the server, or write sslmode=disable in catalog.url"
        }
        () if !tls.is_some() && why.contains("pg_hba.conf") && why.contains("no encryption") => {
            "; write sslmode=verify-full in catalog.url"
        }
        () if why.contains("requires a valid client certificate") => {
            "; write sslcert=FILE and sslkey=FILE in catalog.url"
        }
        () if tls.is_some() && is_issuer_unknown => {
            "; write sslrootcert=FILE in catalog.url, with the certificate that signed the server's"
        }
        () if why.contains("password missing") => {
            "; set catalog.password, $PGPASSWORD or a password file ($PGPASSFILE)"
        }
        () => "",
    };
    let is_passing = match error.code() {
        Some(code) => error::passes(code),
        // A name that has no address now, or a port that nobody listens on.
        None => !why.contains("certificate") && remedy.is_empty(),
    };
    PostgresError::Connect {
        why: format!("{why}{remedy}"),
        is_passing,
    }
}
