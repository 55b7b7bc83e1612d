//! How often a job could run, and over how many regions, so that nothing is refused: the schedule is simulated for each guess.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use serde::Serialize;

use super::super::simulation::{Balance, Bounds, Snapshot};
use super::Plan;
use crate::run::Selection;
use ingest_catalog::CatalogError;
use ingest_config::Job;
use ingest_quota::Timestamp;

const MINUTE: u64 = 60;
const HOUR: u64 = 60 * MINUTE;
/// The intervals that people choose, in seconds, shortest first.
const SPANS: [u64; 14] = [
    15 * MINUTE,
    30 * MINUTE,
    HOUR,
    2 * HOUR,
    3 * HOUR,
    4 * HOUR,
    6 * HOUR,
    8 * HOUR,
    12 * HOUR,
    24 * HOUR,
    48 * HOUR,
    72 * HOUR,
    168 * HOUR,
    336 * HOUR,
];

/// How often a job could run, and over how many regions, all else as it is.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "serve", derive(schemars::JsonSchema))]
pub struct JobFit {
    /// The job.
    pub job: String,
    /// Its `every`, in seconds; `None`: at every run.
    pub every_seconds: Option<u64>,
    /// The shortest common `every` with which nothing is refused, in seconds.
    pub shortest_every_seconds: Option<u64>,
    /// How many regions it has.
    pub regions: usize,
    /// The most of its regions, from the first on, with which nothing is refused.
    pub most_regions: usize,
}

/// Why a simulation of what fits has no result.
pub enum FitError {
    /// The time for the simulation is over.
    Late,
    /// The catalog cannot be read.
    Catalog(CatalogError),
}

impl From<CatalogError> for FitError {
    fn from(error: CatalogError) -> Self {
        Self::Catalog(error)
    }
}

pub async fn fits(
    snapshot: &Snapshot,
    balances: &HashMap<String, Balance>,
    plan: Plan<'_>,
) -> Result<Vec<JobFit>, FitError> {
    let all_fits = refuses_nothing(snapshot, balances, plan).await?;
    let between = shortest_between(plan.starts).as_secs();
    let mut fits = Vec::new();
    for (job, regions) in plan.selection {
        let with_every = |index: usize| {
            let every = SPANS.get(index).copied().map(Duration::from_secs);
            changed(plan.selection, job, |job, _| job.every = every)
        };
        let with_regions = |fewer: usize| {
            changed(plan.selection, job, |_, regions| {
                regions.truncate(regions.len() - fewer)
            })
        };
        let spans = if all_fits {
            spans_up_to(job)
        } else {
            SPANS.len()
        };
        let every = first_that_fits(spans, with_every, snapshot, balances, plan).await?;
        let fewer = match all_fits {
            true => Some(0),
            false => {
                first_that_fits(regions.len() + 1, with_regions, snapshot, balances, plan).await?
            }
        };
        fits.push(JobFit {
            job: job.name.clone(),
            every_seconds: job.every.map(|every| every.as_secs()),
            shortest_every_seconds: every
                .and_then(|index| SPANS.get(index).copied())
                .map(|every| every.max(between)),
            regions: regions.len(),
            most_regions: fewer.map_or(0, |fewer| regions.len() - fewer),
        });
    }
    Ok(fits)
}

/// Returns the shortest time between two runs. No job can run more often, whatever its `every`.
fn shortest_between(starts: &[Timestamp]) -> Duration {
    starts
        .windows(2)
        .filter_map(|pair| Some(pair.last()?.since(*pair.first()?)))
        .min()
        .unwrap_or_default()
}

/// Returns how many of the spans to try where a job fits as it is: up to the first that is as long as its own.
fn spans_up_to(job: &Job) -> usize {
    let own = job.every.map_or(0, |every| every.as_secs());
    SPANS
        .iter()
        .position(|span| *span >= own)
        .map_or(SPANS.len(), |index| index + 1)
}

/// Returns the selection with one job changed.
fn changed(
    selection: &Selection,
    job: &Arc<Job>,
    change: impl Fn(&mut Job, &mut Vec<Arc<ingest_config::Region>>),
) -> Selection {
    let mut selection = selection.clone();
    for (one, regions) in selection.iter_mut().filter(|(one, _)| one.name == job.name) {
        let mut own = Job::clone(one);
        change(&mut own, regions);
        *one = Arc::new(own);
    }
    selection
}

/// Returns the first guess with which nothing is refused. Each guess charges less than the one before, so bisection finds it.
async fn first_that_fits(
    guesses: usize,
    guess: impl Fn(usize) -> Selection,
    snapshot: &Snapshot,
    balances: &HashMap<String, Balance>,
    plan: Plan<'_>,
) -> Result<Option<usize>, FitError> {
    let (mut from, mut to) = (0, guesses);
    while from < to {
        let middle = from + (to - from) / 2;
        let selection = guess(middle);
        let fits = refuses_nothing(
            snapshot,
            balances,
            Plan {
                selection: &selection,
                ..plan
            },
        )
        .await?;
        if fits { to = middle } else { from = middle + 1 }
    }
    Ok((from < guesses).then_some(from))
}

/// Simulates the schedule up to the first charge that is refused.
async fn refuses_nothing(
    snapshot: &Snapshot,
    balances: &HashMap<String, Balance>,
    plan: Plan<'_>,
) -> Result<bool, FitError> {
    let simulation = snapshot.simulation(plan.selection, balances, Bounds::Enforced, plan.from);
    let mut jobs = plan.selection.iter();
    let has_fallbacks = jobs.any(|(job, _)| !job.fallbacks.is_empty());
    for start in plan.starts {
        if plan.is_late().await {
            return Err(FitError::Late);
        }
        let report = simulation.run(*start, plan.concurrency).await?;
        // A job with several credentials goes on where one is refused.
        let refused = match has_fallbacks {
            true => report.stopped_by.is_some(),
            false => !simulation.refused().is_empty(),
        };
        if refused {
            return Ok(false);
        }
    }
    Ok(true)
}
