//! Secrets of upstreams and of the ledger: where they are read, and how long they are kept.

mod error;
mod read;

use std::ffi::OsString;

use secrecy::{ExposeSecret, SecretString};
use tokio::sync::Mutex;

pub use error::{SecretError, SecretProblem};
use read::read_for;
pub use read::{PATIENCE, read};

use crate::config::SecretSource;

/// How environment variables are looked up.
pub type Environment = dyn Fn(&str) -> Option<OsString> + Send + Sync;

/// A secret: read when it is first needed, then kept.
pub struct Secret {
    owner: String,
    source: Source,
    environment: Box<Environment>,
    held: Mutex<Held>,
}

enum Source {
    /// The upstream asks for none.
    Nowhere,
    /// It was given.
    Given(SecretString),
    /// It is read from there.
    From(SecretSource),
}

#[derive(Default)]
struct Held {
    secret: Option<SecretString>,
    /// How often it was read.
    reading: u64,
    /// Whether the upstream took it since.
    taken: bool,
}

/// The secret as one request carries it.
#[derive(Clone, Default)]
pub struct Shown {
    /// The secret; `None` for a credential without one.
    pub secret: Option<SecretString>,
    reading: u64,
}

/// What is to be done about a secret that the upstream did not take.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Remedy {
    /// Another one is there now: ask again.
    Renewed,
    /// None: it is no good.
    Nothing,
}

impl Secret {
    /// The secret of `credential`, at `source`; `None` where the upstream asks for none. Nothing is read yet.
    #[must_use]
    pub fn new(credential: &str, source: Option<SecretSource>) -> Self {
        Self::owned_by(read::of_credential(credential), source)
    }

    /// The secret of `owner`, which is how messages call it, such as `ledger.password`. Nothing is read yet.
    #[must_use]
    pub fn owned_by(owner: String, source: Option<SecretSource>) -> Self {
        Self::with(owner, source.map_or(Source::Nowhere, Source::From))
    }

    /// A secret that is known already.
    #[must_use]
    pub fn given(credential: &str, secret: SecretString) -> Self {
        Self::with(read::of_credential(credential), Source::Given(secret))
    }

    /// The same, with environment variables looked up there instead of in the process' own.
    #[must_use]
    pub fn in_environment(
        self,
        lookup: impl Fn(&str) -> Option<OsString> + Send + Sync + 'static,
    ) -> Self {
        Self {
            environment: Box::new(lookup),
            ..self
        }
    }

    fn with(owner: String, source: Source) -> Self {
        let environment = Box::new(|name: &str| std::env::var_os(name));
        Self {
            owner,
            source,
            environment,
            held: Mutex::default(),
        }
    }

    /// Whether there is one.
    #[must_use]
    pub const fn is_some(&self) -> bool {
        !matches!(self.source, Source::Nowhere)
    }

    /// Reads it now, unless that was done already.
    ///
    /// # Errors
    /// Where it is missing or unfit, with what to do about it.
    pub async fn ready(&self) -> Result<(), SecretError> {
        self.show().await.map(|_| ())
    }

    /// The secret for one request.
    pub async fn show(&self) -> Result<Shown, SecretError> {
        let mut held = self.held.lock().await;
        if held.secret.is_none() && self.is_some() {
            *held = Held {
                secret: Some(self.read().await?),
                reading: held.reading + 1,
                taken: false,
            };
        }
        Ok(Shown {
            secret: held.secret.clone(),
            reading: held.reading,
        })
    }

    /// Remembers that the upstream took it.
    pub async fn taken(&self, shown: &Shown) {
        let mut held = self.held.lock().await;
        held.taken |= held.reading == shown.reading;
    }

    /// Fetches another one, where a command prints it: a token runs out. Once, until the upstream takes that.
    pub async fn refused(&self, shown: &Shown) -> Result<Remedy, SecretError> {
        let mut held = self.held.lock().await;
        if held.reading > shown.reading {
            return Ok(Remedy::Renewed);
        }
        if !self.runs_out() || (held.reading > 1 && !held.taken) {
            return Ok(Remedy::Nothing);
        }
        let another = self.read().await?;
        if held
            .secret
            .as_ref()
            .is_some_and(|old| old.expose_secret() == another.expose_secret())
        {
            return Ok(Remedy::Nothing);
        }
        *held = Held {
            secret: Some(another),
            reading: held.reading + 1,
            taken: false,
        };
        Ok(Remedy::Renewed)
    }

    const fn runs_out(&self) -> bool {
        matches!(self.source, Source::From(SecretSource::Command(_)))
    }

    async fn read(&self) -> Result<SecretString, SecretError> {
        match &self.source {
            Source::From(source) => {
                read_for(&self.owner, source, &*self.environment, PATIENCE).await
            }
            Source::Given(secret) => Ok(secret.clone()),
            Source::Nowhere => Ok(SecretString::default()),
        }
    }
}

impl std::fmt::Debug for Secret {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Secret({})", self.owner)
    }
}
