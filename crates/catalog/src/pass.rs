use std::collections::{BTreeMap, HashMap};

use serde::{Deserialize, Serialize};
use strum::{EnumString, IntoStaticStr};
use uuid::Uuid;

use super::tables::tables_of_steps;
use super::{Landed, OpenBatch};
use ingest_base::list_so_far::ListSoFar;
use ingest_base::record::Doubted;
use ingest_config::Slice;
use ingest_quota::Timestamp;

/// A pass in the catalog.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct PassId(pub i64);

/// A pass that a run walks, and what proves that it still does. The pass is in the catalog from its first page on, or from its end if
/// it landed none.
///
/// The process that takes up a pass writes a random token to it, and each write on the pass raises a number. A write counts only for
/// the holder of the token, and only if the catalog has all its former writes. So the catalog refuses a holder that stalled while
/// another one took the pass up, and one whose writes a failover lost.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct PassRef {
    pub job: String,
    /// The region; `*` for a pass of batches that serve several.
    pub region: String,
    /// The span of time that it fetches, in a job with slices.
    pub slice: Option<Slice>,
    /// When it started.
    pub started_at: Timestamp,
    /// The pass in the catalog; `None` before its first page.
    pub id: Option<PassId>,
    /// What its holder wrote to it.
    pub token: Uuid,
    /// The writes on it that its holder knows to be in the catalog.
    pub landed: i64,
}

impl PassRef {
    /// A pass that is not in the catalog yet.
    pub fn new(job: &str, region: &str, slice: Option<Slice>, started_at: Timestamp) -> Self {
        Self {
            job: job.to_owned(),
            region: region.to_owned(),
            slice,
            started_at,
            id: None,
            token: Uuid::now_v7(),
            landed: 0,
        }
    }

    /// Goes on behind a page that was landed.
    pub const fn confirm(&mut self, page: &Landed) {
        (self.id, self.landed) = (Some(page.pass), page.number);
    }
}

/// An unfinished pass and where it stopped.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OpenPass {
    pub id: PassId,
    pub region: String,
    /// The span of time that it fetches, in a job with slices.
    pub slice: Option<Slice>,
    /// When it started.
    pub started_at: Timestamp,
    /// The greatest value that it or one before it saw, as [`ingest_config::Since::stored`] writes it; `None` where there was none.
    pub greatest: Option<String>,
    /// The position of each step that landed a page, by the step's index.
    pub steps: Vec<StepPosition>,
    /// Its batches of ids that are between two pages.
    pub batches: Vec<OpenBatch>,
    /// The doubts about its lists until now.
    pub doubts: Vec<Doubted>,
    /// Whether it lists everything again, from the first value of `{since}`.
    pub relists: bool,
    /// The writes on it.
    pub landed: i64,
}

/// How far a step of a pass got; by default, a step before its first page.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct StepPosition {
    /// The step's index in its job.
    pub step: usize,
    /// Pages landed.
    pub pages: u64,
    /// The cursor of its next page; `None` when it is done.
    pub cursor: Option<String>,
    /// What it requests: its call and parameters; `None` in a simulation.
    pub request: Option<String>,
    /// How many pages in a row were empty at its end.
    pub empty_pages: u64,
    /// What its pages showed of the list.
    pub list: ListSoFar,
}

/// How the steps of an unfinished pass differ from the steps that its job has now.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Rearrangement {
    /// Steps whose index changed: the old index and the new one.
    pub moved: Vec<(usize, usize)>,
    /// Steps that were removed from the job, or whose call or parameters changed. Their positions and listings are deleted.
    pub dropped: Vec<usize>,
}

impl Rearrangement {
    /// Whether no step differs.
    pub fn is_empty(&self) -> bool {
        self.moved.is_empty() && self.dropped.is_empty()
    }

