//! How many regions walk side by side: as many as are expected to fit to their end.
//!
//! Walking all regions at once on a small budget completes none of them: each stops in its middle.

use std::collections::HashMap;
use std::sync::Arc;

use super::context::Context;
use super::due::Candidate;
use super::estimate::{self, PassEstimate, estimate_passes, expected_cost};
use super::stop_reason::StopReason;
use crate::config::Job;
use crate::ledger::Available;
use crate::quota::Cost;

/// Takes the regions that walk next from the front of the queue: at least one.
///
/// # Errors
/// When the catalog cannot be asked.
pub async fn admit_regions(
    context: &Context,
    queue: &mut Vec<Candidate>,
) -> Result<Vec<Candidate>, StopReason> {
    let room = Room::of(context, queue).await;
    if most(context, queue)
        .await?
        .is_some_and(|most| room.holds(&most))
    {
        return Ok(std::mem::take(queue));
    }
    let estimates = pass_estimates(context, queue).await?;
    let count = most_that_fit(queue.len(), |count| {
        room.holds(&costs(queue, &estimates, count))
    });
    Ok(queue.drain(..count.min(queue.len())).collect())
}

/// What all of them charge at most, by job, where that is bounded: whatever is expected, it is no more.
async fn most(
    context: &Context,
    queue: &[Candidate],
) -> Result<Option<Vec<(Arc<Job>, Cost)>>, StopReason> {
    let mut costs = Vec::new();
    for job in jobs(queue) {
        let of_job: Vec<&Candidate> = queue
            .iter()
            .filter(|one| one.job.name == job.name)
            .collect();
        match estimate::most(&*context.catalog, &job, &of_job, context.clock.now()).await? {
            Some(cost) => costs.push((job, cost)),
            None => return Ok(None),
        }
    }
    Ok(Some(costs))
}

/// How many regions fit, and at least one: found by halving, since more regions never cost less.
fn most_that_fit(regions: usize, fit: impl Fn(usize) -> bool) -> usize {
    let (mut fits, mut too_many) = (1, regions + 1);
    while too_many - fits > 1 {
        let middle = fits.midpoint(too_many);
        if fit(middle) {
            fits = middle
        } else {
            too_many = middle
        }
    }
    fits
}

/// What each candidate is expected to take, in their order.
///
/// # Errors
/// When the catalog cannot be asked.
pub async fn pass_estimates(
    context: &Context,
    queue: &[Candidate],
) -> Result<Vec<PassEstimate>, StopReason> {
    let mut estimates = vec![PassEstimate::default(); queue.len()];
    for job in jobs(queue) {
        let indices: Vec<usize> = queue
            .iter()
            .enumerate()
            .filter(|(_, one)| one.job.name == job.name)
            .map(|(index, _)| index)
            .collect();
        let candidates: Vec<&Candidate> = indices
            .iter()
            .filter_map(|index| queue.get(*index))
            .collect();
        let expected =
            estimate_passes(&*context.catalog, &job, &candidates, context.clock.now()).await?;
        for (index, pass_estimate) in indices.into_iter().zip(expected) {
            if let Some(place) = estimates.get_mut(index) {
                *place = pass_estimate;
            }
        }
    }
    Ok(estimates)
}

/// The jobs of these candidates, each once, in their order.
#[must_use]
pub fn jobs(queue: &[Candidate]) -> Vec<Arc<Job>> {
    let mut jobs: Vec<Arc<Job>> = Vec::new();
    for candidate in queue {
        if jobs.iter().all(|job| job.name != candidate.job.name) {
            jobs.push(Arc::clone(&candidate.job));
        }
    }
    jobs
}

/// What the first `count` of the queue are expected to charge, by job.
fn costs(queue: &[Candidate], estimates: &[PassEstimate], count: usize) -> Vec<(Arc<Job>, Cost)> {
    let front = queue.get(..count).unwrap_or(queue);
    let cost = |job: Arc<Job>| {
        let of_job = front
            .iter()
            .zip(estimates)
            .filter(|(one, _)| one.job.name == job.name);
        let passes: Vec<&PassEstimate> = of_job.map(|(_, pass_estimate)| pass_estimate).collect();
        let cost = expected_cost(&job, &passes);
        (job, cost)
    };
    jobs(front).into_iter().map(cost).collect()
}

/// What is left to each account; unknown where nobody can tell.
struct Room {
    left: HashMap<String, Available>,
}

impl Room {
    async fn of(context: &Context, queue: &[Candidate]) -> Self {
        let mut left = HashMap::new();
        for job in jobs(queue) {
            let account = &job.credential.account;
            if let Ok(of_account) = context.ledger.available(account).await {
                left.insert(account.name.clone(), of_account);
            }
        }
        Self { left }
    }

    /// Whether all of this fits side by side: each job leaves what it must of what all of them take. What is unknown does
    /// not fit.
    fn holds(&self, costs: &[(Arc<Job>, Cost)]) -> bool {
        let mut totals: HashMap<&str, Cost> = HashMap::new();
        for (job, cost) in costs {
            totals
                .entry(&job.credential.account.name)
                .or_default()
                .add(cost);
        }
        let fits = |(job, cost): &(Arc<Job>, Cost)| {
            let account = job.credential.account.name.as_str();
            let total = totals.get(account).cloned().unwrap_or_default();
            match self.left.get(account) {
                Some(Available::Metered(usages)) => cost.iter().all(|(limit, _)| {
                    let usage = usages.iter().find(|usage| usage.limit == *limit);
                    total.of(limit) + job.leave.of(limit)
                        <= usage.map(|usage| usage.remaining).unwrap_or_default()
                }),
                Some(Available::Unmetered(units)) => total.largest() <= *units,
                None => false,
            }
        };
        costs.iter().all(fits)
    }
}
