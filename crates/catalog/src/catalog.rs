use std::ops::Deref;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use parking_lot::Mutex;
use rusqlite::Connection;
use tokio::sync::watch;

use super::land::LandedPage;
use super::memory::{self, Beginning, Contents, SimulatedRecords, Template};
use super::postgres::{self, Merging, Postgres, Session};
use super::sql::{self, ServerTx, StoreError, Tx, in_transaction};
use super::sqlite as tables;
use super::{
    CatalogError, archive, gone, id_since, index, land, lasting, parents, passes, prune, recall,
    records, search, tags, views, wanted,
};
use ingest_base::apart::{CutOff, apart, apart_alone};
use ingest_sqlite as sqlite;
use ingest_sqlite::{Database, Files, Interruptible, OpenError, Schema};

/// A catalog, in a SQLite file for one machine or in a PostgreSQL database for several. Several processes can have one open; each of
/// their transactions is atomic.
pub struct Catalog {
    reader: Arc<CatalogReader>,
}

/// A catalog that is read: through it, nothing is written. Each method fails if the catalog cannot be read.
pub struct CatalogReader {
    pub(super) store: Store,
    /// What a simulation knows of records; `None` in a catalog that has them.
    pub(super) simulated: Option<Arc<SimulatedRecords>>,
}

impl Deref for Catalog {
    type Target = CatalogReader;

    fn deref(&self) -> &CatalogReader {
        &self.reader
    }
}

pub(crate) enum Store {
    File(File),
    Server(Server),
}

/// A SQLite file.
pub(crate) struct File {
    pub path: PathBuf,
    pub database: Arc<Mutex<Database>>,
    /// The files that must stay in place while pages are landed in them.
    pub files: Option<Box<Files>>,
    /// Whether there is no file: nothing waits for a disk or another process.
    pub is_in_memory: bool,
}

/// A PostgreSQL database.
#[derive(Clone)]
pub(crate) struct Server {
    pub postgres: Postgres,
    pub merging: Arc<Merging>,
}

impl Catalog {
    /// What its file holds. `crates/catalog/src/tables.rs` describes the tables.
    pub fn schema() -> Schema {
        tables::schema()
    }

    /// Opens a catalog in a file; creates the file if there is none.
    ///
    /// # Errors
    /// Fails if the file cannot be opened, is damaged, or was written by another version.
    pub fn open(path: &Path) -> Result<Self, OpenError> {
        let mut database = sqlite::open(path, Self::schema())?;
        // Another version with the same tables may have defined the views in another way.
        let refreshed = database.change(tables::refresh_views);
        refreshed.map_err(|source| OpenError::Sqlite {
            path: path.to_owned(),
            name: Self::schema().name,
            source: sqlite::confirmed(path, source),
        })?;
        Ok(Self::over(CatalogReader::in_file(path, database)))
    }

    /// Opens a catalog in a database; creates its schema if there is none.
    ///
    /// # Errors
    /// Fails if the database cannot be reached or used, or another version wrote the catalog.
    pub async fn connect(postgres: Postgres) -> Result<Self, CatalogError> {
        let established = postgres::establish(&postgres).await;
        established.map_err(|error| postgres.error(error))?;
        let server = Server::new(postgres);
        postgres::refresh_views(&server).await;
        Ok(Self::over(CatalogReader::in_database(server)))
    }

    /// A catalog in memory, which keeps no records.
    pub(super) fn in_memory(database: Database, contents: Arc<Contents>) -> Self {
        Self::over(CatalogReader {
            simulated: Some(Arc::new(SimulatedRecords::new(contents))),
            ..CatalogReader::in_file(memory::nowhere(), database)
        })
    }

    fn over(reader: CatalogReader) -> Self {
        Self {
            reader: Arc::new(reader),
        }
    }

    /// The same catalog, to read from.
    pub const fn reader(&self) -> &Arc<CatalogReader> {
        &self.reader
    }

    /// The statements whose cost must not grow with the catalog, as SQLite reads them, so that a test can check their query plans.
    pub fn statements() -> Vec<String> {
        let of_all = [
            archive::STATEMENTS,
            gone::STATEMENTS,
            id_since::STATEMENTS,
            index::STATEMENTS,
            land::STATEMENTS,
            lasting::STATEMENTS,
            &parents::statements(),
            passes::STATEMENTS,
            prune::STATEMENTS,
            recall::STATEMENTS,
            records::STATEMENTS,
            search::STATEMENTS,
            tables::SEARCH_STATEMENTS,
            tags::STATEMENTS,
            views::STATEMENTS,
            wanted::STATEMENTS,
        ];
        sql::as_sqlite(&of_all.concat())
    }

