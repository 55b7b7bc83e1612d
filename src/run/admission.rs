//! Admission: how many regions walk together. As many as are expected to complete.
//!
//! Walking all regions together on a small budget would complete none of them: each would stop in its middle.

use std::collections::VecDeque;
use std::sync::Arc;

use super::candidates::{by_job, jobs};
use super::context::Context;
use super::due::Candidate;
use super::estimate::{Estimator, PassEstimate, expected_cost};
use super::remaining::Remaining;
use super::stop_reason::StopReason;
use ingest_config::Job;
use ingest_quota::Cost;

/// What each job charges.
type Costs = Vec<(Arc<Job>, Cost)>;

/// What one run knows when it admits regions.
#[derive(Default)]
pub struct Admission {
    /// The remaining units, and how many requests the run had made when it read them.
    read: Option<(u64, Remaining)>,
}

impl Admission {
    /// Removes the regions that walk next from the front of the queue: at least one. `requests`: the number of requests
    /// of this run so far. Behind an exhausted limit, regions that make none are admitted one by one, and the units are not read
    /// again for each of them.
    pub async fn next(
        &mut self,
        context: &Context,
        queue: &mut VecDeque<Candidate>,
        requests: u64,
    ) -> Result<Vec<Candidate>, StopReason> {
        let (_, remaining) = match self.read.take() {
            Some(read) if read.0 == requests => self.read.insert(read),
            Some(_) | None => {
                let remaining = Remaining::read(context, &jobs(&*queue)).await;
                self.read.insert((requests, remaining))
            }
        };
        learn_slice_size(context, queue).await?;
        admit_regions(context, queue, remaining).await
    }
}

/// Reads the pages of the last complete slice of the region in front, if the size of its slices is not known yet. The other slices
/// of the region are expected to have as many.
async fn learn_slice_size(
    context: &Context,
    queue: &mut VecDeque<Candidate>,
) -> Result<(), StopReason> {
    let Some(first) = queue.front().filter(|one| has_unknown_size(one)) else {
        return Ok(());
    };
    let (job, region) = (Arc::clone(&first.job), first.region.code.clone());
    let codes = [region.clone()];
    let last = context.catalog.last_pages(&job.name, &codes, 1);
    let mut last = context.on_catalog(&job.name, last).await?;
    let Some(last) = last.pop().and_then(|mut passes| passes.pop()) else {
        return Ok(());
    };
    let is_alike = |one: &&mut Candidate| one.job.name == job.name && one.region.code == region;
    for one in queue.iter_mut().filter(is_alike) {
        one.state.last_pages.clone_from(&last);
    }
    Ok(())
}

/// Whether nothing says how large the slice of a candidate is.
fn has_unknown_size(candidate: &Candidate) -> bool {
    candidate.backfill.is_some() && candidate.state.last_pages.is_empty()
}

async fn admit_regions(
    context: &Context,
    queue: &mut VecDeque<Candidate>,
    remaining: &Remaining,
) -> Result<Vec<Candidate>, StopReason> {
    let all = &*queue.make_contiguous();
    // Once a limit is exhausted, the regions behind it are admitted one by one: none may cost a look at all the others.
    let fit = most_that_fit(all.len(), |count| {
        remaining.cover(&least(context, front(all, count)))
    });
    // Most runs have enough for the worst case, or wait for all of their limits. They need no estimate, which reads the listings
    // of earlier passes.
    if fit == all.len() && covers_all(context, all, remaining).await? {
        return Ok(std::mem::take(queue).into());
    }
    let front = front(all, fit);
    // One always walks: the ledger decides on each of its requests.
    if fit == 1 {
        return Ok(queue.drain(..1).collect());
    }
    let mut estimates = Vec::new();
    for (job, candidates) in by_job(front) {
        let passes = estimator(context, &job).passes(&candidates).await?;
        estimates.push((job, passes));
    }
    let count = most_that_fit(walk_together(front), |count| {
        remaining.cover(&costs(self::front(front, count), &estimates))
    });
    Ok(queue.drain(..count.min(queue.len())).collect())
}

/// Whether the whole queue may walk, whatever it charges.
async fn covers_all(
    context: &Context,
    queue: &[Candidate],
    remaining: &Remaining,
) -> Result<bool, StopReason> {
    let jobs = jobs(queue);
    if jobs.iter().all(|job| remaining.only_pace(job)) {
        return Ok(true);
    }
    let most = most(context, queue).await?;
    Ok(most.is_some_and(|most| remaining.cover(&most)))
}

