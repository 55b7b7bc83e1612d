//! The shared pass of a job, under region `*`, to which its batches of ids belong.

use std::collections::{HashMap, HashSet};
use std::time::Duration;

use tokio::sync::Mutex;

use super::all::all;
use super::context::Context;
use super::due::LONGEST_TOLERANCE;
use super::estimate::pending_query;
use super::pager::{Ended, NextPage, PagePosition, Pager, Parameters, Position, Target};
use super::stats::PassStats;
use super::steps::{fit_shared, request_of};
use super::stop_reason::StopReason;
use crate::review::{Greatest, listed_anew, nothing_since_first};
use ingest_base::fnv::fnv;
use ingest_base::list_so_far::ListSoFar;
use ingest_base::record::Doubted;
use ingest_catalog::{
    AtKnown, IdSince, LastingCursor, OpenBatch, OpenPass, PassEnd, PassId, PassRef, PassScope,
    PendingId,
};
use ingest_config::{Job, Lasting, Region, SinceValue, Step, Variable};
use ingest_quota::Timestamp;
use ingest_upstream::Page;

/// How long an id that the upstream forbids is not requested again, where the step has no `fresh_for`.
const FORBIDDEN_FOR: Duration = Duration::from_secs(24 * 60 * 60);

/// The shared pass of a job while its batches are fetched.
pub struct SharedPass<'a> {
    pub context: &'a Context,
    pub job: &'a Job,
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
    /// Notes for people.
    pub notes: Vec<String>,
    /// The doubts about their lists, those of earlier runs included.
    pub doubts: Vec<Doubted>,
    /// The passes that still name ids to fetch.
    pub waiting: HashSet<PassId>,
    /// The pass that the batches belong to.
    pub shared: Option<PassId>,
    /// Ids that this run tried and failed to fetch, each with its step.
    pub given_up: HashSet<(usize, String)>,
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

    /// Records that the ids of a batch could not be fetched.
    pub fn give_up(&mut self, batch: OpenBatch, reason: StopReason) {
        self.given_up
            .extend(batch.ids.into_iter().map(|id| (batch.step, id)));
        self.stop_for(reason);
    }

    /// Adds notes, each once: batches of a step mostly have the same ones.
    fn note(&mut self, notes: Vec<String>) {
        for note in notes {
            if !self.notes.contains(&note) {
                self.notes.push(note);
            }
        }
    }

    /// Notes that a step whose lists all began at the first value of `since` had no record at all.
    pub fn note_nothing_since(&mut self, job: &Job, step: &Step) {
        let is_empty = self.stats.records == 0 && self.stats.requests > 0;
        let is_first = !self.has_since && job.since.first.is_some();
        if is_empty && is_first && job.names(step, &Variable::Since) {
            self.note(vec![nothing_since_first(&step.call.name)]);
        }
    }

    /// Keeps the worst reason, which is what is reported.
    pub fn stop_for(&mut self, reason: StopReason) {
        if self
            .reason
            .as_ref()
            .is_none_or(|current| current.outcome() < reason.outcome())
        {
            self.reason = Some(reason);
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
                batches.doubts.append(&mut pass.doubts);
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
                let all = work.into_iter();
                return all.for_each(|batch| batches.give_up(batch, reason.clone()));
            }
        };
        batches.has_since |= !sinces.is_empty();
        self.fetch_served(step, work, &sinces, batches).await;
        batches.shared = self.id().await;
    }

    /// Fetches batches. One that is refused as a whole is requested again in halves, down to the id that the upstream refuses,
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
            let round = std::mem::take(&mut work);
            let refused = self
                .fetch_concurrently(step, (round, sinces), &mut served, batches)
                .await;
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
                    batches.give_up(batch, reason);
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

    /// Fetches these batches, and returns those that were refused as a whole, with the reason.
    async fn fetch_concurrently(
        &self,
        step: &Step,
        (work, sinces): (Vec<OpenBatch>, &Sinces),
        served: &mut bool,
        batches: &mut Batches,
    ) -> Vec<(OpenBatch, StopReason)> {
        let mut refused = Vec::new();
        let work = work
            .into_iter()
            .map(|batch| self.fetch_batch(step, batch, sinces));
        for (batch, pager, fetched) in all(self.context.concurrency, work).await {
            batches.stats.add(&pager.stats);
            batches.note(pager.notes);
            batches.doubts.extend(pager.doubts);
            match fetched {
                Ok(()) => *served = true,
                Err(
                    reason @ (StopReason::Unserved(_)
                    | StopReason::Unsendable(_)
                    | StopReason::Forbidden(_)),
                ) => {
                    refused.push((batch, reason));
                }
                Err(reason) => batches.give_up(batch, reason),
            }
        }
        refused
    }

    /// Fetches all pages of one batch. A batch that a limit stops makes the others stop at their charge.
    async fn fetch_batch<'s>(
        &'s self,
        step: &'s Step,
        mut batch: OpenBatch,
        sinces: &Sinces,
    ) -> (OpenBatch, Pager<'s>, Result<(), StopReason>) {
        let mut pager = Pager::new(self.context, self.job, &self.region, step, 0);
        let mut list = Batch::new(self, step, &mut batch, sinces);
        let fetched = match pager.run(&mut list).await {
            // Half of its pages would be paid for again.
            Err(StopReason::Unserved(why)) if batch.cursor().is_some() => Err(StopReason::Failed(
                format!("the upstream refused the next page: {why}"),
            )),
            Err(reason @ StopReason::Forbidden(_)) if batch.cursor().is_some() => {
                Err(StopReason::Failed(reason.to_string()))
            }
            fetched => fetched,
        };
        (batch, pager, fetched)
    }

    /// Lands a batch of one id that the upstream refused: the id is absent.
    async fn leave_out(
        &self,
        step: &Step,
        mut batch: OpenBatch,
        (why, withheld_until): (&str, Option<Timestamp>),
        batches: &mut Batches,
    ) {
        let id = batch.ids.first();
        let note = id.map(|id| format!("id `{id}` was refused and skipped: {why}"));
        batches.notes.extend(note);
        let mut pager = Pager::new(self.context, self.job, &self.region, step, 0);
        // The landing stores the requests that no page was landed for: those that found out about the id are among them.
        pager.stats = std::mem::take(&mut batches.stats);
        let requested = batch.advance(&HashSet::new(), None);
        let decided = Decided {
            requested,
            withheld_until,
            ..Decided::default()
        };
        let landed = self.land(&mut pager, Page::default(), (&batch, decided));
        let landed = landed.await;
        batches.stats = pager.stats;
        if let Err(reason) = landed {
            batches.give_up(batch, reason);
        }
    }

    async fn land(
        &self,
        pager: &mut Pager<'_>,
        page: Page,
        (batch, decided): (&OpenBatch, Decided),
    ) -> Result<(), StopReason> {
        let mut reference = self.reference.lock().await;
        let place = PagePosition {
            pass: reference.clone(),
            step: batch.step,
            next: None,
            at_known: AtKnown::Ignore,
            cut: false,
            list: ListSoFar::default(),
            greatest: None,
            empty_pages: 0,
            requested: decided.requested,
            withheld_until: decided.withheld_until,
            batch: Some(batch.clone()),
            lasting: None,
            since: decided.since,
            doubts: decided.doubts,
            if_repeats: None,
            relists: self.relists,
        };
        let landed = pager.store(page, place).await?;
        *reference = PassRef::Open(landed.pass);
        Ok(())
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
            let end = match batches.doubts.is_empty() {
                true => PassEnd::Complete,
                false => PassEnd::Doubtful,
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

/// What a page decides beside the state of its batch.
#[derive(Default)]
struct Decided {
    /// The ids whose fate it decides.
    requested: Vec<String>,
    /// Until when it is not requested again, beyond `fresh_for`.
    withheld_until: Option<Timestamp>,
    /// Where the next list of its only id continues.
    since: Option<IdSince>,
    doubts: Vec<Doubted>,
}

/// Where the lists of ids continue, by id.
type Sinces = HashMap<String, IdSince>;

/// The list of one batch.
struct Batch<'a> {
    shared: &'a SharedPass<'a>,
    batch: &'a mut OpenBatch,
    /// The value of `{since}` for its only id; `None`: the Unix epoch.
    since: Option<SinceValue>,
    greatest: Greatest,
    /// The cursor of the last list with which this one begins.
    lasting: Option<String>,
    is_done: bool,
    is_restarted: bool,
    /// The hashes of the ids that its pages returned in this run.
    seen: HashSet<u128>,
    /// What its pages showed of it as a whole; `None` for a batch of several ids, and for a list of which an earlier run read a
    /// part.
    list: Option<ListSoFar>,
    /// Whether its upstream names each next page.
    names_next: bool,
}

impl<'a> Batch<'a> {
    fn new(
        shared: &'a SharedPass<'a>,
        step: &Step,
        batch: &'a mut OpenBatch,
        sinces: &Sinces,
    ) -> Self {
        let relists = match batch.cursor() {
            Some(_) => shared.begun_relist,
            None => shared.relists,
        };
        let last = batch.ids.first().and_then(|id| sinces.get(id));
        let last_greatest = last.and_then(|last| last.greatest.as_deref());
        let request = || request_of(shared.job, step, &shared.region);
        let lasting = last
            .and_then(|last| last.lasting.as_ref())
            .filter(|_| !relists);
        Self {
            lasting: lasting
                .filter(|lasting| lasting.request == request())
                .map(|lasting| lasting.cursor.clone()),
            since: (shared.job.since).value(last.map(|last| last.began), last_greatest),
            list: (batch.ids.len() == 1 && batch.cursor().is_none()).then(ListSoFar::default),
            greatest: Greatest::read(
                shared.job,
                batch.began,
                [
                    batch.greatest.as_deref(),
                    last_greatest.filter(|_| shared.job.since.at.is_some()),
                ],
            ),
            shared,
            batch,
            is_done: false,
            is_restarted: false,
            seen: HashSet::new(),
            names_next: step.call.paging.names_next(None, false),
        }
    }

    /// Adds what a page shows of the list as a whole.
    fn add(&mut self, pager: &Pager<'_>, page: &Page) {
        if let Some(list) = &mut self.list {
            pager.add_to(list, page);
            list.listed = u64::try_from(self.seen.len()).unwrap_or(u64::MAX);
        }
    }

    /// Judges the list, whose end is proved. Returns its doubts, and whether the next one has to begin where it did.
    fn judge(&mut self, pager: &mut Pager<'_>) -> (Vec<Doubted>, bool) {
        let Some(mut list) = self.list.take() else {
            return (Vec::new(), false);
        };
        // Beside the records of one id, a number that only looks like that of all records is often one of the id.
        list.total = list
            .total
            .filter(|_| pager.step.call.paging.total().is_some());
        let judged = pager.judge(&list, false);
        let findings = judged.findings.into_iter();
        let doubts = findings.filter_map(|one| pager.add(one)).collect();
        (doubts, judged.is_cut)
    }

    /// Begins the list once more.
    fn start_over(&mut self) {
        self.batch.start_over();
        self.seen.clear();
        self.list = (self.batch.ids.len() == 1).then(ListSoFar::default);
    }

    /// Returns where the next list of its id continues.
    fn end_of_list(&self, pager: &Pager<'_>, lasting: Option<String>) -> Option<IdSince> {
        let id = self.batch.ids.first()?;
        let request = || request_of(pager.job, pager.step, pager.region);
        continues(pager.job, pager.step).then(|| IdSince {
            id: id.clone(),
            began: self.batch.began,
            greatest: self.greatest.stored(pager.job),
            lasting: lasting.map(|cursor| LastingCursor {
                request: request(),
                cursor,
            }),
        })
    }
}

impl Target for Batch<'_> {
    fn position(&self) -> Position {
        match self.batch.cursor() {
            None if self.is_done => Position::Done,
            None => Position::Start,
            Some(cursor) => Position::At {
                cursor: cursor.to_owned(),
                pages: self.batch.cursors.len() as u64,
                empty_pages: self.batch.empty_pages,
            },
        }
    }

    fn parameters(&self) -> Parameters<'_> {
        Parameters {
            ids: &self.batch.ids,
            began: self.batch.began,
            since: self.since.as_ref(),
            lasting: self.lasting.as_deref(),
            // Of a batch that an earlier run began, its cursor shows it.
            is_named: self.batch.cursor().is_some() && self.names_next,
        }
    }

    async fn land(&mut self, pager: &mut Pager<'_>, page: NextPage) -> Result<(), StopReason> {
        let records = &page.page.records;
        let (since, greatest) = (self.since.as_ref(), &mut self.greatest);
        pager.note_all(greatest.see(pager.job, pager.step, since, &page.page));
        let came: HashSet<&str> = records.iter().map(|record| record.id.as_str()).collect();
        let mut brings_new = false;
        for id in &came {
            brings_new |= self.seen.insert(fnv(id));
        }
        // A cursor that repeats without a new record would never end the list.
        let repeats = |next: &String| !brings_new && self.batch.cursors.contains(next);
        let next = page.next.clone().filter(|next| !repeats(next));
        let is_empty = came.is_empty() && page.page.removed.is_empty();
        let repeated = next.is_none() && page.next.is_some() && !is_empty;
        let mut doubts = page.doubts;
        if repeated {
            doubts.extend(pager.add(page.if_repeats));
        }
        let mut is_cut = repeated;
        self.add(pager, &page.page);
        if page.completes && !repeated && doubts.is_empty() {
            (doubts, is_cut) = self.judge(pager);
        }
        self.is_done = next.is_none();
        self.batch.empty_pages = page.empty_pages;
        self.batch.greatest = self.greatest.stored(pager.job);
        let since = self.end_of_list(pager, page.page.lasting.clone());
        let decided = Decided {
            since: since.filter(|_| page.completes && !is_cut && doubts.is_empty()),
            requested: self.batch.advance(&came, next),
            withheld_until: None,
            doubts,
        };
        let landed = (self.shared).land(pager, page.page, (self.batch, decided));
        landed.await
    }

    async fn end(&mut self, pager: &mut Pager<'_>, why: Ended) -> Result<(), StopReason> {
        let (mut proved, mut doubts) = match why {
            Ended::AtMost(doubts) => (false, doubts),
            Ended::Proved(proved, doubts) => (proved, doubts),
        };
        if proved && doubts.is_empty() {
            let is_cut;
            (doubts, is_cut) = self.judge(pager);
            proved = doubts.is_empty() && !is_cut;
        }
        self.is_done = true;
        // The page that only seemed to be the last had it.
        let lasting = match pager.step.call.paging.lasting() {
            Some(Lasting::Last) => self.batch.cursor().map(str::to_owned),
            Some(Lasting::At(_)) | None => None,
        };
        let decided = Decided {
            since: self.end_of_list(pager, lasting).filter(|_| proved),
            requested: self.batch.advance(&HashSet::new(), None),
            withheld_until: None,
            doubts,
        };
        let landed = (self.shared).land(pager, Page::default(), (self.batch, decided));
        landed.await
    }

    async fn restart(&mut self, pager: &mut Pager<'_>, why: String) -> Result<(), StopReason> {
        if self.is_restarted || self.batch.cursor().is_none() {
            return Err(StopReason::BadCursor(why));
        }
        let (job, call) = (&pager.job.name, &pager.step.call.name);
        tracing::warn!(job, call, "{why}; restarting the batch");
        pager
            .notes
            .push(format!("restarted from the first page: {why}"));
        self.start_over();
        self.is_restarted = true;
        Ok(())
    }

    async fn begin_anew(&mut self, pager: &mut Pager<'_>, why: String) -> Result<(), StopReason> {
        let (job, call) = (&pager.job.name, &pager.step.call.name);
        tracing::warn!(job, call, "{why}; listing everything again");
        pager.note(listed_anew(&why));
        if let Some(id) = self.batch.ids.first() {
            let catalog = &pager.context.catalog;
            catalog.forget_lasting_of_id(job, call, id).await?;
        }
        self.lasting = None;
        self.start_over();
        Ok(())
    }

    fn dead_end(&self, why: String) -> StopReason {
        // Halves of the batch would lead there too, so it does not count as refused.
        StopReason::Failed(why)
    }
}

/// Whether the list of an id continues where the last one ended.
fn continues(job: &Job, step: &Step) -> bool {
    job.names(step, &Variable::Since) || step.call.paging.lasting().is_some()
}

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
        batches.notes.push(note);
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
