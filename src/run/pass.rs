//! A pass as this run walks it.

use std::sync::Arc;

use super::due::Candidate;
use super::pass_stats::PassStats;
use crate::catalog::{Landed, Lease, OpenPass, PassId, PassRef, StepPosition};
use crate::config::{Job, Region, Step};
use crate::quota::Timestamp;

/// A pass as this run walks it: locked, and where it stands.
#[derive(Debug)]
pub struct Pass {
    /// The job.
    pub job: Arc<Job>,
    /// The region.
    pub region: Arc<Region>,
    /// The pass in the catalog.
    pub reference: PassRef,
    /// Whether an earlier run began it.
    pub resumed: bool,
    /// When it began.
    pub began: Timestamp,
    /// The start of the region's last complete pass that `max_pages` did not cut.
    pub since: Option<Timestamp>,
    /// Where its steps stand.
    pub positions: Vec<StepPosition>,
    /// What it cost and brought, in this run.
    pub stats: PassStats,
    /// What a person should know of it beside its outcome.
    pub notes: Vec<String>,
    _lease: Lease,
}

impl Pass {
    /// The unfinished pass of a candidate, or else a new one.
    #[must_use]
    pub fn of(candidate: &Candidate, lease: Lease, now: Timestamp) -> Self {
        let open = candidate.resumable(now);
        Self {
            reference: reference(&candidate.job, &candidate.region, open, now),
            resumed: open.is_some(),
            began: open.map_or(now, |pass| pass.started_at),
            positions: open.map(|pass| pass.steps.clone()).unwrap_or_default(),
            since: candidate.state.since,
            job: Arc::clone(&candidate.job),
            region: Arc::clone(&candidate.region),
            stats: PassStats::default(),
            notes: open.map_or_else(Vec::new, |_| candidate.edited.notes.clone()),
            _lease: lease,
        }
    }

    /// Where a step stands: pages landed, and the cursor.
    #[must_use]
    pub fn position(&self, step: usize) -> Position {
        match self.positions.iter().find(|position| position.step == step) {
            None => Position::Start,
            Some(StepPosition { cursor: None, .. }) => Position::Done,
            Some(StepPosition {
                cursor: Some(cursor),
                pages,
                empty_pages,
                ..
            }) => Position::At {
                cursor: cursor.clone(),
                pages: *pages,
                empty_pages: *empty_pages,
            },
        }
    }

    /// Remembers a landed page, behind which its step stands at `now_at`.
    pub fn advance(&mut self, landed: Landed, mut now_at: StepPosition) {
        self.reference = PassRef::Open(landed.pass);
        now_at.cursor = now_at.cursor.filter(|_| !landed.cursor_repeats);
        self.restart(now_at.step);
        self.positions.push(now_at);
    }

    /// Remembers that a step goes no further than the pages that are landed.
    pub fn end_step(&mut self, step: usize) {
        for position in self.positions.iter_mut().filter(|one| one.step == step) {
            position.cursor = None;
        }
    }

    /// Forgets where a step stood.
    pub fn restart(&mut self, step: usize) {
        self.positions.retain(|position| position.step != step);
    }

    /// The pass in the catalog, once it has landed a page.
    #[must_use]
    pub const fn id(&self) -> Option<PassId> {
        match self.reference {
            PassRef::Open(id) => Some(id),
            PassRef::New { .. } => None,
        }
    }

    /// Pages that its steps are configured to list at most; 0 where nothing says so.
    #[must_use]
    pub fn expected_pages(&self) -> u64 {
        listing_steps(&self.job)
            .map(|(_, step)| step.max_pages.unwrap_or_default())
            .sum()
    }

    /// Pages landed by the steps that list, in every run.
    #[must_use]
    pub fn pages(&self) -> u64 {
        self.positions.iter().map(|position| position.pages).sum()
    }
}

/// The position of a list.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Position {
    /// Before its first page.
    Start,
    /// Between two pages.
    At {
        /// The cursor of the next page.
        cursor: String,
        /// Pages landed.
        pages: u64,
        /// How many of them were empty, in a row at the end.
        empty_pages: u64,
    },
    /// After its last page.
    Done,
}

/// The steps of a job that list, with their indices.
pub fn listing_steps(job: &Job) -> impl Iterator<Item = (usize, &Step)> {
    job.steps
        .iter()
        .enumerate()
        .filter(|(_, step)| step.ids.is_none())
}

fn reference(job: &Job, region: &Region, open: Option<&OpenPass>, now: Timestamp) -> PassRef {
    match open {
        Some(pass) => PassRef::Open(pass.id),
        None => PassRef::New {
            job: job.name.clone(),
            region: region.code.clone(),
            started_at: now,
        },
    }
}
