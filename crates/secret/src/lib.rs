//! The secrets of upstreams and of the ledger: where they are read, and how long they are kept.
//!
//! A [`Secret`] is read when it is first needed, from a file, the environment, a command or the system's credentials, and again
//! when an upstream refuses it. [`Secrets`] are those of a configuration.
//!
//! A secret leaves this crate as a `SecretString` alone, which no log and no `Debug` shows. Begin with [`Secret`], then `read.rs`.

mod error;
mod read;
mod set;

use std::ffi::OsString;

use secrecy::{ExposeSecret, SecretString};
use tokio::sync::Mutex;

pub use error::{SecretError, SecretProblem};
use read::{Form, read_for};
pub use read::{PATIENCE, read};
pub use set::{Secrets, SecretsInUse};

use ingest_config::SecretSource;

/// Looks up an environment variable.
pub type Environment = dyn Fn(&str) -> Option<OsString> + Send + Sync;

/// A secret, which is read when it is first needed and then kept.
pub struct Secret {
    owner: String,
    source: Source,
    form: Form,
    cached: Mutex<Cached>,
}

enum Source {
    /// The upstream requires none.
    Nowhere,
    /// The caller supplied it.
    Given(SecretString),
    /// It is read from there.
    From(SecretSource),
}

#[derive(Default)]
struct Cached {
    secret: Option<SecretString>,
    /// How often it was read.
    reading: u64,
    /// Whether the upstream has accepted it since it was read.
    accepted: bool,
}

/// The secret that one request carries.
#[derive(Clone, Default)]
pub struct Revealed {
    /// The secret; `None` for a credential without one.
    pub secret: Option<SecretString>,
    reading: u64,
}

/// What can be done about a secret that the upstream rejected.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Remedy {
    /// Another secret was fetched: the request can be sent again.
    Renewed,
    /// Nothing: the secret is invalid.
    Nothing,
}

impl Secret {
    /// The secret of `credential`; `None` if the upstream requires none. Nothing is read yet.
    pub fn new(credential: &str, source: Option<SecretSource>) -> Self {
        Self::owned_by(read::of_credential(credential), source)
    }

    /// The secret of `owner`, which is its name in messages, such as `ledger.password`. Nothing is read yet.
    pub fn owned_by(owner: String, source: Option<SecretSource>) -> Self {
        Self::with(owner, source.map_or(Source::Nowhere, Source::From))
    }

    /// A secret that the caller already has.
    pub fn given(credential: &str, secret: SecretString) -> Self {
        Self::with(read::of_credential(credential), Source::Given(secret))
    }

    /// The same secret as a document: it may have several lines, since no header carries it.
    #[must_use]
    pub fn document(self) -> Self {
        Self {
            form: Form::Document,
            ..self
        }
    }

    fn with(owner: String, source: Source) -> Self {
        Self {
            owner,
            source,
            form: Form::Header,
            cached: Mutex::default(),
        }
    }

    /// Whether the credential has a secret.
    pub const fn is_some(&self) -> bool {
        !matches!(self.source, Source::Nowhere)
    }

    /// Reads the secret, unless that was done already.
    ///
    /// # Errors
    /// The secret is missing or malformed; the error says what to do.
    pub async fn ready(&self) -> Result<(), SecretError> {
        self.reveal().await.map(drop)
    }

    /// The secret for one request.
    pub async fn reveal(&self) -> Result<Revealed, SecretError> {
        let mut cached = self.cached.lock().await;
        if cached.secret.is_none() && self.is_some() {
            *cached = cached.replaced(self.read().await?);
        }
        Ok(Revealed {
            secret: cached.secret.clone(),
            reading: cached.reading,
        })
    }

    /// Records that the upstream accepted the secret.
    pub async fn accepted(&self, revealed: &Revealed) {
        let mut cached = self.cached.lock().await;
        cached.accepted |= cached.reading == revealed.reading;
    }

    /// Fetches another secret from a command after the upstream rejected this one, since a token expires. It does so once,
    /// and again only after the upstream accepted a secret.
    pub async fn rejected(&self, revealed: &Revealed) -> Result<Remedy, SecretError> {
        let mut cached = self.cached.lock().await;
        // Another request has fetched a newer one meanwhile.
        if cached.reading > revealed.reading {
            return Ok(Remedy::Renewed);
        }
        if !self.is_from_command() || (cached.reading > 1 && !cached.accepted) {
            return Ok(Remedy::Nothing);
        }
        let another = self.read().await?;
        let is_same = |old: &SecretString| old.expose_secret() == another.expose_secret();
        if cached.secret.as_ref().is_some_and(is_same) {
            return Ok(Remedy::Nothing);
        }
        *cached = cached.replaced(another);
        Ok(Remedy::Renewed)
    }

    const fn is_from_command(&self) -> bool {
        matches!(self.source, Source::From(SecretSource::Command(_)))
    }

    async fn read(&self) -> Result<SecretString, SecretError> {
        match &self.source {
            Source::From(source) => {
                let environment = |name: &str| std::env::var_os(name);
                read_for(&self.owner, source, self.form, &environment, PATIENCE).await
            }
            Source::Given(secret) => Ok(secret.clone()),
            Source::Nowhere => Ok(SecretString::default()),
        }
    }
}

impl Cached {
    const fn replaced(&self, secret: SecretString) -> Self {
        Self {
            secret: Some(secret),
            reading: self.reading + 1,
            accepted: false,
        }
    }
}

impl std::fmt::Debug for Secret {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Secret({})", self.owner)
    }
}
