use std::error::Error;
use std::time::Duration;

use thiserror::Error;
use tokio_postgres::error::SqlState;

use crate::CatalogError;

/// Why an operation on the database failed.
#[derive(Debug, Error)]
pub enum PostgresError {
    /// No connection could be made.
    #[error("{why}")]
    Connect {
        /// What failed.
        why: String,
        /// Whether it can succeed later without anybody acting.
        is_passing: bool,
    },
    /// The server refused a statement, or the connection was lost.
    #[error("{}", explain(.0))]
    Statement(#[from] tokio_postgres::Error),
    /// The server did not answer in time.
    #[error("no answer within {0:?}")]
    Silent(Duration),
    /// Other tasks of this process used all its connections.
    #[error(
        "no connection to the database became free within {} s: raise catalog.connections, or lower --concurrency", .0.as_secs()
    )]
    Busy(Duration),
    /// The transaction has ended: what was to follow its commit was not sent.
    #[error("the transaction has ended")]
    Ended,
    /// What the database contains cannot be used; the text says why and what to do.
    #[error("{0}")]
    Unusable(String),
}

impl PostgresError {
    /// Whether the server chose this transaction to end a deadlock or a conflict. The same transaction can succeed at once.
    pub fn is_conflict(&self) -> bool {
        let conflicts = [
            SqlState::T_R_DEADLOCK_DETECTED,
            SqlState::T_R_SERIALIZATION_FAILURE,
        ];
        self.code().is_some_and(|code| conflicts.contains(code))
    }

    /// Whether the role has no right to the operation.
    pub fn is_denied(&self) -> bool {
        self.code() == Some(&SqlState::INSUFFICIENT_PRIVILEGE)
    }

    /// Whether the server ended the statement because it took too long.
    pub fn is_cancelled(&self) -> bool {
        self.code() == Some(&SqlState::QUERY_CANCELED)
    }

    /// Whether a table, or the schema, does not exist.
    pub fn is_missing_table(&self) -> bool {
        let missing = [SqlState::UNDEFINED_TABLE, SqlState::INVALID_SCHEMA_NAME];
        self.code().is_some_and(|code| missing.contains(code))
    }

    /// Whether the connection it happened on may be of no further use.
    pub fn ends_connection(&self) -> bool {
        match self {
            Self::Statement(error) => {
                error.code().is_none() || self.is_passing() && !self.is_conflict()
            }
            Self::Silent(_) | Self::Ended | Self::Connect { .. } => true,
            Self::Busy(_) | Self::Unusable(_) => false,
        }
    }

    /// The error as callers of the catalog see it; `shown` is the database's URL.
    #[must_use]
    pub fn at(self, shown: &str) -> CatalogError {
        let message = format!("{shown}: catalog operation failed: {self}");
        match self.is_passing() {
            true => CatalogError::Unavailable(message),
            false => CatalogError::Failed(message),
        }
    }

    /// Whether the same operation can succeed later without anybody acting.
    fn is_passing(&self) -> bool {
        match self {
            Self::Connect { is_passing, .. } => *is_passing,
            Self::Statement(error) => match error.code() {
                Some(code) => passes(code),
                None => is_lost(error),
            },
            Self::Silent(_) | Self::Busy(_) | Self::Ended => true,
            Self::Unusable(_) => false,
        }
    }

    fn code(&self) -> Option<&SqlState> {
        match self {
            Self::Statement(error) => error.code(),
            Self::Connect { .. }
            | Self::Silent(_)
            | Self::Busy(_)
            | Self::Ended
            | Self::Unusable(_) => None,
        }
    }
}

/// Whether what the server reports by this code passes: it stops, starts, failed over, is overloaded, or gave up a statement
/// that took too long.
pub fn passes(code: &SqlState) -> bool {
    let all = [
        SqlState::T_R_DEADLOCK_DETECTED,
        SqlState::T_R_SERIALIZATION_FAILURE,
        SqlState::READ_ONLY_SQL_TRANSACTION,
        SqlState::IDLE_IN_TRANSACTION_SESSION_TIMEOUT,
        SqlState::OUT_OF_MEMORY,
        SqlState::TOO_MANY_CONNECTIONS,
        SqlState::LOCK_NOT_AVAILABLE,
        SqlState::QUERY_CANCELED,
        SqlState::ADMIN_SHUTDOWN,
        SqlState::CRASH_SHUTDOWN,
        SqlState::CANNOT_CONNECT_NOW,
        SqlState::from_code("57P05"),
        SqlState::SYSTEM_ERROR,
    ];
    // Class 08: the connection. PgBouncer reports by it that it cannot reach the server.
    code.code().starts_with("08") || all.contains(code)
}

/// Whether an error without a code is about the connection, and not about a value.
fn is_lost(error: &tokio_postgres::Error) -> bool {
    error.is_closed()
        || error
            .source()
            .is_some_and(|cause| cause.is::<std::io::Error>())
}

/// An error with its innermost cause, which is the most specific one.
pub fn explain(error: &tokio_postgres::Error) -> String {
    if let Some(said) = error.as_db_error() {
        let code = said.code().code();
        let hint = said
            .hint()
            .map_or_else(String::new, |hint| format!("; {hint}"));
        return format!("{} (SQLSTATE {code}){hint}", said.message());
    }
    let mut cause: &dyn Error = error;
    while let Some(deeper) = cause.source() {
        cause = deeper;
    }
    match error.source() {
        Some(_) => format!("{error}: {cause}"),
        None => error.to_string(),
    }
}
