use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use super::Upstream;
use crate::quota::{Account, LimitName};

/// A secret for an upstream, and the account whose quota it draws on.
#[derive(Debug, Clone)]
pub struct Credential {
    /// Its name.
    pub name: String,
    /// What it is for.
    pub upstream: Arc<Upstream>,
    /// Where the secret is; `None` for an upstream that asks for none.
    pub secret: Option<SecretSource>,
    /// Whose quota it draws on, and the limits of that.
    pub account: Arc<Account>,
    /// What else is configured of each limit, by its name.
    pub limits: BTreeMap<LimitName, CredentialLimit>,
}

impl Credential {
    /// How long a run sleeps for a limit rather than stop.
    #[must_use]
    pub fn wait(&self, limit: &str) -> Duration {
        self.limits
            .get(limit)
            .map_or(Duration::ZERO, |limit| limit.wait)
    }
}

/// What a run needs to know of a limit beside its arithmetic.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CredentialLimit {
    /// How long a run sleeps for it rather than stop.
    pub wait: Duration,
    /// How the upstream calls it in an answer that says "spent".
    pub upstream_name: Option<String>,
    /// The headers by which answers tell how it stands.
    pub told: Option<Told>,
}

/// The headers by which answers tell how a limit stands: the ledger believes the lower of the two.
/// `told = { remaining = "…", reset = "…", resource = "…" }`
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Told {
    /// How many units are left.
    pub remaining: String,
    /// When all of them return, in seconds since the Unix epoch.
    pub reset: Option<String>,
    /// Which limit is meant, by its `upstream_name`, else by its own name; `None`: every answer means it.
    pub resource: Option<String>,
}

/// Where a secret is. The secret itself is never part of the configuration.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum SecretSource {
    /// An environment variable.
    Env(String),
    /// A file, without its trailing newline.
    File(PathBuf),
    /// A file of this name in `$CREDENTIALS_DIRECTORY` (systemd's `LoadCredential`).
    Credential(String),
    /// What a command prints, without its trailing newline.
    Command(Vec<String>),
}
