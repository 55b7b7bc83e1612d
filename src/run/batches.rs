//! The steps that request ids: full batches over all regions, without ids that are fresh, each id once.

use std::collections::HashMap;
use std::time::Duration;

// Each id of each region is looked up, in a simulation of many regions most of all.
use foldhash::HashSet;
use tokio::sync::Mutex;

use super::all::all;
use super::context::Context;
use super::due::LONGEST_TOLERANCE;
use super::estimate::pending_query;
use super::fill::fill;
use super::pager::{Batch, List, Of, Start, continues};
use super::pass::abandoned;
use super::stats::PassStats;
use super::steps::{fit, ids_of, lists_what_is_new, request_of, since_of_id};
use super::stop_reason::StopReason;
use crate::review::{Greatest, Said, nothing_since_first};
use ingest_catalog::{
    IdSince, LastingCursor, Lease, OpenBatch, PassEnd, PassId, PassRef, PassScope, PendingId,
    Resource, StepPosition, Taken,
};
use ingest_config::{Job, Region, Step, Variable};
use ingest_quota::Timestamp;

/// How long a run waits between two attempts to take a resource that another run holds: at first, and at most.
const LEASE_POLL: Duration = Duration::from_millis(20);
const SLOWEST_POLL: Duration = Duration::from_millis(500);

/// Fetches the ids that the listings of these passes name, and fills the last batch with ids that other passes wait for. Passes that
/// stopped half-way only fill it: a short budget goes to those that can complete.
pub async fn fetch_batches(context: &Context, job: &Job, passes: &[PassId]) -> Batches {
    let mut batches = Batches::default();
    if !passes.is_empty()
        && let Err(reason) = fetch_steps(context, job, passes, &mut batches).await
    {
        // What failed is the catalog or a lease, so nobody knows which of their ids are fetched.
        batches.waiting = passes.iter().copied().collect();
        batches.reason = Some(reason);
    }
    batches
}

/// Fetches the ids of each step. Failures of requests are in `batches`.
async fn fetch_steps(
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
            let work = shared.work((index, step), passes).await?;
            shared.fetch_all(step, work, batches).await;
            shared.link_parents(index, step).await?;
            batches.note_nothing_since(job, step);
        }
    }
    match batches.reason {
        Some(_) => batches.waiting = shared.waiting().await?,
        None => shared.finish(batches.said.is_doubtful()).await?,
    }
    Ok(())
}

/// How long an id that the upstream forbids is not requested again, where the step has no `fresh_for`.
const FORBIDDEN_FOR: Duration = Duration::from_secs(24 * 60 * 60);

/// The shared pass of a job, under region `*`, to which its batches belong, while they are fetched.
struct SharedPass<'a> {
    context: &'a Context,
    job: &'a Job,
    region: Region,
    /// Locked during a landing: the first one opens the pass to which the others belong.
    reference: Mutex<PassRef>,
    begun: Vec<OpenBatch>,
    /// Whether its lists begin without a cursor of former ones, since an unfinished pass of the job does (`--relist`), and whether
    /// those that are between two pages did.
    relists: bool,
    begun_relist: bool,
    /// When the oldest unfinished pass of the job began.
    oldest: Timestamp,
}

/// The results of the batches of a job.
#[derive(Debug, Default)]
pub struct Batches {
    /// What they cost and contained.
    pub stats: PassStats,
    /// Whether they resume the pass of an earlier run.
    pub resumed: bool,
    /// Why they did not all succeed.
    pub reason: Option<StopReason>,
    /// The first rejection of a single id, which stops nothing else.
    pub forbidden: Option<StopReason>,
    /// Notes for people, and the doubts about their lists, those of earlier runs included.
    pub said: Said,
    /// The passes that still name ids to fetch.
    pub waiting: HashSet<PassId>,
    /// The pass that the batches belong to.
    shared: Option<PassRef>,
    /// Whether the list of any id continued where an earlier one ended.
    has_since: bool,
}

impl Batches {
    /// Returns why a pass still waits for ids that it or the shared pass names, where it does.
    pub fn has_served(&self, pass: Option<PassId>) -> Result<(), StopReason> {
        let shared = self.shared.as_ref().and_then(|shared| shared.id);
        let mut named_by = pass.into_iter().chain(shared.filter(|_| pass.is_some()));
        match &self.reason {
            Some(reason) if named_by.any(|pass| self.waiting.contains(&pass)) => {
                Err(reason.clone())
            }
            Some(_) | None => Ok(()),
        }
    }

