//! The steps that ask for ids: full batches over all regions, nothing fresh, nothing twice.

use std::collections::HashSet;
use std::sync::Arc;
use std::time::Duration;

use futures_util::StreamExt;
use tokio::sync::Mutex;

use super::context::Context;
use super::expect::question;
use super::halt::Halt;
use super::lock::Held;
use super::request::{Asker, fetch};
use super::tally::Tally;
use crate::catalog::{Landing, Naming, OpenPass, PassEnd, PassId, PassRef, Pending};
use crate::config::{Ids, Job, Region, Step};
use crate::upstream::{Page, PageRequest};

const LOCK_POLL: Duration = Duration::from_millis(20);

/// What became of the batches of a job.
#[derive(Debug, Default)]
pub struct Batches {
    /// What they cost and brought.
    pub tally: Tally,
    /// Whether an earlier run began them.
    pub resumed: bool,
    /// Why they did not all succeed.
    pub halt: Option<Halt>,
    /// What a person should know.
    pub notes: Vec<String>,
    /// The passes that still name ids to fetch.
    pub waiting: HashSet<PassId>,
    /// The pass that the batches belong to.
    pub shared: Option<PassId>,
}

impl Batches {
    /// Whether a pass still waits for ids: those it names itself, or those that the shared pass names.
    #[must_use]
    pub fn waits(&self, pass: PassId) -> bool {
        self.waiting.contains(&pass) || self.shared.is_some_and(|shared| self.waiting.contains(&shared))
    }

    /// Why a pass still waits.
    #[must_use]
    pub fn why(&self) -> Halt {
        self.halt.clone().unwrap_or_else(|| Halt::Failed("ids that it names were not fetched".to_owned()))
    }
}

/// The shared pass of a job while its batches are fetched.
struct Shared<'a> {
    context: &'a Context,
    job: &'a Job,
    region: Region,
    /// Landings follow one another, so that the first one's pass is the others'.
    reference: Mutex<PassRef>,
}

/// Fetches what the listings of these passes name, and fills the last batch with what other passes wait for.
///
/// # Errors
/// When the catalog or the lock fails; what a batch meets is in the answer.
pub async fn fetch_batches(context: &Context, job: &Arc<Job>, passes: &[PassId]) -> Result<Batches, Halt> {
    let mut batches = Batches::default();
    if job.steps.iter().all(|step| step.ids.is_none()) {
        return Ok(batches);
    }
    let _held = lock(context, job).await?;
    let shared = Shared::open(context, job, &mut batches).await?;
    for (index, step) in job.steps.iter().enumerate() {
        if let Some(ids) = &step.ids {
            shared.fetch_step(index, step, ids, passes, &mut batches).await?;
        }
    }
    batches.waiting = shared.waiting().await?;
    batches.shared = shared.id().await;
    shared.finish(&batches).await?;
    Ok(batches)
}

/// Another run's batches may hold what these passes wait for: its end is waited for.
async fn lock(context: &Context, job: &Job) -> Result<Held, Halt> {
    loop {
        let held = context.locks.take(&job.name, Region::SHARED);
        match held.map_err(|error| Halt::Failed(format!("cannot lock job {}: {error}", job.name)))? {
            Some(held) => return Ok(held),
            None if context.stop.signal().is_some() => return Err(Halt::Interrupted),
            None => context.stop.sleep(&*context.clock, LOCK_POLL).await,
        }
    }
}

impl<'a> Shared<'a> {
    async fn open(context: &'a Context, job: &'a Job, batches: &mut Batches) -> Result<Self, Halt> {
        let now = context.clock.now();
        let open = context.catalog.open_passes(&job.name).await?;
        let mut reference = PassRef::New { job: job.name.clone(), region: Region::SHARED.to_owned(), started_at: now };
        for OpenPass { id, started_at, .. } in open.into_iter().filter(|pass| pass.region == Region::SHARED) {
            if now.since(started_at) < job.resume_within {
                batches.resumed = true;
                reference = PassRef::Open(id);
            } else {
                context.catalog.finish(&PassRef::Open(id), PassEnd::Abandoned, now).await?;
            }
        }
        let region = Region { code: Region::SHARED.to_owned(), ..Region::default() };
        Ok(Self { context, job, region, reference: Mutex::new(reference) })
    }