    /// The statements that change the steps of a pass in either database. They contain nothing but numbers.
    pub(crate) fn sql(&self, pass: PassId) -> String {
        let pass = pass.0;
        let mut sql = String::new();
        for table in tables_of_steps() {
            for step in &self.dropped {
                sql += &format!("delete from {table} where pass = {pass} and step = {step};");
            }
            // No step has an index below zero: there, none is in the way of another.
            for (from, to) in &self.moved {
                sql += &format!(
                    "update {table} set step = -1 - {to} where pass = {pass} and step = {from};"
                );
            }
            sql +=
                &format!("update {table} set step = -1 - step where pass = {pass} and step < 0;");
        }
        sql
    }
}

/// The passes of one region of a job, as far as the next run needs them.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct RegionState {
    pub region: String,
    /// When its last complete pass started.
    pub last_complete: Option<Timestamp>,
    pub last_complete_pass: Option<PassId>,
    /// The last complete pass in which `max_pages` ended no step that names `{since}`.
    pub since: Option<UncutPass>,
    /// When its last refused pass started, if that is later than `last_complete`.
    pub last_refused: Option<Timestamp>,
    /// What the job requested in that pass, as [`super::Catalog::store_refusal`] stored it; `None` if it was not.
    pub refused_request: Option<String>,
    /// Its last doubtful pass, if that started later than `last_complete`.
    pub doubtful: Option<DoubtfulPass>,
    /// When its last abandoned pass was given up.
    pub last_abandoned: Option<Timestamp>,
    pub unfinished: Option<OpenPass>,
    /// Pages of each step in its last complete pass, by the step's index.
    pub last_pages: Vec<(usize, u64)>,
    /// Those of them up to the last one with records.
    pub last_filled: Vec<(usize, u64)>,
    /// What its last complete pass noticed.
    pub last_notes: Option<String>,
}

impl RegionState {
    /// Forgets a refused and a doubtful pass that the last complete one outdates.
    pub(crate) fn current(mut self) -> Self {
        if self.last_refused <= self.last_complete {
            self.last_refused = None;
            self.refused_request = None;
        }
        let is_later = |pass: &DoubtfulPass| Some(pass.started_at) > self.last_complete;
        self.doubtful = self.doubtful.filter(is_later);
        self
    }

    /// Returns when its last pass began, if that is doubtful.
    pub fn doubtful_since(&self) -> Option<Timestamp> {
        let doubtful = self.doubtful.as_ref()?;
        Some(doubtful.started_at).filter(|at| Some(*at) >= self.last_refused)
    }
}

/// A pass that ended with doubts.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DoubtfulPass {
    /// When it started.
    pub started_at: Timestamp,
    /// What the job requested and read in it, as [`super::Catalog::store_refusal`] stored it.
    pub request: Option<String>,
    pub doubts: Vec<Doubted>,
}

/// Returns the pages of each step, by its index.
pub fn pages(steps: &[StepPosition]) -> Vec<(usize, u64)> {
    steps.iter().map(|at| (at.step, at.pages)).collect()
}

/// Returns the pages of each step up to the last one with records, by its index.
pub fn filled(steps: &[StepPosition]) -> Vec<(usize, u64)> {
    let filled = |at: &StepPosition| (at.step, at.pages.saturating_sub(at.empty_pages));
    steps.iter().map(filled).collect()
}

/// A slice of a region that has passes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SliceState {
    pub slice: Slice,
    /// Its passes; `since` and `last_pages` are empty.
    pub state: RegionState,
}

/// A pass over a slice that ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct EndedSlice {
    pub slice: Slice,
    pub pass: PassId,
    /// How it ended.
    pub end: PassEnd,
    /// When it started.
    pub started_at: Timestamp,
    /// When it ended.
    pub finished_at: Timestamp,
    /// What the job requested in it; `None` unless it was refused or is doubtful.
    pub request: Option<String>,
    /// The doubts about its lists.
    pub doubts: Vec<Doubted>,
}

