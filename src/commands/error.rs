//! The error of every command, and its exit code.

use std::io;

use thiserror::Error;

use crate::exit::Exit;
use crate::run::RunError;
use ingest_catalog::CatalogError;
use ingest_config::ConfigError;
use ingest_ledger::{ClientError, LedgerError, OpenLedgerError};
use ingest_sqlite::OpenError;

/// Why a command failed.
#[derive(Debug, Error)]
pub enum Error {
    /// The command line does not fit this configuration.
    #[error("{0}")]
    Usage(String),
    /// Something that the command line names does not exist.
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
        /// The operation.
        what: String,
        /// The system's error.
        source: io::Error,
    },
}

impl Error {
    /// Returns the exit code.
    #[must_use]
    pub const fn exit(&self) -> Exit {
        match self {
            Self::Usage(_) | Self::Config(_) => Exit::Usage,
            Self::Refused(_)
            | Self::State(_)
            | Self::Catalog(_)
            | Self::Ledger(_)
            | Self::Client(_)
            | Self::Io { .. } => Exit::Failed,
        }
    }

    /// Whether the ledger's file no longer knows what this process was granted.
    #[must_use]
    pub const fn is_forgotten_ledger(&self) -> bool {
        matches!(
            self,
            Self::Ledger(OpenLedgerError::Ledger(LedgerError::Forgotten(_)))
                | Self::Client(ClientError::Ledger(LedgerError::Forgotten(_)))
        )
    }

    /// An error of the system, with the operation.
    pub fn io(what: impl Into<String>) -> impl FnOnce(io::Error) -> Self {
        let what = what.into();
        move |source| Self::Io { what, source }
    }
}

impl From<RunError> for Error {
    fn from(error: RunError) -> Self {
        match error {
            RunError::Catalog(error) => Self::Catalog(error),
            // Nothing was requested, and only another configuration helps: exit code 2.
            RunError::NoCredential(why) => Self::Usage(why),
        }
    }
}
