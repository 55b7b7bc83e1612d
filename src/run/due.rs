//! Which regions are due, and in which order they walk. Runs, previews and forecasts share these rules.

use std::sync::Arc;
use std::time::Duration;

use super::Selection;
use super::steps::{Edited, fit};
use crate::catalog::{CatalogError, OpenPass, PassReader, RegionState};
use crate::config::{Job, Region};
use crate::quota::Timestamp;

/// How much earlier than due a region walks at most: a timer does not fire at exactly the same interval each time.
const LONGEST_TOLERANCE: Duration = Duration::from_secs(5 * 60);

/// A region of a job that may walk.
#[derive(Debug, Clone)]
pub struct Candidate {
    /// The job.
    pub job: Arc<Job>,
    /// The region.
    pub region: Arc<Region>,
    /// Its passes in the catalog. The steps of an unfinished one are those that the job has now.
    pub state: RegionState,
    /// How the unfinished pass was fitted to these steps.
    pub edited: Edited,
}

/// Returns every selected region with its state at `now`.
///
/// # Errors
/// When the catalog cannot be read.
pub async fn candidates(
    catalog: &dyn PassReader,
    selection: &Selection,
    now: Timestamp,
) -> Result<Vec<Candidate>, CatalogError> {
    let mut candidates = Vec::new();
    for (job, regions) in selection {
        let codes: Vec<String> = regions.iter().map(|region| region.code.clone()).collect();
        // A clock that is kept right is set back a little now and then. A pass that began minutes later still counts.
        // One that began much later ran under a wrong clock: it must not keep its region from being due until then.
        let until = now + LONGEST_TOLERANCE;
        let states = catalog.region_states(&job.name, &codes, until).await?;
        let paired = regions.iter().zip(states);
        candidates.extend(paired.map(|(region, state)| Candidate::new(job, region, state)));
    }
    Ok(candidates)
}

/// Returns the jobs of these candidates, each once, in their order.
pub fn jobs<'c>(candidates: impl IntoIterator<Item = &'c Candidate>) -> Vec<Arc<Job>> {
    let mut jobs: Vec<Arc<Job>> = Vec::new();
    for candidate in candidates {
        if jobs.iter().all(|job| job.name != candidate.job.name) {
            jobs.push(Arc::clone(&candidate.job));
        }
    }
    jobs
}

impl Candidate {
    fn new(job: &Arc<Job>, region: &Arc<Region>, mut state: RegionState) -> Self {
        let pass = state.unfinished.as_mut();
        Self {
            edited: pass.map(|pass| fit(job, region, pass)).unwrap_or_default(),
            job: Arc::clone(job),
            region: Arc::clone(region),
            state,
        }
    }

    /// Returns when its last turn began: a pass that ended, complete or refused. If a refused pass were no turn, a region that
    /// the upstream never serves would be first in every run and cost a unit each time.
    #[must_use]
    pub fn last_turn(&self) -> Option<Timestamp> {
        self.state.last_complete.max(self.state.last_refused)
    }

    /// Returns when it is due next; `None` where it is due at any time.
    #[must_use]
    pub fn due_at(&self) -> Option<Timestamp> {
        Some(self.last_turn()? + self.job.every?)
    }

    /// Whether it is due, or has an unfinished pass.
    #[must_use]
    pub fn is_due(&self, now: Timestamp) -> bool {
        let tolerance = self
            .job
            .every
            .map_or(Duration::ZERO, |every| (every / 20).min(LONGEST_TOLERANCE));
        self.resumable(now).is_some() || self.due_at().is_none_or(|due| now >= due - tolerance)
    }

    /// Returns its unfinished pass, unless that is older than `resume_within`.
    #[must_use]
    pub fn resumable(&self, now: Timestamp) -> Option<&OpenPass> {
        let young = |pass: &&OpenPass| now.since(pass.started_at) < self.job.resume_within;
        self.state.unfinished.as_ref().filter(young)
    }
}

/// Sorts candidates by fairness: unfinished passes first, the oldest one leading, then the region that has waited longest for a
/// turn. An abandoned pass counts as a turn until it was given up, or a region that is never done in time would leave the
/// others nothing.
pub fn fairest_first(candidates: &mut [Candidate], now: Timestamp) {
    candidates.sort_by_key(|candidate| match candidate.resumable(now) {
        Some(pass) => (0, Some(pass.started_at), Some(pass.id)),
        None if candidate.state.unfinished.is_some() => (1, Some(now), None),
        // Of passes that began at the same instant, the first one in the catalog has waited longest.
        None => (
            1,
            candidate.last_turn().max(candidate.state.last_abandoned),
            candidate.state.last_complete_pass,
        ),
    });
}
