//! When the backfills of a schedule are complete.

use std::time::Duration;

use serde::Serialize;

use super::super::simulation::Simulation;
use super::Plan;
use crate::run::{Candidate, each_region};
use ingest_catalog::CatalogError;
use ingest_quota::Timestamp;

/// When a backfill is complete.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct BackfillForecast {
    /// The job.
    pub job: String,
    /// How many slices are left, over all regions.
    pub slices_left: u64,
    /// When the last of them is complete; `None` if no end is in sight.
    pub complete_at: Option<Timestamp>,
    /// How many days that takes.
    pub days: Option<f64>,
    /// Whether the time was computed from the progress of the simulated runs, because they do not reach the end.
    pub extrapolated: bool,
}

const DAY: f64 = 24.0 * 60.0 * 60.0;

/// The progress of the backfills while a schedule is simulated.
pub struct Backfills {
    all: Vec<Progress>,
}

struct Progress {
    job: String,
    at_first: u64,
    left: u64,
    complete_at: Option<Timestamp>,
}

impl Backfills {
    /// Begins with the slices that are left now.
    ///
    /// # Errors
    /// When the catalog cannot be read.
    pub async fn new(simulation: &Simulation, plan: Plan<'_>) -> Result<Self, CatalogError> {
        let sliced = plan
            .selection
            .iter()
            .filter(|(job, _)| job.slices.is_some());
        let progress = sliced.map(|(job, _)| Progress {
            job: job.name.clone(),
            at_first: 0,
            left: 0,
            complete_at: None,
        });
        let mut backfills = Self {
            all: progress.collect(),
        };
        backfills.look(simulation, plan.from).await?;
        for one in &mut backfills.all {
            one.at_first = one.left;
        }
        Ok(backfills)
    }

    /// Notes which are complete after the run that started at `start`.
    ///
    /// # Errors
    /// When the catalog cannot be read.
    pub async fn look(
        &mut self,
        simulation: &Simulation,
        start: Timestamp,
    ) -> Result<(), CatalogError> {
        // Most schedules have no backfill, and this is asked after each of their runs.
        if self.are_complete() {
            return Ok(());
        }
        let candidates = simulation.candidates().await?;
        for one in self.all.iter_mut().filter(|one| one.complete_at.is_none()) {
            let of_job = |candidate: &&Candidate| candidate.job.name == one.job;
            let regions = each_region(candidates.iter().filter(of_job));
            let left = regions.filter_map(|region| Some(region.backfill.as_ref()?.left));
            one.left = left.sum();
            one.complete_at = (one.left == 0).then_some(start);
        }
        Ok(())
    }

    fn left(&self) -> u64 {
        self.all.iter().map(|one| one.left).sum()
    }

    fn are_complete(&self) -> bool {
        self.all.iter().all(|one| one.complete_at.is_some())
    }

    /// Simulates further runs until all are complete, none gets further, the plan has no more, or its time is over.
    ///
    /// # Errors
    /// When the catalog cannot be read.
    pub async fn finish(
        mut self,
        simulation: &Simulation,
        plan: Plan<'_>,
    ) -> Result<Vec<BackfillForecast>, CatalogError> {
        let mut until = plan.until;
        let (turn, mut least) = (turn(plan), (self.left(), until));
        for start in plan.later {
            let stands = until.since(least.1) > turn;
            if self.are_complete() || stands || plan.is_late().await {
                break;
            }
            simulation.run(*start, plan.concurrency).await?;
            if simulation.is_cut() {
                break;
            }
            self.look(simulation, *start).await?;
            until = *start;
            if self.left() < least.0 {
                least = (self.left(), until);
            }
        }
        let simulated = until.since(plan.from);
        let all = self.all.into_iter();
        Ok(all.map(|one| one.forecast(plan.from, simulated)).collect())
    }
}

/// Returns after how long without a further slice none comes: every job has run, and every limit has returned what was charged.
fn turn(plan: Plan<'_>) -> Duration {
    let every = plan.selection.iter().filter_map(|(job, _)| job.every);
    let credentials = plan.selection.iter().flat_map(|(job, _)| job.credentials());
    let windows = credentials.map(|one| one.account.longest_window());
    every.chain(windows).max().unwrap_or_default() * 2
}

impl Progress {
    fn forecast(self, from: Timestamp, simulated: Duration) -> BackfillForecast {
        let end = self.complete_at.or_else(|| {
            // With `to = "now"` slices become due meanwhile, so more can be left than at first.
            let done = self
                .at_first
                .checked_sub(self.left)
                .filter(|done| *done > 0)?;
            let seconds = simulated.as_secs_f64() * ratio(self.at_first, done);
            Some(from + Duration::try_from_secs_f64(seconds).ok()?)
        });
        BackfillForecast {
            job: self.job,
            slices_left: self.at_first,
            days: end.map(|end| end.since(from).as_secs_f64() / DAY),
            extrapolated: self.complete_at.is_none() && end.is_some(),
            complete_at: end,
        }
    }
}

/// Exact up to 2^53, more slices than there are.
#[allow(clippy::cast_precision_loss)]
fn ratio(all: u64, part: u64) -> f64 {
    all as f64 / part as f64
}
