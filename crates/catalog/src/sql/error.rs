use std::path::Path;

use rusqlite::ErrorCode;
use rusqlite::ffi::SQLITE_CORRUPT_VTAB;
use thiserror::Error;

use crate::postgres::PostgresError;
use crate::{CatalogError, Landed, PassRef};
use ingest_base::apart::CutOff;
use ingest_sqlite as sqlite;

/// Why an operation on a store failed.
#[derive(Debug, Error)]
pub enum StoreError {
    #[error("{}", sqlite::explain(.0))]
    Sqlite(#[from] rusqlite::Error),
    #[error(transparent)]
    Postgres(#[from] PostgresError),
    /// This process does not hold the pass.
    #[error(
        "another run took over {job} {region}, or the database lost pages in a failover; nothing was changed"
    )]
    PassLost { job: String, region: String },
    /// The page was stored before.
    #[error("the page was stored before")]
    Landed(Landed),
    #[error(
        "the full-text index is damaged ({0}); `ingest repair` builds it again from the catalog, without any request"
    )]
    DamagedIndex(rusqlite::Error),
    /// A stored value cannot be used; the text says why.
    #[error("{0}")]
    Unusable(String),
    #[error(transparent)]
    CutOff(#[from] CutOff),
}

impl StoreError {
    /// A pass that this process does not hold.
    pub fn lost(pass: &PassRef) -> Self {
        Self::PassLost {
            job: pass.job.clone(),
            region: pass.region.clone(),
        }
    }

    /// The error as callers of the catalog at `path` see it.
    pub fn of_file(self, path: &Path) -> CatalogError {
        let error = match self {
            // The tables are whole where only what a module keeps is damaged.
            Self::Sqlite(error) if is_of_index(&error) => Self::DamagedIndex(error),
            Self::Sqlite(error) => Self::Sqlite(sqlite::confirmed(path, error)),
            other => other,
        };
        let message = format!("{}: catalog operation failed: {error}", path.display());
        match error {
            Self::Sqlite(error) if sqlite::is_busy(&error) => CatalogError::Unavailable(message),
            _ => CatalogError::Failed(message),
        }
    }

    /// The same of the database that is `shown` so.
    pub fn of_server(self, shown: &str) -> CatalogError {
        match self {
            Self::Postgres(error) => error.at(shown),
            other => CatalogError::Failed(format!("{shown}: catalog operation failed: {other}")),
        }
    }

    /// The error where only those of SQLite can be told.
    pub fn into_sqlite(self) -> rusqlite::Error {
        match self {
            Self::Sqlite(error) => error,
            other => rusqlite::Error::ToSqlConversionFailure(Box::new(other)),
        }
    }
}

/// Whether the text index (FTS5) says that its own tables are damaged. Where they contradict each other, it says `constraint failed`
/// alone; a constraint of our tables names its columns.
fn is_of_index(error: &rusqlite::Error) -> bool {
    let rusqlite::Error::SqliteFailure(error, said) = error else {
        return false;
    };
    error.extended_code == SQLITE_CORRUPT_VTAB
        || error.code == ErrorCode::ConstraintViolation
            && said.as_deref() == Some("constraint failed")
}