/// Gathers the passes over the slices of a region, both lists oldest first, into the state of each slice, by time.
pub fn slice_states(region: &str, ended: &[EndedSlice], open: Vec<OpenPass>) -> Vec<SliceState> {
    let mut slices: BTreeMap<Slice, RegionState> = BTreeMap::new();
    for one in ended {
        let state = slices.entry(one.slice).or_default();
        match one.end {
            PassEnd::Complete => {
                state.last_complete = Some(one.started_at);
                state.last_complete_pass = Some(one.pass);
                state.last_refused = None;
                state.refused_request = None;
                state.doubtful = None;
            }
            PassEnd::Doubtful => {
                state.doubtful = Some(DoubtfulPass {
                    started_at: one.started_at,
                    request: one.request.clone(),
                    doubts: one.doubts.clone(),
                });
            }
            PassEnd::Refused => {
                state.last_refused = Some(one.started_at);
                state.refused_request.clone_from(&one.request);
            }
            PassEnd::Abandoned => state.last_abandoned = Some(one.finished_at),
            PassEnd::Failed => {}
        }
    }
    for pass in open {
        if let Some(slice) = pass.slice {
            slices.entry(slice).or_default().unfinished = Some(pass);
        }
    }
    let named = slices.into_iter().map(|(slice, state)| SliceState {
        slice,
        state: RegionState {
            region: region.to_owned(),
            ..state
        },
    });
    named.collect()
}

/// The pass from which the next one takes the value of `{since}`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct UncutPass {
    /// When it started.
    pub began: Timestamp,
    /// The greatest value that it or one before it saw, as [`ingest_config::Since::stored`] writes it; `None` where there was none.
    pub greatest: Option<String>,
    /// What its steps requested; empty if it landed no page.
    pub requests: Vec<String>,
}

/// The end of a complete list of one id, where the next list of that id takes the value of `{since}`.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct IdSince {
    /// The id with which a step of ids requested the list.
    pub id: String,
    /// When the pass started for which it was requested.
    pub began: Timestamp,
    /// The greatest value that it or one before it had, as [`ingest_config::Since::stored`] writes it; `None` where there was none.
    pub greatest: Option<String>,
    /// The cursor with which the next list begins, and the request of which it is; `None` where the list had none.
    pub lasting: Option<LastingCursor>,
}

/// The cursor at the end of a complete list, with which the next one begins.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct LastingCursor {
    /// What the step requests: its call and parameters.
    pub request: String,
    pub cursor: String,
}

/// A list that can end at what is known, as [`super::AtKnown`] says.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct KnownList {
    /// The last complete pass that read it to its end, and the step in it.
    pub pass: PassId,
    pub step: usize,
    /// Whether that pass lacks no record that there was: what it did not list is gone, unless it moved to the front meanwhile.
    pub is_whole: bool,
    /// When that began.
    pub began: Timestamp,
    /// Its pages.
    pub pages: u64,
    /// Those of them up to the last one with records.
    pub filled: u64,
}

/// The cursors of passes.
pub type LastingCursors = HashMap<PassId, Vec<LastingCursor>>;

/// Returns a stored cursor; `None` where a part of it is missing.
pub fn lasting(request: Option<String>, cursor: Option<String>) -> Option<LastingCursor> {
    let (request, cursor) = request.zip(cursor)?;
    Some(LastingCursor { request, cursor })
}

/// How a pass ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, EnumString, IntoStaticStr)]
#[strum(serialize_all = "lowercase")]
pub enum PassEnd {
    /// Everything is landed.
    Complete,
    /// Everything that the upstream named is landed, and a list cannot be trusted.
    Doubtful,
    /// The upstream does not serve this region.
    Refused,
    /// It was too old to continue; what it landed is kept.
    Abandoned,
    /// It landed no page.
    Failed,
}

impl PassEnd {
    /// The word for it in the catalog, of which it is also parsed.
    pub fn as_str(self) -> &'static str {
        self.into()
    }
}
