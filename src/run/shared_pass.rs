//! The shared pass of a job, under region `*`, to which its batches of ids belong.

use std::collections::{HashMap, HashSet};
use std::time::Duration;

use tokio::sync::Mutex;

use super::all::all;
use super::context::Context;
use super::due::LONGEST_TOLERANCE;
use super::estimate::pending_query;
use super::pager::{Batch, List, Of, Position, Start, continues};
use super::stats::PassStats;
use super::steps::{fit_shared, request_of};
use super::stop_reason::StopReason;
use crate::review::{Greatest, Said, nothing_since_first};
use ingest_catalog::{
    IdSince, LastingCursor, OpenBatch, OpenPass, PassEnd, PassId, PassRef, PassScope, PendingId,
};
use ingest_config::{Job, Region, Step, Variable};
use ingest_quota::Timestamp;

/// How long an id that the upstream forbids is not requested again, where the step has no `fresh_for`.
const FORBIDDEN_FOR: Duration = Duration::from_secs(24 * 60 * 60);

/// The shared pass of a job while its batches are fetched.
pub struct SharedPass<'a> {
    pub context: &'a Context,
    pub job: &'a Job,
    region: Region,
    /// Locked during a landing: the first one opens the pass to which the others belong.
    pub reference: Mutex<PassRef>,
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
    pub shared: Option<PassId>,
    /// Whether this run tried and failed to fetch any.
    pub has_given_up: bool,
    /// Whether the list of any id continued where an earlier one ended.
    has_since: bool,
}

impl Batches {
    /// Whether a pass still waits for ids that it or the shared pass names.
    #[must_use]
    pub fn waits(&self, pass: PassId) -> bool {
        self.waiting.contains(&pass)
            || self
                .shared
                .is_some_and(|shared| self.waiting.contains(&shared))
    }

    /// Records that the ids of a batch could not be fetched, and keeps the worst reason, which is what is reported.
    fn give_up(&mut self, reason: StopReason) {
        self.has_given_up = true;
        let current = self.reason.as_ref().map(StopReason::outcome);
        if current < Some(reason.outcome()) {
            self.reason = Some(reason);
        }
    }

    /// Notes that a step whose lists all began at the first value of `since` had no record at all.
    pub fn note_nothing_since(&mut self, job: &Job, step: &Step) {
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
            .map_or_else(|| new_shared_pass(job, now), PassRef::Open)
    }

    /// Returns why a pass still waits.
    #[must_use]
    pub fn why(&self) -> StopReason {
        self.reason
            .clone()
            .unwrap_or_else(|| StopReason::Failed("ids of this region were not fetched".to_owned()))
    }
}

