//! Where pages are landed, with passes and cursors: whatever was paid for is in here exactly once.

mod batch;
mod sqlite;

use std::ops::ControlFlow;
use std::sync::Arc;

use async_trait::async_trait;
use thiserror::Error;

use crate::config::{Pointer, Records};
use crate::quota::{Cost, Timestamp};
use crate::record::{CachedPage, Record, Tag};

pub use batch::OpenBatch;
pub use sqlite::SqliteCatalog;

/// A pass in the catalog.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct PassId(pub i64);

/// The pass that a page belongs to. A pass is in the catalog from its first page on, or as soon as it has
/// ended without one.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum PassRef {
    /// Not in the catalog yet.
    New {
        /// The job.
        job: String,
        /// The region; `*` for a pass of batches that serve several.
        region: String,
        /// When it began.
        started_at: Timestamp,
    },
    /// In the catalog.
    Open(PassId),
}

/// A pass that goes on: where it stopped.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OpenPass {
    /// The pass.
    pub id: PassId,
    /// Its region.
    pub region: String,
    /// When it began.
    pub started_at: Timestamp,
    /// Where each of its steps stands, by the step's index; a step without a page is not in it.
    pub steps: Vec<StepPosition>,
    /// Its batches of ids that are between two of their pages.
    pub batches: Vec<OpenBatch>,
}

/// Where a step of a pass stands.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StepPosition {
    /// The step's index in its job.
    pub step: usize,
    /// Pages landed.
    pub pages: u64,
    /// Where it goes on; `None` when it is done.
    pub cursor: Option<String>,
    /// What it requests: its call and parameters. `None` where an earlier release landed its last page.
    pub request: Option<String>,
    /// How many pages in a row were empty at its end.
    pub empty_pages: u64,
}

/// How the steps of an unfinished pass differ from those that its job has now.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Rearrangement {
    /// Steps that have another index now: the old one and the new one.
    pub moved: Vec<(usize, usize)>,
    /// Steps that are no longer in the job, or whose call or parameters changed: where they stood is forgotten, and so is
    /// what they listed.
    pub dropped: Vec<usize>,
}

impl Rearrangement {
    /// Whether nothing differs.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.moved.is_empty() && self.dropped.is_empty()
    }
}

/// What is known of one region of a job.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct RegionState {
    /// The region.
    pub region: String,
    /// When its last complete pass began.
    pub last_complete: Option<Timestamp>,
    /// That pass.
    pub last_complete_pass: Option<PassId>,
    /// When the last complete pass began of which `max_pages` cut no step that names `{since}`.
    pub since: Option<Timestamp>,
    /// When its last refused pass began, if that is later.
    pub last_refused: Option<Timestamp>,
    /// When its last abandoned pass was given up.
    pub last_abandoned: Option<Timestamp>,
    /// Its unfinished pass.
    pub unfinished: Option<OpenPass>,
    /// Pages of each step in its last complete pass, by the step's index: what to expect of the next.
    pub last_pages: Vec<(usize, u64)>,
}

/// A page to land.
#[derive(Debug, Clone, Copy)]
pub struct Landing<'a> {
    /// The pass it belongs to.
    pub pass: &'a PassRef,
    /// The step's index in its job.
    pub step: usize,
    /// The upstream it came from.
    pub upstream: &'a str,
    /// The call that returned it.
    pub call: &'a str,
    /// What its records are.
    pub kind: &'a Records,
    /// The records, in the answer's order.
    pub records: &'a [Record],
    /// What its step requests: its call and parameters.
    pub request: &'a str,
    /// The cursor that leads on from here; `None` when the step is done.
    pub next: Option<&'a str>,
    /// Whether `max_pages` ended a step that names `{since}`: this pass is then no start for the next one's `{since}`.
    pub cut: bool,
    /// How many pages in a row are empty at the end of the step, this one included.
    pub empty_pages: u64,
    /// Ids that were asked for and of which it is known now whether they came: those that did not are absent. Empty in a
    /// step that lists.
    pub requested: &'a [String],
    /// Where its batch of ids stands behind it; `None` in a step that lists.
    pub batch: Option<&'a OpenBatch>,
    /// Requests made since the pass's last landing, failed attempts included.
    pub requests: u64,
    /// Units charged for them.
    pub units: &'a Cost,
    /// The upstream's name for the page, under which it can be asked for again.
    pub tag: Option<&'a Tag>,
    /// Now.
    pub now: Timestamp,
}

/// What became of a page.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Landed {
    /// Its pass, which is open from now on.
    pub pass: PassId,
    /// Whether `next` had been seen before in this step of this pass: the step is done, lest it go round for ever.
    pub cursor_repeats: bool,
}

/// How a pass ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PassEnd {
    /// All of it is landed.
    Complete,
    /// The upstream does not serve this region.
    Refused,
    /// It had grown too old to go on; what it landed stays.
    Abandoned,
    /// It landed no page.
    Failed,
}

