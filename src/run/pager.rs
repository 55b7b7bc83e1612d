//! One list, page after page: a step of a region's pass, or a batch of ids.

use std::collections::HashSet;
use std::sync::OnceLock;

use super::attempt::fetch_page;
use super::context::Context;
use super::due::LONGEST_TOLERANCE;
use super::stats::PassStats;
use super::steps::request_of;
use super::stop_reason::StopReason;
use crate::review::{Greatest, Onward, Review, Said, Turn, nothing_since_first};
use ingest_base::clock::Monotonic;
use ingest_base::fnv::fnv;
use ingest_base::list_so_far::ListSoFar;
use ingest_base::plain::plain;
use ingest_base::record::{Doubted, Record};
use ingest_catalog::{
    AtKnown, IdSince, Landed, Landing, LastingCursor, OpenBatch, PassRef, StepPosition,
};
use ingest_config::{Job, Lasting, MOST_EMPTY_PAGES, Region, SinceValue, Step, Variable};
use ingest_quota::Timestamp;
use ingest_upstream::{Page, PageRequest};
use tokio::sync::{Mutex, OwnedMutexGuard};
use uuid::Uuid;

const ENDS_EARLY: &str = "the list ended before any record that earlier passes knew; this pass marks no record as gone, and the \
                          next one reads on to what the passes before this one knew (`--relist` reads everything)";

/// A list, whose pages are fetched and landed to its end.
pub struct List<'a> {
    context: &'a Context,
    job: &'a Job,
    region: &'a Region,
    pub step: &'a Step,
    /// The step's index in its job.
    pub index: usize,
    pub start: Start,
    pub position: Position,
    /// What its pages showed of it as a whole, those of earlier runs included.
    pub so_far: ListSoFar,
    pub of: Of<'a>,
    /// What the pages cost and contained.
    pub stats: PassStats,
    pub said: Said,
    /// What its pages show.
    review: Review<'a>,
    /// What it requests, once that is needed.
    request: OnceLock<String>,
    /// Held while a further page is requested that tells how lists of the call end.
    proof: Option<OwnedMutexGuard<()>>,
}

/// What a list begins with.
pub struct Start {
    /// The ids of a batch; empty in a step that lists.
    pub ids: Vec<String>,
    /// The start of the pass: the time with which its templates are rendered.
    pub began: Timestamp,
    /// The value of `{since}`; `None`: the Unix epoch.
    pub since: Option<SinceValue>,
    /// The greatest value seen at the job's `since.at`, former passes included.
    pub greatest: Greatest,
    /// The cursor of the last pass with which it begins; `None` in one that lists everything.
    pub lasting: Option<String>,
    /// Whether its pass lists everything again.
    pub relists: bool,
    /// The pages with records in the last complete list of the region.
    pub last_pages: u64,
}

/// The position of a list.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Position {
    /// Pages landed.
    pub pages: u64,
    /// How many of them were empty, in a row at the end.
    pub empty_pages: u64,
    /// The cursor of the next page; `None` before the first page, and after the last.
    pub cursor: Option<String>,
    pub is_done: bool,
}

/// What a list belongs to.
pub enum Of<'a> {
    Step(StepOfPass),
    Batch(Batch<'a>),
}

/// A step of a region's pass.
pub struct StepOfPass {
    pub pass: PassRef,
    /// Whether the pass has doubts about its lists.
    pub is_doubtful: bool,
    /// Whether the list can end at what is known.
    pub at_known: AtKnown,
    /// Whether a complete pass read it to its end, and found records.
    pub had_records: bool,
    /// Whether the next list has to begin where this one did.
    pub is_cut: bool,
}

/// A batch of ids of a job's shared pass.
pub struct Batch<'a> {
    /// The pass, which is locked during a landing: the first one opens the pass to which the others belong.
    pass: &'a Mutex<PassRef>,
    pub batch: OpenBatch,
    /// Whether its list is judged as a whole: it is of one id, and this run reads it from its first page.
    is_judged: bool,
    is_restarted: bool,
    /// The hashes of the ids that its pages returned in this run.
    seen: HashSet<u128>,
}

/// What a landed page says of its list beside its records.
struct NextPage {
    /// The cursor of the next page, unless the list ends here.
    next: Option<String>,
    /// Whether `max_pages` ends the list here although it continues.
    is_cut: bool,
    /// Whether the list has perhaps more than was landed: its end is not proved, `max_pages` cut it, some of its records have no
    /// id or one that cannot be stored, or no page so far has a list.
    is_partial: bool,
    /// Whether the list ends here.
    is_proved: bool,
    /// Whether that is all that there is.
    completes: bool,
    /// The doubts that the page adds.
    doubts: Vec<Doubted>,
    /// What is said of the list if the page repeats its cursor without a new record.
    if_repeats: Said,
}

