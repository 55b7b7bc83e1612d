//! The steps that request ids: full batches over all regions, without ids that are fresh, each id once.

use std::time::Duration;

// Each id of each region is looked up, in a simulation of many regions most of all.
use foldhash::{HashSet, HashSetExt};

use super::context::Context;
use super::shared_pass::{Batches, SharedPass, pending};
use super::steps::{alike, ids_of};
use super::stop_reason::StopReason;
use ingest_catalog::{Lease, OpenBatch, PassId, PendingId, Resource, Taken};
use ingest_config::{Ids, Job, Region, Step};
use ingest_quota::Timestamp;

/// How long a run waits between two attempts to take a resource that another run holds: at first, and at most.
const LEASE_POLL: Duration = Duration::from_millis(20);
const SLOWEST_POLL: Duration = Duration::from_millis(500);

/// Fetches the ids that the listings of these passes name, and fills the last batch with ids that other passes wait for. Passes that
/// stopped half-way only fill it: a short budget goes to those that can complete.
///
/// # Errors
/// When the catalog or a lease fails. Failures of requests are in `batches`.
pub async fn fetch_batches(
    context: &Context,
    job: &Job,
    passes: &[PassId],
    batches: &mut Batches,
) -> Result<(), StopReason> {
    let _lease = take(context, &batches_of(job)).await?;
    let shared = SharedPass::open(context, job, batches).await?;
    for (index, step) in job.steps.iter().enumerate() {
        if step.ids.is_some() {
            let _ids = take(context, &ids_of(job, step)).await?;
            let work = work(&shared, (index, step), passes).await?;
            shared.fetch_all(step, work, batches).await;
            shared.link_parents(index, step).await?;
            batches.note_nothing_since(job, step);
        }
    }
    // Without a failed batch nothing is pending, so the query is saved.
    batches.waiting = match batches.has_given_up {
        true => shared.waiting().await?,
        false => Default::default(),
    };
    shared.finish(batches).await
}

/// Returns the batches of a step: those that an earlier run left between two pages, and new ones.
async fn work(
    shared: &SharedPass<'_>,
    (index, step): (usize, &Step),
    passes: &[PassId],
) -> Result<Vec<OpenBatch>, StopReason> {
    let begun: Vec<OpenBatch> = shared.begun(index).cloned().collect();
    let begun_ids: HashSet<&String> = begun.iter().flat_map(|batch| &batch.ids).collect();
    let mut pending = pending(shared.context, shared.job, step).await?;
    pending.retain(|one| !begun_ids.contains(&one.id));
    let shared_id = shared.id().await;
    let own: HashSet<PassId> = passes.iter().copied().chain(shared_id).collect();
    let (mine, others) = each_once(&pending, &own);
    let fill = Fill {
        began: |one: &&PendingId| shared.began_of(one, shared_id),
        job: shared.job,
        step,
        size: step.ids.as_ref().map_or(1, batch_size),
    };
    let filled = fill.batches(mine, others).into_iter();
    let fresh = filled.map(|(began, ids)| OpenBatch::new(index, ids, began));
    Ok(begun.iter().cloned().chain(fresh).collect())
}

/// The batches of a job. One run at a time fetches them: its batches can contain what the passes of another run wait for.
pub fn batches_of(job: &Job) -> Resource {
    Resource::region(&job.name, Region::SHARED)
}

/// Takes a resource; `None` while another run holds it.
pub async fn try_take(context: &Context, resource: &Resource) -> Result<Option<Lease>, StopReason> {
    let taken = context.leases.take(resource);
    match context.waits.on(resource, "the lease", taken).await? {
        Taken::Granted(lease) => Ok(Some(lease)),
        Taken::Held(_) => Ok(None),
    }
}

/// Takes a resource, and waits while another run holds it.
async fn take(context: &Context, resource: &Resource) -> Result<Lease, StopReason> {
    let mut pause = LEASE_POLL;
    loop {
        match try_take(context, resource).await? {
            Some(lease) => return Ok(lease),
            None if context.stop.signal().is_some() => return Err(StopReason::Interrupted(None)),
            None => {
                let pause = context.stop.sleep(&*context.clock, pause);
                let what = "the run that holds them";
                context.waits.on(resource, what, pause).await;
            }
        }
        pause = (pause * 2).min(SLOWEST_POLL);
    }
}

/// Returns how many ids one request contains.
pub fn batch_size(ids: &Ids) -> usize {
    usize::try_from(ids.batch).unwrap_or(usize::MAX).max(1)
}

/// Returns each id once, in the order of the passes: those that `own` passes name, and those that only others name.
fn each_once<'p>(
    pending: &'p [PendingId],
    own: &HashSet<PassId>,
) -> (Vec<&'p PendingId>, Vec<&'p PendingId>) {
    let mut seen = HashSet::with_capacity(pending.len());
    let (mine, others): (Vec<&PendingId>, Vec<&PendingId>) =
        pending.iter().partition(|one| own.contains(&one.pass));
    let mut each_once = |all: Vec<&'p PendingId>| -> Vec<&'p PendingId> {
        all.into_iter().filter(|one| seen.insert(&one.id)).collect()
    };
    // In this order: an id that both name is one of ours, which must be fetched, and not one that only fills a batch.
    (each_once(mine), each_once(others))
}

/// Fills the batches of a step.
struct Fill<'a, F> {
    job: &'a Job,
    step: &'a Step,
    size: usize,
    /// When the pass of an id began.
    began: F,
}

impl<F: Fn(&&PendingId) -> Timestamp> Fill<'_, F> {
    /// Returns batches of our ids, each with the time with which it is rendered. The last batch of each time is filled with ids of
    /// others.
    fn batches(
        self,
        mine: Vec<&PendingId>,
        others: Vec<&PendingId>,
    ) -> Vec<(Timestamp, Vec<String>)> {
        let mut others = alike(self.job, self.step, others, &self.began);
        let mut batches = Vec::new();
        for group in alike(self.job, self.step, mine, &self.began) {
            let mut all = group.all;
            let free = all.len().next_multiple_of(self.size) - all.len();
            let same = others.iter_mut().find(|one| one.request == group.request);
            all.extend(
                same.into_iter()
                    .flat_map(|one| one.all.drain(..))
                    .take(free),
            );
            let ids: Vec<String> = all.into_iter().map(|one| one.id.clone()).collect();
            let full = ids.chunks(self.size);
            batches.extend(full.map(|ids| (group.began, ids.to_vec())));
        }
        batches
    }
}
