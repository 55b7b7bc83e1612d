//! Queries to a catalog and their results. Queries own their values, because a catalog may answer on another thread.

use std::sync::Arc;

use serde::{Serialize, Serializer};

use super::text::MARKS;
use super::{PassEnd, PassId};
use ingest_base::record::Doubted;
use ingest_config::{IdPlace, Slice};
use ingest_quota::{Cost, Timestamp};

/// The passes whose listings a query for ids reads. A fetch after an unfinished pass started is fresh for that pass; for a
/// complete pass only `fresh_since` decides.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum PassScope {
    /// The unfinished passes of the job: the ids to fetch now.
    Open,
    /// These passes. Complete ones predict what the next ones will name.
    Passes(Vec<PassId>),
}

/// A query for the ids that a job's listings name and that were not fetched recently.
#[derive(Debug, Clone)]
pub struct PendingQuery {
    pub job: String,
    /// Whose listings.
    pub scope: PassScope,
    pub upstream: String,
    /// The call whose listings name the ids.
    pub listed_by: String,
    /// The kind of its records.
    pub listed_kind: String,
    /// Where a record names them.
    pub at: IdPlace,
    /// The kind of record that the ids are of.
    pub kind: String,
    /// An id that was fetched at this time or later is fresh.
    pub fresh_since: Timestamp,
}

/// An id to fetch, and a pass whose listing names it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PendingId {
    pub id: String,
    /// The pass. An id that several passes name is returned once for each.
    pub pass: PassId,
    /// When the pass started.
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

/// Ids of records of one kind of an upstream.
#[derive(Debug, Clone)]
pub struct RecordIds {
    pub upstream: String,
    /// The kind of record.
    pub kind: String,
    pub ids: Vec<Arc<str>>,
}

impl RecordIds {
    /// Ids of records of a kind.
    pub fn new<'i>(
        upstream: &str,
        kind: &str,
        ids: impl IntoIterator<Item = &'i Arc<str>>,
    ) -> Self {
        Self {
            upstream: upstream.to_owned(),
            kind: kind.to_owned(),
            ids: ids.into_iter().cloned().collect(),
        }
    }
}

/// A record's id, and the ids that it names.
pub type NamedIds = (Arc<str>, Vec<Arc<str>>);

/// A pass in a history.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PassRecord {
    pub id: PassId,
    pub job: String,
    /// The region; `*` for batches that served several.
    pub region: String,
    /// The span of time that it fetched, in a job with slices.
    pub slice: Option<Slice>,
    /// When it started.
    pub started_at: Timestamp,
    /// When it ended; `None` while it is open.
    pub finished_at: Option<Timestamp>,
    /// How it ended; `None` while it is open.
    pub outcome: Option<PassEnd>,
    /// Pages landed.
    pub pages: u64,
    /// Records listed.
    pub records: u64,
    /// Requests sent.
    pub requests: u64,
    /// Units charged.
    pub units: Cost,
    /// When the last run that walked it left it; `None` before that.
    pub left_at: Option<Timestamp>,
    /// Whether that run failed, rather than completed it or waits for a limit.
    pub failed: bool,
    /// Why that run got no further, and what it noticed; `None` where there is nothing to say.
    pub notes: Option<String>,
    /// The doubts about its lists.
    pub doubts: Vec<Doubted>,
}

impl PassRecord {
    /// How it ended, in a word; `None` while it is open. One that landed no page failed only if its run did.
    pub fn word(&self) -> Option<&'static str> {
        match (self.outcome?, self.failed) {
            (PassEnd::Failed, false) => Some("no page"),
            (end, _) => Some(end.as_str()),
        }
    }
}

/// A query for records to export.
#[derive(Debug, Clone)]
pub struct RecordsQuery {
    /// The kind of record.
    pub kind: String,
    /// Only records that a pass over this region listed.
    pub region: Option<String>,
    /// Only records seen at this time or later.
    pub since: Option<Timestamp>,
    /// Only records that changed, came back or were gone at this time or later.
    pub changed_since: Option<Timestamp>,
}

/// A record as it is stored.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StoredRecord {
    pub upstream: String,
    /// The kind of record.
    pub kind: String,
    pub id: String,
    /// When it was first seen.
    pub first_seen: Timestamp,
    /// When it was last seen.
    pub last_seen: Timestamp,
    /// The whole record, as JSON on one line.
    pub body: String,
    /// When the last list that had it no longer had it; `None` while a list has it.
    pub gone_at: Option<Timestamp>,
    /// Its place in the order of first sight: a record that is first seen later has a greater one.
    pub position: i64,
}

/// Some records, in the order of first sight.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct RecordsPage {
    pub records: Vec<StoredRecord>,
    /// Whether more records follow the last of them.
    pub more: bool,
}

/// A full-text query.
#[derive(Debug, Clone)]
pub struct SearchQuery {
    /// Words that a record must all contain. A word that ends in `*` stands for every word that begins so. Nothing else in
    /// them is query syntax.
    pub words: String,
    /// Only records of this kind.
    pub kind: Option<String>,
    /// Only records that a pass over this region listed.
    pub region: Option<String>,
    /// Only records seen at this time or later.
    pub since: Option<Timestamp>,
    /// The greatest number of hits to return.
    pub limit: u32,
}

/// The records that contain the words.
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
pub struct SearchResults {
    /// The best matches, best first.
    pub hits: Vec<SearchHit>,
    /// The number of newest matches of which these are the best, where there are more matches than are ranked; `None`
    /// where all matches were ranked.
    pub only_newest: Option<u32>,
    /// When the oldest record that was searched was first seen, where it would take too long to search all; `None` where all
    /// records were searched.
    pub searched_since: Option<Timestamp>,
}

/// A record that contains the words.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct SearchHit {
    pub upstream: String,
    /// The kind of record.
    pub kind: String,
    pub id: String,
    /// Up to a few dozen words of the text around the found words, each of which is between the two [`MARKS`], which JSON leaves out.
    #[serde(serialize_with = "without_marks")]
    pub excerpt: String,
    /// When it was first seen.
    pub first_seen: Timestamp,
    /// When it was last seen.
    pub last_seen: Timestamp,
    /// Since when it is gone; left out while a list has it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub gone_at: Option<Timestamp>,
    /// The whole record.
    pub body: serde_json::Value,
}

fn without_marks<S: Serializer>(excerpt: &str, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.serialize_str(&excerpt.replace(MARKS, ""))
}

/// What the lists of a call showed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CallFacts {
    pub upstream: String,
    pub call: String,
    /// It, as JSON.
    pub facts: String,
}

/// What a request of a call is expected to cost, learned from what its answers reported.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Estimate {
    pub upstream: String,
    pub call: String,
    pub cost: Cost,
}
