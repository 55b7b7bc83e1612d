//! This machine's own record of its charges when the ledger is a server: what it may have sent, what the ledger does not have
//! yet, and what the machine has seen of the ledger. One file, shared by all processes of the machine.

mod charges;
mod closings;
mod merge;
mod pending;
mod position;
mod recovery;
mod report;
mod rows;
mod schema;

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use rusqlite::{Connection, Transaction, TransactionBehavior};
use thiserror::Error;

use ingest_base::apart::apart;
use ingest_config::AfterLoss;
use ingest_quota::{Account, Timestamp};
use ingest_sqlite as sqlite;
use ingest_sqlite::Database;

pub use charges::{Marked, Unmetered};
pub use closings::PendingClosing;
pub use pending::Pending;
pub use position::SyncState;
pub use recovery::Recovery;

/// Why the journal cannot be used. No request is sent without it.
#[derive(Debug, Clone, Error)]
pub enum JournalError {
    /// This release did not write it.
    #[error("cannot use the journal of this machine: {0}")]
    Foreign(String),
    /// It cannot be opened, read or written.
    #[error("cannot use the journal of this machine: {0}")]
    Failed(String),
}

impl From<rusqlite::Error> for JournalError {
    fn from(error: rusqlite::Error) -> Self {
        Self::Failed(format!("journal.db: {}", sqlite::explain(&error)))
    }
}

impl From<sqlite::OpenError> for JournalError {
    fn from(error: sqlite::OpenError) -> Self {
        match error {
            sqlite::OpenError::Foreign { .. } => Self::Foreign(error.to_string()),
            error => Self::Failed(error.to_string()),
        }
    }
}

/// The journal of this machine.
#[derive(Clone)]
pub struct Journal {
    database: Arc<Mutex<Database>>,
    /// The ledger that the configuration names; `None` when the client did not name one.
    ledger: Option<Arc<str>>,
    /// Whether a wait after a loss holds (L42).
    waits: bool,
}

/// An account at a time of this machine's clock, as the statements take it.
struct JournalTime {
    account: String,
    /// The account's longest window: an older charge counts nowhere.
    window: Duration,
    /// For how long the ledger surely remembers the id of a charge. Half of what it does, where it forgets charges one by
    /// one while they count: the clocks differ.
    remembered: Duration,
    now: Timestamp,
}

impl JournalTime {
    fn new(account: &Account, now: Timestamp) -> Self {
        let remembered = match account.forgets_ids() {
            true => account.id_memory() / 2,
            false => account.longest_window(),
        };
        Self {
            account: account.name.clone(),
            window: account.longest_window(),
            remembered,
            now,
        }
    }
}

/// Writes all or nothing. The transaction takes the file's lock at once, since one that read first could not wait for it.
fn write<T>(
    connection: &mut Connection,
    act: impl FnOnce(&Transaction<'_>) -> rusqlite::Result<T>,
) -> rusqlite::Result<T> {
    let tx = connection.transaction_with_behavior(TransactionBehavior::Immediate)?;
    let done = act(&tx)?;
    tx.commit().map(|()| done)
}

/// After how many pages of its log SQLite writes them into the file, which takes milliseconds: four times its default, so that
/// fewer than one charge in a hundred waits for it. A loss of power takes what came after; the shared ledger has those charges.
const CHECKPOINT: u32 = 4000;

impl Journal {
    /// Opens the journal; creates the file if there is none.
    ///
    /// # Errors
    /// When the file cannot be opened.
    pub fn open(path: &Path) -> Result<Self, JournalError> {
        let database = sqlite::open(path, schema::SCHEMA)?;
        database.pragma_update(None, "wal_autocheckpoint", CHECKPOINT)?;
        Ok(Self::over(database))
    }

    /// Opens the journal for reading. When there is no file yet, it is an empty journal.
    ///
    /// # Errors
    /// When the file cannot be opened.
    pub fn open_read_only(path: &Path) -> Result<Self, JournalError> {
        let database = match sqlite::open_read_only(path, schema::SCHEMA)? {
            Some(database) => database,
            None => sqlite::open_empty(schema::SCHEMA)?,
        };
        Ok(Self::over(database))
    }

    fn over(database: Database) -> Self {
        Self {
            database: Arc::new(Mutex::new(database)),
            ledger: None,
            waits: true,
        }
    }

    /// Sets what the configuration says now: a wait after a loss holds only while that is "wait".
    #[must_use]
    pub fn under(self, after_loss: AfterLoss) -> Self {
        Self {
            waits: after_loss == AfterLoss::Wait,
            ..self
        }
    }

    /// Whether a wait until this time is not over.
    pub fn is_waiting(&self, until: Timestamp, now: Timestamp) -> bool {
        self.waits && until > now
    }

    /// Names the ledger that the journal belongs to; it is recorded with every contact.
    #[must_use]
    pub fn of_ledger(self, identity: String) -> Self {
        Self {
            ledger: Some(identity.into()),
            ..self
        }
    }

    /// The ledger that the configuration names; `None` when the client did not name one.
    pub fn ledger(&self) -> Option<&str> {
        self.ledger.as_deref()
    }

    /// Returns the backup that the file was restored from; `None` for one that was not restored.
    ///
    /// # Errors
    /// When the file cannot be read.
    pub async fn restored(&self) -> Result<Option<sqlite::Restored>, JournalError> {
        self.look(sqlite::restored).await
    }

    /// Notes that a restored file is used from `now` on.
    ///
    /// # Errors
    /// When the file cannot be written.
    pub async fn note_restored(&self, now: Timestamp) -> Result<(), JournalError> {
        self.write(move |tx| sqlite::note_restored(tx, now.micros()))
            .await
    }

    /// Returns a copy in memory.
    ///
    /// # Errors
    /// When the file cannot be read.
    pub async fn in_memory(&self) -> Result<Self, JournalError> {
        let copy = self.on_own_thread(Database::in_memory).await?;
        Ok(Self {
            ledger: self.ledger.clone(),
            ..Self::over(copy)
        })
    }

    /// Writes to the file in one transaction, on a thread that may wait for the disk.
    async fn write<T: Send + 'static>(
        &self,
        act: impl FnOnce(&Transaction<'_>) -> rusqlite::Result<T> + Send + 'static,
    ) -> Result<T, JournalError> {
        self.change(move |connection| write(connection, act)).await
    }

    async fn change<T: Send + 'static>(
        &self,
        act: impl FnOnce(&mut Connection) -> rusqlite::Result<T> + Send + 'static,
    ) -> Result<T, JournalError> {
        self.on_own_thread(move |database| {
            let changed = database.change(act);
            // An error says "damaged" only if the integrity check of SQLite agrees.
            changed.map_err(|error| database.confirmed(error))
        })
        .await
    }

    /// Reads from one state of the file.
    async fn look<T: Send + 'static>(
        &self,
        act: impl Fn(&Connection) -> rusqlite::Result<T> + Send + 'static,
    ) -> Result<T, JournalError> {
        self.on_own_thread(move |database| database.read(act)).await
    }

    async fn on_own_thread<T: Send + 'static>(
        &self,
        act: impl FnOnce(&mut Database) -> rusqlite::Result<T> + Send + 'static,
    ) -> Result<T, JournalError> {
        let database = Arc::clone(&self.database);
        let done = apart(move || act(&mut database.lock())).await;
        Ok(done.map_err(|error| JournalError::Failed(error.to_string()))??)
    }
}