    /// Records that the ids of a batch could not be fetched, and keeps the worst reason, which is what is reported.
    fn give_up(&mut self, reason: StopReason) {
        let current = self.reason.as_ref().map(StopReason::outcome);
        if current < Some(reason.outcome()) {
            self.reason = Some(reason);
        }
    }

    /// Notes that a step whose lists all began at the first value of `since` had no record at all.
    fn note_nothing_since(&mut self, job: &Job, step: &Step) {
        let is_empty = self.stats.records == 0 && self.stats.requests > 0;
        let is_first = !self.has_since && job.since.first.is_some();
        if is_empty && is_first && job.names(step, &Variable::Since) {
            self.said.note(nothing_since_first(&step.call.name));
        }
    }

    /// Returns their pass; a new one where none of them has landed a page.
    #[must_use]
    pub fn reference(&self, job: &Job, now: Timestamp) -> PassRef {
        self.shared
            .clone()
            .unwrap_or_else(|| new_shared_pass(job, now))
    }
}

impl<'a> SharedPass<'a> {
    /// Resumes the unfinished shared pass of a job, or starts a new one. One older than `resume_within` is abandoned.
    async fn open(
        context: &'a Context,
        job: &'a Job,
        batches: &mut Batches,
    ) -> Result<Self, StopReason> {
        let now = context.clock.now();
        let open = context.catalog.open_passes(&job.name);
        let open = context.on_catalog(&job.name, open).await?;
        let mut reference = new_shared_pass(job, now);
        let mut begun = Vec::new();
        let mut begun_relist = job.relists;
        // A run that was stopped before the ids of its pass lists them as it would have.
        let relists = job.relists || open.iter().any(|pass| pass.relists);
        let oldest = open.iter().map(|pass| pass.started_at).min();
        for mut pass in open
            .into_iter()
            .filter(|pass| pass.region == Region::SHARED)
        {
            // `--relist` gives up what an earlier run left, lists between two pages included.
            let mut taken = context.take_up(job, &pass).await?;
            if !job.relists && now.since(pass.started_at) < job.resume_within {
                batches.resumed = true;
                let shared = Region::shared();
                let edited = fit(job, &shared, &mut pass);
                let fitted = context.fit_to_job((job, &shared), &mut taken, &edited);
                fitted.await?;
                edited
                    .notes
                    .into_iter()
                    .for_each(|note| batches.said.note(note));
                reference = taken;
                batches.said.doubts.append(&mut pass.doubts);
                begun_relist = pass.relists;
                begun = pass.batches;
            } else {
                if !job.relists {
                    batches.said.note(abandoned(&pass));
                }
                context
                    .catalog
                    .finish(&mut taken, PassEnd::Abandoned, now)
                    .await?;
            }
        }
        Ok(Self {
            context,
            job,
            region: Region::shared(),
            reference: Mutex::new(reference),
            begun,
            relists,
            begun_relist,
            oldest: oldest.unwrap_or(now),
        })
    }

    /// Returns the batches of a step: those that an earlier run left between two pages, and new ones.
    async fn work(
        &self,
        (index, step): (usize, &Step),
        passes: &[PassId],
    ) -> Result<Vec<OpenBatch>, StopReason> {
        let begun = self.begun.iter().filter(|batch| batch.step == index);
        let begun: Vec<OpenBatch> = begun.cloned().collect();
        let begun_ids: HashSet<&String> = begun.iter().flat_map(|batch| &batch.ids).collect();
        let mut pending = pending(self.context, self.job, step).await?;
        pending.retain(|one| !begun_ids.contains(&one.id));
        let shared = self.id().await;
        // An id that a batch named is fetched for the passes that the batch serves, so the oldest of them counts.
        for one in pending.iter_mut().filter(|one| Some(one.pass) == shared) {
            one.began = self.oldest;
        }
        let own: HashSet<PassId> = passes.iter().copied().chain(shared).collect();
        let fresh = fill(self.job, step, pending, &own).into_iter();
        let fresh = fresh.map(|(began, ids)| OpenBatch::new(index, ids, began));
        Ok(begun.iter().cloned().chain(fresh).collect())
    }

