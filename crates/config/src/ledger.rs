//! `[ledger]`: where charges are recorded.

use std::path::PathBuf;
use std::time::Duration;

use serde_json::json;

use super::credential::{SECRET, SecretSource};
use super::declare::{
    AndThen, DURATION, DURATION_OR_ZERO, FILE, Flat, Leaf, Optional, Or, Shape, Table, Type, UNITS,
    Words, keys, table,
};
use super::item::Item;
use super::redis_url::{RedisUrl, RedisUrlError};
use ingest_quota::Units;

keys! {
    /// `[ledger]`
    #[derive(Debug, Clone, PartialEq, Eq)]
    pub struct LedgerConfig {
        /// `"sqlite"`, a file in the state directory for one machine; or the URL of a Redis that several machines share:
        /// `redis://`, `rediss://` (TLS), `redis+sentinel://HOST,HOST/SERVICE`, `redis+cluster://HOST,HOST` or `unix://PATH`.
        store as "url": LedgerStore = Or(STORE, "'sqlite'", "'redis://ingest@host:6379/0'"),
        /// What a connection to Redis needs.
        access: RedisAccess = Flat::<RedisAccess>::NEW,
        /// The timeout of one ledger operation, including the connection. A report of many limits may take it once more
        /// for each 250 of them.
        timeout: Duration = Or(DURATION, "'250ms'", "'1s'"),
        /// The highest cost of a call, in units, that may go unmetered during an outage of the ledger.
        cheap_max: Units = Or(UNITS, "5", "0"),
        /// The most units of an account that may go unmetered on this machine within a window.
        unmetered_max: Units = Or(UNITS, "50", "0"),
        /// A larger difference between the ledger's clock and this machine's is an outage.
        max_skew: Duration = Or(DURATION_OR_ZERO, "'5min'", "'30s'"),
        /// What happens after the ledger lost its data.
        after_loss: AfterLoss = Or(Words(AFTER_LOSS), "'floor'", "'wait'"),
    }
}

pub const LEDGER: AndThen<Table<LedgerConfig>, LedgerConfig> = AndThen(table(), with_its_url);

keys! {
    /// What a connection to Redis needs beside its URL.
    #[derive(Debug, Clone, PartialEq, Eq, Default)]
    pub struct RedisAccess {
        /// Where to read the Redis password from; never the password itself.
        password: Option<SecretSource> = Optional(SECRET, "{ file = '/etc/ingest/redis.key' }"),
        /// Where to read the password of the Sentinels from, if they require one.
        sentinel_password: Option<SecretSource> = Optional(SECRET, "{ env = 'SENTINEL_PASSWORD' }"),
        /// Certificate files (PEM) for a connection with TLS.
        tls: LedgerTls = Or(TLS, "{}", "{ ca = 'ca.crt', cert = 'client.crt', key = 'client.key' }"),
    }
}

/// The certificates of a connection with TLS.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
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

keys! {
    struct TlsKeys {
        /// The certificate authorities that may sign the server's certificate. If unset, those of the system.
        ca: Option<PathBuf> = Optional(FILE, "'/etc/ingest/redis-ca.crt'"),
        /// The client certificate. Requires `key`.
        cert: Option<PathBuf> = Optional(FILE, "'/etc/ingest/redis-client.crt'"),
        /// The private key of the client certificate. Requires `cert`.
        key: Option<PathBuf> = Optional(FILE, "'/etc/ingest/redis-client.key'"),
    }
}

const TLS: Leaf<LedgerTls> = Leaf {
    read: tls,
    shape: || {
        let together = json!({ "cert": ["key"], "key": ["cert"] });
        table::<TlsKeys>()
            .shape()
            .with("dependentRequired", together)
    },
};

fn tls(item: Item<'_>) -> Option<LedgerTls> {
    let TlsKeys { ca, cert, key } = table::<TlsKeys>().read(item.clone())?;
    match (cert, key) {
        (Some(cert), Some(key)) => Some(LedgerTls {
            ca,
            client: Some(ClientCertificate { cert, key }),
        }),
        (None, None) => Some(LedgerTls { ca, client: None }),
        (Some(_), None) => item.lacks("key", "\"/etc/ingest/redis-client.key\""),
        (None, Some(_)) => item.lacks("cert", "\"/etc/ingest/redis-client.crt\""),
    }
}

