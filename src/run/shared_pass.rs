//! The pass under region `*` that a job's batches belong to.

use std::collections::HashSet;

use futures_util::StreamExt;
use tokio::sync::Mutex;

use super::again::{Before, empty_pages, may_go_on};
use super::batches::{Batches, new_shared_pass};
use super::context::Context;
use super::estimate::query;
use super::pass_stats::PassStats;
use super::request::{Asker, fetch};
use super::steps::{fit_shared, request_of};
use super::stop_reason::StopReason;
use crate::catalog::{
    Landing, OpenBatch, OpenPass, PassEnd, PassId, PassRef, PassScope, PendingId,
};
use crate::config::{Ids, Job, Region, Step};
use crate::quota::Timestamp;
use crate::upstream::{Page, PageRequest};

/// The shared pass of a job while its batches are fetched.
pub struct SharedPass<'a> {
    context: &'a Context,
    job: &'a Job,
    region: Region,
    /// Landings follow one another, so that the first one's pass is the others'.
    reference: Mutex<PassRef>,
    begun: Vec<OpenBatch>,
    /// When the oldest unfinished pass of the job began.
    oldest: Timestamp,
}

/// What came of a batch.
#[derive(Default)]
struct Fetched {
    stats: PassStats,
    notes: Vec<String>,
    /// Whether the upstream gave what it was asked for.
    served: bool,
    /// Why it went no further.
    reason: Option<StopReason>,
}

impl<'a> SharedPass<'a> {
    /// The unfinished one, or a new one; one that grew too old is abandoned.
    ///
    /// # Errors
    /// When the catalog cannot be asked.
    pub async fn open(
        context: &'a Context,
        job: &'a Job,
        batches: &mut Batches,
    ) -> Result<Self, StopReason> {
        let now = context.clock.now();
        let open = context.catalog.open_passes(&job.name).await?;
        let mut reference = new_shared_pass(job, now);
        let mut begun = Vec::new();
        let oldest = open.iter().map(|pass| pass.started_at).min();
        for mut pass in open
            .into_iter()
            .filter(|pass| pass.region == Region::SHARED)
        {
            if now.since(pass.started_at) < job.resume_within {
                batches.resumed |= batches.shared != Some(pass.id);
                fit_to_job(context, job, &mut pass, batches).await?;
                reference = PassRef::Open(pass.id);
                begun = pass.batches;
            } else {
                context
                    .catalog
                    .finish(&PassRef::Open(pass.id), PassEnd::Abandoned, now)
                    .await?;
            }
        }
        Ok(Self {
            context,
            job,
            region: Region::shared(),
            reference: Mutex::new(reference),
            begun,
            oldest: oldest.unwrap_or(now),
        })
    }

    /// When the pass began for which an id is fetched. What a batch names is fetched for the passes that it serves, so the
    /// oldest of them counts.
    pub fn began_of(&self, pending: &PendingId) -> Timestamp {
        let own = self
            .reference
            .try_lock()
            .is_ok_and(|reference| *reference == PassRef::Open(pending.pass));
        if own { self.oldest } else { pending.began }
    }

    /// The batches of a step that were between two pages when this was opened.
    pub fn begun(&self, index: usize) -> impl Iterator<Item = &OpenBatch> {
        self.begun.iter().filter(move |batch| batch.step == index)
    }

    /// Fetches these batches of ids, several at once. What is refused as a whole is asked for by halves, so that one id
    /// that the upstream does not take costs no other; unless nothing is served, for then it is no id's fault.
    pub async fn fetch_all(&self, step: &Step, mut work: Vec<OpenBatch>, batches: &mut Batches) {
        let (mut served, mut rounds) = (false, 0);
        while !work.is_empty() {
            let refused = self
                .fetch_concurrently(step, std::mem::take(&mut work), &mut served, batches)
                .await;
            let is_some_ids_fault = served || (rounds == 0 && refused.len() == 1);
            for (batch, why) in refused {
                if !is_some_ids_fault {
                    let reason = StopReason::Failed(format!(
                        "the upstream refused every request of {}: {why}",
                        step.call.name
                    ));
                    batches.give_up(batch, reason);
                } else if batch.ids.len() == 1 {
                    self.leave_out(step, batch, &why, batches).await;
                } else {
                    work.extend(batch.halves());
                }
            }
            rounds += 1;
        }
        batches.shared = self.id().await;
    }

