//! `quotas.toml`, read into types in which what does not make sense cannot be said.

mod call;
mod check;
mod credential;
mod error;
mod errors;
mod item;
mod job;
mod load;
mod names;
mod pointer;
mod read;
mod region;
mod section;
mod set;
mod shown;
mod template;
mod tree;
mod upstream;

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use crate::quota::Units;

pub use call::{Call, Method, PageSize, Paging, Place, Records};
pub use credential::{Credential, CredentialLimit, SecretSource};
pub use error::{ConfigError, NamedBy, Problem};
pub use errors::{Class, Condition, Rule, StatusMatch, Until, classify};
pub use job::{Ids, Job, Step};
pub use load::{Sources, Surroundings};
pub use pointer::Pointer;
pub use region::Region;
pub use template::{Template, TemplateError, Values, Variable};
pub use upstream::{Auth, Upstream};

/// Everything that `quotas.toml` says, checked.
#[derive(Debug, Clone)]
pub struct Config {
    /// The file it came from.
    pub path: PathBuf,
    /// The regions that jobs fan out over, in the order of the file.
    pub regions: Vec<Arc<Region>>,
    /// Where charges are recorded, and what happens when that cannot be reached.
    pub ledger: LedgerConfig,
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
            timeout: Duration::from_millis(250),
            cheap_max: Units::new(5),
            unmetered_max: Units::new(50),
            max_skew: Duration::from_secs(5 * 60),
            after_loss: AfterLoss::default(),
        }
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

/// A Redis URL. Its `Debug` and `Display` leave out the password.
#[derive(Clone, PartialEq, Eq)]
pub struct RedisUrl(url::Url);

impl RedisUrl {
    /// Wraps a URL that was checked to be one of Redis.
    #[must_use]
    pub const fn new(url: url::Url) -> Self {
        Self(url)
    }

    /// The whole URL, password included: for connecting only.
    #[must_use]
    pub const fn expose(&self) -> &url::Url {
        &self.0
    }
}

impl std::fmt::Display for RedisUrl {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let mut shown = self.0.clone();
        if shown.password().is_some() {
            let _ = shown.set_password(Some("***"));
        }
        shown.set_query(None);
        f.write_str(shown.as_str())
    }
}

impl std::fmt::Debug for RedisUrl {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "RedisUrl({self})")
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
