//! The URL of a PostgreSQL database.

use std::fmt;
use std::net::IpAddr;
use std::path::{Path, PathBuf};
use std::time::Duration;

use percent_encoding::percent_decode_str;
use secrecy::SecretString;
use thiserror::Error;
use url::form_urlencoded;

/// The URL of a PostgreSQL database, as libpq reads it:
/// `postgres://[user[:password]@][host[:port][,host[:port]…]][/database][?setting=value&…]`. Its `Debug` and `Display` leave
/// out the password.
#[derive(Clone)]
pub struct PostgresUrl {
    /// The servers, in the order in which they are tried; at least one.
    pub hosts: Vec<PostgresHost>,
    /// The role; `None`: `$PGUSER`, or the name of the system's user.
    pub user: Option<String>,
    /// The database; `None`: the one that is named as the role.
    pub database: Option<String>,
    /// How connections over a network are protected; `None`: by TLS, unless the host is this machine.
    pub tls: Option<PostgresTls>,
    /// The timeout of a connection to one host.
    pub connect_timeout: Duration,
    /// The name that the server shows for this client.
    pub application: String,
    password: Option<SecretString>,
}

/// A server of a [`PostgresUrl`].
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PostgresHost {
    /// Where it listens.
    pub address: PostgresAddress,
    /// Its port, which is also part of the name of a socket.
    pub port: u16,
}

/// Where a PostgreSQL server listens.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum PostgresAddress {
    /// At a host of a network.
    Tcp(String),
    /// At a socket in a directory of this machine.
    Socket(PathBuf),
}

/// How a connection is protected.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum PostgresTls {
    /// Not at all.
    Disabled,
    /// By TLS. The server's certificate is always verified, and so is the name of its host.
    Verified {
        /// The file (PEM) of the certificates that may sign the server's; `None`: those of the system.
        root: Option<PathBuf>,
        /// The files (PEM) of this client's certificate and of its key; `None`: it has none.
        client: Option<(PathBuf, PathBuf)>,
    },
}

/// Why a text is not the URL of a PostgreSQL database. No message repeats what may be a password.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum PostgresUrlError {
    /// It has another scheme.
    #[error("it must start with postgres:// or postgresql://")]
    Scheme,
    /// An `@` stands behind the host: the password contains a character that ends the host.
    #[error("an `@` follows the host")]
    AtBehindHost,
    /// It has no host, and no `host=` either.
    #[error("the host is missing")]
    NoHost,
    /// What follows the colon of a host is no port.
    #[error("the port of a host is not a number from 1 to 65535")]
    Port,
    /// A percent escape is no UTF-8.
    #[error("an escaped character is not UTF-8")]
    Escape,
    /// It has a setting that this program does not know.
    #[error("unknown setting `{0}`; known are {known}", known = SETTINGS.join(", "))]
    Unknown(String),
    /// A setting has a value that is not supported.
    #[error("{0}")]
    Setting(&'static str),
}

const SETTINGS: [&str; 13] = [
    "host",
    "port",
    "user",
    "dbname",
    "password",
    "sslmode",
    "sslrootcert",
    "sslcert",
    "sslkey",
    "connect_timeout",
    "application_name",
    "target_session_attrs",
    "channel_binding",
];
const PORT: u16 = 5432;
const CONNECT_TIMEOUT: Duration = Duration::from_secs(10);

impl PostgresUrl {
    /// Whether a text is such a URL by its scheme.
    pub fn is_one(text: &str) -> bool {
        without_scheme(text).is_some()
    }

    /// Reads a URL.
    ///
    /// # Errors
    /// The text is no such URL, or it names something that is not supported.
    pub fn parse(text: &str) -> Result<Self, PostgresUrlError> {
        let rest = without_scheme(text).ok_or(PostgresUrlError::Scheme)?;
        let (rest, query) = rest.split_once('?').unwrap_or((rest, ""));
        let (authority, path) = rest.split_once('/').unwrap_or((rest, ""));
        if path.contains('@') {
            return Err(PostgresUrlError::AtBehindHost);
        }
        // At the last `@`: a password can contain one.
        let (login, hosts) = authority.rsplit_once('@').unwrap_or(("", authority));
        let (user, password) = match login.split_once(':') {
            Some((user, password)) => (user, Some(password)),
            None => (login, None),
        };
        let mut parts = Parts {
            hosts: hosts.to_owned(),
            user: filled(user)?,
            database: filled(path)?,
            password: password.map(filled).transpose()?.flatten(),
            ..Parts::default()
        };
        // In libpq, a `+` is a plus; in a form it is a space.
        for (key, value) in form_urlencoded::parse(query.replace('+', "%2B").as_bytes()) {
            parts.set(&key, value.into_owned())?;
        }
        parts.url()
    }

