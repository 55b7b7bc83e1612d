//! The catalog of one machine: a SQLite file. All that is SQLite's own is in this folder.

mod estimates;
mod land;
mod moment;
mod page;
mod passes;
mod path;
mod pending;
mod prune;
mod rearrange;
mod rebuild;
mod recall;
mod report;
mod schema;
mod search;
mod tags;
mod text_index;
mod views;
mod words;

use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

use async_trait::async_trait;
use rusqlite::{Connection, Transaction, TransactionBehavior};
use thiserror::Error;

use self::page::LandingPage;
use self::text_index::TextIndex;
use super::{
    Catalog, CatalogError, EachRecord, Estimate, Landed, Landing, NamedIds, OpenPass, PassEnd,
    PassId, PassRecord, PassRef, PendingId, PendingQuery, Rearrangement, RecordsQuery, RegionState,
    SearchHit, SearchQuery, StepListing,
};
use crate::apart::{CutOff, apart, apart_alone};
use crate::config::Pointer;
use crate::quota::{Cost, Timestamp};
use crate::record::{CachedPage, Tag};
use crate::sqlite::{self, Database, Files, OpenError, Schema};

/// The catalog of one machine. Many processes may have one file open; each transaction of theirs is whole.
pub struct SqliteCatalog {
    path: PathBuf,
    /// `None` for a catalog that is not there, and was opened for reading alone.
    database: Option<Arc<Mutex<Database>>>,
    /// What landing needs to stay in place; `None` where nothing is landed.
    files: Option<Files>,
    index: Arc<TextIndex>,
}

