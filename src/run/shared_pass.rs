//! The pass under region `*` that a job's batches belong to.

use std::collections::HashSet;

use futures_util::StreamExt;
use tokio::sync::Mutex;

use super::again::Before;
use super::batches::Batches;
use super::context::Context;
use super::expect::question;
use super::halt::Halt;
use super::request::{Asker, fetch};
use super::tally::Tally;
use crate::catalog::{Landing, Naming, OpenPass, PassEnd, PassId, PassRef, Pending};
use crate::config::{Ids, Job, Region, Step};
use crate::upstream::{Page, PageRequest};

/// The shared pass of a job while its batches are fetched.
pub struct SharedPass<'a> {
    context: &'a Context,
    job: &'a Job,
    region: Region,
    /// Landings follow one another, so that the first one's pass is the others'.
    reference: Mutex<PassRef>,
}

impl<'a> SharedPass<'a> {
    /// The unfinished one, or a new one; one that grew too old is abandoned.
    ///
    /// # Errors
    /// When the catalog cannot be asked.
    pub async fn open(context: &'a Context, job: &'a Job, batches: &mut Batches) -> Result<Self, Halt> {
        let now = context.clock.now();
        let open = context.catalog.open_passes(&job.name).await?;
        let mut reference = PassRef::New { job: job.name.clone(), region: Region::SHARED.to_owned(), started_at: now };
        for OpenPass { id, started_at, .. } in open.into_iter().filter(|pass| pass.region == Region::SHARED) {
            if now.since(started_at) < job.resume_within {
                batches.resumed |= batches.shared != Some(id);
                reference = PassRef::Open(id);
            } else {
                context.catalog.finish(&PassRef::Open(id), PassEnd::Abandoned, now).await?;
            }
        }
        let region = Region { code: Region::SHARED.to_owned(), ..Region::default() };
        Ok(Self { context, job, region, reference: Mutex::new(reference) })
    }

    /// Fetches these batches of ids, several at once.
    pub async fn fetch_all(&self, index: usize, step: &Step, work: Vec<Vec<String>>, batches: &mut Batches) {
        let mut fetched = futures_util::stream::iter(work)
            .map(|ids| async { (self.fetch_batch(index, step, &ids).await, ids) })
            .buffer_unordered(self.context.concurrency);
        while let Some(((tally, result), ids)) = fetched.next().await {
            batches.tally.add(&tally);
            match result {
                Ok(note) => batches.notes.extend(note),
                Err(halt) => batches.give_up(index, ids, halt),
            }
        }
        batches.shared = self.id().await;
    }

    /// One batch, all its pages. A batch that stopped the run makes the others stop at their charge.
    async fn fetch_batch(&self, index: usize, step: &Step, ids: &[String]) -> (Tally, Result<Option<String>, Halt>) {
        let mut tally = Tally::default();
        let result = match self.fetch_pages(index, step, ids, &mut tally).await {
            Err(Halt::Unserved(why)) => {
                let empty = Page::default();
                let landed = self.land(index, step, &empty, ids, &mut tally).await;
                landed.map(|()| Some(format!("{} ids were refused: {why}", ids.len())))
            }
            fetched => fetched.map(|()| None),
        };
        (tally, result)
    }

    async fn fetch_pages(&self, index: usize, step: &Step, ids: &[String], tally: &mut Tally) -> Result<(), Halt> {
        let (mut seen, mut before) = (HashSet::new(), Before::default());
        let mut cursor: Option<String> = None;
        for page_number in 1_u64.. {
            let now = self.context.clock.now();
            let (region, cursor_of) = (&self.region, cursor.as_deref());
            let request = PageRequest { step, region, ids, cursor: cursor_of, now, since: None, known: None };
            let page = fetch(self.context, Asker { job: self.job, region: &self.region }, request, tally).await?;
            let more = step.max_pages.is_none_or(|most| page_number < most) && !before.is(&page, &step.call.paging);
            let next = page.next.clone().filter(|next| more && seen.insert(next.clone()));
            let asked = if next.is_none() { ids } else { &[] };
            self.land(index, step, &page, asked, tally).await?;
            if next.is_none() {
                break;
            }
            cursor = next;
        }
        Ok(())
    }

    async fn land(
        &self,
        index: usize,
        step: &Step,
        page: &Page,
        asked: &[String],
        tally: &mut Tally,
    ) -> Result<(), Halt> {
        let Some(kind) = &step.call.records else { return Ok(()) };
        let mut reference = self.reference.lock().await;
        let landing = Landing {
            pass: &reference,
            step: index,
            upstream: &self.job.credential.upstream.name,
            call: &step.call.name,
            kind,
            records: &page.records,
            next: None,
            asked,
            requests: tally.unlanded_requests,
            units: &tally.unlanded_units,
            tag: page.tag.as_ref(),
            now: self.context.clock.now(),
        };
        let landed = self.context.catalog.land(landing).await?;
        *reference = PassRef::Open(landed.pass);
        tally.land(page.records.len() as u64, page.skipped);
        self.context.progress.landed(&self.job.name, Region::SHARED, page.records.len() as u64);
        Ok(())
    }

    /// The passes that still name ids to fetch. What the shared pass names, every pass waits for.
    ///
    /// # Errors
    /// When the catalog cannot be asked.
    pub async fn waiting(&self) -> Result<HashSet<PassId>, Halt> {
        let mut waiting = HashSet::new();
        for step in &self.job.steps {
            if let Some(ids) = &step.ids {
                let pending = pending(self.context, self.job, step, ids, Naming::Open).await?;
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
    pub async fn finish(&self, batches: &Batches) -> Result<(), Halt> {
        if let Some(id) = self.id().await
            && batches.halt.is_none()
            && !batches.waiting.contains(&id)
        {
            self.context.catalog.finish(&PassRef::Open(id), PassEnd::Complete, self.context.clock.now()).await?;
        }
        Ok(())
    }
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
    naming: Naming<'_>,
) -> Result<Vec<Pending>, Halt> {
    match question(job, step, ids, naming, context.clock.now()) {
        Some(question) => Ok(context.catalog.pending_ids(question).await?),
        None => Ok(Vec::new()),
    }
}
