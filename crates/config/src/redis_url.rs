//! The URL of a Redis.

use std::fmt;

use thiserror::Error;
use url::Url;

/// A Redis URL. Its `Debug` and `Display` leave out the password.
///
/// - `redis://[user:password@]host[:port][/db]`, `rediss://` for TLS
/// - `unix:///path/to/redis.sock[?db=0&user=…&pass=…]`
/// - `redis+sentinel://[user:password@]host[:port][,host[:port]…]/service[/db]`: the hosts are Sentinels, the user is one
///   of the Redis that they name
/// - `redis+cluster://[user:password@]host[:port][,host[:port]…]`
///
/// The latter two speak TLS with `?tls=true`.
#[derive(Clone, PartialEq, Eq)]
pub struct RedisUrl {
    /// The URL with its first host alone: the parser of URLs accepts no comma after a port.
    first: Url,
    /// The other hosts, as `host` or `host:port`.
    others: Vec<String>,
    /// Whether a user without a password may be shown. It is mostly a password in the wrong place.
    shows_user: bool,
    /// Whether its ledger is that of sandbox runs, apart from the real one.
    practises: bool,
}

/// Why a text is not the URL of a Redis.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum RedisUrlError {
    /// It is no URL.
    #[error("{0}")]
    NotAUrl(#[from] url::ParseError),
    /// It names no host.
    #[error("the host is missing")]
    NoHost,
    /// Only Sentinels and the nodes of a cluster are several.
    #[error("only redis+sentinel:// and redis+cluster:// accept several hosts")]
    SeveralHosts,
    /// Sentinels know their Redis by a name.
    #[error("the service name is missing: redis+sentinel://HOST:26379,HOST:26379/SERVICE")]
    NoService,
    /// An `@` stands behind the host: a password that holds what ends the host. Its rest must not be shown.
    #[error("an `@` follows the host")]
    AtBehindHost,
    /// A database has a number.
    #[error("`{0}` is not a database number")]
    Database(String),
    /// What follows its `?` would be passed over. It is not repeated: it may be a password.
    #[error(
        "the query accepts only {0}; a user and a password precede the host: \
        redis://USER:PASSWORD@HOST"
    )]
    Setting(&'static str),
}

impl RedisUrl {
    /// The same, whose user has a password that is configured elsewhere.
    #[must_use]
    pub fn with_shown_user(self) -> Self {
        Self {
            shows_user: true,
            ..self
        }
    }

    /// The same Redis, with the ledger of sandbox runs.
    #[must_use]
    pub fn for_practice(self) -> Self {
        Self {
            practises: true,
            ..self
        }
    }

