//! What was fetched, and how far each region is. Each page is stored in one transaction with the cursor that continues behind
//! it, so a page that was paid for is stored once and its pass continues after it.
//!
//! [`PassStore`] is what a run writes, [`PassReader`] what runs, previews and reports read, [`Archive`] what the commands that show
//! records read; [`Leases`] keep two runs from working on one region. A [`Catalog`] holds them.
//!
//! Never charges or requests anything. Begin with [`PassStore::land`] and [`Landing`]. The tests in `crates/catalog/tests/all/suite`
//! define the behaviour of every implementation.

mod archive;
mod batch;
mod catalog;
mod copy;
mod copying;
mod either;
mod error;
mod estimates;
mod gone;
mod id_since;
mod index;
mod land;
mod landing;
mod lasting;
mod layout;
mod lease;
mod listings;
mod lock_files;
pub mod memory;
mod page;
mod parents;
mod pass;
mod passes;
mod pending;
mod places;
pub mod postgres;
mod prune;
mod query;
mod reader;
mod rebuild;
mod recall;
mod records;
mod rows;
mod scratch;
mod sql;
mod sqlite;
mod store;
mod tables;
mod tags;
mod text;
mod tokens;
mod values;
mod views;
mod words;

use std::collections::HashMap;
use std::sync::Arc;

use async_trait::async_trait;
use futures_util::stream::BoxStream;

use ingest_base::list_so_far::ListSoFar;
use ingest_base::record::{CachedPage, Doubted, Tag};
use ingest_config::{IdPlace, Slice};
use ingest_quota::{Cost, Timestamp};

pub use batch::OpenBatch;
pub use catalog::{Catalog, ReadOnly, ReadWrite};
pub use copy::{CopiedTable, CopyStore, copy};
pub use error::CatalogError;
pub use landing::{AtKnown, Landed, Landing};
pub use lease::{HeldLease, Holder, Lease, Leases, Resource, Taken, Term};
pub use lock_files::LockFiles;
pub use pass::{
    DoubtfulPass, EndedSlice, IdSince, KnownList, LastingCursor, LastingCursors, OpenPass, PassEnd,
    PassId, PassRef, Rearrangement, RegionState, SliceState, StepPosition, UncutPass, filled,
    pages, slice_states,
};
pub use postgres::{Parameter, Postgres, PostgresError, RowLeases, Session, Transaction};
pub use query::{
    CallFacts, Estimate, NamedIds, PassRecord, PassScope, PendingId, PendingQuery, RecordIds,
    RecordsPage, RecordsQuery, SearchHit, SearchQuery, SearchResults, StepListing, StoredRecord,
};
pub use tables::{COPIED, Table};

/// The statements whose cost must not grow with the catalog, as SQLite reads them.
fn statements() -> Vec<String> {
    let of_all = [
        gone::STATEMENTS,
        id_since::STATEMENTS,
        index::STATEMENTS,
        land::STATEMENTS,
        lasting::STATEMENTS,
        &parents::statements(),
        passes::STATEMENTS,
        pending::STATEMENTS,
        prune::STATEMENTS,
        rebuild::STATEMENTS,
        recall::STATEMENTS,
        records::STATEMENTS,
        sqlite::SEARCH_STATEMENTS,
        tags::STATEMENTS,
        views::STATEMENTS,
    ];
    sql::as_sqlite(&of_all.concat())
}

/// Records of an export, in pages that fit in memory.
pub type RecordPages = BoxStream<'static, Result<Vec<StoredRecord>, CatalogError>>;

/// The pages of each step, by the step's index, of some passes.
pub type LastPages = Vec<Vec<(usize, u64)>>;

/// What passes listed, step by step, in order.
pub type Listed = HashMap<PassId, Vec<StepListing>>;