    /// Fetches batches of ids, several at once.
    async fn fetch_all(&self, step: &Step, work: Vec<OpenBatch>, batches: &mut Batches) {
        let sinces = match self.sinces(step, &work).await {
            Ok(sinces) => sinces,
            Err(reason) => {
                if !work.is_empty() {
                    batches.give_up(reason);
                }
                return;
            }
        };
        batches.has_since |= !sinces.is_empty();
        self.fetch_served(step, work, &sinces, batches).await;
        let shared = self.reference.lock().await.clone();
        batches.shared = Some(shared).filter(|shared| shared.id.is_some());
    }

    /// Fetches batches. One that a limit stops makes the others stop at their charge. One that is refused as a whole is requested
    /// again in halves, down to the id that the upstream refuses, so that it does not cost the others theirs. Where no batch of the
    /// step is served, no single id is the cause, and the step fails.
    async fn fetch_served(
        &self,
        step: &Step,
        mut work: Vec<OpenBatch>,
        sinces: &Sinces,
        batches: &mut Batches,
    ) {
        let (mut has_served, mut is_first) = (false, true);
        while !work.is_empty() {
            let mut refused = Vec::new();
            for fetched in self.fetch_round(step, work, sinces, batches).await {
                match fetched {
                    Fetched::Served => has_served = true,
                    Fetched::Refused(batch, reason) => refused.push((batch, reason)),
                    Fetched::Failed(reason) => batches.give_up(reason),
                }
            }
            // Of a single batch nobody knows yet whether one of its ids is refused or the step: its halves show that.
            let is_some_ids_fault = has_served || (is_first && refused.len() == 1);
            is_first = false;
            work = Vec::new();
            for (batch, reason) in refused {
                // Of a request that is forbidden, or cannot be built, the run knows that.
                if !is_some_ids_fault && !is_forbidden(&reason) {
                    batches.give_up(StopReason::Failed(format!(
                        "the upstream refused every request of {}: {}",
                        step.call.name,
                        refusal(&reason)
                    )));
                } else if batch.ids.len() == 1 {
                    self.leave_out(step, batch, reason, batches).await;
                } else {
                    work.extend(batch.halves());
                }
            }
        }
    }

    /// Requests batches side by side, each once.
    async fn fetch_round(
        &self,
        step: &Step,
        work: Vec<OpenBatch>,
        sinces: &Sinces,
        batches: &mut Batches,
    ) -> Vec<Fetched> {
        // A list holds its ids several times, and of those that have ended there can be very many.
        let round = work.into_iter().map(async |batch| {
            let mut list = self.list(step, batch, sinces);
            let ended = list.run().await;
            (Fetched::of(ended, list.of, &list.at), list.stats, list.said)
        });
        let round = all(self.context.concurrency, round).await;
        let ended = round.into_iter().map(|(fetched, stats, said)| {
            batches.stats.add(&stats);
            batches.said.add(said);
            fetched
        });
        ended.collect()
    }

    /// Returns where the lists of these ids continue; empty for a step that uses neither `{since}` nor `page.lasting`. A list that
    /// began later than now was dated by a clock that ran ahead, and its time would leave out what came in between.
    async fn sinces(&self, step: &Step, work: &[OpenBatch]) -> Result<Sinces, StopReason> {
        if !continues(self.job, step) {
            return Ok(Sinces::new());
        }
        let ids: Vec<String> = work.iter().flat_map(|batch| batch.ids.clone()).collect();
        let (catalog, call) = (&self.context.catalog, &step.call.name);
        let sinces = catalog.id_sinces(&self.job.name, call, &ids);
        let sinces = self.context.on_catalog(&self.job.name, sinces).await?;
        let latest = self.context.clock.now() + LONGEST_TOLERANCE;
        let sinces = sinces.into_iter().filter(|since| since.began <= latest);
        Ok(sinces.map(|since| (since.id.clone(), since)).collect())
    }

