//! `[ledger]`: where charges are recorded.

use std::path::PathBuf;
use std::time::Duration;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use super::credential::SecretSource;
use super::error::Refusal;
use super::redis_url::{RedisUrl, RedisUrlError};
use super::values::{
    AnyUnits, As, File, Leaf, Span, SpanOrZero, Table, default, described, leaves, text,
};
use ingest_quota::Units;

/// `[ledger]`
#[derive(Debug, Clone, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct LedgerConfig {
    /// A file in the state directory for one machine, or a Redis that several machines share:
    /// `redis://`, `rediss://` (TLS), `redis+sentinel://HOST,HOST/SERVICE`, `redis+cluster://HOST,HOST` or `unix://PATH`. Example: `url = "redis://ingest@host:6379/0"`.
    #[serde(rename = "url", default)]
    pub store: LedgerStore,
    /// Where the password of Redis is read from. Example: `password = { file = "/etc/ingest/redis.key" }`.
    pub password: Option<SecretSource>,
    /// Where the password of the Sentinels is read from, if they require one. Example: `sentinel_password = { env = "SENTINEL_PASSWORD" }`.
    pub sentinel_password: Option<SecretSource>,
    /// Certificate files (PEM) for a connection with TLS. Example: `tls = { ca = "ca.crt", cert = "client.crt", key = "client.key" }`.
    #[serde(default)]
    pub tls: LedgerTls,
    /// The timeout of one ledger operation, the connection included. A report may take it once more for each 250 limits. Example: `timeout = "1s"`.
    #[serde(default = "default::milliseconds::<250>", with = "As::<Span>")]
    pub timeout: Duration,
    /// The highest cost of a call, in units, that may go unmetered in an outage of the ledger. Example: `cheap_max = 0`.
    #[serde(default = "default::units::<5>", with = "As::<AnyUnits>")]
    pub cheap_max: Units,
    /// The most units of an account that go unmetered on this machine within a window. Example: `unmetered_max = 0`.
    #[serde(default = "default::units::<50>", with = "As::<AnyUnits>")]
    pub unmetered_max: Units,
    /// A larger difference between the ledger's clock and this machine's is an outage. Example: `max_skew = "30s"`.
    #[serde(default = "default::seconds::<300>", with = "As::<SpanOrZero>")]
    pub max_skew: Duration,
    /// What happens after the ledger lost its data. Example: `after_loss = "wait"`.
    #[serde(default)]
    pub after_loss: AfterLoss,
}

/// The certificates of a connection with TLS.
#[derive(Debug, Clone, PartialEq, Eq, Default, Deserialize)]
#[serde(try_from = "Table<TlsKeys>")]
pub struct LedgerTls {
    /// The file with the certificates (PEM) that may sign the server's; `None`: those of the system.
    pub ca: Option<PathBuf>,
    /// The certificate that this client presents; `None`: none.
    pub client: Option<ClientCertificate>,
}

/// A client's certificate and its key: two files in PEM.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ClientCertificate {
    /// The certificate, with its chain.
    pub cert: PathBuf,
    /// Its private key.
    pub key: PathBuf,
}

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct TlsKeys {
    /// Who may sign the server's certificate. If unset, the system's authorities. Example: `ca = "/etc/ingest/redis-ca.crt"`.
    #[serde(default, with = "As::<Option<File>>")]
    pub ca: Option<PathBuf>,
    /// The client certificate. Requires `key`. Example: `cert = "/etc/ingest/redis-client.crt"`.
    #[serde(default, with = "As::<Option<File>>")]
    pub cert: Option<PathBuf>,
    /// The private key of the client certificate. Requires `cert`. Example: `key = "/etc/ingest/redis-client.key"`.
    #[serde(default, with = "As::<Option<File>>")]
    pub key: Option<PathBuf>,
}

described!(LedgerTls: TlsKeys);

impl TryFrom<Table<TlsKeys>> for LedgerTls {
    type Error = Refusal;

    fn try_from(Table(keys): Table<TlsKeys>) -> Result<Self, Refusal> {
        let TlsKeys { ca, cert, key } = keys;
        let client = match (cert, key) {
            (Some(cert), Some(key)) => Some(ClientCertificate { cert, key }),
            (None, None) => None,
            (Some(_), None) => {
                return Err(Refusal::missing("key", "\"/etc/ingest/redis-client.key\""));
            }
            (None, Some(_)) => {
                return Err(Refusal::missing("cert", "\"/etc/ingest/redis-client.crt\""));
            }
        };
        Ok(Self { ca, client })
    }
}