/// Reads passes, listings and what earlier passes fetched. No method writes.
#[async_trait]
pub trait PassReader: Send + Sync {
    /// Returns the state of each of these regions of a job, in the order given. Ignores passes that ended and that
    /// started later than `now`: a clock that ran ahead dated them. Passes over slices do not count.
    async fn region_states(
        &self,
        job: &str,
        regions: &[String],
        now: Timestamp,
    ) -> Result<Vec<RegionState>, CatalogError>;

    /// Returns the slices of these regions of a job that have passes, as [`slice_states`] gathers them. Ignores passes that ended
    /// and that started later than `now`.
    async fn slices(
        &self,
        job: &str,
        regions: &[String],
        now: Timestamp,
    ) -> Result<Vec<SliceState>, CatalogError>;

    /// Returns one of these slices; `None` if it has no pass.
    async fn slice(
        &self,
        job: &str,
        region: &str,
        slice: Slice,
        now: Timestamp,
    ) -> Result<Option<SliceState>, CatalogError>;

    /// Returns, for each of these regions of a job, the pages of each step, by the step's index, in each of its last `count`
    /// complete passes, those over slices included, newest first.
    async fn last_pages(
        &self,
        job: &str,
        regions: &[String],
        count: u32,
    ) -> Result<Vec<LastPages>, CatalogError>;

    /// Returns the unfinished passes of a job, oldest first, including the one over `*`.
    async fn open_passes(&self, job: &str) -> Result<Vec<OpenPass>, CatalogError>;

    /// Returns what each of these passes listed, step by step, in order.
    async fn listings(&self, passes: &[PassId]) -> Result<Listed, CatalogError>;

    /// Returns the ids to fetch, in the order of the passes and their listings.
    async fn pending_ids(&self, query: PendingQuery) -> Result<Vec<PendingId>, CatalogError>;

    /// Returns the ids that these records name at a place, record by record. Omits records that are not stored.
    async fn named_ids(
        &self,
        records: RecordIds,
        at: &IdPlace,
    ) -> Result<Vec<NamedIds>, CatalogError>;

    /// Returns where the lists of these ids continue, as steps of this call request them for this job. Omits ids without a
    /// complete list.
    async fn id_sinces(
        &self,
        job: &str,
        call: &str,
        ids: &[String],
    ) -> Result<Vec<IdSince>, CatalogError>;

    /// Returns the cursors at the ends of the lists of these passes, with which the next ones begin.
    async fn lasting_cursors(&self, passes: &[PassId]) -> Result<LastingCursors, CatalogError>;

    /// Returns, for each of these lists of a job, a region and a request, how far it was read; `None` for one that no complete pass
    /// read to its end. Ignores passes that started later than `now`.
    async fn known_lists(
        &self,
        job: &str,
        lists: &[(String, String)],
        now: Timestamp,
    ) -> Result<Vec<Option<KnownList>>, CatalogError>;

    /// Whether the list of a step of an unfinished pass has any record that an earlier pass returned which tells about the list, as
    /// [`AtKnown`] says.
    async fn meets_known(
        &self,
        pass: PassId,
        step: usize,
        request: &str,
    ) -> Result<bool, CatalogError>;

    /// Returns when these ids were last fetched, or requested and found absent. Omits ids that never were.
    async fn last_fetched(
        &self,
        records: RecordIds,
    ) -> Result<Vec<(Arc<str>, Timestamp)>, CatalogError>;

    /// Returns the page that a request brought last; `None` if it came without a tag or any of its records was deleted.
    async fn cached_page(
        &self,
        upstream: &str,
        kind: &str,
        request: &str,
    ) -> Result<Option<CachedPage>, CatalogError>;

    /// Returns the tags of all stored pages of an upstream.
    async fn tags(&self, upstream: &str) -> Result<Vec<Tag>, CatalogError>;

    /// Returns the expected costs of the calls whose answers report a cost.
    async fn estimates(&self) -> Result<Vec<Estimate>, CatalogError>;

    /// Returns the number of an upstream's records that were last seen before `since`.
    async fn unseen(&self, upstream: &str, since: Timestamp) -> Result<u64, CatalogError>;

