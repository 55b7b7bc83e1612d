//! Fetches batches that are full while regions still list, so that a run takes hardly longer than its longest region.

use std::collections::{HashMap, HashSet};
use std::pin::pin;
use std::sync::Arc;

use futures_util::future::{Either, join, select};
use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender};
use tokio::sync::oneshot;

use super::batches::{Rest, batch_size, batches_of, try_take};
use super::context::Context;
use super::shared_pass::{Batches, SharedPass};
use super::steps::{alike, ids_of};
use super::stop_reason::StopReason;
use ingest_base::record::Record;
use ingest_catalog::{OpenBatch, PassId, RecordIds};
use ingest_config::{Ids, Job, Records, Step};
use ingest_quota::Timestamp;

/// The ids that a landed page names, for each step that requests ids, by the step's index.
pub struct ListedIds {
    by_step: Vec<(usize, Vec<Arc<str>>)>,
    /// When the pass of the page began: ids fetched since are fresh.
    began: Timestamp,
}

/// Sends the ids that landed pages name to the prefetcher.
pub type PrefetchSender = UnboundedSender<ListedIds>;

impl ListedIds {
    /// Reads the ids that records of a call name.
    #[must_use]
    pub fn new(job: &Job, call: &str, records: &[Record], began: Timestamp) -> Self {
        let named = |ids: &Ids| -> Vec<Arc<str>> {
            let texts = records
                .iter()
                .flat_map(|record| ids.at.texts_in(&record.body));
            texts.filter(|id| !id.is_empty()).map(Arc::from).collect()
        };
        let steps = steps_with_ids(job).filter(|(_, _, ids, _)| ids.from == call);
        Self {
            by_step: steps
                .map(|(index, _, ids, _)| (index, named(ids)))
                .collect(),
            began,
        }
    }
}

/// Receives the passes whose lists are complete, once all regions have listed.
pub type ListingsEnd = oneshot::Receiver<Vec<PassId>>;

/// Fetches batches as soon as the listings of a job fill them, and the rest beside those that are under way when all regions have
/// listed. Other ids that fill no batch are left to [`super::batches::fetch_batches`], which reads from the catalog what is missing.
pub async fn fetch_full_batches(
    context: &Context,
    job: &Job,
    mut listings: UnboundedReceiver<ListedIds>,
    mut end: ListingsEnd,
) -> Batches {
    let mut batches = Batches::default();
    let mut queues: Vec<Queue<'_>> = steps_with_ids(job).map(Queue::new).collect();
    while let Some(named) = listings.recv().await {
        let more = std::iter::from_fn(|| listings.try_recv().ok());
        for named in std::iter::once(named).chain(more) {
            queues.iter_mut().for_each(|queue| queue.add(&named));
        }
        // When all regions have listed, the rest is fetched together.
        if !listings.is_closed()
            && batches.reason.is_none()
            && queues.iter().any(Queue::fills_a_batch)
            && let Err(reason) =
                fetch_full(context, (job, &mut end), &mut queues, &mut batches).await
        {
            batches.stop_for(reason);
        }
    }
    batches
}

