//! The catalog in a SQLite file, for one machine.

mod archive;
mod columns;
mod copying;
mod estimates;
mod gone;
mod id_since;
mod land;
mod lasting;
mod parents;
mod passes;
mod path;
mod pending;
mod prune;
mod reader;
mod rebuild;
mod recall;
mod records;
mod schema;
mod search;
mod store;
mod tags;
mod typed;
mod views;

use std::path::{Path, PathBuf};
use std::sync::Arc;

use parking_lot::Mutex;
use rusqlite::ffi::SQLITE_CORRUPT_VTAB;
use rusqlite::{Connection, ErrorCode, Transaction, TransactionBehavior};
use thiserror::Error;

use super::{CatalogError, PassId};
use ingest_base::apart::{CutOff, apart};
use ingest_sqlite as sqlite;
use ingest_sqlite::{Database, Files, Interruptible, OpenError, Schema};

/// A catalog in a SQLite file. Several processes can have one file open; each of their transactions is atomic. `A` is how
/// it was opened: only a [`ReadWrite`] one is a [`PassStore`](super::PassStore).
pub struct SqliteCatalog<A = ReadWrite> {
    path: PathBuf,
    database: Arc<Mutex<Database>>,
    access: A,
}

/// Opened for writing.
pub struct ReadWrite {
    /// The files that must stay in place while pages are landed in them.
    files: Option<Files>,
}

/// Opened for reading: nothing on disk changes.
pub struct ReadOnly;

/// Why an operation on the file failed.
#[derive(Debug, Error)]
enum StoreError {
    #[error("{}", sqlite::explain(.0))]
    Sqlite(#[from] rusqlite::Error),
    #[error("no pass {}", .0.0)]
    NoSuchPass(PassId),
    #[error(
        "the full-text index is damaged ({0}); `ingest repair` builds it again from the catalog, without any request"
    )]
    DamagedIndex(rusqlite::Error),
    #[error(transparent)]
    CutOff(#[from] CutOff),
}

impl SqliteCatalog {
    /// What its file holds. `crates/catalog/src/sqlite/schema.rs` describes the tables.
    pub const SCHEMA: Schema = schema::SCHEMA;

    /// Opens a catalog; creates its file if there is none.
    ///
    /// # Errors
    /// Fails if the file cannot be opened, is damaged, or was written by another version.
    pub fn open(path: &Path) -> Result<Self, OpenError> {
        let mut database = sqlite::open(path, Self::SCHEMA)?;
        // Another version with the same tables may have defined the views in another way.
        let refreshed = database.change(views::refresh);
        refreshed.map_err(|source| OpenError::Sqlite {
            path: path.to_owned(),
            name: Self::SCHEMA.name,
            source: sqlite::confirmed(path, source),
        })?;
        let access = ReadWrite {
            files: database.files().cloned(),
        };
        Ok(Self::new(path, database, access))
    }

    /// Opens a catalog for reading. A missing file reads as an empty catalog and is not created.
    ///
    /// # Errors
    /// Fails if the file cannot be opened, is damaged, or was written by another version.
    pub fn open_read_only(path: &Path) -> Result<SqliteCatalog<ReadOnly>, OpenError> {
        let database = match sqlite::open_read_only(path, Self::SCHEMA)? {
            Some(database) => database,
            None => sqlite::open_empty(Self::SCHEMA)?,
        };
        Ok(SqliteCatalog::new(path, database, ReadOnly))
    }

    /// A catalog with nothing in it, for reading.
    ///
    /// # Errors
    /// Fails if SQLite cannot be used.
    pub fn none() -> Result<SqliteCatalog<ReadOnly>, OpenError> {
        let nowhere = Path::new("/nonexistent/catalog.db");
        let database = sqlite::open_empty(Self::SCHEMA)?;
        Ok(SqliteCatalog::new(nowhere, database, ReadOnly))
    }

