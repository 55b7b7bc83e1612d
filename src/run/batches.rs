//! The steps that ask for ids: full batches over all regions, nothing fresh, nothing twice.

use std::collections::HashSet;
use std::time::Duration;

use super::context::Context;
use super::lock::Held;
use super::shared_pass::{Batches, SharedPass, pending};
use super::steps::alike;
use super::stop_reason::StopReason;
use crate::catalog::{OpenBatch, PassId, PassScope, PendingId};
use crate::config::{Ids, Job, Region, Step};
use crate::quota::Timestamp;

const LOCK_POLL: Duration = Duration::from_millis(20);

/// Fetches what the listings of these passes name, and fills the last batch with what other passes wait for.
///
/// # Errors
/// When the catalog or the lock fails; what a batch meets is in the answer.
pub async fn fetch_batches(
    context: &Context,
    job: &Job,
    passes: &[PassId],
    batches: &mut Batches,
) -> Result<(), StopReason> {
    let _held = lock(context, job).await?;
    let shared = SharedPass::open(context, job, batches).await?;
    for (index, step) in job.steps.iter().enumerate() {
        if let Some(ids) = &step.ids {
            let _claim = claim(context, job, step).await?;
            let begun: Vec<OpenBatch> = shared
                .begun(index)
                .filter(|batch| !batches.gave_up(batch))
                .cloned()
                .collect();
            let begun_ids: HashSet<&String> = begun.iter().flat_map(|batch| &batch.ids).collect();
            let mut pending = pending(context, job, step, ids, PassScope::Open).await?;
            pending.retain(|one| {
                !batches.given_up.contains(&(index, one.id.clone())) && !begun_ids.contains(&one.id)
            });
            let own: HashSet<PassId> = passes.iter().copied().chain(shared.id().await).collect();
            let (mine, others) = each_once(&pending, &own);
            let fill = Fill {
                began: |one: &&PendingId| shared.began_of(one),
                job,
                step,
                size: batch_size(ids),
            };
            let filled = fill.batches(mine, others).into_iter();
            let fresh = filled.map(|(began, ids)| OpenBatch::new(index, ids, began));
            shared
                .fetch_all(step, begun.iter().cloned().chain(fresh).collect(), batches)
                .await;
        }
    }
    // What was got is fetched: only what was not need be asked for again.
    batches.waiting = if batches.given_up.is_empty() {
        HashSet::new()
    } else {
        shared.waiting().await?
    };
    shared.finish(batches).await
}

/// Another run's batches may hold what these passes wait for: its end is waited for.
async fn lock(context: &Context, job: &Job) -> Result<Held, StopReason> {
    wait_for(context, || try_lock(context, job)).await
}

/// Claims the ids that a step asks for, over all jobs and runs of this machine: another run may be fetching the same ones.
/// What it fetched until its end is not missing any more. A run claims the ids of one step at a time, behind the lock of
/// its job, so that no two runs wait for each other.
async fn claim(context: &Context, job: &Job, step: &Step) -> Result<Held, StopReason> {
    wait_for(context, || try_claim(context, job, step)).await
}

/// The same, or nothing where another run has them.
pub fn try_claim(context: &Context, job: &Job, step: &Step) -> Result<Option<Held>, StopReason> {
    let (upstream, records) = (&job.credential.upstream.name, &step.call.records);
    let kind = records
        .as_ref()
        .map_or(&*step.call.name, |records| &records.kind);
    let held = context.locks.take_ids(upstream, kind);
    held.map_err(|error| {
        StopReason::Failed(format!("cannot claim ids of {kind} of {upstream}: {error}"))
    })
}

async fn wait_for(
    context: &Context,
    take: impl Fn() -> Result<Option<Held>, StopReason>,
) -> Result<Held, StopReason> {
    loop {
        match take()? {
            Some(held) => return Ok(held),
            None if context.stop.signal().is_some() => return Err(StopReason::Interrupted(None)),
            None => context.stop.sleep(&*context.clock, LOCK_POLL).await,
        }
    }
}

/// Nothing where another run holds it.
pub fn try_lock(context: &Context, job: &Job) -> Result<Option<Held>, StopReason> {
    let held = context.locks.take(&job.name, Region::SHARED);
    held.map_err(|error| StopReason::Failed(format!("cannot lock job {}: {error}", job.name)))
}

/// Whether there is anything to fetch in batches.
pub fn asks_for_ids(job: &Job) -> bool {
    job.steps.iter().any(|step| step.ids.is_some())
}

/// How many ids a request holds.
pub fn batch_size(ids: &Ids) -> usize {
    usize::try_from(ids.batch).unwrap_or(usize::MAX).max(1)
}

/// Each id once, in the order of the passes: those that these passes name, and those that only others do.
fn each_once<'p>(
    pending: &'p [PendingId],
    own: &HashSet<PassId>,
) -> (Vec<&'p PendingId>, Vec<&'p PendingId>) {
    let mut seen = HashSet::new();
    let (mine, others): (Vec<&PendingId>, Vec<&PendingId>) =
        pending.iter().partition(|one| own.contains(&one.pass));
    let mut each_once = |all: Vec<&'p PendingId>| -> Vec<&'p PendingId> {
        all.into_iter().filter(|one| seen.insert(&one.id)).collect()
    };
    (each_once(mine), each_once(others))
}

/// How batches of a step are filled.
struct Fill<'a, F> {
    job: &'a Job,
    step: &'a Step,
    size: usize,
    /// When the pass of an id began.
    began: F,
}

impl<F: Fn(&&PendingId) -> Timestamp> Fill<'_, F> {
    /// Batches of our ids, each with the time with which it is rendered; the last one of each time is filled with others'.
    fn batches(
        self,
        mine: Vec<&PendingId>,
        others: Vec<&PendingId>,
    ) -> Vec<(Timestamp, Vec<String>)> {
        let mut others = alike(self.job, self.step, others, &self.began);
        let mut batches = Vec::new();
        for group in alike(self.job, self.step, mine, &self.began) {
            let mut all = group.all;
            let room = all.len().next_multiple_of(self.size) - all.len();
            let same = others.iter_mut().find(|one| one.request == group.request);
            all.extend(
                same.into_iter()
                    .flat_map(|one| one.all.drain(..))
                    .take(room),
            );
            let ids: Vec<String> = all.into_iter().map(|one| one.id.clone()).collect();
            let full = ids.chunks(self.size);
            batches.extend(full.map(|ids| (group.began, ids.to_vec())));
        }
        batches
    }
}