    /// The password that the URL contains; `None` where it contains none.
    pub const fn password(&self) -> Option<&SecretString> {
        self.password.as_ref()
    }

    /// How a connection to one of its hosts is protected: by what the URL says, or else by TLS unless the host is this machine.
    pub fn tls_of(&self, host: &PostgresHost) -> PostgresTls {
        match (&self.tls, host.is_local()) {
            // Before the setting: PostgreSQL speaks no TLS over a socket, and libpq ignores `sslmode` there.
            _ if matches!(host.address, PostgresAddress::Socket(_)) => PostgresTls::Disabled,
            (Some(tls), _) => tls.clone(),
            (None, true) => PostgresTls::Disabled,
            (None, false) => PostgresTls::Verified {
                root: None,
                client: None,
            },
        }
    }
}

impl PostgresHost {
    /// Whether it is this machine.
    pub fn is_local(&self) -> bool {
        match &self.address {
            PostgresAddress::Socket(_) => true,
            PostgresAddress::Tcp(host) => {
                host == "localhost"
                    || host.ends_with(".localhost")
                    || host.parse().is_ok_and(|ip: IpAddr| ip.is_loopback())
            }
        }
    }
}

impl fmt::Display for PostgresHost {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.address {
            PostgresAddress::Tcp(host) if host.contains(':') => write!(f, "[{host}]")?,
            PostgresAddress::Tcp(host) => f.write_str(host)?,
            PostgresAddress::Socket(directory) => {
                return write!(f, "{}/.s.PGSQL.{}", directory.display(), self.port);
            }
        }
        if self.port == PORT {
            Ok(())
        } else {
            write!(f, ":{}", self.port)
        }
    }
}

/// The URL without its settings and its password.
impl fmt::Display for PostgresUrl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("postgres://")?;
        if let Some(user) = &self.user {
            write!(f, "{user}@")?;
        }
        let hosts: Vec<_> = self.hosts.iter().map(ToString::to_string).collect();
        f.write_str(&hosts.join(","))?;
        self.database
            .iter()
            .try_for_each(|name| write!(f, "/{name}"))
    }
}

impl fmt::Debug for PostgresUrl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "PostgresUrl({self})")
    }
}

impl PartialEq for PostgresUrl {
    fn eq(&self, other: &Self) -> bool {
        let of = |url: &Self| (url.to_string(), url.tls.clone(), url.connect_timeout);
        of(self) == of(other)
    }
}

impl Eq for PostgresUrl {}

/// What a URL consists of, before it is checked as a whole.
#[derive(Default)]
struct Parts {
    hosts: String,
    ports: String,
    user: Option<String>,
    database: Option<String>,
    password: Option<String>,
    is_plain: Option<bool>,
    root: Option<PathBuf>,
    cert: Option<PathBuf>,
    key: Option<PathBuf>,
    connect_timeout: Option<Duration>,
    application: Option<String>,
}

impl Parts {
    fn set(&mut self, key: &str, value: String) -> Result<(), PostgresUrlError> {
        match key {
            "host" => self.hosts = value,
            "port" => self.ports = value,
            "user" => self.user = Some(value),
            "dbname" => self.database = Some(value),
            "password" => self.password = Some(value),
            "sslmode" => self.is_plain = Some(is_plain(&value)?),
            // `system` is libpq's name for the certificates of the system.
            "sslrootcert" => self.root = (value != "system").then(|| value.into()),
            "sslcert" => self.cert = Some(value.into()),
            "sslkey" => self.key = Some(value.into()),
            "connect_timeout" => self.connect_timeout = Some(seconds(&value)?),
            "application_name" => self.application = Some(value),
            "target_session_attrs" => must_write(&value)?,
            "channel_binding" => no_channel_binding(&value)?,
            unknown => return Err(PostgresUrlError::Unknown(shortened(unknown))),
        }
        Ok(())
    }

    fn url(self) -> Result<PostgresUrl, PostgresUrlError> {
        let tls = self.tls()?;
        Ok(PostgresUrl {
            hosts: hosts(&self.hosts, &self.ports)?,
            user: self.user,
            database: self.database,
            tls,
            connect_timeout: self.connect_timeout.unwrap_or(CONNECT_TIMEOUT),
            application: self.application.unwrap_or_else(|| "ingest".to_owned()),
            password: self.password.map(SecretString::from),
        })
    }

