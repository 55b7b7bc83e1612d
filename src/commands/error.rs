use std::io;

use thiserror::Error;

use crate::catalog::CatalogError;
use crate::config::ConfigError;
use crate::exit::Exit;
use crate::ledger::{ClientError, OpenLedgerError};
use crate::run::RunError;
use crate::sqlite::OpenError;

/// Why a command did not do as asked.
#[derive(Debug, Error)]
pub enum Error {
    /// What was typed makes no sense with this configuration.
    #[error("{0}")]
    Usage(String),
    /// What was asked for is not there.
    #[error("{0}")]
    Refused(String),
    /// The configuration is wrong.
    #[error(transparent)]
    Config(#[from] ConfigError),
    /// A file in the state directory cannot be used.
    #[error(transparent)]
    State(#[from] OpenError),
    /// The catalog failed.
    #[error(transparent)]
    Catalog(#[from] CatalogError),
    /// The ledger cannot be opened.
    #[error(transparent)]
    Ledger(#[from] OpenLedgerError),
    /// The ledger failed.
    #[error(transparent)]
    Client(#[from] ClientError),
    /// The system failed.
    #[error("{what}: {source}")]
    Io {
        /// What was tried.
        what: String,
        /// What the system said.
        source: io::Error,
    },
}

impl Error {
    /// What the process tells its caller.
    #[must_use]
    pub const fn exit(&self) -> Exit {
        match self {
            Self::Usage(_) | Self::Config(_) => Exit::Usage,
            _ => Exit::Failed,
        }
    }

    /// An error of the system, with what was tried.
    pub fn io(what: impl Into<String>) -> impl FnOnce(io::Error) -> Self {
        let what = what.into();
        move |source| Self::Io { what, source }
    }
}

impl From<RunError> for Error {
    fn from(error: RunError) -> Self {
        match error {
            RunError::Catalog(error) => Self::Catalog(error),
            RunError::NoCredential(why) => Self::Usage(why),
        }
    }
}
