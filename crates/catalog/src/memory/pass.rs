//! A pass of a catalog in memory.

use std::collections::HashMap;
use std::sync::Arc;

use super::contents::{Contents, PageNumber, RecordKind};
use crate::{
    AtKnown, EndedSlice, Landing, OpenBatch, OpenPass, PassEnd, PassId, Rearrangement, StepListing,
    StepPosition,
};
use ingest_config::Slice;
use ingest_quota::Timestamp;

/// Pages, by the step's index.
pub type PagesByStep = Vec<(usize, u64)>;

/// A pass and what it lists.
#[derive(Debug)]
pub struct MemoryPass {
    pub job: String,
    pub region: String,
    pub slice: Option<Slice>,
    pub started_at: Timestamp,
    pub end: Option<PassEnd>,
    pub ended_at: Timestamp,
    /// Whether `max_pages` cut a step that names `{since}`.
    pub cut: bool,
    pub positions: Vec<StepPosition>,
    pub batches: Vec<OpenBatch>,
    pub listings: Vec<MemoryListing>,
    /// The steps whose lists can end at what is known, with their requests.
    pub remembers: Vec<(usize, String)>,
}

/// The ids of one kind that calls of one name returned.
#[derive(Debug)]
pub struct MemoryListing {
    pub call: String,
    pub kind: RecordKind,
    /// Those listed before the simulation, and those of batches.
    pub ids: Vec<Arc<str>>,
    /// The pages of lists.
    pub pages: Vec<PageNumber>,
}

/// Those of the passes that are unfinished, oldest first.
pub fn open_passes<'a>(passes: impl Iterator<Item = (i64, &'a MemoryPass)>) -> Vec<OpenPass> {
    let open = passes.filter(|(_, pass)| pass.end.is_none());
    let mut open: Vec<OpenPass> = open
        .map(|(id, pass)| OpenPass {
            id: PassId(id),
            region: pass.region.clone(),
            slice: pass.slice,
            started_at: pass.started_at,
            greatest: None,
            steps: pass.positions.clone(),
            batches: pass.batches.clone(),
            doubts: Vec::new(),
            relists: false,
        })
        .collect();
    open.sort_by_key(|pass| (pass.started_at, pass.id));
    open
}

/// Those of the passes over slices that have ended, oldest first.
pub fn ended_slices<'a>(passes: impl Iterator<Item = (i64, &'a MemoryPass)>) -> Vec<EndedSlice> {
    let ended = |(id, pass): (i64, &MemoryPass)| {
        Some(EndedSlice {
            slice: pass.slice?,
            pass: PassId(id),
            end: pass.end?,
            started_at: pass.started_at,
            finished_at: pass.ended_at,
            request: None,
            doubts: Vec::new(),
        })
    };
    let mut ended: Vec<EndedSlice> = passes.filter_map(ended).collect();
    ended.sort_by_key(|one| (one.started_at, one.pass));
    ended
}

impl MemoryPass {
    pub fn pages(&self) -> PagesByStep {
        let positions = self.positions.iter();
        positions.map(|at| (at.step, at.pages)).collect()
    }

    /// Moves a step behind a page. `is_known`: whether that ends its list.
    pub fn advance(&mut self, landing: &Landing, is_known: bool) {
        let step = (landing.step, landing.request.clone());
        if landing.at_known != AtKnown::Ignore && !self.remembers.contains(&step) {
            self.remembers.push(step);
        }
        let is_same = |at: &StepPosition| at.step == landing.step;
        let before = self.positions.iter().position(is_same);
        let before = before.map(|place| self.positions.swap_remove(place));
        self.positions.push(StepPosition {
            step: landing.step,
            pages: before.map_or(0, |at| at.pages) + 1,
            cursor: landing.next.clone().filter(|_| !is_known),
            request: Some(landing.request.clone()),
            empty_pages: landing.empty_pages,
            list: landing.list_with(landing.list.listed, is_known),
        });
    }

    pub fn rearrange(&mut self, change: &Rearrangement) {
        let moved: HashMap<usize, usize> = change.moved.iter().copied().collect();
        let place = |step: usize| moved.get(&step).copied().unwrap_or(step);
        self.positions
            .retain(|at| !change.dropped.contains(&at.step));
        for at in &mut self.positions {
            at.step = place(at.step);
        }
        for batch in &mut self.batches {
            batch.step = place(batch.step);
        }
    }

    pub fn keep(&mut self, batch: Option<&OpenBatch>) {
        let Some(batch) = batch else { return };
        self.batches
            .retain(|one| (one.step, &one.ids) != (batch.step, &batch.ids));
        self.batches.extend(
            Some(batch)
                .filter(|batch| batch.cursor().is_some())
                .cloned(),
        );
    }

    /// The listing of a call and a kind, which there is.
    pub fn listing(&mut self, call: &str, kind: RecordKind) -> Option<&mut MemoryListing> {
        let is_same = |one: &MemoryListing| one.call == call && one.kind == kind;
        let found = self.listings.iter().position(is_same);
        let last = self.listings.len();
        if found.is_none() {
            self.listings.push(MemoryListing {
                call: call.to_owned(),
                kind,
                ids: Vec::new(),
                pages: Vec::new(),
            });
        }
        self.listings.get_mut(found.unwrap_or(last))
    }
}

/// An unfinished pass: its cursors become page numbers.
pub fn open(contents: &Contents, upstream: &str, job: &str, pass: &OpenPass) -> MemoryPass {
    let numbered = |at: &StepPosition| StepPosition {
        cursor: at.cursor.as_ref().map(|_| at.pages.to_string()),
        ..at.clone()
    };
    let numbered_batch = |batch: &OpenBatch| {
        let cursors = (1..=batch.cursors.len())
            .map(|page| page.to_string())
            .collect();
        OpenBatch {
            cursors,
            ..batch.clone()
        }
    };
    MemoryPass {
        job: job.to_owned(),
        region: pass.region.clone(),
        slice: pass.slice,
        started_at: pass.started_at,
        end: None,
        ended_at: pass.started_at,
        cut: false,
        positions: pass.steps.iter().map(numbered).collect(),
        batches: pass.batches.iter().map(numbered_batch).collect(),
        listings: listings(contents, upstream, pass.id),
        remembers: Vec::new(),
    }
}

pub fn listings(contents: &Contents, upstream: &str, pass: PassId) -> Vec<MemoryListing> {
    let mut blank = MemoryPass {
        job: String::new(),
        region: String::new(),
        slice: None,
        started_at: Timestamp::from_micros(0),
        end: None,
        ended_at: Timestamp::from_micros(0),
        cut: false,
        positions: Vec::new(),
        batches: Vec::new(),
        listings: Vec::new(),
        remembers: Vec::new(),
    };
    for StepListing {
        call, kind, ids, ..
    } in contents.listings.get(&pass).into_iter().flatten()
    {
        let listing = blank.listing(call, (upstream.to_owned(), kind.clone()));
        listing
            .into_iter()
            .for_each(|one| one.ids.extend(ids.iter().cloned()));
    }
    blank.listings
}