    /// Returns what the lists of each call showed.
    async fn call_facts(&self) -> Result<Vec<CallFacts>, CatalogError>;
}

/// Writes pages and passes. Each method writes all or nothing.
#[async_trait]
pub trait PassStore: PassReader {
    /// Fails if a landed page would be lost, as when the catalog's file was deleted since it was opened. Fast enough to be
    /// called before each request.
    async fn check_writable(&self) -> Result<(), CatalogError>;

    /// Whether the catalog can store an id. One that it cannot store is neither landed nor requested.
    fn takes_id(&self, id: &str) -> bool;

    /// Stores a page: records, listing, full-text index, cursor and the pass's counts. An error means that nothing of it
    /// was stored, so the caller can repeat the same landing after a retryable one.
    async fn land(&self, landing: Arc<Landing>) -> Result<Landed, CatalogError>;

    /// Restarts a step of a pass and deletes its listing. Returns `false`, and changes nothing, if the step was restarted
    /// before.
    async fn restart_step(&self, pass: PassId, step: usize) -> Result<bool, CatalogError>;

    /// Adapts an unfinished pass to the steps that its job has now.
    async fn rearrange(&self, pass: PassId, change: &Rearrangement) -> Result<(), CatalogError>;

    /// Stores which records named the ids that a step of a pass requested: the parents of what it returned. `query` is the
    /// query for the ids of that step.
    async fn link_parents(
        &self,
        pass: PassId,
        step: usize,
        query: PendingQuery,
    ) -> Result<(), CatalogError>;

    /// Marks records as gone: those that the last complete pass of the same list has and these steps of this pass do not,
    /// unless another list has them or they were returned since this pass started. A list whose passes begin at cursors has what
    /// any of its passes named. Call it before the pass ends, with the steps that listed everything; or, where that pass read lists which
    /// can end at what is known, before the next complete one of the region ends. Returns the number of records.
    async fn mark_gone(
        &self,
        pass: PassId,
        steps: &[usize],
        now: Timestamp,
    ) -> Result<u64, CatalogError>;

    /// Ends a step at its last landed page, whatever cursor that page has; `cut` as in [`Landing::cut`], `list` instead of the
    /// one that was landed.
    async fn end_step(
        &self,
        pass: PassId,
        step: usize,
        cut: bool,
        list: &ListSoFar,
    ) -> Result<(), CatalogError>;

    /// Ends a pass. A pass that has ended keeps its end.
    async fn finish(
        &self,
        pass: &PassRef,
        end: PassEnd,
        now: Timestamp,
    ) -> Result<PassId, CatalogError>;

    /// Ends a pass as complete, after it marked the records as gone that these steps no longer list, as [`Self::mark_gone`] does.
    /// Returns the number of records.
    async fn complete(
        &self,
        pass: PassId,
        steps: &[usize],
        now: Timestamp,
    ) -> Result<u64, CatalogError> {
        let gone = match steps {
            [] => 0,
            steps => self.mark_gone(pass, steps, now).await?,
        };
        self.finish(&PassRef::Open(pass), PassEnd::Complete, now)
            .await?;
        Ok(gone)
    }

    /// Adds requests that returned no page, and the units charged for them, to a pass. A new pass is stored as failed, so that
    /// `history` shows what it cost and a ledger that was lost is charged it.
    async fn count_unproductive(
        &self,
        pass: &PassRef,
        requests: u64,
        units: &Cost,
        now: Timestamp,
    ) -> Result<(), CatalogError>;

    /// Stores whether the run of a pass failed, with notes for people: of a pass that is not complete, or is complete with notes. A
    /// pass that is not in the catalog is stored if it failed. Of the passes of a region that failed before any request, only the last
    /// is kept: they cost nothing, and there is one with every run.
    async fn store_outcome(
        &self,
        pass: &PassRef,
        failed: bool,
        notes: Option<&str>,
        now: Timestamp,
    ) -> Result<(), CatalogError>;

