//! What is due, and in which order: one rule for runs and previews.

use std::sync::Arc;
use std::time::Duration;

use super::steps::{Edited, fit};
use crate::catalog::{OpenPass, RegionState};
use crate::config::{Job, Region};
use crate::quota::Timestamp;

/// A tick that comes earlier than this is early.
pub const LONGEST_TOLERANCE: Duration = Duration::from_secs(5 * 60);

/// One region of a job, and what is known of it.
#[derive(Debug, Clone)]
pub struct Candidate {
    /// The job.
    pub job: Arc<Job>,
    /// The region.
    pub region: Arc<Region>,
    /// What the catalog knows of it, by the steps that the job has now.
    pub state: RegionState,
    /// How its unfinished pass was fitted to these steps.
    pub edited: Edited,
}

impl Candidate {
    /// A region of a job, of which the catalog knows this.
    #[must_use]
    pub fn of(job: &Arc<Job>, region: &Arc<Region>, mut state: RegionState) -> Self {
        let pass = state.unfinished.as_mut();
        Self {
            edited: pass.map(|pass| fit(job, region, pass)).unwrap_or_default(),
            job: Arc::clone(job),
            region: Arc::clone(region),
            state,
        }
    }

    /// When its last pass began that ended, whether complete or refused: each was a turn.
    #[must_use]
    pub fn last_turn(&self) -> Option<Timestamp> {
        self.state.last_complete.max(self.state.last_refused)
    }

    /// When it is due next; `None`: now, and always was.
    #[must_use]
    pub fn due_at(&self) -> Option<Timestamp> {
        Some(self.last_turn()? + self.job.every?)
    }

    /// Whether it is due, with the tolerance that a tick may come early.
    #[must_use]
    pub fn is_due(&self, now: Timestamp) -> bool {
        let tolerance = self
            .job
            .every
            .map_or(Duration::ZERO, |every| (every / 20).min(LONGEST_TOLERANCE));
        self.resumable(now).is_some() || self.due_at().is_none_or(|due| now >= due - tolerance)
    }

    /// The unfinished pass that goes on, if it is not too old for that.
    #[must_use]
    pub fn resumable(&self, now: Timestamp) -> Option<&OpenPass> {
        let young = |pass: &&OpenPass| now.since(pass.started_at) < self.job.resume_within;
        self.state.unfinished.as_ref().filter(young)
    }
}

/// Fairest first: unfinished passes, oldest first, then whoever has waited longest for a turn. A pass that had grown too old
/// was a turn too, until it was given up, or a region that is never done in time would leave the others nothing.
pub fn fairest_first(candidates: &mut [Candidate], now: Timestamp) {
    candidates.sort_by_key(|candidate| match candidate.resumable(now) {
        Some(pass) => (0, Some(pass.started_at), Some(pass.id)),
        // Of passes that began at the same instant, the one that was taken up first has waited longest.
        None if candidate.state.unfinished.is_some() => (1, Some(now), None),
        None => (
            1,
            candidate.last_turn().max(candidate.state.last_abandoned),
            candidate.state.last_complete_pass,
        ),
    });
}