/// Whose listings a query for ids is about. What was fetched since an unfinished pass began is fresh for it; what was
/// fetched since a complete one began is not fresh for that alone.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PassScope<'a> {
    /// The unfinished passes of the job: what is to be fetched now.
    Open,
    /// These: complete ones tell what the next ones are likely to name.
    Passes(&'a [PassId]),
}

/// Which ids do the listings of a job's passes name that were not fetched lately?
#[derive(Debug, Clone, Copy)]
pub struct PendingQuery<'a> {
    /// The job.
    pub job: &'a str,
    /// Whose listings.
    pub scope: PassScope<'a>,
    /// The upstream.
    pub upstream: &'a str,
    /// The call whose listings name the ids, and the kind of its records.
    pub from: (&'a str, &'a str),
    /// Where a record names them.
    pub at: &'a Pointer,
    /// The kind of record that the ids are of.
    pub kind: &'a str,
    /// What was fetched at this time or later is fresh; so is what was fetched after the unfinished pass that names it began.
    pub fresh_since: Timestamp,
}

/// An id to fetch, and a pass whose listing names it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PendingId {
    /// The id.
    pub id: String,
    /// The pass. An id that several passes name is there once for each.
    pub pass: PassId,
    /// When the pass began.
    pub began: Timestamp,
}

/// What a step of a pass returned.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StepListing {
    /// The step's index in its job.
    pub step: usize,
    /// The call that returned it.
    pub call: String,
    /// The kind of record.
    pub kind: String,
    /// Their ids, in order.
    pub ids: Vec<Arc<str>>,
}

/// A record's id, and the ids that it names.
pub type NamedIds = (Arc<str>, Vec<Arc<str>>);

/// A pass as it is remembered.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PassRecord {
    /// The job.
    pub job: String,
    /// The region; `*` for batches that served several.
    pub region: String,
    /// When it began.
    pub started_at: Timestamp,
    /// When it ended; `None` while it has not.
    pub finished_at: Option<Timestamp>,
    /// How it ended: `complete`, `refused`, `abandoned` or `failed`; `None` while it has not.
    pub outcome: Option<String>,
    /// Pages landed.
    pub pages: u64,
    /// Records listed.
    pub records: u64,
    /// Requests made.
    pub requests: u64,
    /// Units charged.
    pub units: Cost,
}

/// Which records to hand out.
#[derive(Debug, Clone, Copy)]
pub struct RecordsQuery<'a> {
    /// The kind of record.
    pub kind: &'a str,
    /// Only records that a pass over this region listed.
    pub region: Option<&'a str>,
    /// Only records seen at this time or later.
    pub since: Option<Timestamp>,
}

/// A record as it is stored.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StoredRecord {
    /// The upstream.
    pub upstream: String,
    /// The kind of record.
    pub kind: String,
    /// Its id.
    pub id: String,
    /// When it was first seen.
    pub first_seen: Timestamp,
    /// When it was last seen.
    pub last_seen: Timestamp,
    /// The whole record, as JSON on one line.
    pub body: String,
}

/// What is done with each record that is handed out, and whether to go on.
pub type EachRecord = Box<dyn FnMut(StoredRecord) -> ControlFlow<()> + Send>;

/// A query to the full-text index.
#[derive(Debug, Clone, Copy)]
pub struct SearchQuery<'a> {
    /// Words, all of which must be there. Taken as words whatever they hold, never as query syntax.
    pub words: &'a str,
    /// Only records of this kind.
    pub kind: Option<&'a str>,
    /// Only records that a pass over this region listed.
    pub region: Option<&'a str>,
    /// Only records seen at this time or later.
    pub since: Option<Timestamp>,
    /// At most so many hits, best first.
    pub limit: u32,
}

/// A record that holds the words.
#[derive(Debug, Clone, PartialEq)]
pub struct SearchHit {
    /// The upstream.
    pub upstream: String,
    /// The kind of record.
    pub kind: String,
    /// Its id.
    pub id: String,
    /// The text that holds the words, cut to a few dozen words, the found ones between U+E000 and U+E001.
    pub excerpt: String,
    /// The whole record.
    pub body: serde_json::Value,
    /// When it was first seen.
    pub first_seen: Timestamp,
    /// When it was last seen.
    pub last_seen: Timestamp,
}

/// What a call is expected to cost, as its answers told.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Estimate {
    /// The upstream.
    pub upstream: String,
    /// The call.
    pub call: String,
    /// What one request is expected to take.
    pub cost: Cost,
}

/// Why the catalog did not do as asked. Nothing was half-written.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[error("{0}")]
pub struct CatalogError(pub String);

/// Where pages are landed.
#[async_trait]
pub trait Catalog: Send + Sync {
    /// What is known of each of these regions of a job, in the order given. Passes that ended and began later than `now` are
    /// passed over: a clock that was ahead began them. Writes nothing.
    async fn region_states(
        &self,
        job: &str,
        regions: &[String],
        now: Timestamp,
    ) -> Result<Vec<RegionState>, CatalogError>;