    /// Lands a batch of one id that the upstream refused: the id is absent.
    async fn leave_out(
        &self,
        step: &Step,
        batch: OpenBatch,
        reason: StopReason,
        batches: &mut Batches,
    ) {
        let why = refusal(&reason);
        let id = batch.ids.first();
        let again = match lists_what_is_new(self.job) {
            true => {
                "; its list reads what is new, so it is requested again when that names it, or with --relist"
            }
            false => "",
        };
        let note = id.map(|id| format!("id `{id}` was refused and skipped: {why}{again}"));
        batches.said.notes.extend(note);
        let mut withheld_until = None;
        if is_forbidden(&reason) {
            withheld_until = self.withheld_until(step);
            batches.forbidden.get_or_insert(reason);
        }
        let mut list = self.list(step, batch, &Sinces::new());
        // The landing stores the requests that no page was landed for: those that found out about the id are among them.
        list.stats = std::mem::take(&mut batches.stats);
        let landed = list.leave_out_id(withheld_until).await;
        batches.stats = list.stats;
        if let Err(reason) = landed {
            batches.give_up(reason);
        }
    }

    /// Until when an id that the upstream forbids is not requested again: where nothing stays fresh, each pass would pay for it.
    fn withheld_until(&self, step: &Step) -> Option<Timestamp> {
        let fresh_for = step.ids.as_ref().and_then(|ids| ids.fresh_for);
        let is_fresh = fresh_for.is_some();
        (!is_fresh).then(|| self.context.clock.now() + FORBIDDEN_FOR)
    }

    /// Returns the list of a batch, at its position.
    fn list<'s>(&'s self, step: &'s Step, batch: OpenBatch, sinces: &Sinces) -> List<'s> {
        let relists = match batch.cursor() {
            Some(_) => self.begun_relist,
            None => self.relists,
        };
        let last = batch.ids.first().and_then(|id| sinces.get(id));
        let last_greatest = last.and_then(|last| last.greatest.as_deref());
        let lasting = last.and_then(|last| last.lasting.as_ref());
        let is_same = |lasting: &&LastingCursor| {
            !relists && lasting.request == request_of(self.job, step, &self.region)
        };
        let since = &self.job.since;
        let stored = [
            batch.greatest.as_deref(),
            last_greatest.filter(|_| since.at.is_some()),
        ];
        let start = Start {
            ids: batch.ids.clone(),
            began: batch.began,
            since: since.value(
                last.map(|last| last.began),
                since_of_id(self.job, last_greatest),
            ),
            greatest: Greatest::read(self.job, batch.began, stored),
            lasting: lasting.filter(is_same).map(|one| one.cursor.clone()),
            relists: self.relists,
            last_pages: 0,
        };
        let at = StepPosition {
            step: batch.step,
            pages: batch.cursors.len() as u64,
            empty_pages: batch.empty_pages,
            cursor: batch.cursor().map(str::to_owned),
            ..StepPosition::default()
        };
        let of_step = (self.job, &self.region, step);
        let of = Of::Batch(Batch::new(batch));
        List::new((self.context, &self.reference), of_step, of, start, at)
    }

    /// Stores which records named the ids that a step requested. All regions have listed by then, while a batch was often
    /// fetched before the last record that names one of its ids was landed.
    async fn link_parents(&self, index: usize, step: &Step) -> Result<(), StopReason> {
        let now = self.context.clock.now();
        let mut pass = self.reference.lock().await;
        if pass.id.is_some()
            && let Some(query) = pending_query(self.job, step, PassScope::Open, now)
        {
            let catalog = &self.context.catalog;
            let linked = catalog.link_parents(&mut pass, index, query);
            self.context.on_catalog(&self.job.name, linked).await?;
        }
        Ok(())
    }

    /// Returns the passes that still name ids to fetch.
    async fn waiting(&self) -> Result<HashSet<PassId>, StopReason> {
        let mut waiting = HashSet::default();
        for step in &self.job.steps {
            let pending = pending(self.context, self.job, step).await?;
            waiting.extend(pending.into_iter().map(|pending| pending.pass));
        }
        Ok(waiting)
    }

    /// Returns the pass in the catalog; `None` before its first page.
    async fn id(&self) -> Option<PassId> {
        self.reference.lock().await.id
    }

    /// Completes the shared pass, whose ids are all fetched.
    async fn finish(&self, is_doubtful: bool) -> Result<(), StopReason> {
        let mut pass = self.reference.lock().await;
        if pass.id.is_none() {
            return Ok(());
        }
        let end = match is_doubtful {
            false => PassEnd::Complete,
            true => PassEnd::Doubtful,
        };
        if is_doubtful {
            for step in self.job.steps.iter().filter(|step| step.ids.is_some()) {
                self.context.forget_tags(self.job, &step.call).await?;
            }
        }
        let now = self.context.clock.now();
        let finished = self.context.catalog.finish(&mut pass, end, now);
        self.context.on_catalog(&self.job.name, finished).await?;
        Ok(())
    }
}