    /// The statements whose cost must not grow with the catalog, so that a test can check their query plans.
    #[must_use]
    pub fn statements() -> Vec<&'static str> {
        let of_all = [
            gone::STATEMENTS,
            id_since::STATEMENTS,
            lasting::STATEMENTS,
            land::STATEMENTS,
            &parents::statements(),
            passes::STATEMENTS,
            pending::STATEMENTS,
            prune::STATEMENTS,
            rebuild::STATEMENTS,
            recall::STATEMENTS,
            records::STATEMENTS,
            search::STATEMENTS,
            tags::STATEMENTS,
        ];
        of_all.concat()
    }

    /// Splits the texts of all records again, and indexes those that changed. Returns the number of indexed records.
    ///
    /// # Errors
    /// Fails if the file cannot be read or written.
    pub async fn rebuild_text(&self) -> Result<u64, CatalogError> {
        self.change(|connection| Ok(rebuild::rebuild(connection)?))
            .await
    }

    /// Writes in one transaction.
    async fn write<T, F>(&self, work: F) -> Result<T, CatalogError>
    where
        T: Send + 'static,
        F: FnOnce(&Transaction<'_>) -> Result<T, StoreError> + Send + 'static,
    {
        self.change(move |connection| in_transaction(connection, work))
            .await
    }

    async fn change<T, F>(&self, work: F) -> Result<T, CatalogError>
    where
        T: Send + 'static,
        F: FnOnce(&mut Connection) -> Result<T, StoreError> + Send + 'static,
    {
        self.on_its_thread(move |database| database.change(work))
            .await
    }
}

impl<A> SqliteCatalog<A> {
    fn new(path: &Path, database: Database, access: A) -> Self {
        Self {
            path: path.to_owned(),
            database: Arc::new(Mutex::new(database)),
            access,
        }
    }

    /// Reads from one state of the catalog, whatever other processes write meanwhile. Dropping the future interrupts the read.
    async fn read<T, F>(&self, work: F) -> Result<T, CatalogError>
    where
        T: Send + 'static,
        F: Fn(&Connection) -> rusqlite::Result<T> + Send + 'static,
    {
        let interruptible = Interruptible::default();
        let _wanted = interruptible.wanted();
        self.on_its_thread(move |database| {
            Ok(database.read(|connection| {
                let _running = interruptible.runs_on(connection)?;
                work(connection)
            })?)
        })
        .await
    }

    /// Reads a few rows: on this thread where nothing else uses the file, since that is faster than waking another thread.
    async fn read_few<T, F>(&self, work: F) -> Result<T, CatalogError>
    where
        T: Send + 'static,
        F: Fn(&Connection) -> rusqlite::Result<T> + Send + 'static,
    {
        let read = self
            .database
            .try_lock()
            .map(|database| database.read_at_once(&work));
        match read.transpose() {
            Ok(Some(Some(read))) => Ok(read),
            Ok(Some(None) | None) => self.read(work).await,
            Err(error) => self.done(Ok(Err(error.into()))),
        }
    }

    /// SQLite waits for disks and for other processes, so it must not run on a thread that has requests in flight.
    async fn on_its_thread<T, F>(&self, work: F) -> Result<T, CatalogError>
    where
        T: Send + 'static,
        F: FnOnce(&mut Database) -> Result<T, StoreError> + Send + 'static,
    {
        let database = Arc::clone(&self.database);
        self.done(apart(move || work(&mut database.lock())).await)
    }

    fn done<T>(&self, worked: Result<Result<T, StoreError>, CutOff>) -> Result<T, CatalogError> {
        worked
            .map_err(StoreError::from)
            .and_then(|result| result)
            .map_err(|error| error.at(&self.path))
    }
}

impl StoreError {
    /// The error as callers of the catalog at `path` see it.
    fn at(self, path: &Path) -> CatalogError {
        let error = match self {
            // The tables are whole where only what a module keeps is damaged.
            Self::Sqlite(error) if is_of_index(&error) => Self::DamagedIndex(error),
            Self::Sqlite(error) => Self::Sqlite(sqlite::confirmed(path, error)),
            other => other,
        };
        let message = format!("{}: catalog operation failed: {error}", path.display());
        match error {
            Self::Sqlite(error) if sqlite::is_busy(&error) => CatalogError::Unavailable(message),
            Self::Sqlite(_) | Self::NoSuchPass(_) | Self::CutOff(_) | Self::DamagedIndex(_) => {
                CatalogError::Failed(message)
            }
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

fn in_transaction<T>(
    connection: &mut Connection,
    work: impl FnOnce(&Transaction<'_>) -> Result<T, StoreError>,
) -> Result<T, StoreError> {
    // A transaction that reads first and writes then fails at once where another process wrote in between: SQLite does not
    // wait for a lock that would not help it.
    let tx = connection.transaction_with_behavior(TransactionBehavior::Immediate)?;
    let done = work(&tx)?;
    tx.commit()?;
    Ok(done)
}