/// Fetches the full batches, unless another run fetches batches of the job.
async fn fetch_full(
    context: &Context,
    (job, end): (&Job, &mut ListingsEnd),
    queues: &mut [Queue<'_>],
    batches: &mut Batches,
) -> Result<(), StopReason> {
    let Some(_lease) = try_take(context, &batches_of(job)).await? else {
        return Ok(());
    };
    let mut shared = None;
    for queue in queues {
        let Some(_ids) = try_take(context, &ids_of(job, queue.step)).await? else {
            continue;
        };
        queue.drop_fresh(context, job).await?;
        let full = queue.take_full(job);
        if !full.is_empty() {
            let shared = match &shared {
                Some(shared) => shared,
                None => shared.insert(SharedPass::open(context, job, batches).await?),
            };
            // Batches that an earlier run left between two pages continue after the listings.
            let begun: HashSet<&String> = shared
                .begun(queue.index)
                .flat_map(|batch| &batch.ids)
                .collect();
            let untouched = full
                .into_iter()
                .filter(|(_, ids)| !ids.iter().any(|id| begun.contains(id)));
            let full: Vec<OpenBatch> = untouched
                .map(|(began, ids)| OpenBatch::new(queue.index, ids, began))
                .collect();
            let rest = Rest::beside(shared, (queue.index, queue.step), &full, batches);
            let fetching = shared.fetch_all(queue.step, full, batches);
            if let Some(rest) = with_rest(fetching, rest, end).await {
                batches.merge(rest);
                // Nothing is left to fetch, and nothing may wait again for the end of the listings.
                return Ok(());
            }
        }
    }
    Ok(())
}

/// Fetches full batches, and beside them the rest if the listings end meanwhile. Returns the results of the rest; `None` if they
/// did not.
async fn with_rest(
    fetching: impl Future<Output = ()>,
    rest: Rest<'_>,
    end: &mut ListingsEnd,
) -> Option<Batches> {
    match select(pin!(fetching), end).await {
        Either::Left(_) => None,
        Either::Right((passes, fetching)) => {
            let passes = passes.unwrap_or_default();
            let ((), rest) = join(fetching, rest.fetch(&passes)).await;
            Some(rest)
        }
    }
}

fn steps_with_ids(job: &Job) -> impl Iterator<Item = (usize, &Step, &Ids, &Records)> {
    let asking = |(index, step)| {
        let Step { ids, call, .. }: &Step = step;
        Some((index, step, ids.as_ref()?, call.records.as_deref()?))
    };
    job.steps.iter().enumerate().filter_map(asking)
}

/// The ids that wait for a batch of one step, each once, in the order in which they were named.
struct Queue<'j> {
    index: usize,
    step: &'j Step,
    ids: &'j Ids,
    kind: &'j str,
    waiting: Vec<(Arc<str>, Timestamp)>,
    seen: HashSet<Arc<str>>,
}

impl<'j> Queue<'j> {
    fn new((index, step, ids, records): (usize, &'j Step, &'j Ids, &'j Records)) -> Self {
        Self {
            index,
            step,
            ids,
            kind: &records.kind,
            waiting: Vec::new(),
            seen: HashSet::new(),
        }
    }

    fn add(&mut self, named: &ListedIds) {
        let of_step = named
            .by_step
            .iter()
            .filter(|(index, _)| *index == self.index);
        for id in of_step.flat_map(|(_, ids)| ids) {
            if self.seen.insert(Arc::clone(id)) {
                self.waiting.push((Arc::clone(id), named.began));
            }
        }
    }

    fn fills_a_batch(&self) -> bool {
        self.waiting.len() >= batch_size(self.ids)
    }

    /// Removes ids that are fresh, or were fetched after the pass that names them began.
    async fn drop_fresh(&mut self, context: &Context, job: &Job) -> Result<(), StopReason> {
        let fresh_since = self.ids.fresh_since(context.clock.now());
        let all = self.waiting.iter().map(|(id, _)| id);
        let all = RecordIds::new(&job.credential.upstream.name, self.kind, all);
        let fetched = context
            .on_catalog(&job.name, context.catalog.last_fetched(all))
            .await?;
        let fetched: HashMap<Arc<str>, Timestamp> = fetched.into_iter().collect();
        self.waiting.retain(|(id, began)| {
            let is_fresh = fetched
                .get(id)
                .is_some_and(|at| *at >= fresh_since.min(*began));
            !is_fresh && context.catalog.takes_id(id)
        });
        Ok(())
    }

    /// Removes full batches, each with the time with which it is rendered.
    fn take_full(&mut self, job: &Job) -> Vec<(Timestamp, Vec<String>)> {
        let size = batch_size(self.ids);
        let mut batches = Vec::new();
        let waiting = std::mem::take(&mut self.waiting);
        for group in alike(job, self.step, waiting, |(_, began)| *began) {
            let mut full = group.all;
            self.waiting
                .extend(full.split_off(full.len() / size * size));
            let ids: Vec<String> = full.into_iter().map(|(id, _)| id.to_string()).collect();
            let ids = ids.chunks(size);
            batches.extend(ids.map(|ids| (group.began, ids.to_vec())));
        }
        batches
    }
}