impl<'a> List<'a> {
    #[must_use]
    pub fn new(
        context: &'a Context,
        (job, region): (&'a Job, &'a Region),
        (index, step): (usize, &'a Step),
        start: Start,
        of: Of<'a>,
    ) -> Self {
        Self {
            context,
            job,
            region,
            step,
            index,
            position: Position::default(),
            so_far: ListSoFar::default(),
            of,
            stats: PassStats::default(),
            said: Said::default(),
            review: review(context, job, step, region, start.last_pages),
            request: OnceLock::new(),
            proof: None,
            start,
        }
    }

    /// Goes on where an earlier run stopped.
    pub fn resume(&mut self, at: &StepPosition) {
        self.position = Position {
            pages: at.pages,
            empty_pages: at.empty_pages,
            cursor: at.cursor.clone(),
            is_done: at.cursor.is_none(),
        };
        self.review.resume(at.pages, &at.list);
        self.so_far = at.list.clone();
    }

    /// Fetches and lands all pages that are left.
    ///
    /// # Errors
    /// Why it went no further. The list is at the last landed page.
    pub async fn run(&mut self) -> Result<(), StopReason> {
        let ended = self.go_on().await;
        // A list outlives its walk, and others wait for the turn of one that could not request its further page.
        self.proof = None;
        ended
    }

    async fn go_on(&mut self) -> Result<(), StopReason> {
        while !self.position.is_done {
            let Position { pages, cursor, .. } = &self.position;
            // A further page that tells how the list ended is not one of its pages.
            let is_last = self.step.max_pages.is_some_and(|most| *pages >= most);
            if cursor.is_some() && is_last && self.proof.is_none() {
                // `max_pages` is now below the pages landed.
                let cut = self.review.cut();
                self.said.add(cut.clone());
                let names_since = self.job.names(self.step, &Variable::Since);
                self.end(false, names_since, cut.doubts).await?;
                continue;
            }
            self.check_empty_pages()?;
            let is_first = cursor.is_none();
            match self.fetch().await {
                Ok(page) => self.land(page).await?,
                // An earlier run stopped before this page. It may be one that was to tell how the list ends, and many upstreams
                // refuse a page behind the last one.
                Err(StopReason::Unserved(why)) if self.resumes_where_it_counted() => {
                    self.start_over(why, false).await?;
                }
                // Many upstreams refuse a page behind the last one.
                Err(
                    StopReason::Unserved(_) | StopReason::BadCursor(_) | StopReason::OldCursor(_),
                ) if self.proof.is_some() => {
                    // As in `land`: held until the end is learned.
                    let _proof = self.proof.take();
                    let said = self.review.refused();
                    self.said.add(said.clone());
                    self.end(!said.is_doubtful(), false, said.doubts).await?;
                    self.learn().await?;
                }
                Err(StopReason::OldCursor(why)) => self.start_over(why, true).await?,
                // Behind the first page, the cursor of the page itself is meant.
                Err(StopReason::BadCursor(why)) => self.start_over(why, is_first).await?,
                Err(StopReason::Unserved(why)) if self.may_be_behind_the_end() => {
                    return Err(StopReason::Unserved(format!(
                        "{why}; if the upstream refuses a page behind a full last one like this, match it in `errors` with \
                        class = \"end\""
                    )));
                }
                Err(reason) => return Err(reason),
            }
        }
        self.learn().await
    }

    async fn fetch(&mut self) -> Result<Page, StopReason> {
        let request = PageRequest {
            step: self.step,
            region: self.region,
            ids: &self.start.ids,
            cursor: self.position.cursor.as_deref(),
            lasting: self.start.lasting.as_deref(),
            began: self.start.began,
            now: self.context.clock.now(),
            since: self.start.since.as_ref(),
            known: None,
        };
        fetch_page(self.context, self.job, request, &mut self.stats).await
    }

    /// Whether the page requested last follows a page that was full, and the upstream did not name it.
    fn may_be_behind_the_end(&self) -> bool {
        self.review.has_begun() && self.step.call.paging.can_lead_behind_the_end()
    }

    /// Whether no page was fetched yet of a list that goes on at a position which the program counted itself.
    fn resumes_where_it_counted(&self) -> bool {
        let goes_on = self.position.cursor.is_some() && !self.review.has_begun();
        goes_on && self.step.call.paging.counts_itself()
    }

    /// Checks that a list may continue behind so many empty pages in a row. The upstream's cursor can lead past any number
    /// of them, and each is paid for. Beyond the bound the list is not complete, and its cursor is kept.
    fn check_empty_pages(&self) -> Result<(), StopReason> {
        let (call, empty_pages) = (&self.step.call, self.position.empty_pages);
        if empty_pages <= MOST_EMPTY_PAGES || call.paging.empty_page_ends() {
            return Ok(());
        }
        Err(StopReason::Failed(format!(
            "{} returned {empty_pages} empty pages in a row and its cursor continues, so the list \
            is not complete; if an empty page ends it, write empty_page_ends = true in its `page`",
            call.name
        )))
    }

    /// Returns what the list requests, whatever the time.
    fn request(&self) -> &str {
        self.request
            .get_or_init(|| request_of(self.job, self.step, self.region))
    }

    /// Lands a page.
    async fn land(&mut self, mut page: Page) -> Result<(), StopReason> {
        // Held until what the page proves is known to the lists that wait for it.
        let _proof = self.proof.take();
        let is_named = match &self.of {
            Of::Step(_) => self.so_far.is_named,
            // Of a batch that an earlier run began, its cursor shows it.
            Of::Batch(_) => {
                self.position.cursor.is_some() && self.step.call.paging.names_next(None, false)
            }
        };
        let turn = Turn {
            before: self.position.pages,
            begins_at_cursor: self.start.lasting.is_some(),
            is_named,
            ids: &self.start.ids,
        };
        let verdict = self.review.see(&page, turn);
        let upstream = &self.job.credential.upstream.name;
        let notes = page.clock.note(upstream).into_iter();
        notes.for_each(|note| self.said.note(note));
        self.said.add(verdict.said.clone());
        let (onward, doubts) = (verdict.onward, verdict.said.doubts);
        let is_proved = onward == Onward::End { is_proved: true };
        // An empty page that alone has the cursor of the next pass is landed with it.
        let has_place = matches!(self.step.call.paging.lasting, Some(Lasting::At(_)));
        if verdict.has_proved && !(has_place && page.lasting.is_some()) {
            self.end(is_proved, false, doubts).await?;
            return self.learn().await;
        }
        let lacks_some = self.leave_out(&mut page);
        let dead_end = page.dead_end.take();
        let is_cut = onward == Onward::Cut;
        let is_proof = matches!(onward, Onward::Proof(_));
        let is_unproved = onward == Onward::End { is_proved: false };
        let has_no_list = verdict.has_no_list;
        let next = NextPage {
            is_cut,
            is_partial: lacks_some || page.skipped > 0 || is_cut || is_unproved || has_no_list,
            is_proved,
            completes: is_proved && !has_no_list,
            next: onward.into_cursor(),
            doubts,
            if_repeats: verdict.if_repeats,
        };
        let since = self.start.since.as_ref();
        let notes = self.start.greatest.see(self.job, self.step, since, &page);
        notes.into_iter().for_each(|note| self.said.note(note));
        match self.of {
            Of::Step(_) => self.land_in_step(page, next).await?,
            Of::Batch(_) => self.land_in_batch(page, next).await?,
        }
        if verdict.has_proved {
            self.learn().await?;
        }
        if is_proof && !self.position.is_done {
            self.ask().await?;
        }
        // The page is paid for, so it is landed before the list stops.
        match (dead_end, &self.of) {
            (None, _) => Ok(()),
            (Some(why), Of::Step(_)) => Err(StopReason::Unserved(why)),
            // Halves of the batch would lead there too, so it does not count as refused.
            (Some(why), Of::Batch(_)) => Err(StopReason::Failed(why)),
        }
    }

    async fn land_in_step(&mut self, mut page: Page, next: NextPage) -> Result<(), StopReason> {
        let Of::Step(of) = &self.of else {
            return Ok(());
        };
        let (pass, at_known) = (of.pass.clone(), of.at_known);
        let is_doubtful = self.said.is_doubtful() || of.is_doubtful;
        if is_doubtful {
            // What speaks against the list is not shown again for a page that did not change.
            page.tag = None;
        }
        if self.context.compared_records.is_some() {
            let (call, records) = (&self.step.call.name, &page.records);
            self.stats.findings.see_ids(self.job, call, records);
        }
        // An upstream that has one cursor for the whole list ends it with an empty page.
        let is_empty = page.records.is_empty() && page.removed.is_empty();
        let if_repeats = next.if_repeats.doubts.first().filter(|_| !is_empty);
        let mut list = self.so_far.clone();
        list.is_partial |= next.is_partial;
        list.is_ended = next.is_proved;
        self.review.add_to(&mut list, &page);
        self.said.notes.iter().for_each(|note| list.note(note));
        let lasting = self.begins_next(&mut page, &next);
        // One that could not be read completely shows nothing, and a record that was removed changed.
        let is_whole = !next.is_partial && page.removed.is_empty();
        let empty_pages = self.empty_pages(is_empty);
        let landing = Landing {
            next: next.next.clone(),
            at_known: match at_known {
                AtKnown::Stop if !is_whole => AtKnown::ReadOn,
                at_known => at_known,
            },
            cut: next.is_cut && self.job.names(self.step, &Variable::Since),
            list: list.clone(),
            greatest: self.start.greatest.stored(self.job),
            empty_pages,
            // The next pass would begin behind the records that a doubtful list has perhaps missed, and no pass would find them.
            // A slice is listed once, and again by `--relist` only, which begins at no cursor.
            lasting: lasting.filter(|_| !is_doubtful && self.region.slice.is_none()),
            if_repeats: if_repeats.cloned(),
            doubts: next.doubts,
            ..self.landing(&mut page, pass)
        };
        let landed = self.commit(landing, page.skipped).await?;
        if landed.cursor_repeats && !is_empty {
            self.said.add(next.if_repeats);
        }
        list.listed = landed.listed;
        list.is_known = landed.is_known;
        list.is_partial |= landed.is_known;
        self.so_far = list;
        // A cursor that the pass has followed before leads in a circle, of which every page would be paid for again.
        let is_over = landed.cursor_repeats || landed.is_known;
        self.advance(next.next.filter(|_| !is_over), empty_pages);
        if let Of::Step(of) = &mut self.of {
            of.pass.confirm(&landed);
        }
        Ok(())
    }

    async fn land_in_batch(&mut self, page: Page, next: NextPage) -> Result<(), StopReason> {
        let Of::Batch(of) = &mut self.of else {
            return Ok(());
        };
        let mut brings_new = false;
        for record in &page.records {
            brings_new |= of.seen.insert(fnv(&record.id));
        }
        // A cursor that repeats without a new record would never end the list.
        let repeats = |next: &String| !brings_new && of.batch.cursors.contains(next);
        let cursor = next.next.clone().filter(|next| !repeats(next));
        let is_empty = page.records.is_empty() && page.removed.is_empty();
        let repeated = cursor.is_none() && next.next.is_some() && !is_empty;
        let mut doubts = next.doubts;
        if of.is_judged {
            self.review.add_to(&mut self.so_far, &page);
            self.so_far.listed = of.seen.len() as u64;
        }
        if repeated {
            doubts.extend(next.if_repeats.doubts.clone());
            self.said.add(next.if_repeats);
        }
        let mut is_cut = repeated;
        if next.completes && !repeated && doubts.is_empty() {
            (doubts, is_cut) = self.judge_batch();
        }
        // A page before this one can have raised a doubt, too.
        let is_doubtful = self.said.is_doubtful() || !doubts.is_empty();
        let is_whole = next.completes && !is_cut && !is_doubtful;
        let since = self.end_of_batch(page.lasting.clone());
        // The ids that a doubtful response lacks count as requested for this pass, and not as fresh for the next one; nor do those
        // behind the first ids of a batch, which an upstream may cap.
        let fresh_for = self.step.ids.as_ref().and_then(|ids| ids.fresh_for);
        let stale_at = self.context.clock.now() - fresh_for.unwrap_or_default();
        let decided = Decided {
            since: since.filter(|_| is_whole),
            absent_at: (is_doubtful || self.review.lacks_ids()).then_some(stale_at),
            doubts,
        };
        let empty_pages = self.empty_pages(is_empty);
        self.advance(cursor, empty_pages);
        self.decide(page, decided).await
    }

    /// Lands a page of a batch, which is at its position behind it.
    async fn decide(&mut self, mut page: Page, decided: Decided) -> Result<(), StopReason> {
        let greatest = self.start.greatest.stored(self.job);
        let Of::Batch(of) = &mut self.of else {
            return Ok(());
        };
        let pass = of.pass;
        of.batch.empty_pages = self.position.empty_pages;
        of.batch.greatest = greatest;
        let ids = page.records.iter().map(|record| record.id.as_str());
        let came: HashSet<&str> = ids.collect();
        let requested = of.batch.advance(&came, self.position.cursor.clone());
        let batch = of.batch.clone();
        let mut pass = pass.lock().await;
        let landing = Landing {
            requested,
            absent_at: decided.absent_at,
            batch: Some(batch),
            since: decided.since,
            doubts: decided.doubts,
            ..self.landing(&mut page, pass.clone())
        };
        let landed = self.commit(landing, page.skipped).await?;
        pass.confirm(&landed);
        Ok(())
    }

    /// Lands that the upstream refused the only id of a batch: it counts as fetched at `absent_at`; `None`: now.
    ///
    /// # Errors
    /// When the catalog cannot be written.
    pub async fn leave_out_id(&mut self, absent_at: Option<Timestamp>) -> Result<(), StopReason> {
        self.advance(None, 0);
        let decided = Decided {
            absent_at,
            ..Decided::default()
        };
        self.decide(Page::default(), decided).await
    }

    fn empty_pages(&self, is_empty: bool) -> u64 {
        match is_empty {
            true => self.position.empty_pages.saturating_add(1),
            false => 0,
        }
    }

    /// Moves behind a page.
    fn advance(&mut self, cursor: Option<String>, empty_pages: u64) {
        self.position = Position {
            pages: self.position.pages + 1,
            empty_pages,
            is_done: cursor.is_none(),
            cursor,
        };
    }

    /// A page to land, which says nothing of its list yet.
    fn landing(&self, page: &mut Page, pass: PassRef) -> Landing {
        let (call, now) = (&self.step.call, self.context.clock.now());
        Landing {
            id: Uuid::now_v7(),
            pass,
            step: self.index,
            upstream: self.job.credential.upstream.name.clone(),
            call: call.name.clone(),
            kind: call.records.clone().unwrap_or_default(),
            names: self.job.named_by(&call.name),
            records: std::mem::take(&mut page.records),
            removed: std::mem::take(&mut page.removed),
            request: self.request().to_owned(),
            next: None,
            lasting: None,
            at_known: AtKnown::Ignore,
            cut: false,
            list: ListSoFar::default(),
            greatest: None,
            empty_pages: 0,
            requested: Vec::new(),
            absent_at: None,
            batch: None,
            since: None,
            doubts: Vec::new(),
            if_repeats: None,
            relists: self.start.relists,
            requests: self.stats.unlanded_requests,
            units: self.stats.unlanded_units.clone(),
            tag: page.tag.take(),
            now,
            latest: now + LONGEST_TOLERANCE,
        }
    }

    /// Lands a page in the catalog.
    ///
    /// # Errors
    /// When the catalog cannot be written, or the pass is lost.
    async fn commit(&mut self, landing: Landing, skipped: u64) -> Result<Landed, StopReason> {
        if self.step.call.records.is_none() {
            let call = &self.step.call.name;
            return Err(StopReason::Failed(format!("`{call}` has no records")));
        }
        if let Some(compared) = &self.context.compared_records {
            let ids = &self.start.ids;
            let of = (self.job, self.step, self.region);
            compared.compare(of, ids, &landing.records, &mut self.stats.findings);
        }
        let records = landing.records.len() as u64;
        let began = Monotonic::now();
        let landed = self.context.land(landing).await;
        let landed = landed.map_err(|not_landed| self.stats.keep(not_landed))?;
        self.stats.land(records, skipped);
        let (job, region, call) = (&self.job.name, self.region.key(), &self.step.call.name);
        tracing::debug!(job, region, call, took = ?began.elapsed(), "page landed");
        self.context.progress.landed(job, &region, records);
        // The page is paid for and stays. But another run may walk the same list, so this one goes no further.
        if landed.is_lost {
            return Err(StopReason::Failed(format!(
                "another run may have taken over {job} {region}, or the database lost pages in a failover: \
                the records of the last page are kept, and the next run may request it again"
            )));
        }
        Ok(landed)
    }

    /// The cursor with which the next pass begins: that of the last page, or the former one where `max_pages` cut the list. A page
    /// that only seems to be the last has it too, and those behind it replace it.
    fn begins_next(&self, page: &mut Page, next: &NextPage) -> Option<String> {
        let is_last = self.step.call.paging.lasting == Some(Lasting::Last);
        let own = page.lasting.take();
        match next.is_cut {
            true if is_last => page.next.take().or(own),
            true => self.start.lasting.clone(),
            false => own,
        }
    }

    /// Removes the records that are errors, and those whose ids the catalog cannot store, and notes these. Returns whether there are any.
    fn leave_out(&mut self, page: &mut Page) -> bool {
        let catalog = &self.context.catalog;
        let errors = self.review.errors_in(page);
        page.records
            .retain(|record| errors.iter().all(|(id, _)| *id != record.id));
        let is_too_long = |record: &&Record| !catalog.takes_id(&record.id);
        let Some(first) = page.records.iter().find(is_too_long) else {
            return !errors.is_empty();
        };
        let (call, bytes, id) = (&self.step.call.name, first.id.len(), plain(&first.id));
        self.said.note(format!(
            "{call} returned records that are not stored, since their ids are too long for the catalog: check records.id; \
            the first one has {bytes} bytes: {id:.60}..."
        ));
        page.records.retain(|record| catalog.takes_id(&record.id));
        // What is not stored cannot be shown again for a page that did not change.
        page.tag = None;
        true
    }

    /// Waits for the turn to request a further page that tells how lists of the call end, unless another list has found out
    /// meanwhile.
    async fn ask(&mut self) -> Result<(), StopReason> {
        let (upstream, call) = (&self.job.credential.upstream, &self.step.call);
        let known = &self.context.known_calls;
        let turn = known.prove(upstream, call);
        let (waits, job) = (&self.context.waits, &self.job.name);
        let task = format_args!("{} of {job}", self.region.key());
        let listed = waits.begin(task, "how other lists of the call end");
        let mut stop = self.context.stop.clone();
        self.proof = tokio::select! {
            // A run that is told to stop sends no further page, even where its turn came at the same moment.
            biased;
            () = stop.wait() => return Err(StopReason::Interrupted(None)),
            turn = turn => Some(turn),
        };
        drop(listed);
        if self.review.learn(known.of(upstream, call)) {
            self.proof = None;
            return self.end(true, false, Vec::new()).await;
        }
        Ok(())
    }

    /// Keeps what the list shows of its call; of a doubtful one the errors alone.
    async fn learn(&mut self) -> Result<(), StopReason> {
        let (upstream, call) = (&self.job.credential.upstream, &self.step.call);
        if !self.review.has_begun() {
            return Ok(());
        }
        let shown = self.review.shown();
        let alone = self.said.is_doubtful().then(|| shown.errors_alone());
        let shown = alone.as_ref().unwrap_or(shown);
        if let Some(facts) = self.context.known_calls.add(upstream, call, shown) {
            let stored = self.context.catalog.store_call_facts(facts);
            self.context
                .waits
                .on("what a call shows", "the catalog", stored)
                .await?;
        }
        Ok(())
    }

    /// Ends the list behind its last landed page, with the doubts that this shows. `cut`: the next pass has to begin where it did.
    async fn end(
        &mut self,
        is_proved: bool,
        cut: bool,
        doubts: Vec<Doubted>,
    ) -> Result<(), StopReason> {
        let last = self.position.cursor.take();
        self.position.is_done = true;
        match &self.of {
            Of::Step(_) => {
                self.so_far.is_partial |= !is_proved;
                self.so_far.is_ended = is_proved;
                self.store_end(cut, &doubts).await
            }
            Of::Batch(_) => {
                let (mut doubts, mut is_whole) = (doubts, is_proved);
                if is_proved && doubts.is_empty() {
                    let is_cut;
                    (doubts, is_cut) = self.judge_batch();
                    is_whole = doubts.is_empty() && !is_cut;
                }
                // The page that only seemed to be the last had it.
                let is_last = self.step.call.paging.lasting == Some(Lasting::Last);
                let since = self.end_of_batch(last.filter(|_| is_last));
                let decided = Decided {
                    since: since.filter(|_| is_whole),
                    doubts,
                    ..Decided::default()
                };
                self.decide(Page::default(), decided).await
            }
        }
    }

    /// Stores the end of a step.
    async fn store_end(&mut self, cut: bool, doubts: &[Doubted]) -> Result<(), StopReason> {
        let notes = self.said.notes.iter();
        notes.for_each(|note| self.so_far.note(note));
        if let Of::Step(of) = &mut self.of
            && of.pass.id.is_some()
        {
            let (step, list) = ((self.index, cut), &self.so_far);
            let end = self
                .context
                .catalog
                .end_step(&mut of.pass, step, list, doubts);
            end.await?;
        }
        Ok(())
    }

    /// Starts over where a cursor is not accepted: without the one with which the pass began, if that can be meant.
    async fn start_over(&mut self, why: String, may_be_lasting: bool) -> Result<(), StopReason> {
        let is_begun = self.position.cursor.is_some();
        let (job, region, call) = (&self.job.name, self.region.key(), &self.step.call.name);
        let begins_anew = may_be_lasting && self.start.lasting.is_some();
        if begins_anew {
            tracing::warn!(job, region, call, "{why}; listing everything again");
            self.said.note(format!(
                "the cursor of the last pass is too old, so everything is listed again: {why}"
            ));
            let catalog = &self.context.catalog;
            match self.start.ids.as_slice() {
                [] => catalog.forget_lasting(job, &region, self.request()).await?,
                [id, ..] => catalog.forget_lasting_of_id(job, call, id).await?,
            }
            self.start.lasting = None;
        }
        match &mut self.of {
            // A step restarts once, and so does a batch; one that begins anew was not read to the cursor.
            Of::Step(of) if is_begun || !begins_anew => {
                if of.pass.id.is_none() {
                    return Err(StopReason::Failed(why));
                }
                let now = self.context.clock.now();
                let catalog = &self.context.catalog;
                if !catalog.restart_step(&mut of.pass, self.index, now).await? {
                    // A failed pass would request the expired cursor again at every run. A refused one ends, and the next pass
                    // begins when it is due.
                    return Err(StopReason::Unserved(format!(
                        "{why}; the step was already restarted once"
                    )));
                }
            }
            Of::Step(_) => {}
            Of::Batch(of) => {
                if !begins_anew && (of.is_restarted || !is_begun) {
                    return Err(StopReason::BadCursor(why));
                }
                of.is_restarted |= !begins_anew;
                of.is_judged = of.batch.ids.len() == 1;
                of.batch.start_over();
                of.seen.clear();
            }
        }
        if !begins_anew || (is_begun && self.start.ids.is_empty()) {
            tracing::warn!(job, region, call, "{why}; restarting the list");
            let note = format!("restarted from the first page: {why}");
            self.said.note(note);
        }
        self.position = Position::default();
        self.so_far = ListSoFar::default();
        // The list is read from its beginning.
        let (job, step, last_pages) = (self.job, self.step, self.start.last_pages);
        self.review = review(self.context, job, step, self.region, last_pages);
        Ok(())
    }

    /// Judges a step's list by what all its pages showed, those of earlier runs included, once its end is proved or it reached what
    /// is known.
    ///
    /// # Errors
    /// When the catalog cannot be written.
    pub async fn judge(&mut self) -> Result<(), StopReason> {
        let list = &self.so_far;
        let Of::Step(of) = &self.of else {
            return Ok(());
        };
        if !(list.is_ended || list.is_known) || self.said.is_doubtful() {
            return Ok(());
        }
        let is_begun = of.pass.id.is_some();
        let marks_gone =
            list.is_ended && marks_gone(self.job, self.step, self.start.lasting.is_some());
        let mut judged = self.review.judge(list, marks_gone);
        if list.is_ended && self.passed_what_is_known(of).await? {
            (judged.is_partial, judged.is_cut) = (true, true);
            judged.said.note(ENDS_EARLY);
        }
        self.said.add(judged.said.clone());
        if let Of::Step(of) = &mut self.of {
            of.is_cut |= judged.is_cut;
        }
        if judged.is_partial && is_begun {
            self.so_far.is_partial = true;
            let doubts = judged.said.doubts;
            self.store_end(judged.is_cut, &doubts).await?;
        }
        Ok(())
    }

    /// Whether a list that can stop at what is known ended, and nothing of it was: the records that are known are behind an end that
    /// cannot be right, or are all gone, which a pass that reads everything shows.
    async fn passed_what_is_known(&self, of: &StepOfPass) -> Result<bool, StopReason> {
        match of.pass.id {
            Some(id) if of.at_known == AtKnown::Stop && of.had_records => {
                let catalog = &self.context.catalog;
                let meets = catalog.meets_known(id, self.index, self.request());
                Ok(!meets.await?)
            }
            Some(_) | None => Ok(false),
        }
    }

    /// Judges the list of a batch, whose end is proved. Returns its doubts, and whether the next one has to begin where it did.
    fn judge_batch(&mut self) -> (Vec<Doubted>, bool) {
        let Of::Batch(of) = &mut self.of else {
            return (Vec::new(), false);
        };
        if !std::mem::take(&mut of.is_judged) {
            return (Vec::new(), false);
        }
        // Beside the records of one id, a number that only looks like that of all records is often one of the id.
        if self.step.call.paging.total.is_none() {
            self.so_far.total = None;
        }
        let judged = self.review.judge(&self.so_far, false);
        self.said.add(judged.said.clone());
        (judged.said.doubts, judged.is_cut)
    }

    /// Returns where the next list of a batch's only id continues.
    fn end_of_batch(&self, lasting: Option<String>) -> Option<IdSince> {
        let id = self.start.ids.first()?;
        continues(self.job, self.step).then(|| IdSince {
            id: id.clone(),
            began: self.start.began,
            greatest: self.start.greatest.stored(self.job),
            lasting: lasting.map(|cursor| LastingCursor {
                request: self.request().to_owned(),
                cursor,
            }),
        })
    }

    /// Notes that a list has no record at all that begins at a configured `{since}`, or before the newest record that was seen.
    pub fn note_nothing_found(&mut self) {
        let is_empty = self.stats.records == 0 && self.stats.skipped == 0;
        let names_since = self.job.names(self.step, &Variable::Since);
        if !is_empty || self.said.is_doubtful() || !names_since {
            return;
        }
        let (call, since) = (&self.step.call.name, &self.start.since);
        let has_seen_one = since.as_ref().is_some_and(|since| since.text().is_some());
        if since.is_some() && *since == self.job.since.first {
            self.said.note(nothing_since_first(call));
        } else if has_seen_one && self.step.shifts_since() {
            self.said.note(format!(
                "{call}: no record, although {{since}} begins before the newest record that was seen; check the parameter that \
                carries it, and its format, such as {{since:%s}} for seconds"
            ));
        }
    }
}

/// What a page of a batch decides.
#[derive(Default)]
struct Decided {
    /// When the ids that did not come count as fetched; `None`: now.
    absent_at: Option<Timestamp>,
    /// Where the next list of its only id continues.
    since: Option<IdSince>,
    doubts: Vec<Doubted>,
}

impl<'a> Batch<'a> {
    /// A batch that is not requested yet, or between two pages.
    #[must_use]
    pub fn new(pass: &'a Mutex<PassRef>, batch: OpenBatch) -> Self {
        Self {
            is_judged: batch.ids.len() == 1 && batch.cursor().is_none(),
            is_restarted: false,
            seen: HashSet::new(),
            pass,
            batch,
        }
    }
}

/// Whether records that a whole list lacks are gone. A list for a time, such as `{since}` or `{date}`, lists something else in every
/// pass. One whose passes begin at cursors names everything where it begins without one; where nothing says that a record was
/// removed, it can be a feed that keeps the last events only.
#[must_use]
pub fn marks_gone(job: &Job, step: &Step, begins_at_cursor: bool) -> bool {
    let call = &step.call;
    let begins_anew = !begins_at_cursor && call.paging.lasting.is_some();
    let names_everything = !call.names_changes() || (begins_anew && call.names_removed());
    job.time_of(step).is_none() && names_everything
}

/// Whether the list of an id continues where the last one ended.
#[must_use]
pub fn continues(job: &Job, step: &Step) -> bool {
    job.names(step, &Variable::Since) || step.call.paging.lasting.is_some()
}

fn review<'a>(
    context: &Context,
    job: &'a Job,
    step: &'a Step,
    region: &'a Region,
    last_pages: u64,
) -> Review<'a> {
    let known = &context.known_calls;
    let known = known.of(&job.credential.upstream, &step.call);
    Review::new(job, step, region, known, last_pages)
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;
    use ingest_config::Config;

    #[test]
    fn a_list_of_a_time_loses_no_record_and_one_of_changes_only_what_it_names() {
        let gone = |more: &str, params: &str, begins_at_cursor| {
            let text = format!(
                "regions = [\"US\"]\n[upstreams.a]\nbase_url = \"https://a.example.com\"\n[upstreams.a.calls.list]\npath = \"list\"\n\
                 cost = 1\nrecords = {{ at = \"/rows\", kind = \"row\", id = \"/id\"{more} }}\n\
                 page = {{ kind = \"token\", param = \"token\", next = \"/next\", lasting = \"/sync\" }}\n\
                 [credentials.a]\nupstream = \"a\"\nlimits = {{ daily = {{ quota = 100, window = \"24h\" }} }}\n\
                 [jobs.a]\ncredential = \"a\"\nsteps = [{{ call = \"list\"{params} }}]\n"
            );
            let config = Config::parse(&text, Path::new("quotas.toml"), &[]).unwrap();
            let job = &config.jobs[0];
            marks_gone(job, &job.steps[0], begins_at_cursor)
        };
        let removed = ", removed = { at = \"/status\", is = \"cancelled\" }";
        assert!(gone(removed, "", false));
        assert!(!gone(removed, "", true), "it names changes alone");
        assert!(!gone("", "", false), "it can keep the last events only");
        let since = ", params = { since = \"{since}\" }";
        assert!(!gone(removed, since, false), "it is of a time");
    }
}