    /// Stores what the job requested in a pass that was refused or is doubtful, so that the region is due again when that changes.
    async fn store_refusal(&self, pass: PassId, request: &str) -> Result<(), CatalogError>;

    /// Adds doubts to an unfinished pass.
    async fn store_doubts(&self, pass: PassId, doubts: &[Doubted]) -> Result<(), CatalogError>;

    /// Stores what the lists of a call showed.
    async fn store_call_facts(&self, facts: CallFacts) -> Result<(), CatalogError>;

    /// Deletes the cursors with which the next pass of a job over a region begins this request. Passes over slices, whose region
    /// names the slice, have none.
    async fn forget_lasting(
        &self,
        job: &str,
        region: &str,
        request: &str,
    ) -> Result<(), CatalogError>;

    /// Deletes the cursor with which the next list of an id begins, as steps of this call request it for this job.
    async fn forget_lasting_of_id(
        &self,
        job: &str,
        call: &str,
        id: &str,
    ) -> Result<(), CatalogError>;

    /// Stores what a call is expected to cost from now on.
    async fn learn(&self, estimate: Estimate) -> Result<(), CatalogError>;

    /// Deletes the tags of a call's pages, because their cursors have expired.
    async fn forget_tags(&self, upstream: &str, call: &str) -> Result<(), CatalogError>;

    /// Deletes the records of an upstream that were last seen before `since`. Returns their number.
    async fn drop_unseen(&self, upstream: &str, since: Timestamp) -> Result<u64, CatalogError>;
}

/// The number of newest matches that a search ranks at most.
// To rank reads every match: in a catalog of 10,000,000 records it took 11 s.
pub const RANKED: u32 = 10_000;

/// Reads records and the history of passes, for the commands that show them and for the server. No method writes.
///
/// The server gives up a read that takes too long by dropping its future. The read must then end soon, so that it does not
/// keep the store busy: a file is interrupted, a server is sent a cancellation.
#[async_trait]
pub trait Archive: Send + Sync {
    /// Returns the passes that started at `since` or later, oldest first.
    async fn history(&self, since: Timestamp) -> Result<Vec<PassRecord>, CatalogError>;

    /// Returns at most `most` passes that a run left as failed at `since` or later and that no run has completed, the last one
    /// first.
    async fn failures(&self, since: Timestamp, most: u32) -> Result<Vec<PassRecord>, CatalogError>;

    /// Returns a pass; `None` if there is none with this id.
    async fn pass(&self, pass: PassId) -> Result<Option<PassRecord>, CatalogError>;

    /// Returns each job with each region that it has a pass over, also those that the configuration has no longer. Reads an
    /// index over all passes.
    async fn jobs_and_regions(&self) -> Result<Vec<(String, String)>, CatalogError>;

    /// Returns the records of a kind from one state of the catalog, in the order in which they were first seen. Reading
    /// stops when the stream is dropped.
    fn records(&self, query: RecordsQuery) -> RecordPages;

    /// Returns at most `most` records of the query, in the order in which they were first seen: those whose position is
    /// greater than `after`, or the first ones. A page ends earlier where its bodies are very long, but has at least one record
    /// if there is one.
    async fn records_page(
        &self,
        query: RecordsQuery,
        after: Option<i64>,
        most: u32,
    ) -> Result<RecordsPage, CatalogError>;

    /// Returns a record by its name; `None` if it is not stored.
    async fn record(
        &self,
        upstream: &str,
        kind: &str,
        id: &str,
    ) -> Result<Option<StoredRecord>, CatalogError>;

    /// Returns the records that contain all words, best match first. Where more than [`RANKED`] records contain them, only
    /// the [`RANKED`] that were first seen last are ranked, and the result says so: the time of a search must not grow with
    /// the number of records that contain a word.
    async fn search(&self, query: SearchQuery) -> Result<SearchResults, CatalogError>;
}
