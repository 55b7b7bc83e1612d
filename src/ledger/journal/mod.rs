//! This machine's own record of its charges where the ledger is elsewhere: what it may have sent, what it has not told
//! yet, and what it has seen of the ledger. One file, shared by all processes of the machine.

mod book;
mod closings;
mod entries;
mod loss;
mod report;
mod schema;

use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError};

use rusqlite::Connection;
use thiserror::Error;

use crate::apart::apart;
use crate::sqlite::{self, Database};

pub use book::{Begun, Granted, Marked};
pub use closings::PendingClosing;
pub use entries::{Allowance, Pending, Unmetered};
pub use loss::Recovery;

/// Why the journal cannot be used. Nothing goes ahead without it.
#[derive(Debug, Clone, Error)]
#[error("cannot use the journal of this machine: {0}")]
pub struct JournalError(String);

impl From<rusqlite::Error> for JournalError {
    fn from(error: rusqlite::Error) -> Self {
        Self(format!("journal.db: {}", sqlite::explain(&error)))
    }
}

impl From<sqlite::OpenError> for JournalError {
    fn from(error: sqlite::OpenError) -> Self {
        Self(error.to_string())
    }
}

/// The journal of this machine.
#[derive(Clone)]
pub struct Journal {
    /// `None` where it is read only and there is none yet.
    database: Arc<Mutex<Option<Database>>>,
    /// Which ledger the configuration names; `None` where nobody said.
    ledger: Option<Arc<str>>,
}

impl Journal {
    /// Opens the journal, creating it as needed.
    ///
    /// # Errors
    /// When the file cannot be opened.
    pub fn open(path: &Path) -> Result<Self, JournalError> {
        Ok(Self::over(Some(sqlite::open(path, schema::SCHEMA)?)))
    }

    /// Opens the journal to look at it.
    ///
    /// # Errors
    /// When the file cannot be opened.
    pub fn open_read_only(path: &Path) -> Result<Self, JournalError> {
        Ok(Self::over(sqlite::open_read_only(path, schema::SCHEMA)?))
    }

    fn over(database: Option<Database>) -> Self {
        Self {
            database: Arc::new(Mutex::new(database)),
            ledger: None,
        }
    }

    /// The same journal, which records this as the ledger that it goes with.
    #[must_use]
    pub fn of_ledger(self, identity: String) -> Self {
        Self {
            ledger: Some(identity.into()),
            ..self
        }
    }

    /// Which ledger the configuration names.
    pub fn ledger(&self) -> Option<&str> {
        self.ledger.as_deref()
    }

    /// A copy in memory: what is written to it is gone with it.
    ///
    /// # Errors
    /// When the file cannot be read.
    pub async fn in_memory(&self) -> Result<Self, JournalError> {
        let database = match self.on_its_thread(Database::in_memory).await? {
            Some(copy) => copy,
            None => sqlite::in_memory(schema::SCHEMA)?,
        };
        Ok(Self {
            ledger: self.ledger.clone(),
            ..Self::over(Some(database))
        })
    }

    /// Does something with the file, away from the threads that must not wait.
    async fn with<T: Send + 'static>(
        &self,
        act: impl FnOnce(&mut Connection) -> rusqlite::Result<T> + Send + 'static,
    ) -> Result<T, JournalError> {
        self.on_its_thread(move |database| {
            let changed = database.change(act);
            changed.map_err(|error| database.confirmed(error))
        })
        .await?
        .ok_or_else(|| JournalError("it is open read-only".to_owned()))
    }

    /// Reads from one state of the file; `None` where there is no file.
    async fn look<T: Send + 'static>(
        &self,
        act: impl Fn(&Connection) -> rusqlite::Result<T> + Send + 'static,
    ) -> Result<Option<T>, JournalError> {
        self.on_its_thread(move |database| database.read(act)).await
    }

    async fn on_its_thread<T: Send + 'static>(
        &self,
        act: impl FnOnce(&mut Database) -> rusqlite::Result<T> + Send + 'static,
    ) -> Result<Option<T>, JournalError> {
        let database = Arc::clone(&self.database);
        let done = apart(move || {
            database
                .lock()
                .unwrap_or_else(PoisonError::into_inner)
                .as_mut()
                .map(act)
                .transpose()
        });
        Ok(done
            .await
            .map_err(|error| JournalError(error.to_string()))??)
    }
}