    /// What the names of all keys begin with.
    pub const fn prefix(&self) -> &'static str {
        if self.practises {
            "ingest:sandbox"
        } else {
            "ingest"
        }
    }

    /// Reads a URL in any of the forms above.
    ///
    /// # Errors
    /// The text has none of these forms.
    pub fn parse(text: &str) -> Result<Self, RedisUrlError> {
        let (text, others) = without_other_hosts(text);
        let url = Self {
            first: Url::parse(&text)?,
            others,
            shows_user: false,
            practises: false,
        };
        url.check()?;
        Ok(url)
    }

    /// The URL with its first host alone, password included: for connecting only.
    pub const fn expose(&self) -> &Url {
        &self.first
    }

    /// The password as the URL has it, with its characters escaped; `None` where it has none.
    pub fn expose_password(&self) -> Option<&str> {
        self.first.password()
    }

    /// The hosts, as `host` or `host:port`.
    pub fn hosts(&self) -> Vec<String> {
        let host = self.first.host_str().unwrap_or_default();
        let first = self
            .first
            .port()
            .map_or_else(|| host.to_owned(), |port| format!("{host}:{port}"));
        std::iter::once(first)
            .chain(self.others.iter().cloned())
            .collect()
    }

    /// The parts of the path: of a Sentinel's the service and the database, of others the database.
    pub fn path(&self) -> Vec<&str> {
        self.first
            .path()
            .split('/')
            .filter(|part| !part.is_empty())
            .collect()
    }

    /// Which Redis it names: scheme, hosts, path and database, without user and password.
    pub fn identity(&self) -> String {
        let database = self.first.query_pairs().find(|(key, _)| key == "db");
        let database = database.map_or_else(String::new, |(_, number)| format!("?db={number}"));
        let (scheme, hosts) = (self.first.scheme(), self.hosts().join(","));
        format!("{scheme}://{hosts}{}{database}", self.first.path())
    }

    /// Whether it asks for TLS.
    pub fn is_tls(&self) -> bool {
        self.first.scheme() == "rediss"
            || self
                .first
                .query_pairs()
                .any(|(key, value)| key == "tls" && value == "true")
    }

    /// Whether a password is part of it.
    pub fn has_password(&self) -> bool {
        let in_query = self.first.query_pairs().any(|(key, _)| key == "pass");
        self.first.password().is_some() || (self.first.scheme() == "unix" && in_query)
    }

    /// Whether its hosts are Sentinels.
    pub fn is_sentinel(&self) -> bool {
        self.first.scheme() == "redis+sentinel"
    }

    /// What to write so that it uses TLS.
    pub fn with_tls_advice(&self) -> &'static str {
        match self.first.scheme() {
            "redis+sentinel" | "redis+cluster" => "append ?tls=true to ledger.url",
            "unix" => "a Unix socket has no TLS: remove ledger.tls",
            _ => "write rediss:// in ledger.url",
        }
    }

    fn check(&self) -> Result<(), RedisUrlError> {
        // First: the errors below repeat parts of the text, which can then belong to a password.
        if self.first.scheme() != "unix" && self.has_at_behind_host() {
            return Err(RedisUrlError::AtBehindHost);
        }
        self.check_settings()?;
        let path = self.path();
        let database = match self.first.scheme() {
            "unix" => return Ok(()),
            "redis+sentinel" if path.is_empty() => return Err(RedisUrlError::NoService),
            "redis+sentinel" => path.get(1),
            "redis+cluster" => None,
            _ if !self.others.is_empty() => return Err(RedisUrlError::SeveralHosts),
            _ => path.first(),
        };
        match database {
            _ if self.first.host_str().is_none_or(str::is_empty) => Err(RedisUrlError::NoHost),
            Some(number) if number.parse::<u32>().is_err() => {
                Err(RedisUrlError::Database((*number).to_owned()))
            }
            _ => Ok(()),
        }
    }

    fn has_at_behind_host(&self) -> bool {
        let behind_host = [
            Some(self.first.path()),
            self.first.query(),
            self.first.fragment(),
        ];
        behind_host
            .into_iter()
            .flatten()
            .any(|part| part.contains('@'))
    }

    fn check_settings(&self) -> Result<(), RedisUrlError> {
        let (known, words): (&[&str], _) = match self.first.scheme() {
            "unix" => (
                &["db", "user", "pass", "protocol"],
                "`db`, `user`, `pass` and `protocol`",
            ),
            "redis+sentinel" | "redis+cluster" => (&["tls"], "`tls=true`"),
            _ => (&["protocol"], "`protocol`"),
        };
        let is_right = |key: &str, value: &str| match key {
            // Whatever else were taken for no, a password would go over the network for all to read.
            "tls" => matches!(value, "true" | "false"),
            "db" => value.parse::<u32>().is_ok(),
            _ => true,
        };
        let is_known = |key: &str| known.contains(&key);
        match self
            .first
            .query_pairs()
            .all(|(key, value)| is_known(&key) && is_right(&key, &value))
        {
            true => Ok(()),
            false => Err(RedisUrlError::Setting(words)),
        }
    }
}

impl fmt::Display for RedisUrl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut shown = self.first.clone();
        if shown.password().is_some() {
            let _ = shown.set_password(Some("***"));
        } else if !shown.username().is_empty() && !self.shows_user {
            let _ = shown.set_username("***");
        }
        if !matches!(shown.scheme(), "redis+sentinel" | "redis+cluster") {
            // Of the others it may hold a password; of these it is `tls=true` alone.
            shown.set_query(None);
        }
        if self.others.is_empty() {
            return f.write_str(shown.as_str());
        }
        let behind = url::Position::AfterPort;
        let others = self.others.join(",");
        write!(f, "{},{others}{}", &shown[..behind], &shown[behind..])
    }
}

impl fmt::Debug for RedisUrl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "RedisUrl({self})")
    }
}

/// The text without all hosts but the first, and those.
fn without_other_hosts(text: &str) -> (String, Vec<String>) {
    let Some((scheme, rest)) = text.split_once("://") else {
        return (text.to_owned(), Vec::new());
    };
    let (authority, path) = rest.split_at(rest.find(['/', '?', '#']).unwrap_or(rest.len()));
    let (user, hosts) = authority.split_at(authority.rfind('@').map_or(0, |at| at + 1));
    let mut hosts = hosts.split(',');
    let first = hosts.next().unwrap_or_default();
    (
        format!("{scheme}://{user}{first}{path}"),
        hosts.map(str::to_owned).collect(),
    )
}