    /// Rebuilds the full-text index and the views from the records. Returns the number of indexed records.
    ///
    /// # Errors
    /// Fails if the catalog cannot be read or written.
    pub async fn rebuild_text(&self) -> Result<u64, CatalogError> {
        match &self.store {
            Store::File(_) => self.write(|tx| tx.batch(tables::REBUILD)).await?,
            Store::Server(server) => postgres::refresh_views(server).await,
        }
        let (mut indexed, mut after) = (0, 0);
        while let Some((last, of_these)) =
            self.write(move |tx| index::rebuild_some(tx, after)).await?
        {
            (after, indexed) = (last, indexed + of_these);
        }
        if let Store::Server(_) = &self.store {
            // It takes as long as the catalog is large.
            self.write(|tx| tx.batch(postgres::REINDEX)).await?;
        }
        Ok(indexed)
    }

    /// Writes in one transaction. `work` is repeated where the server ended it to resolve a deadlock or a conflict.
    pub(super) async fn write<T: Send + 'static>(
        &self,
        work: impl Fn(&Tx<'_>) -> Result<T, StoreError> + Send + 'static,
    ) -> Result<T, CatalogError> {
        match &self.store {
            // It is one transaction from its beginning on, which nobody commits.
            Store::File(file) if file.is_in_memory => file.read(work).await,
            Store::File(file) => {
                let change = |connection: &mut Connection| in_transaction(connection, work);
                file.apart(move |database| database.change(change)).await
            }
            Store::Server(server) => Box::pin(server.write(work)).await,
        }
    }
}

impl CatalogReader {
    /// Opens a catalog in a file for reading. A missing file reads as an empty catalog and is not created.
    ///
    /// # Errors
    /// Fails if the file cannot be opened, is damaged, or was written by another version.
    pub fn open(path: &Path) -> Result<Self, OpenError> {
        let database = match sqlite::open_read_only(path, Catalog::schema())? {
            Some(database) => database,
            None => sqlite::open_empty(Catalog::schema())?,
        };
        Ok(Self::in_file(path, database))
    }

    /// Opens a catalog in a database for reading. A schema that is not there reads as an empty catalog and is not created.
    ///
    /// # Errors
    /// Fails if the database cannot be reached or used, or another version wrote the catalog.
    pub async fn connect(postgres: Postgres) -> Result<Self, CatalogError> {
        let is_there = postgres::is_there(&postgres).await;
        if is_there.map_err(|error| postgres.error(error))? {
            return Ok(Self::in_database(Server::new(postgres)));
        }
        let nowhere = Path::new("/nonexistent/catalog.db");
        let empty = sqlite::open_empty(Catalog::schema());
        let empty = empty.map_err(|error| CatalogError::Failed(error.to_string()))?;
        Ok(Self::in_file(nowhere, empty))
    }

    fn in_file(path: &Path, database: Database) -> Self {
        Self {
            store: Store::File(File {
                path: path.to_owned(),
                files: database.files().cloned().map(Box::new),
                is_in_memory: database.path().is_none_or(str::is_empty),
                database: Arc::new(Mutex::new(database)),
            }),
            simulated: None,
        }
    }

    fn in_database(server: Server) -> Self {
        Self {
            store: Store::Server(server),
            simulated: None,
        }
    }

    /// Returns the catalog in memory with which simulations of the next runs begin.
    ///
    /// # Errors
    /// When this catalog cannot be read.
    pub async fn to_simulate(
        &self,
        beginning: Beginning,
        contents: Arc<Contents>,
    ) -> Result<Template, CatalogError> {
        let rows = self.read(move |tx| memory::read(tx, &beginning)).await?;
        Template::new(rows, contents)
    }

    /// Reads from one state of the catalog, whatever others write meanwhile. Dropping the future ends the read.
    pub(super) async fn read<T: Send + 'static>(
        &self,
        work: impl Fn(&Tx<'_>) -> Result<T, StoreError> + Send + 'static,
    ) -> Result<T, CatalogError> {
        match &self.store {
            Store::File(file) => file.read(work).await,
            // Boxed, since what waits for a connection is large, and each caller would be as large.
            Store::Server(server) => Box::pin(server.read(work)).await,
        }
    }

    /// Reads a few rows: of a file on this thread where nothing else uses it, since that is faster than waking another thread.
    pub(super) async fn read_few<T: Send + 'static>(
        &self,
        work: impl Fn(&Tx<'_>) -> Result<T, StoreError> + Send + 'static,
    ) -> Result<T, CatalogError> {
        let Store::File(file) = &self.store else {
            return self.read(work).await;
        };
        let read = file.database.try_lock().map(|database| {
            database.read_at_once(|connection| {
                work(&Tx::File(connection)).map_err(StoreError::into_sqlite)
            })
        });
        match read.transpose() {
            Ok(Some(Some(read))) => Ok(read),
            Ok(Some(None) | None) => self.read(work).await,
            Err(error) => Err(StoreError::from(error).of_file(&file.path)),
        }
    }
}