impl<'a> SharedPass<'a> {
    /// Resumes the unfinished shared pass of a job, or starts a new one. One older than `resume_within` is abandoned.
    ///
    /// # Errors
    /// When the catalog cannot be read.
    pub async fn open(
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
            let continues = !job.relists || batches.shared == Some(pass.id);
            if continues && now.since(pass.started_at) < job.resume_within {
                batches.resumed |= batches.shared != Some(pass.id);
                fit_to_job(context, job, &mut pass, batches).await?;
                reference = PassRef::Open(pass.id);
                batches.said.doubts.append(&mut pass.doubts);
                begun_relist = pass.relists;
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
            relists,
            begun_relist,
            oldest: oldest.unwrap_or(now),
        })
    }

    /// Returns when the pass began for which an id is fetched. An id that a batch named is fetched for the passes that the batch
    /// serves, so the oldest of them counts. `shared`: the pass that the batches belong to.
    pub fn began_of(&self, pending: &PendingId, shared: Option<PassId>) -> Timestamp {
        match Some(pending.pass) == shared {
            true => self.oldest,
            false => pending.began,
        }
    }

    /// Returns the batches of a step that an earlier run left between two pages.
    pub fn begun(&self, index: usize) -> impl Iterator<Item = &OpenBatch> {
        self.begun.iter().filter(move |batch| batch.step == index)
    }

    /// Fetches batches of ids, several at once.
    pub async fn fetch_all(&self, step: &Step, work: Vec<OpenBatch>, batches: &mut Batches) {
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
        batches.shared = self.id().await;
    }

    /// Fetches batches. One that a limit stops makes the others stop at their charge. One that is refused as a whole is requested again in halves, down to the id that the upstream refuses,
    /// so that it does not cost the others theirs. Where no batch of the step is served, no single id is the cause, and the step
    /// fails.
    async fn fetch_served(
        &self,
        step: &Step,
        mut work: Vec<OpenBatch>,
        sinces: &Sinces,
        batches: &mut Batches,
    ) {
        let (mut served, mut rounds) = (false, 0);
        while !work.is_empty() {
            let mut refused = Vec::new();
            let round = std::mem::take(&mut work).into_iter();
            let round = round.map(async |batch| {
                let mut list = self.list(step, batch, sinces);
                let fetched = list.run().await;
                (list, fetched)
            });
            for (list, fetched) in all(self.context.concurrency, round).await {
                batches.stats.add(&list.stats);
                batches.said.add(list.said);
                // Half of the pages of such a batch would be paid for again.
                let is_begun = list.position.cursor.is_some();
                match (fetched, list.of) {
                    (Ok(()), _) => served = true,
                    (Err(StopReason::Unserved(why)), _) if is_begun => {
                        let why = format!("the upstream refused the next page: {why}");
                        batches.give_up(StopReason::Failed(why));
                    }
                    (Err(reason @ StopReason::Forbidden(_)), _) if is_begun => {
                        batches.give_up(StopReason::Failed(reason.to_string()));
                    }
                    (
                        Err(
                            reason @ (StopReason::Unserved(_)
                            | StopReason::Unsendable(_)
                            | StopReason::Forbidden(_)),
                        ),
                        Of::Batch(Batch { batch, .. }),
                    ) => refused.push((batch, reason)),
                    (Err(reason), _) => batches.give_up(reason),
                }
            }
            // Of a single batch nobody knows yet whether one of its ids is refused or the step: its halves show that.
            let is_some_ids_fault = served || (rounds == 0 && refused.len() == 1);
            for (batch, reason) in refused {
                // Of a request that is forbidden, or cannot be built, the run knows that.
                let is_forbidden =
                    matches!(reason, StopReason::Forbidden(_) | StopReason::Unsendable(_));
                let why = match &reason {
                    StopReason::Unserved(why) => why.clone(),
                    reason => reason.to_string(),
                };
                if !is_some_ids_fault && !is_forbidden {
                    let reason = StopReason::Failed(format!(
                        "the upstream refused every request of {}: {why}",
                        step.call.name
                    ));
                    batches.give_up(reason);
                } else if batch.ids.len() == 1 {
                    batches.forbidden = batches.forbidden.take().or(is_forbidden.then_some(reason));
                    let withheld = is_forbidden
                        .then(|| withheld_until(step, self.context))
                        .flatten();
                    self.leave_out(step, batch, (&why, withheld), batches).await;
                } else {
                    work.extend(batch.halves());
                }
            }
            rounds += 1;
        }
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
        (why, withheld_until): (&str, Option<Timestamp>),
        batches: &mut Batches,
    ) {
        let id = batch.ids.first();
        let note = id.map(|id| format!("id `{id}` was refused and skipped: {why}"));
        batches.said.notes.extend(note);
        let mut list = self.list(step, batch, &Sinces::new());
        // The landing stores the requests that no page was landed for: those that found out about the id are among them.
        list.stats = std::mem::take(&mut batches.stats);
        let landed = list.leave_out_id(withheld_until).await;
        batches.stats = list.stats;
        if let Err(reason) = landed {
            batches.give_up(reason);
        }
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
            since: since.value(last.map(|last| last.began), last_greatest),
            greatest: Greatest::read(self.job, batch.began, stored),
            lasting: lasting.filter(is_same).map(|one| one.cursor.clone()),
            relists: self.relists,
            last_pages: 0,
        };
        let position = Position {
            pages: batch.cursors.len() as u64,
            empty_pages: batch.empty_pages,
            cursor: batch.cursor().map(str::to_owned),
            is_done: false,
        };
        let index = batch.step;
        let of = Of::Batch(Batch::new(self, batch));
        let mut list = List::new(
            self.context,
            (self.job, &self.region),
            (index, step),
            start,
            of,
        );
        list.position = position;
        list
    }

    /// Stores which records named the ids that a step requested. All regions have listed by then, while a batch was often
    /// fetched before the last record that names one of its ids was landed.
    ///
    /// # Errors
    /// When the catalog cannot be written.
    pub async fn link_parents(&self, index: usize, step: &Step) -> Result<(), StopReason> {
        let now = self.context.clock.now();
        if let Some(pass) = self.id().await
            && let Some(query) = pending_query(self.job, step, PassScope::Open, now)
        {
            let catalog = &self.context.catalog;
            let linked = catalog.link_parents(pass, index, query);
            self.context.on_catalog(&self.job.name, linked).await?;
        }
        Ok(())
    }

    /// Returns the passes that still name ids to fetch.
    ///
    /// # Errors
    /// When the catalog cannot be read.
    pub async fn waiting(&self) -> Result<HashSet<PassId>, StopReason> {
        let mut waiting = HashSet::new();
        for step in &self.job.steps {
            let pending = pending(self.context, self.job, step).await?;
            waiting.extend(pending.into_iter().map(|pending| pending.pass));
        }
        Ok(waiting)
    }

    /// Returns the pass in the catalog; `None` before its first page.
    pub async fn id(&self) -> Option<PassId> {
        match &*self.reference.lock().await {
            PassRef::Open(id) => Some(*id),
            PassRef::New { .. } => None,
        }
    }

    /// Completes the shared pass, unless it still names ids: then the next run resumes it.
    ///
    /// # Errors
    /// When the catalog cannot be written.
    pub async fn finish(&self, batches: &Batches) -> Result<(), StopReason> {
        if let Some(id) = self.id().await
            && batches.reason.is_none()
            && !batches.waiting.contains(&id)
        {
            let end = match batches.said.is_doubtful() {
                false => PassEnd::Complete,
                true => PassEnd::Doubtful,
            };
            let (pass, now) = (PassRef::Open(id), self.context.clock.now());
            let finished = self.context.catalog.finish(&pass, end, now);
            self.context.on_catalog(&self.job.name, finished).await?;
        }
        Ok(())
    }
}