    fn tls(&self) -> Result<Option<PostgresTls>, PostgresUrlError> {
        let client = match (&self.cert, &self.key) {
            (Some(cert), Some(key)) => Some((cert.clone(), key.clone())),
            (None, None) => None,
            _ => {
                return Err(PostgresUrlError::Setting(
                    "sslcert and sslkey need each other",
                ));
            }
        };
        let has_certificates = self.root.is_some() || client.is_some();
        match self.is_plain {
            Some(true) if has_certificates => Err(PostgresUrlError::Setting(
                "sslmode=disable uses no certificates; write sslmode=verify-full",
            )),
            Some(true) => Ok(Some(PostgresTls::Disabled)),
            None if !has_certificates => Ok(None),
            Some(false) | None => Ok(Some(PostgresTls::Verified {
                root: self.root.clone(),
                client,
            })),
        }
    }
}

/// Whether an `sslmode` is the one without TLS. Those that libpq calls weaker verify all the same here.
fn is_plain(mode: &str) -> Result<bool, PostgresUrlError> {
    match mode {
        "disable" => Ok(true),
        "require" | "verify-ca" | "verify-full" => Ok(false),
        "prefer" | "allow" => Err(PostgresUrlError::Setting(
            "sslmode=prefer and sslmode=allow can fall back to an unprotected connection; write \
            sslmode=verify-full, or sslmode=disable",
        )),
        _ => Err(PostgresUrlError::Setting(
            "sslmode must be verify-full or disable",
        )),
    }
}

fn seconds(value: &str) -> Result<Duration, PostgresUrlError> {
    match value.parse() {
        Ok(seconds @ 1..=3600) => Ok(Duration::from_secs(seconds)),
        _ => Err(PostgresUrlError::Setting(
            "connect_timeout must be a number of seconds from 1 to 3600",
        )),
    }
}

fn must_write(value: &str) -> Result<(), PostgresUrlError> {
    match value {
        "read-write" | "primary" => Ok(()),
        _ => Err(PostgresUrlError::Setting(
            "target_session_attrs must be read-write: a standby cannot store pages",
        )),
    }
}

fn no_channel_binding(value: &str) -> Result<(), PostgresUrlError> {
    match value {
        "prefer" | "disable" => Ok(()),
        _ => Err(PostgresUrlError::Setting(
            "channel_binding=require is not supported; remove it: sslmode=verify-full protects from \
            the same attack",
        )),
    }
}

fn without_scheme(text: &str) -> Option<&str> {
    let rest = text.strip_prefix("postgres://");
    rest.or_else(|| text.strip_prefix("postgresql://"))
}

/// Text of the URL without its escapes; `None` if it is empty.
fn filled(text: &str) -> Result<Option<String>, PostgresUrlError> {
    let decoded = percent_decode_str(text).decode_utf8();
    let decoded = decoded.map_err(|_| PostgresUrlError::Escape)?;
    Ok((!decoded.is_empty()).then(|| decoded.into_owned()))
}

/// A name that can be shown: a password in its place would be longer, or contain other characters.
fn shortened(name: &str) -> String {
    let is_plain = |letter: char| letter.is_ascii_lowercase() || letter == '_';
    match name.len() <= 32 && name.chars().all(is_plain) {
        true => name.to_owned(),
        false => "…".to_owned(),
    }
}

fn hosts(hosts: &str, ports: &str) -> Result<Vec<PostgresHost>, PostgresUrlError> {
    let ports: Vec<&str> = ports.split(',').collect();
    let hosts = hosts.split(',').enumerate().map(|(index, text)| {
        let (name, own) = name_and_port(text)?;
        // As in libpq, one port is that of all hosts.
        let port = ports.get(index).or_else(|| ports.first()).copied();
        let port = own.or(port).filter(|port| !port.is_empty());
        Ok(PostgresHost {
            address: address(name)?,
            port: port.map_or(Ok(PORT), port_number)?,
        })
    });
    hosts.collect()
}

fn name_and_port(text: &str) -> Result<(&str, Option<&str>), PostgresUrlError> {
    if let Some(rest) = text.strip_prefix('[') {
        let (name, port) = rest.split_once(']').ok_or(PostgresUrlError::NoHost)?;
        return Ok((name, port.strip_prefix(':')));
    }
    match text.split_once(':') {
        // A path of a socket can contain a colon.
        Some((name, port)) if !text.starts_with('/') => Ok((name, Some(port))),
        _ => Ok((text, None)),
    }
}

fn address(name: &str) -> Result<PostgresAddress, PostgresUrlError> {
    let name = filled(name)?.ok_or(PostgresUrlError::NoHost)?;
    Ok(match Path::new(&name).is_absolute() {
        true => PostgresAddress::Socket(name.into()),
        false => PostgresAddress::Tcp(name),
    })
}

fn port_number(text: &str) -> Result<u16, PostgresUrlError> {
    match text.parse() {
        Ok(0) | Err(_) => Err(PostgresUrlError::Port),
        Ok(port) => Ok(port),
    }
}