    async fn fetch_step(
        &self,
        index: usize,
        step: &Step,
        ids: &Ids,
        passes: &[PassId],
        batches: &mut Batches,
    ) -> Result<(), Halt> {
        let pending = self.pending(step, ids).await?;
        let own: HashSet<PassId> = passes.iter().copied().chain(self.id().await).collect();
        let work = full_batches(&pending, &own, usize::try_from(ids.batch).unwrap_or(usize::MAX).max(1));
        let mut fetched = futures_util::stream::iter(work)
            .map(|batch| self.fetch_batch(index, step, batch))
            .buffer_unordered(self.context.concurrency);
        while let Some((tally, result)) = fetched.next().await {
            batches.tally.add(&tally);
            match result {
                Ok(note) => batches.notes.extend(note),
                Err(halt) => worst(&mut batches.halt, halt),
            }
        }
        Ok(())
    }

    /// One batch, all its pages. A batch that stopped the run makes the others stop at their charge.
    async fn fetch_batch(&self, index: usize, step: &Step, ids: Vec<String>) -> (Tally, Result<Option<String>, Halt>) {
        let mut tally = Tally::default();
        let result = match self.fetch_pages(index, step, &ids, &mut tally).await {
            Err(Halt::Unserved(why)) => {
                let empty = Page::default();
                let landed = self.land(index, step, &empty, &ids, &mut tally).await;
                landed.map(|()| Some(format!("{} ids were refused: {why}", ids.len())))
            }
            fetched => fetched.map(|()| None),
        };
        (tally, result)
    }

    async fn fetch_pages(&self, index: usize, step: &Step, ids: &[String], tally: &mut Tally) -> Result<(), Halt> {
        let mut seen = HashSet::new();
        let mut cursor: Option<String> = None;
        for page_number in 1_u64.. {
            let now = self.context.clock.now();
            let request = PageRequest { step, region: &self.region, ids, cursor: cursor.as_deref(), now, since: None };
            let page = fetch(self.context, Asker { job: self.job, region: &self.region }, request, tally).await?;
            let more = step.max_pages.is_none_or(|most| page_number < most);
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
            now: self.context.clock.now(),
        };
        let landed = self.context.catalog.land(landing).await?;
        *reference = PassRef::Open(landed.pass);
        tally.land(page.records.len() as u64, page.skipped);
        self.context.progress.landed(&self.job.name, Region::SHARED, page.records.len() as u64);
        Ok(())
    }

    async fn pending(&self, step: &Step, ids: &Ids) -> Result<Vec<Pending>, Halt> {
        match question(self.job, step, ids, Naming::Open, self.context.clock.now()) {
            Some(question) => Ok(self.context.catalog.pending_ids(question).await?),
            None => Ok(Vec::new()),
        }
    }

    /// The passes that still name ids to fetch. What the shared pass names, every pass waits for.
    async fn waiting(&self) -> Result<HashSet<PassId>, Halt> {
        let mut waiting = HashSet::new();
        for step in &self.job.steps {
            if let Some(ids) = &step.ids {
                waiting.extend(self.pending(step, ids).await?.into_iter().map(|pending| pending.pass));
            }
        }
        Ok(waiting)
    }

    async fn id(&self) -> Option<PassId> {
        match &*self.reference.lock().await {
            PassRef::Open(id) => Some(*id),
            PassRef::New { .. } => None,
        }
    }

    /// The shared pass stays open while it names ids of its own, for the next run's batches.
    async fn finish(&self, batches: &Batches) -> Result<(), Halt> {
        if let Some(id) = self.id().await
            && batches.halt.is_none()
            && !batches.waiting.contains(&id)
        {
            self.context.catalog.finish(&PassRef::Open(id), PassEnd::Complete, self.context.clock.now()).await?;
        }
        Ok(())
    }
}

/// Batches of the distinct ids that these passes name, in their order; the last one is filled with others'.
fn full_batches(pending: &[Pending], own: &HashSet<PassId>, size: usize) -> Vec<Vec<String>> {
    let mut seen = HashSet::new();
    let (mine, others): (Vec<&Pending>, Vec<&Pending>) = pending.iter().partition(|one| own.contains(&one.pass));
    let mut ids: Vec<String> = Vec::new();
    ids.extend(mine.iter().filter(|one| seen.insert(&one.id)).map(|one| one.id.clone()));
    let full = ids.len().div_ceil(size).saturating_mul(size);
    let room = full.saturating_sub(ids.len());
    ids.extend(others.iter().filter(|one| seen.insert(&one.id)).take(room).map(|one| one.id.clone()));
    ids.chunks(size).map(<[String]>::to_vec).collect()
}

fn worst(known: &mut Option<Halt>, halt: Halt) {
    if known.as_ref().is_none_or(|known| known.outcome() < halt.outcome()) {
        *known = Some(halt);
    }
}
