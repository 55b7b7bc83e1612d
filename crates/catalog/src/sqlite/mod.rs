//! The catalog in a SQLite file, for one machine.

mod archive;
mod columns;
mod copying;
mod estimates;
mod gone;
mod id_since;
mod indexer;
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
mod text_index;
mod typed;
mod views;

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::thread::JoinHandle;

use parking_lot::Mutex;
use rusqlite::{Connection, ErrorCode, Transaction, TransactionBehavior};
use thiserror::Error;

use self::indexer::Indexer;
use self::text_index::TextIndex;
use super::{CatalogError, PassId};
use ingest_base::apart::{CutOff, apart, apart_alone};
use ingest_sqlite as sqlite;
use ingest_sqlite::{Database, Files, Interruptible, OpenError, Schema};

/// A catalog in a SQLite file. Several processes can have one file open; each of their transactions is atomic. `A` is how
/// it was opened: only a [`ReadWrite`] one is a [`PassStore`](super::PassStore).
pub struct SqliteCatalog<A = ReadWrite> {
    path: PathBuf,
    indexer: Arc<Indexer>,
    database: Arc<Mutex<Database>>,
    index: Arc<TextIndex>,
    access: A,
    // Dropped behind the catalog's file: both are closed beside each other, since each waits for the disk.
    closing: Closing,
}

/// A thread that closes the index, which is waited for.
#[derive(Default)]
struct Closing(Option<JoinHandle<()>>);

impl Drop for Closing {
    fn drop(&mut self) {
        if let Some(thread) = self.0.take() {
            // A panic has ended the process.
            let _ = thread.join();
        }
    }
}

impl<A> Drop for SqliteCatalog<A> {
    fn drop(&mut self) {
        self.indexer.end();
        self.closing = Closing(self.index.close());
    }
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
    #[error("its full-text index is missing; create it with `ingest repair`")]
    NoIndex,
    #[error(
        "{path}: the full-text index is damaged ({source}); `ingest repair` builds it again from the catalog, without any request"
    )]
    DamagedIndex {
        path: PathBuf,
        source: rusqlite::Error,
    },
    #[error(transparent)]
    Index(#[from] OpenError),
    #[error(transparent)]
    CutOff(#[from] CutOff),
}

impl StoreError {
    /// The error of a full-text index: the catalog is whole where its index is damaged.
    fn of_index(path: &Path, error: rusqlite::Error) -> Self {
        match error.sqlite_error_code() {
            Some(ErrorCode::DatabaseCorrupt | ErrorCode::NotADatabase) => Self::DamagedIndex {
                path: path.to_owned(),
                source: error,
            },
            _ => Self::Sqlite(error),
        }
    }
}

impl SqliteCatalog {
    /// What its file holds. `crates/catalog/src/sqlite/schema.rs` describes the tables.
    pub const SCHEMA: Schema = schema::SCHEMA;

    /// The file of the full-text index, in the same directory.
    pub const INDEX_FILE: &str = text_index::FILE;

    /// Opens a catalog; creates its file if there is none.
    ///
    /// # Errors
    /// Fails if the file cannot be opened, is damaged, or was written by another version.
    pub fn open(path: &Path) -> Result<Self, OpenError> {
        let index = TextIndex::to_write(path);
        let is_behind = index.may_be_behind(path);
        let mut database = sqlite::open(path, Self::SCHEMA)?;
        let refreshed = database.change(|connection| {
            // Another version with the same tables may have defined the views in another way.
            views::refresh(connection)?;
            if is_behind {
                index.follow(connection, &[]);
            }
            Ok(())
        });
        refreshed.map_err(|source| OpenError::Sqlite {
            path: path.to_owned(),
            name: Self::SCHEMA.name,
            source: sqlite::confirmed(path, source),
        })?;
        let access = ReadWrite {
            files: database.files().cloned(),
        };
        Ok(Self::new(path, database, index, access))
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
        let index = TextIndex::to_read(path);
        Ok(SqliteCatalog::new(path, database, index, ReadOnly))
    }

    /// A catalog with nothing in it, for reading.
    ///
    /// # Errors
    /// Fails if SQLite cannot be used.
    pub fn none() -> Result<SqliteCatalog<ReadOnly>, OpenError> {
        let nowhere = Path::new("/nonexistent/catalog.db");
        let database = sqlite::open_empty(Self::SCHEMA)?;
        let index = TextIndex::to_read(nowhere);
        Ok(SqliteCatalog::new(nowhere, database, index, ReadOnly))
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
            text_index::STATEMENTS,
        ];
        of_all.concat()
    }

    /// Rebuilds the full-text index from the records, even if its file is damaged. Returns the number of indexed records.
    ///
    /// # Errors
    /// Fails if a file cannot be read or written.
    pub async fn rebuild_text(&self) -> Result<u64, CatalogError> {
        let index = Arc::clone(&self.index);
        self.change(move |connection| index.rebuild(connection))
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

    /// The same for a change that needs much memory: all of them share one thread, because an allocator rarely reuses on one
    /// thread what another one freed.
    async fn change_alone<T, F>(&self, work: F) -> Result<T, CatalogError>
    where
        T: Send + 'static,
        F: FnOnce(&mut Connection) -> Result<T, StoreError> + Send + 'static,
    {
        let database = Arc::clone(&self.database);
        self.done(apart_alone(move || database.lock().change(work)).await)
    }
}

impl<A> SqliteCatalog<A> {
    fn new(path: &Path, database: Database, index: TextIndex, access: A) -> Self {
        let (index, database) = (Arc::new(index), Arc::new(Mutex::new(database)));
        let indexer = Arc::new(Indexer::new(path, Arc::clone(&index)));
        Self {
            path: path.to_owned(),
            indexer,
            database,
            index,
            access,
            closing: Closing::default(),
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
            Self::Sqlite(error) => Self::Sqlite(sqlite::confirmed(path, error)),
            other => other,
        };
        let message = match &error {
            Self::DamagedIndex { .. } => error.to_string(),
            _ => format!("{}: catalog operation failed: {error}", path.display()),
        };
        match error {
            Self::Sqlite(error) if sqlite::is_busy(&error) => CatalogError::Unavailable(message),
            Self::Sqlite(_)
            | Self::NoSuchPass(_)
            | Self::NoIndex
            | Self::Index(_)
            | Self::CutOff(_)
            | Self::DamagedIndex { .. } => CatalogError::Failed(message),
        }
    }
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
