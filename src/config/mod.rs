//! `quotas.toml`, read into types in which what does not make sense cannot be said.

mod call;
mod credential;
mod errors;
mod job;
mod notify;
mod oauth;
mod pointer;
mod redis_url;
mod region;
mod template;
mod upstream;

// How the file becomes these types.
mod check;
mod error;
mod item;
mod load;
mod names;
mod read;
mod schema;
mod section;
mod set;
mod shown;
mod tree;

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use crate::quota::Units;

pub use call::{Call, Cheaper, Etag, Method, PageSize, Paging, Place, Records};
pub use credential::{Credential, CredentialLimit, ReportedHeaders, SecretSource};
pub use error::{ConfigError, NamedBy, Problem};
pub use errors::{Class, Condition, Rule, StatusMatch, Until, classify};
pub use job::{Ids, Job, Step};
pub use load::{Sources, Surroundings};
pub use notify::Notify;
pub use oauth::{ClientPlace, Grant, OAuth, OAuthClient};
pub use pointer::Pointer;
pub use redis_url::{RedisUrl, RedisUrlError};
pub use region::Region;
pub use schema::schema;
pub use template::{Template, TemplateError, Values, Variable};
pub use upstream::{Auth, Upstream, is_loopback};

pub use names::{closest, without};

/// Everything that `quotas.toml` says, checked.
#[derive(Debug, Clone)]
pub struct Config {
    /// The file it came from.
    pub path: PathBuf,
    /// The regions that jobs fan out over, in the order of the file.
    pub regions: Vec<Arc<Region>>,
    /// Where charges are recorded, and what happens when that cannot be reached.
    pub ledger: LedgerConfig,
    /// Who is told of runs.
    pub notify: Notify,
    /// The upstreams by name.
    pub upstreams: BTreeMap<String, Arc<Upstream>>,
    /// The credentials by name.
    pub credentials: BTreeMap<String, Arc<Credential>>,
    /// The jobs, in the order of the file.
    pub jobs: Vec<Arc<Job>>,
}

/// `[ledger]`
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LedgerConfig {
    /// Where it is.
    pub store: LedgerStore,
    /// How to connect to it, where it is a Redis.
    pub access: RedisAccess,
    /// For one operation, connecting included.
    pub timeout: Duration,
    /// A call whose largest component is at most this goes ahead when the ledger is down, in units.
    pub cheap_max: Units,
    /// So many units of an account may go unmetered on this machine within a window.
    pub unmetered_max: Units,
    /// How far the ledger's clock may be from ours.
    pub max_skew: Duration,
    /// What happens after a ledger lost its data.
    pub after_loss: AfterLoss,
}

impl Default for LedgerConfig {
    fn default() -> Self {
        Self {
            store: LedgerStore::Sqlite,
            access: RedisAccess::default(),
            timeout: Duration::from_millis(250),
            cheap_max: Units::new(5),
            unmetered_max: Units::new(50),
            max_skew: Duration::from_secs(5 * 60),
            after_loss: AfterLoss::default(),
        }
    }
}

/// What a connection to Redis needs beside its URL.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct RedisAccess {
    /// Where the password is; `None`: in the URL, or there is none.
    pub password: Option<SecretSource>,
    /// Where the password of the Sentinels is; `None`: they require none.
    pub sentinel_password: Option<SecretSource>,
    /// The file with the certificates (PEM) that may sign the server's; `None`: those of the system.
    pub ca: Option<PathBuf>,
    /// What proves to the server who connects; `None`: nothing.
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

/// Where the ledger is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum LedgerStore {
    /// A file in the state directory.
    Sqlite,
    /// A Redis URL: `redis://`, `rediss://`, `redis+sentinel://`, `redis+cluster://` or `unix://`. May hold a password.
    Redis(RedisUrl),
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
    /// Goes on from what this machine knows.
    #[default]
    Floor,
    /// Refuses for one window.
    Wait,
}
