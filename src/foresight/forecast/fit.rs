//! How often a job could run, and over how many regions, so that nothing is refused of it and of the jobs that charge its accounts:
//! their schedule is simulated for each guess.

use std::collections::HashSet;
use std::sync::Arc;
use std::time::Duration;

use serde::Serialize;

use super::super::simulation::{Balances, Bounds, Snapshot};
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

/// Returns what fits of each job. `all_fits`: whether nothing is refused as it is; `None` where that is not known.
pub async fn fits(
    snapshot: &Snapshot,
    balances: &Balances,
    plan: Plan<'_>,
    all_fits: Option<bool>,
) -> Result<Vec<JobFit>, FitError> {
    let guesses = Guesses {
        snapshot,
        balances,
        plan,
    };
    let all_fits = match all_fits {
        Some(all_fits) => all_fits,
        None => guesses.fit(plan.selection).await?,
    };
    let between = shortest_between(plan.starts).as_secs();
    let groups = by_account(plan.selection);
    let mut fits = Vec::new();
    for (job, regions) in plan.selection {
        let group = groups.iter().find(|group| contains(group, job));
        let group = group.unwrap_or(plan.selection);
        let with_every = |index: usize| {
            let every = SPANS.get(index).copied().map(Duration::from_secs);
            changed(group, job, |job, _| job.every = every)
        };
        let with_regions = |fewer: usize| {
            changed(group, job, |_, regions| {
                regions.truncate(regions.len() - fewer)
            })
        };
        let fewer = match all_fits {
            true => Some(0),
            false => guesses.first(regions.len(), None, with_regions).await?,
        };
        // Where the other jobs alone do not fit, no interval helps.
        let every = match fewer {
            Some(_) => {
                let fits = as_long_as_now(job).filter(|_| all_fits);
                guesses.first(SPANS.len() - 1, fits, with_every).await?
            }
            None => None,
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

/// Returns the jobs in groups that charge no account of each other: whether a job fits depends on its own group only.
fn by_account(selection: &Selection) -> Vec<Selection> {
    let mut groups: Vec<(HashSet<&str>, Vec<usize>)> = Vec::new();
    for (at, (job, _)) in selection.iter().enumerate() {
        let names = job.credentials().map(|one| &*one.account.name);
        let mut group = (names.collect(), vec![at]);
        // A job with several credentials can join several groups.
        let shares = |other: &mut (HashSet<&str>, _)| !other.0.is_disjoint(&group.0);
        let joined: Vec<_> = groups.extract_if(.., shares).collect();
        for (accounts, jobs) in joined {
            group.0.extend(accounts);
            group.1.extend(jobs);
        }
        groups.push(group);
    }
    let in_order = |(_, mut jobs): (_, Vec<usize>)| {
        jobs.sort_unstable();
        let jobs = jobs.into_iter();
        jobs.filter_map(|at| selection.get(at).cloned()).collect()
    };
    groups.into_iter().map(in_order).collect()
}

fn contains(group: &Selection, job: &Job) -> bool {
    group.iter().any(|(one, _)| one.name == job.name)
}

/// Whether a job has several credentials: it goes on where one is refused.
pub fn has_fallbacks(selection: &Selection) -> bool {
    let mut jobs = selection.iter();
    jobs.any(|(job, _)| !job.fallbacks.is_empty())
}

/// Returns the shortest time between two runs. No job can run more often, whatever its `every`.
fn shortest_between(starts: &[Timestamp]) -> Duration {
    starts
        .windows(2)
        .filter_map(|pair| Some(pair.last()?.since(*pair.first()?)))
        .min()
        .unwrap_or_default()
}

/// Returns the first of the spans that is as long as a job's own interval.
fn as_long_as_now(job: &Job) -> Option<usize> {
    let own = job.every.map_or(0, |every| every.as_secs());
    SPANS.iter().position(|span| *span >= own)
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

/// Guesses, each of which is simulated.
struct Guesses<'a> {
    snapshot: &'a Snapshot,
    balances: &'a Balances,
    plan: Plan<'a>,
}

impl Guesses<'_> {
    /// Returns the first guess of those up to `last` with which nothing is refused. Each charges less than the one before, so
    /// bisection finds it. `fits`: one that is known to fit.
    async fn first(
        &self,
        last: usize,
        fits: Option<usize>,
        guess: impl Fn(usize) -> Selection,
    ) -> Result<Option<usize>, FitError> {
        // Where the last guess does not fit, none does.
        if fits.is_none() && !self.fit(&guess(last)).await? {
            return Ok(None);
        }
        let (mut from, mut to) = (0, fits.unwrap_or(last));
        while from < to {
            // Not the middle: the simulation of a guess that does not fit ends at a refusal, mostly of one of the first runs.
            let next = from + (to - from) / 3;
            if self.fit(&guess(next)).await? {
                to = next;
            } else {
                from = next + 1;
            }
        }
        Ok(Some(from))
    }

    /// Simulates the schedule up to the first charge that is refused.
    async fn fit(&self, selection: &Selection) -> Result<bool, FitError> {
        let plan = self.plan;
        let has_fallbacks = has_fallbacks(selection);
        let bounds = match has_fallbacks {
            true => Bounds::Enforced,
            false => Bounds::Decisive,
        };
        let simulation = self
            .snapshot
            .simulation(selection, self.balances, bounds, plan.from)
            .await?;
        for start in plan.starts {
            if plan.is_late().await {
                return Err(FitError::Late);
            }
            let report = simulation.run(*start, plan.concurrency).await?;
            // One credential that is refused decides nothing where another goes on: whether the run stopped does.
            let refused = match has_fallbacks {
                true => report.stopped_by.is_some(),
                false => simulation.has_refused(),
            };
            if refused {
                return Ok(false);
            }
            if simulation.is_cut() {
                return Err(FitError::Late);
            }
        }
        Ok(true)
    }
}