    /// Pages of each step, by the step's index, in each of the last complete passes of a job over a region: at most `count`
    /// passes, newest first. Empty from a catalog that keeps no passes. Writes nothing.
    async fn last_pages(
        &self,
        _job: &str,
        _region: &str,
        _count: u32,
    ) -> Result<Vec<Vec<(usize, u64)>>, CatalogError> {
        Ok(Vec::new())
    }

    /// The unfinished passes of a job, oldest first, the one over `*` included. Writes nothing.
    async fn open_passes(&self, job: &str) -> Result<Vec<OpenPass>, CatalogError>;

    /// Fails where what is landed would be lost, as when the catalog's file was deleted since it was opened. Writes
    /// nothing, and is quick enough to be asked before each request.
    async fn in_place(&self) -> Result<(), CatalogError> {
        Ok(())
    }

    /// Lands a page: records, listing, full-text index, cursor and the pass's counts, all or nothing.
    async fn land(&self, landing: Landing<'_>) -> Result<Landed, CatalogError>;

    /// Starts a step of a pass over, its listing anew; `false`, and nothing done, when that was done once before.
    async fn restart_step(&self, pass: PassId, step: usize) -> Result<bool, CatalogError>;

    /// Fits an unfinished pass to the steps that its job has now.
    async fn rearrange(&self, pass: PassId, change: &Rearrangement) -> Result<(), CatalogError>;

    /// Ends a step at its last landed page, whatever that leads on to; `cut` as in [`Landing::cut`].
    async fn end_step(&self, pass: PassId, step: usize, cut: bool) -> Result<(), CatalogError>;

    /// Ends a pass.
    async fn finish(
        &self,
        pass: &PassRef,
        end: PassEnd,
        now: Timestamp,
    ) -> Result<PassId, CatalogError>;

    /// Counts requests that brought no page, and units charged for them. A pass that is not in the catalog is there from
    /// then on, as failed.
    async fn count_unproductive(
        &self,
        pass: &PassRef,
        requests: u64,
        units: &Cost,
        now: Timestamp,
    ) -> Result<(), CatalogError>;

    /// Ids to fetch, in the order of the passes and their listings. Writes nothing.
    async fn pending_ids(&self, query: PendingQuery<'_>) -> Result<Vec<PendingId>, CatalogError>;

    /// What calls are expected to cost whose answers tell it. Writes nothing.
    async fn estimates(&self) -> Result<Vec<Estimate>, CatalogError>;

    /// Remembers what a call is expected to cost from now on.
    async fn learn(&self, upstream: &str, call: &str, cost: &Cost) -> Result<(), CatalogError>;

    /// The page that a request brought the last time, if it came under a tag and all of its records are still there.
    /// Writes nothing.
    async fn cached_page(
        &self,
        upstream: &str,
        kind: &str,
        request: &str,
    ) -> Result<Option<CachedPage>, CatalogError>;

    /// The tags of all pages of an upstream. Writes nothing.
    async fn tags(&self, upstream: &str) -> Result<Vec<Tag>, CatalogError>;

    /// Forgets the tags of a call's pages: their cursors are no good any more.
    async fn forget_tags(&self, upstream: &str, call: &str) -> Result<(), CatalogError>;

    /// Drops the records of an upstream that were not seen since, and says how many.
    async fn drop_unseen(&self, upstream: &str, since: Timestamp) -> Result<u64, CatalogError>;

    /// What a pass listed, step after step, in order. Writes nothing.
    async fn listing(&self, pass: PassId) -> Result<Vec<StepListing>, CatalogError>;

    /// The ids that records of a kind name at a place, record by record; those that are not there are left out. Writes
    /// nothing.
    async fn named(
        &self,
        upstream: &str,
        kind: &str,
        ids: &[Arc<str>],
        at: &Pointer,
    ) -> Result<Vec<NamedIds>, CatalogError>;

    /// When these ids were last fetched, or asked for and found absent; those that never were are left out. Writes
    /// nothing.
    async fn fetched(
        &self,
        upstream: &str,
        kind: &str,
        ids: &[Arc<str>],
    ) -> Result<Vec<(Arc<str>, Timestamp)>, CatalogError>;

    /// The passes that began at `since` or later, in their order. Writes nothing.
    async fn history(&self, since: Timestamp) -> Result<Vec<PassRecord>, CatalogError>;

    /// Hands out the records of a kind, one by one, in the order in which they were first seen. Writes nothing.
    async fn records(&self, query: RecordsQuery<'_>, each: EachRecord) -> Result<(), CatalogError>;

    /// Full-text search, best first. Writes nothing.
    async fn search(&self, query: SearchQuery<'_>) -> Result<Vec<SearchHit>, CatalogError>;
}