    /// Fetches these batches, and returns those that were refused as a whole, and why.
    async fn fetch_concurrently(
        &self,
        step: &Step,
        work: Vec<OpenBatch>,
        served: &mut bool,
        batches: &mut Batches,
    ) -> Vec<(OpenBatch, String)> {
        let mut refused = Vec::new();
        let mut fetched = futures_util::stream::iter(work)
            .map(|batch| self.fetch_batch(step, batch))
            .buffer_unordered(self.context.concurrency);
        while let Some((batch, fetched)) = fetched.next().await {
            batches.stats.add(&fetched.stats);
            batches.notes.extend(fetched.notes);
            match fetched.reason {
                None => *served |= fetched.served,
                Some(StopReason::Unserved(why)) => refused.push((batch, why)),
                Some(reason) => batches.give_up(batch, reason),
            }
        }
        refused
    }

    /// One batch, all its pages. A batch that stopped the run makes the others stop at their charge.
    async fn fetch_batch(&self, step: &Step, mut batch: OpenBatch) -> (OpenBatch, Fetched) {
        let mut fetched = Fetched::default();
        match self.fetch_pages(step, &mut batch, &mut fetched).await {
            Ok(()) => fetched.served = true,
            // Half of it would be paid for once more.
            Err(StopReason::Unserved(why)) if batch.cursor().is_some() => {
                fetched.reason = Some(StopReason::Failed(format!(
                    "the upstream refused the next page: {why}"
                )));
            }
            Err(reason) => fetched.reason = Some(reason),
        }
        (batch, fetched)
    }

    /// An id that the upstream refuses is as good as absent.
    async fn leave_out(&self, step: &Step, mut batch: OpenBatch, why: &str, batches: &mut Batches) {
        batches.notes.extend(
            batch
                .ids
                .first()
                .map(|id| format!("id `{id}` was refused and skipped: {why}")),
        );
        let requested = batch.advance(&HashSet::new(), None);
        if let Err(reason) = self
            .land(
                step,
                &Page::default(),
                &requested,
                &batch,
                &mut batches.stats,
            )
            .await
        {
            batches.give_up(batch, reason);
        }
    }

    async fn fetch_pages(
        &self,
        step: &Step,
        batch: &mut OpenBatch,
        fetched: &mut Fetched,
    ) -> Result<(), StopReason> {
        let (mut before, mut started_over) = (Before::default(), false);
        loop {
            let landed = batch.cursors.len() as u64;
            if landed > 0 && step.max_pages.is_some_and(|most| landed >= most) {
                // It was begun with a greater max_pages: no further page is paid for.
                let requested = batch.advance(&HashSet::new(), None);
                let page = Page::default();
                return self
                    .land(step, &page, &requested, batch, &mut fetched.stats)
                    .await;
            }
            let now = self.context.clock.now();
            let (region, ids, cursor) = (&self.region, &*batch.ids, batch.cursor());
            may_go_on(batch.empty_pages, &step.call)?;
            let request = PageRequest {
                step,
                region,
                ids,
                cursor,
                began: batch.began,
                now,
                since: None,
                known: None,
            };
            let asker = Asker {
                job: self.job,
                region: &self.region,
            };
            let page = match fetch(self.context, asker, request, &mut fetched.stats).await {
                Err(StopReason::BadCursor(why)) if batch.cursor().is_some() && !started_over => {
                    tracing::warn!(
                        job = self.job.name,
                        call = step.call.name,
                        "{why}; restarting the batch"
                    );
                    fetched
                        .notes
                        .push(format!("restarted from the first page: {why}"));
                    batch.start_over();
                    started_over = true;
                    continue;
                }
                page => page?,
            };
            let pages = batch.cursors.len() as u64 + 1;
            let ends = before.ends(&page, &step.call);
            let more = step.max_pages.is_none_or(|most| pages < most) && ends.is_none();
            fetched.notes.extend(ends);
            let next = page
                .next
                .clone()
                .filter(|next| more && !batch.cursors.contains(next));
            let came = page
                .records
                .iter()
                .map(|record| record.id.as_str())
                .collect();
            batch.empty_pages = empty_pages(batch.empty_pages, &page);
            let requested = batch.advance(&came, next);
            self.land(step, &page, &requested, batch, &mut fetched.stats)
                .await?;
            if let Some(why) = page.dead_end {
                return Err(StopReason::Failed(why));
            }
            if batch.cursor().is_none() {
                return Ok(());
            }
        }
    }