fn front(queue: &[Candidate], count: usize) -> &[Candidate] {
    queue.get(..count).unwrap_or(queue)
}

/// Returns what these regions charge at least, which needs no catalog.
fn least(context: &Context, front: &[Candidate]) -> Costs {
    let cost = |(job, candidates): (Arc<Job>, Vec<&Candidate>)| {
        let least = estimator(context, &job).least(&candidates);
        (job, least)
    };
    by_job(front).into_iter().map(cost).collect()
}

/// Returns how many regions from the front of the queue may walk together at all. Slices wait until everything else was walked.
/// Before the first slice of a region is complete, nothing says how large a slice is, so they walk one by one: several could all
/// stop in their middle.
fn walk_together(queue: &[Candidate]) -> usize {
    let ordinary = queue.iter().take_while(|one| one.backfill.is_none());
    match (ordinary.count(), queue.first()) {
        (0, Some(first)) if has_unknown_size(first) => 1,
        (0, _) => queue.len(),
        (ordinary, _) => ordinary,
    }
}

/// Returns what the whole queue charges at most; `None` where nothing bounds that.
async fn most(context: &Context, queue: &[Candidate]) -> Result<Option<Costs>, StopReason> {
    let mut costs = Vec::new();
    for (job, candidates) in by_job(queue) {
        match estimator(context, &job).most(&candidates).await? {
            Some(cost) => costs.push((job, cost)),
            None => return Ok(None),
        }
    }
    Ok(Some(costs))
}

fn estimator<'a>(context: &'a Context, job: &'a Job) -> Estimator<'a> {
    Estimator {
        catalog: &context.catalog,
        job,
        now: context.clock.now(),
    }
}

/// Returns what the front of the queue is expected to charge. `estimates` has the passes of the whole queue, by job and in its
/// order.
fn costs(front: &[Candidate], estimates: &[(Arc<Job>, Vec<PassEstimate>)]) -> Costs {
    // The front is the beginning of the queue, so its jobs are the first of the estimates. A job without a region in front reserves
    // nothing of its `leave` yet.
    let jobs = by_job(front).into_iter().zip(estimates);
    let costs = jobs.map(|((job, candidates), (_, passes))| {
        let passes = passes.get(..candidates.len()).unwrap_or(passes);
        let cost = expected_cost(&job, passes);
        (job, cost)
    });
    costs.collect()
}

/// Returns how many regions fit, and at least one. More regions never cost less, so bisection finds it, in the range up to twice
/// the number: it looks at no region far behind.
fn most_that_fit(regions: usize, fit: impl Fn(usize) -> bool) -> usize {
    let (mut fits, mut too_many) = (1, regions + 1);
    while too_many - fits > 1 {
        let middle = fits.midpoint(too_many).min(2 * fits);
        if fit(middle) {
            fits = middle
        } else {
            too_many = middle
        }
    }
    fits
}

#[cfg(test)]
mod tests {
    use super::super::due::tests::regions;
    use super::*;

    #[test]
    fn as_many_regions_walk_as_fit_and_at_least_one() {
        for regions in 1..40 {
            for fit in 0..=regions {
                let found = most_that_fit(regions, |count| count <= fit);
                assert_eq!(found, fit.max(1), "{fit} of {regions}");
            }
        }
    }

    #[test]
    fn no_region_far_behind_those_that_fit_is_looked_at() {
        let farthest = std::cell::Cell::new(0);
        let fit = |count: usize| {
            farthest.set(farthest.get().max(count));
            count <= 3
        };
        assert_eq!(most_that_fit(10_000, fit), 3);
        assert!(farthest.get() <= 6, "{}", farthest.get());
    }

    #[test]
    fn slices_walk_one_by_one_until_one_says_how_large_they_are_and_behind_all_others() {
        let queue = |last_pages: &[(usize, u64)]| {
            let mut slices = regions(Default::default());
            for slice in &mut slices {
                slice.backfill = Some(Arc::default());
                slice.state.last_pages = last_pages.to_vec();
            }
            slices
        };
        assert_eq!(walk_together(&queue(&[])), 1);
        assert_eq!(walk_together(&queue(&[(0, 3)])), 4);
        let mut others_first = regions(Default::default());
        others_first.extend(queue(&[]));
        assert_eq!(walk_together(&others_first), 4);
    }
}