/// Where the ledger is.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub enum LedgerStore {
    /// A file in the state directory.
    #[default]
    Sqlite,
    /// A Redis URL: `redis://`, `rediss://`, `redis+sentinel://`, `redis+cluster://` or `unix://`. May hold a password.
    Redis(RedisUrl),
}

impl LedgerStore {
    /// Whether it is a file of this machine, which several processes open and a restore can replace.
    // Callers ask here and compare nothing, so that the compiler asks about another kind of ledger.
    pub const fn is_file(&self) -> bool {
        match self {
            Self::Sqlite => true,
            Self::Redis(_) => false,
        }
    }

    /// The URL of the Redis, where it is one.
    pub const fn redis(&self) -> Option<&RedisUrl> {
        match self {
            Self::Sqlite => None,
            Self::Redis(url) => Some(url),
        }
    }
}

impl std::fmt::Display for LedgerStore {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Sqlite => f.write_str("sqlite"),
            Self::Redis(url) => url.fmt(f),
        }
    }
}

/// What happens after a shared ledger lost its data.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum AfterLoss {
    /// Charges continue from the last usage that this machine saw.
    #[default]
    Floor,
    /// Charges are refused for one window.
    Wait,
}

const SCHEMES: [&str; 5] = ["redis", "rediss", "redis+sentinel", "redis+cluster", "unix"];
const EXAMPLE: &str = "write \"sqlite\", or for example \"redis://127.0.0.1:6379/0\"";
const ESCAPED: &str = "in a password, write `/` as %2F, `?` as %3F and `#` as %23";

leaves!(LedgerStore);

impl Serialize for LedgerStore {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

/// The URL may hold a password: no message shows more of it than its scheme.
impl Leaf for LedgerStore {
    type Value = Self;

    fn read(raw: Value) -> Result<Self, Refusal> {
        let text = text(raw)?;
        if text == "sqlite" {
            return Ok(Self::Sqlite);
        }
        let scheme = text.split_once(':').map_or("", |(scheme, _)| scheme);
        if !SCHEMES.contains(&scheme) {
            let schemes = SCHEMES.map(|scheme| format!("{scheme}://")).join(" ");
            return Err(Refusal::new(
                format!("expected `sqlite` or one of {schemes}"),
                EXAMPLE,
            ));
        }
        RedisUrl::parse(&text)
            .map(Self::Redis)
            .map_err(|error| match error {
                // The text in place of the number may be part of a password.
                RedisUrlError::Database(_) => {
                    Refusal::new("expected a database number after the host", ESCAPED)
                }
                RedisUrlError::AtBehindHost => {
                    Refusal::new("the host ends within the user or the password", ESCAPED)
                }
                error => Refusal::new(format!("not a valid Redis URL: {error}"), EXAMPLE),
            })
    }

    fn schema() -> Value {
        let schemes = SCHEMES.map(|scheme| scheme.replace('+', "\\+")).join("|");
        let pattern = format!("^(sqlite$|({schemes}):)");
        json!({ "title": "`\"sqlite\"`, or URL of a Redis", "type": "string", "pattern": pattern })
    }
}

impl LedgerConfig {
    /// Refuses what is configured beside a URL that does not use it. A ledger in a file ignores all of it, as `--sandbox` needs.
    pub fn checked(&mut self) -> Result<(), Refusal> {
        let LedgerStore::Redis(url) = &self.store else {
            return Ok(());
        };
        if url.has_password() && self.password.is_some() {
            let remedy = "remove the password from ledger.url: redis://USER@HOST";
            let refusal = Refusal::new("ledger.url already contains a password", remedy);
            return Err(refusal.below("password"));
        }
        if !url.is_sentinel() && self.sentinel_password.is_some() {
            let remedy = "remove sentinel_password, or correct ledger.url";
            let refusal = Refusal::new("only redis+sentinel:// connects to Sentinels", remedy);
            return Err(refusal.below("sentinel_password"));
        }
        if !url.is_tls() && self.tls != LedgerTls::default() {
            let refusal = Refusal::new("the URL does not use TLS", url.with_tls_advice());
            return Err(refusal.below("tls"));
        }
        // Its password is elsewhere, so what stands in place of a user is one and may be shown.
        if self.password.is_some() {
            self.store = LedgerStore::Redis(url.clone().with_shown_user());
        }
        Ok(())
    }

    /// Whether a connection needs a secret or a certificate.
    pub fn needs_access(&self) -> bool {
        let passwords = [&self.password, &self.sentinel_password];
        passwords.into_iter().any(Option::is_some) || self.tls != LedgerTls::default()
    }
}