/// What became of a batch.
enum Fetched {
    Served,
    /// It was refused as a whole, so its halves can be requested.
    Refused(OpenBatch, StopReason),
    Failed(StopReason),
}

impl Fetched {
    /// How a batch ended at this position. Half of the pages of one that has landed a page would be paid for again.
    fn of(ended: Result<(), StopReason>, of: Of, at: &StepPosition) -> Self {
        match (ended, of) {
            (Ok(()), _) => Self::Served,
            (Err(StopReason::Unserved(why)), _) if at.cursor.is_some() => {
                let why = format!("the upstream refused the next page: {why}");
                Self::Failed(StopReason::Failed(why))
            }
            (Err(reason @ StopReason::Forbidden(_)), _) if at.cursor.is_some() => {
                Self::Failed(StopReason::Failed(reason.to_string()))
            }
            (
                Err(
                    reason @ (StopReason::Unserved(_)
                    | StopReason::Unsendable(_)
                    | StopReason::Forbidden(_)),
                ),
                Of::Batch(Batch { batch, .. }),
            ) => Self::Refused(batch, reason),
            (Err(reason), _) => Self::Failed(reason),
        }
    }
}

const fn is_forbidden(reason: &StopReason) -> bool {
    matches!(reason, StopReason::Forbidden(_) | StopReason::Unsendable(_))
}

/// Why a batch was refused, without who refused it.
fn refusal(reason: &StopReason) -> String {
    match reason {
        StopReason::Unserved(why) => why.clone(),
        reason => reason.to_string(),
    }
}

/// Where the lists of ids continue, by id.
type Sinces = HashMap<String, IdSince>;

/// A shared pass that has landed no page.
fn new_shared_pass(job: &Job, now: Timestamp) -> PassRef {
    PassRef::new(&job.name, Region::SHARED, None, now)
}

/// Returns the ids that a step still has to fetch.
async fn pending(context: &Context, job: &Job, step: &Step) -> Result<Vec<PendingId>, StopReason> {
    match pending_query(job, step, PassScope::Open, context.clock.now()) {
        Some(query) => {
            let pending = context.catalog.pending_ids(query);
            Ok(context.on_catalog(&job.name, pending).await?)
        }
        None => Ok(Vec::new()),
    }
}

/// The batches of a job. One run at a time fetches them: its batches can contain what the passes of another run wait for.
fn batches_of(job: &Job) -> Resource {
    Resource::region(&job.name, Region::SHARED)
}

/// Takes a resource, and waits while another run holds it.
async fn take(context: &Context, resource: &Resource) -> Result<Lease, StopReason> {
    let mut pause = LEASE_POLL;
    loop {
        let taken = context.leases.take(resource);
        let taken = context.waits.on(resource, "the lease", taken);
        if let Taken::Granted(lease) = taken.await? {
            return Ok(lease);
        }
        if context.stop.signal().is_some() {
            return Err(StopReason::Interrupted(None));
        }
        let pausing = context.stop.sleep(&*context.clock, pause);
        let what = "the run that holds them";
        context.waits.on(resource, what, pausing).await;
        pause = (pause * 2).min(SLOWEST_POLL);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_batch_without_a_page_is_requested_again_in_halves() {
        let refused = |why: fn(String) -> StopReason, is_begun: bool| {
            let ended = Err(why("404".to_owned()));
            let batch = OpenBatch::new(1, vec!["a".to_owned()], Timestamp::from_micros(0));
            let at = StepPosition {
                cursor: is_begun.then(|| "2".to_owned()),
                ..StepPosition::default()
            };
            let fetched = Fetched::of(ended, Of::Batch(Batch::new(batch)), &at);
            matches!(fetched, Fetched::Refused(..))
        };
        assert!(refused(StopReason::Unserved, false));
        assert!(refused(StopReason::Forbidden, false));
        assert!(refused(StopReason::Unsendable, false));
        assert!(!refused(StopReason::Unserved, true));
        assert!(!refused(StopReason::Forbidden, true));
        assert!(!refused(StopReason::Failed, false));
    }
}
