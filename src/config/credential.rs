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
    /// Where further secrets are, by the NAME of their template variable `{secret:NAME}`.
    pub secrets: BTreeMap<String, SecretSource>,
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
    /// The upstream's name for it, in a response that reports it exhausted.
    pub upstream_name: Option<String>,
    /// The response headers that report its state; `None` if the upstream reports nothing.
    pub reported: Option<ReportedHeaders>,
}

/// The response headers that report the state of a limit. If less is reported than the ledger counts, the ledger takes
/// the reported value. `reported = { remaining = "…", reset = "…", resource = "…" }`
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ReportedHeaders {
    /// The header with the remaining units.
    pub remaining: String,
    /// The header with the time at which all units return, in seconds since the Unix epoch.
    pub reset: Option<String>,
    /// The header with the `upstream_name` (or else the name) of the limit; `None`: every response is about this limit.
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