/// Why the file did not do as asked.
#[derive(Debug, Error)]
enum Failure {
    #[error("{}", sqlite::explain(.0))]
    Sqlite(#[from] rusqlite::Error),
    #[error("no pass {}", .0.0)]
    NoSuchPass(PassId),
    #[error("the catalog is open read-only")]
    ReadOnly,
    #[error("its full-text index is missing; create it with `ingest repair`")]
    NoIndex,
    #[error(transparent)]
    Index(#[from] OpenError),
    #[error(transparent)]
    CutOff(#[from] CutOff),
}

impl SqliteCatalog {
    /// What its files hold. `src/catalog/sqlite/schema.rs` describes the tables.
    pub const SCHEMA: Schema = schema::SCHEMA;

    /// The file of the full-text index, in the same directory.
    pub const INDEX_FILE: &str = text_index::FILE;

    /// Opens a catalog, created and brought up to date as needed.
    ///
    /// # Errors
    /// When the file cannot be opened, is damaged, or was written by a later release.
    pub fn open(path: &Path) -> Result<Self, OpenError> {
        let mut database = sqlite::open(path, Self::SCHEMA)?;
        let index = database.change(|connection| {
            views::refresh(connection)?;
            Ok(TextIndex::open(path, connection))
        });
        let index = index.map_err(|source| OpenError::Sqlite {
            path: path.to_owned(),
            name: Self::SCHEMA.name,
            source: sqlite::confirmed(path, source),
        })?;
        Ok(Self::over(path, Some(database), index))
    }

    /// Opens a catalog for reading, and writes nothing on disk. One that is not there yet is an empty one.
    ///
    /// # Errors
    /// When the file cannot be opened, is damaged, or was written by a later release.
    pub fn open_read_only(path: &Path) -> Result<Self, OpenError> {
        let database = sqlite::open_read_only(path, Self::SCHEMA)?;
        Ok(Self::over(path, database, TextIndex::to_read(path)))
    }

    /// The statements whose cost must not grow with the catalog, for whoever wants to see their plans.
    #[must_use]
    pub fn statements() -> Vec<&'static str> {
        let of_all = [
            land::STATEMENTS,
            passes::STATEMENTS,
            pending::STATEMENTS,
            prune::STATEMENTS,
            rebuild::STATEMENTS,
            recall::STATEMENTS,
            search::STATEMENTS,
            tags::STATEMENTS,
            text_index::STATEMENTS,
        ];
        of_all.concat()
    }

    /// Makes the full-text index anew from the records, even where its file is damaged, and says how many of them it holds.
    ///
    /// # Errors
    /// When a file does not do as asked.
    pub async fn rebuild_text(&self) -> Result<u64, CatalogError> {
        let index = Arc::clone(&self.index);
        self.change(move |connection| index.rebuild(connection))
            .await
    }

    fn over(path: &Path, database: Option<Database>, index: TextIndex) -> Self {
        Self {
            path: path.to_owned(),
            files: database.as_ref().and_then(Database::files).cloned(),
            database: database.map(|database| Arc::new(Mutex::new(database))),
            index: Arc::new(index),
        }
    }

    /// Reads from one state of the catalog, whatever others write meanwhile.
    async fn read<T, F>(&self, work: F) -> Result<Option<T>, CatalogError>
    where
        T: Send + 'static,
        F: Fn(&Connection) -> rusqlite::Result<T> + Send + 'static,
    {
        self.look(move |database| Ok(database.read(work)?)).await
    }

    async fn look<T, F>(&self, work: F) -> Result<Option<T>, CatalogError>
    where
        T: Send + 'static,
        F: FnOnce(&mut Database) -> Result<T, Failure> + Send + 'static,
    {
        match &self.database {
            Some(database) => self
                .on_its_thread(Arc::clone(database), work)
                .await
                .map(Some),
            None => Ok(None),
        }
    }

    /// Writes all or nothing.
    async fn write<T, F>(&self, work: F) -> Result<T, CatalogError>
    where
        T: Send + 'static,
        F: FnOnce(&Transaction<'_>) -> Result<T, Failure> + Send + 'static,
    {
        self.change(move |connection| written(connection, work))
            .await
    }

    async fn change<T, F>(&self, work: F) -> Result<T, CatalogError>
    where
        T: Send + 'static,
        F: FnOnce(&mut Connection) -> Result<T, Failure> + Send + 'static,
    {
        let database = self
            .database
            .as_ref()
            .ok_or_else(|| self.error(Failure::ReadOnly))?;
        self.on_its_thread(Arc::clone(database), move |database| database.change(work))
            .await
    }

    /// SQLite waits for disks and for other processes: not on a thread that has requests in flight.
    async fn on_its_thread<T, F>(
        &self,
        database: Arc<Mutex<Database>>,
        work: F,
    ) -> Result<T, CatalogError>
    where
        T: Send + 'static,
        F: FnOnce(&mut Database) -> Result<T, Failure> + Send + 'static,
    {
        let working = move || work(&mut database.lock().unwrap_or_else(PoisonError::into_inner));
        self.told(apart(working).await)
    }

    fn told<T>(&self, worked: Result<Result<T, Failure>, CutOff>) -> Result<T, CatalogError> {
        worked
            .map_err(Failure::from)
            .and_then(|result| result)
            .map_err(|failure| self.error(failure))
    }

    fn error(&self, failure: Failure) -> CatalogError {
        let failure = match failure {
            Failure::Sqlite(error) => Failure::Sqlite(sqlite::confirmed(&self.path, error)),
            other => other,
        };
        CatalogError(format!(
            "{}: catalog operation failed: {failure}",
            self.path.display()
        ))
    }
}

fn written<T>(
    connection: &mut Connection,
    work: impl FnOnce(&Transaction<'_>) -> Result<T, Failure>,
) -> Result<T, Failure> {
    let tx = connection.transaction_with_behavior(TransactionBehavior::Immediate)?;
    let done = work(&tx)?;
    tx.commit()?;
    Ok(done)
}

#[async_trait]
impl Catalog for SqliteCatalog {
    async fn region_states(
        &self,
        job: &str,
        regions: &[String],
        now: Timestamp,
    ) -> Result<Vec<RegionState>, CatalogError> {
        let (job, asked) = (job.to_owned(), regions.to_vec());
        let known = self
            .read(move |connection| passes::region_states(connection, &job, &asked, now))
            .await?;
        let unknown = |region: &String| RegionState {
            region: region.clone(),
            ..RegionState::default()
        };
        Ok(known.unwrap_or_else(|| regions.iter().map(unknown).collect()))
    }

    async fn last_pages(
        &self,
        job: &str,
        region: &str,
        count: u32,
    ) -> Result<Vec<Vec<(usize, u64)>>, CatalogError> {
        let (job, region) = (job.to_owned(), region.to_owned());
        let pages = self
            .read(move |connection| passes::last_pages(connection, &job, &region, count))
            .await?;
        Ok(pages.unwrap_or_default())
    }

    async fn open_passes(&self, job: &str) -> Result<Vec<OpenPass>, CatalogError> {
        let job = job.to_owned();
        self.read(move |connection| passes::open_passes(connection, &job))
            .await
            .map(Option::unwrap_or_default)
    }

    async fn in_place(&self) -> Result<(), CatalogError> {
        let checked = self.files.as_ref().map_or(Ok(()), Files::in_place);
        checked.map_err(|error| self.error(error.into()))
    }

    async fn land(&self, landing: Landing<'_>) -> Result<Landed, CatalogError> {
        let page = LandingPage::of(&landing);
        let large = page.is_large();
        let index = Arc::clone(&self.index);
        let land = move |connection: &mut Connection| {
            let (landed, changes) = written(connection, |tx| land::land(tx, &page))?;
            if !changes.is_empty() {
                index.follow(connection, Some((&page, &changes)));
            }
            Ok(landed)
        };
        match &self.database {
            Some(database) if large => {
                let database = Arc::clone(database);
                let landing = move || {
                    let mut database = database.lock().unwrap_or_else(PoisonError::into_inner);
                    database.change(land)
                };
                self.told(apart_alone(landing).await)
            }
            _ => self.change(land).await,
        }
    }

    async fn restart_step(&self, pass: PassId, step: usize) -> Result<bool, CatalogError> {
        self.write(move |tx| passes::restart_step(tx, pass, integer(step as u64)))
            .await
    }

    async fn rearrange(&self, pass: PassId, change: &Rearrangement) -> Result<(), CatalogError> {
        let change = change.clone();
        self.write(move |tx| rearrange::rearrange(tx, pass, &change))
            .await
    }

    async fn end_step(&self, pass: PassId, step: usize, cut: bool) -> Result<(), CatalogError> {
        self.write(move |tx| passes::end_step(tx, pass, integer(step as u64), cut))
            .await
    }

    async fn finish(
        &self,
        pass: &PassRef,
        end: PassEnd,
        now: Timestamp,
    ) -> Result<PassId, CatalogError> {
        let pass = pass.clone();
        self.write(move |tx| passes::finish(tx, &pass, end, now))
            .await
    }

    async fn count_unproductive(
        &self,
        pass: &PassRef,
        requests: u64,
        units: &Cost,
        now: Timestamp,
    ) -> Result<(), CatalogError> {
        let (pass, units) = (pass.clone(), units.clone());
        self.write(move |tx| passes::count_unproductive(tx, &pass, integer(requests), &units, now))
            .await
    }

    async fn pending_ids(&self, query: PendingQuery<'_>) -> Result<Vec<PendingId>, CatalogError> {
        let query = pending::Query::of(&query);
        self.read(move |connection| pending::pending_ids(connection, &query))
            .await
            .map(Option::unwrap_or_default)
    }

    async fn estimates(&self) -> Result<Vec<Estimate>, CatalogError> {
        self.read(estimates::estimates)
            .await
            .map(Option::unwrap_or_default)
    }

    async fn learn(&self, upstream: &str, call: &str, cost: &Cost) -> Result<(), CatalogError> {
        let estimate = Estimate {
            upstream: upstream.to_owned(),
            call: call.to_owned(),
            cost: cost.clone(),
        };
        self.write(move |tx| Ok(estimates::learn(tx, &estimate)?))
            .await
    }

    async fn cached_page(
        &self,
        upstream: &str,
        kind: &str,
        request: &str,
    ) -> Result<Option<CachedPage>, CatalogError> {
        let [upstream, kind, request] = [upstream, kind, request].map(str::to_owned);
        let known = self
            .read(move |connection| tags::cached_page(connection, &upstream, &kind, &request))
            .await?;
        Ok(known.flatten())
    }

    async fn tags(&self, upstream: &str) -> Result<Vec<Tag>, CatalogError> {
        let upstream = upstream.to_owned();
        self.read(move |connection| tags::tags(connection, &upstream))
            .await
            .map(Option::unwrap_or_default)
    }

    async fn forget_tags(&self, upstream: &str, call: &str) -> Result<(), CatalogError> {
        let (upstream, call) = (upstream.to_owned(), call.to_owned());
        self.write(move |tx| Ok(tags::forget(tx, &upstream, &call)?))
            .await
    }

    async fn drop_unseen(&self, upstream: &str, since: Timestamp) -> Result<u64, CatalogError> {
        let (upstream, since) = (upstream.to_owned(), moment::write(since));
        let index = Arc::clone(&self.index);
        self.change(move |connection| {
            let dropped = prune::drop_unseen(connection, &upstream, &since)?;
            if dropped > 0 {
                index.follow(connection, None);
            }
            Ok(dropped)
        })
        .await
    }

    async fn listing(&self, pass: PassId) -> Result<Vec<StepListing>, CatalogError> {
        self.read(move |connection| recall::listing(connection, pass))
            .await
            .map(Option::unwrap_or_default)
    }

    async fn named(
        &self,
        upstream: &str,
        kind: &str,
        ids: &[Arc<str>],
        at: &Pointer,
    ) -> Result<Vec<NamedIds>, CatalogError> {
        let records = recall::Records::of(upstream, kind, ids);
        let at = at.clone();
        self.read(move |connection| recall::named(connection, &records, &at))
            .await
            .map(Option::unwrap_or_default)
    }

    async fn fetched(
        &self,
        upstream: &str,
        kind: &str,
        ids: &[Arc<str>],
    ) -> Result<Vec<(Arc<str>, Timestamp)>, CatalogError> {
        let records = recall::Records::of(upstream, kind, ids);
        self.read(move |connection| recall::fetched(connection, &records))
            .await
            .map(Option::unwrap_or_default)
    }

    async fn history(&self, since: Timestamp) -> Result<Vec<PassRecord>, CatalogError> {
        self.read(move |connection| report::history(connection, since))
            .await
            .map(Option::unwrap_or_default)
    }

    async fn records(&self, query: RecordsQuery<'_>, each: EachRecord) -> Result<(), CatalogError> {
        let query = report::Query::of(&query);
        self.look(move |database| {
            Ok(database.read_once(|connection| report::records(connection, &query, each))?)
        })
        .await
        .map(Option::unwrap_or_default)
    }

    async fn search(&self, query: SearchQuery<'_>) -> Result<Vec<SearchHit>, CatalogError> {
        let query = search::Query::of(&query);
        let index = Arc::clone(&self.index);
        let found = self.look(move |database| {
            database.read(|connection| nested(search::search(connection, &index, &query)))?
        });
        found.await.map(Option::unwrap_or_default)
    }
}

/// A result whose errors of SQLite are outside, where a reader of a file that changed reads again.
fn nested<T>(read: Result<T, Failure>) -> rusqlite::Result<Result<T, Failure>> {
    match read {
        Err(Failure::Sqlite(error)) => Err(error),
        read => Ok(read),
    }
}

/// SQLite's integers are signed.
fn integer(number: u64) -> i64 {
    i64::try_from(number).unwrap_or(i64::MAX)
}