/// Until when an id that the upstream forbids is not requested again: where nothing stays fresh, each pass would pay for it.
fn withheld_until(step: &Step, context: &Context) -> Option<Timestamp> {
    let stays_fresh = step.ids.as_ref().is_some_and(|ids| ids.fresh_for.is_some());
    (!stays_fresh).then(|| context.clock.now() + FORBIDDEN_FOR)
}

/// Where the lists of ids continue, by id.
type Sinces = HashMap<String, IdSince>;

/// A shared pass that has landed no page.
fn new_shared_pass(job: &Job, now: Timestamp) -> PassRef {
    PassRef::New {
        job: job.name.clone(),
        region: Region::SHARED.to_owned(),
        slice: None,
        started_at: now,
    }
}

/// Updates the catalog where the steps of the job were edited since the batches stopped.
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
        batches.said.note(note);
    }
    Ok(context.catalog.rearrange(pass.id, &edited.change).await?)
}

/// Returns the ids that a step still has to fetch.
///
/// # Errors
/// When the catalog cannot be read.
pub async fn pending(
    context: &Context,
    job: &Job,
    step: &Step,
) -> Result<Vec<PendingId>, StopReason> {
    match pending_query(job, step, PassScope::Open, context.clock.now()) {
        Some(query) => {
            let pending = context.catalog.pending_ids(query);
            Ok(context.on_catalog(&job.name, pending).await?)
        }
        None => Ok(Vec::new()),
    }
}