/// Where the ledger is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum LedgerStore {
    /// A file in the state directory.
    Sqlite,
    /// A Redis URL: `redis://`, `rediss://`, `redis+sentinel://`, `redis+cluster://` or `unix://`. May hold a password.
    Redis(RedisUrl),
}

impl LedgerStore {
    /// Whether it is a file of this machine, which several processes open and a restore can replace.
    // Callers ask here and compare nothing, so that the compiler asks about another kind of ledger.
    #[must_use]
    pub const fn is_file(&self) -> bool {
        match self {
            Self::Sqlite => true,
            Self::Redis(_) => false,
        }
    }

    /// The URL of the Redis, where it is one.
    #[must_use]
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
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum AfterLoss {
    /// Continues from the last usage that this machine saw.
    #[default]
    Floor,
    /// Refuses charges for one window.
    Wait,
}

const AFTER_LOSS: &[(&str, AfterLoss, &str)] = &[
    (
        "floor",
        AfterLoss::Floor,
        "Charges continue from the last usage that this machine saw.",
    ),
    (
        "wait",
        AfterLoss::Wait,
        "Charges are refused for one window.",
    ),
];

const SCHEMES: [&str; 5] = ["redis", "rediss", "redis+sentinel", "redis+cluster", "unix"];
const EXAMPLE: &str = "write \"sqlite\", or for example \"redis://127.0.0.1:6379/0\"";
const ESCAPED: &str = "in a password, write `/` as %2F, `?` as %3F and `#` as %23";

const STORE: Leaf<LedgerStore> = Leaf {
    read: store,
    shape: || {
        let schemes = SCHEMES.map(|scheme| scheme.replace('+', "\\+")).join("|");
        let pattern = format!("^(sqlite$|({schemes}):)");
        let schema = json!({ "type": "string", "pattern": pattern });
        Shape::scalar("`\"sqlite\"`, or URL of a Redis", schema)
    },
};

/// The URL may hold a password: no message shows more of it than its scheme.
fn store(item: Item<'_>) -> Option<LedgerStore> {
    let text = item.text()?;
    if text == "sqlite" {
        return Some(LedgerStore::Sqlite);
    }
    let scheme = text.split_once(':').map_or("", |(scheme, _)| scheme);
    if !SCHEMES.contains(&scheme) {
        let schemes = SCHEMES.map(|scheme| format!("{scheme}://")).join(" ");
        return item.refuse(format!("expected `sqlite` or one of {schemes}"), EXAMPLE);
    }
    match RedisUrl::parse(text) {
        Ok(url) => Some(LedgerStore::Redis(url)),
        // The text in place of the number may be part of a password.
        Err(RedisUrlError::Database(_)) => {
            item.refuse("expected a database number after the host", ESCAPED)
        }
        Err(RedisUrlError::AtBehindHost) => {
            item.refuse("the host ends within the user or the password", ESCAPED)
        }
        Err(error) => item.refuse(format!("not a valid Redis URL: {error}"), EXAMPLE),
    }
}

/// Whether the URL uses what is configured beside it. A ledger in a file ignores all of it, as `--sandbox` needs.
fn with_its_url(item: &Item<'_>, ledger: LedgerConfig) -> Option<LedgerConfig> {
    let Some(url) = ledger.store.redis() else {
        return Some(ledger);
    };
    if let (Some(item), true) = (item.find(&["password"]), url.has_password()) {
        return item.refuse_unseen(
            "ledger.url already contains a password",
            "remove the password from ledger.url: redis://USER@HOST",
        );
    }
    if let (Some(item), false) = (item.find(&["sentinel_password"]), url.is_sentinel()) {
        return item.refuse_unseen(
            "only redis+sentinel:// connects to Sentinels",
            "remove sentinel_password, or correct ledger.url",
        );
    }
    let unused = ledger.access.tls == LedgerTls::default() || url.is_tls();
    if let (Some(item), false) = (item.find(&["tls"]), unused) {
        return item.refuse("the URL does not use TLS", url.with_tls_advice());
    }
    let store = match &ledger.access.password {
        // Its password is elsewhere, so what stands in place of a user is one and may be shown.
        Some(_) => LedgerStore::Redis(url.clone().with_shown_user()),
        None => ledger.store.clone(),
    };
    Some(LedgerConfig { store, ..ledger })
}