    async fn land(
        &self,
        step: &Step,
        page: &Page,
        requested: &[String],
        batch: &OpenBatch,
        stats: &mut PassStats,
    ) -> Result<(), StopReason> {
        let Some(kind) = &step.call.records else {
            return Ok(());
        };
        let mut reference = self.reference.lock().await;
        let landing = Landing {
            pass: &reference,
            step: batch.step,
            upstream: &self.job.credential.upstream.name,
            call: &step.call.name,
            kind,
            records: &page.records,
            request: &request_of(self.job, step, &self.region),
            next: None,
            cut: false,
            empty_pages: 0,
            requested,
            batch: Some(batch),
            requests: stats.unlanded_requests,
            units: &stats.unlanded_units,
            tag: page.tag.as_ref(),
            now: self.context.clock.now(),
        };
        let landed = self.context.land(landing).await?;
        *reference = PassRef::Open(landed.pass);
        stats.land(page.records.len() as u64, page.skipped);
        self.context
            .progress
            .landed(&self.job.name, Region::SHARED, page.records.len() as u64);
        Ok(())
    }

    /// The passes that still name ids to fetch. What the shared pass names, every pass waits for.
    ///
    /// # Errors
    /// When the catalog cannot be asked.
    pub async fn waiting(&self) -> Result<HashSet<PassId>, StopReason> {
        let mut waiting = HashSet::new();
        for step in &self.job.steps {
            if let Some(ids) = &step.ids {
                let pending = pending(self.context, self.job, step, ids, PassScope::Open).await?;
                waiting.extend(pending.into_iter().map(|pending| pending.pass));
            }
        }
        Ok(waiting)
    }

    /// The pass in the catalog, once it has landed a page.
    pub async fn id(&self) -> Option<PassId> {
        match &*self.reference.lock().await {
            PassRef::Open(id) => Some(*id),
            PassRef::New { .. } => None,
        }
    }

    /// The shared pass stays open while it names ids of its own, for the next run's batches.
    ///
    /// # Errors
    /// When the catalog cannot be written.
    pub async fn finish(&self, batches: &Batches) -> Result<(), StopReason> {
        if let Some(id) = self.id().await
            && batches.reason.is_none()
            && !batches.waiting.contains(&id)
        {
            self.context
                .catalog
                .finish(
                    &PassRef::Open(id),
                    PassEnd::Complete,
                    self.context.clock.now(),
                )
                .await?;
        }
        Ok(())
    }
}

/// Brings the catalog up to date where the steps of the job were edited since the batches stopped.
async fn fit_to_job(
    context: &Context,
    job: &Job,
    pass: &mut OpenPass,
    batches: &mut Batches,
) -> Result<(), StopReason> {
    let edited = fit_shared(job, pass);
    if edited.change.is_empty() {
        return Ok(());
    }
    for note in edited.notes {
        tracing::warn!(job = job.name, region = Region::SHARED, "{note}");
        batches.notes.push(note);
    }
    Ok(context.catalog.rearrange(pass.id, &edited.change).await?)
}

/// The ids of a step that are still to be fetched.
///
/// # Errors
/// When the catalog cannot be asked.
pub async fn pending(
    context: &Context,
    job: &Job,
    step: &Step,
    ids: &Ids,
    scope: PassScope<'_>,
) -> Result<Vec<PendingId>, StopReason> {
    match query(job, step, ids, scope, context.clock.now()) {
        Some(query) => Ok(context.catalog.pending_ids(query).await?),
        None => Ok(Vec::new()),
    }
}