impl File {
    /// Reads from one state of the file.
    async fn read<T: Send + 'static>(
        &self,
        work: impl Fn(&Tx<'_>) -> Result<T, StoreError> + Send + 'static,
    ) -> Result<T, CatalogError> {
        if self.is_in_memory {
            return self.done(Ok(work(&Tx::File(&self.database.lock()))));
        }
        self.read_interruptibly(move |connection, _| {
            work(&Tx::File(connection)).map_err(StoreError::into_sqlite)
        })
        .await
    }

    /// The same, by a read that may interrupt itself.
    pub async fn read_interruptibly<T: Send + 'static>(
        &self,
        work: impl Fn(&Connection, &Interruptible) -> rusqlite::Result<T> + Send + 'static,
    ) -> Result<T, CatalogError> {
        let interruptible = Interruptible::default();
        let _wanted = interruptible.wanted();
        self.apart(move |database| {
            Ok(database.read(|connection| {
                let _running = interruptible.runs_on(connection)?;
                work(connection, &interruptible)
            })?)
        })
        .await
    }

    /// Lands a page. A large one needs as much memory again, which an allocator rarely reuses on one thread when another one freed it:
    /// all those share one thread.
    pub async fn land(
        &self,
        is_large: bool,
        land: impl FnOnce(&Tx<'_>) -> Result<LandedPage, StoreError> + Send + 'static,
    ) -> Result<LandedPage, CatalogError> {
        let database = Arc::clone(&self.database);
        let work = move || {
            let change = |connection: &mut Connection| in_transaction(connection, land);
            database.lock().change(change)
        };
        let landed = match is_large {
            true => apart_alone(work).await,
            false => apart(work).await,
        };
        self.done(landed.map(LandedPage::of))
    }

    /// SQLite waits for disks and for other processes, so it must not run on a thread that has requests in flight.
    pub async fn apart<T: Send + 'static>(
        &self,
        work: impl FnOnce(&mut Database) -> Result<T, StoreError> + Send + 'static,
    ) -> Result<T, CatalogError> {
        if self.is_in_memory {
            return self.done(Ok(work(&mut self.database.lock())));
        }
        let database = Arc::clone(&self.database);
        self.done(apart(move || work(&mut database.lock())).await)
    }

    fn done<T>(&self, worked: Result<Result<T, StoreError>, CutOff>) -> Result<T, CatalogError> {
        worked
            .map_err(StoreError::from)
            .and_then(|result| result)
            .map_err(|error| error.of_file(&self.path))
    }
}

impl Server {
    fn new(postgres: Postgres) -> Self {
        Self {
            merging: Merging::new(&postgres),
            postgres,
        }
    }

    async fn read<T: Send + 'static>(
        &self,
        work: impl Fn(&Tx<'_>) -> Result<T, StoreError> + Send + 'static,
    ) -> Result<T, CatalogError> {
        let read = move |session: &mut Session, wanted: &watch::Receiver<()>| {
            let tx = ServerTx::begin_reading(session, wanted.clone())?;
            work(&Tx::Server(&tx))
        };
        let session = self.postgres.session().await;
        let session = session.map_err(|error| self.postgres.error(error))?;
        self.apart(session, read).await
    }

    pub async fn write<T: Send + 'static>(
        &self,
        work: impl Fn(&Tx<'_>) -> Result<T, StoreError> + Send + 'static,
    ) -> Result<T, CatalogError> {
        self.try_write(work)
            .await
            .map_err(|error| error.of_server(self.postgres.shown()))
    }

    /// The same, with the error as it happened.
    pub async fn try_write<T: Send + 'static>(
        &self,
        work: impl Fn(&Tx<'_>) -> Result<T, StoreError> + Send + 'static,
    ) -> Result<T, StoreError> {
        let work = Arc::new(Mutex::new(work));
        let once = || async {
            let session = self.postgres.session().await?;
            let work = Arc::clone(&work);
            let write = move |session: &mut Session, wanted: &watch::Receiver<()>| {
                let tx = ServerTx::begin_writing(session, wanted.clone())?;
                let done = work.lock()(&Tx::Server(&tx))?;
                tx.commit()?;
                Ok(done)
            };
            waited_for(session, write).await
        };
        self.postgres.repeated(once).await
    }

    /// Works on a connection, on a thread that may wait.
    pub async fn apart<T: Send + 'static>(
        &self,
        session: Session,
        work: impl FnOnce(&mut Session, &watch::Receiver<()>) -> Result<T, StoreError> + Send + 'static,
    ) -> Result<T, CatalogError> {
        let done = waited_for(session, work).await;
        done.map_err(|error| error.of_server(self.postgres.shown()))
    }
}

/// Works on a connection, on a thread that may wait for as long as somebody waits for the result.
async fn waited_for<T: Send + 'static>(
    mut session: Session,
    work: impl FnOnce(&mut Session, &watch::Receiver<()>) -> Result<T, StoreError> + Send + 'static,
) -> Result<T, StoreError> {
    let (_wanted, is_wanted) = watch::channel(());
    apart(move || work(&mut session, &is_wanted)).await?
}
