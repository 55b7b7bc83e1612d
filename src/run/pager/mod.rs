//! One list, page after page: a step of a region's pass, or a batch of ids.

mod batch;
mod proof;
mod step;

use std::sync::OnceLock;

use super::attempt::fetch_page;
use super::context::Context;
use super::due::LONGEST_TOLERANCE;
use super::stats::PassStats;
use super::steps::{LIST_OF_ID, request_of};
use super::stop_reason::StopReason;
use crate::review::{Greatest, Onward, Review, Said, Turn, Verdict};
use ingest_base::clock::Monotonic;
use ingest_base::list_so_far::ListSoFar;
use ingest_base::plain::plain;
use ingest_base::record::{Doubted, Record};
use ingest_catalog::{AtKnown, Landed, Landing, PassRef, StepPosition};
use ingest_config::{Job, Lasting, MOST_EMPTY_PAGES, Region, SinceValue, Step, Variable};
use ingest_quota::Timestamp;
use ingest_upstream::{Page, PageRequest};
use tokio::sync::{Mutex, MutexGuard, OwnedMutexGuard};
use uuid::Uuid;

pub use batch::{Batch, continues};
pub use step::{StepOfPass, marks_gone};

/// A list, whose pages are fetched and landed to its end.
pub struct List<'a> {
    context: &'a Context,
    job: &'a Job,
    region: &'a Region,
    pub step: &'a Step,
    pub start: Start,
    /// Where it is, and what its pages showed of it as a whole, those of earlier runs included.
    pub at: StepPosition,
    pub of: Of,
    /// The pass to which its pages belong, locked during a landing: of the batches that share one, the first page opens it.
    pass: &'a Mutex<PassRef>,
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

/// What a list belongs to.
pub enum Of {
    Step(StepOfPass),
    Batch(Batch),
}

impl<'a> List<'a> {
    #[must_use]
    pub fn new(
        (context, pass): (&'a Context, &'a Mutex<PassRef>),
        (job, region, step): (&'a Job, &'a Region, &'a Step),
        of: Of,
        start: Start,
        at: StepPosition,
    ) -> Self {
        let known = context.known_calls.of(&job.credential.upstream, &step.call);
        let mut review = Review::new(job, step, region, known, start.last_pages);
        review.resume(at.pages, &at.list);
        Self {
            context,
            job,
            region,
            step,
            at,
            of,
            pass,
            stats: PassStats::default(),
            said: Said::default(),
            review,
            request: OnceLock::new(),
            proof: None,
            start,
        }
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
        while !self.is_done() {
            if self.is_cut() {
                let cut = self.review.cut();
                self.said.add(cut.clone());
                let names_since = self.job.names(self.step, &Variable::Since);
                self.end(false, names_since, cut.doubts).await?;
                continue;
            }
            self.check_empty_pages()?;
            match self.fetch().await {
                Ok(page) => self.land(page).await?,
                Err(reason) => self.recover(reason).await?,
            }
        }
        self.learn().await
    }

    const fn is_done(&self) -> bool {
        self.at.pages > 0 && self.at.cursor.is_none()
    }

    /// Whether `max_pages` is below the pages landed by now. A further page that tells how the list ended is not one of its pages.
    fn is_cut(&self) -> bool {
        let most = self.step.max_pages.filter(|_| self.proof.is_none());
        self.at.cursor.is_some() && most.is_some_and(|most| self.at.pages >= most)
    }

    async fn fetch(&mut self) -> Result<Page, StopReason> {
        let request = PageRequest {
            step: self.step,
            region: self.region,
            ids: &self.start.ids,
            cursor: self.at.cursor.as_deref(),
            lasting: self.start.lasting.as_deref(),
            began: self.start.began,
            now: self.context.clock.now(),
            since: self.start.since.as_ref(),
            known: None,
        };
        fetch_page(self.context, self.job, request, &mut self.stats).await
    }

    /// Goes on where the list has no further page, or a page is refused because of where the list stood.
    ///
    /// # Errors
    /// It is refused for another reason.
    async fn recover(&mut self, reason: StopReason) -> Result<(), StopReason> {
        match reason {
            // An earlier run stopped before this page. It may be one that was to tell how the list ends, and many upstreams refuse
            // a page behind the last one.
            StopReason::Unserved(why) if self.resumes_where_it_counted() => {
                self.start_over(why, false).await
            }
            // Many upstreams refuse a page behind the last one.
            StopReason::Unserved(_) | StopReason::BadCursor(_) | StopReason::OldCursor(_)
                if self.proof.is_some() =>
            {
                // As in `land`: held until the end is learned.
                let _proof = self.proof.take();
                let said = self.review.refused();
                self.said.add(said.clone());
                self.end(!said.is_doubtful(), false, said.doubts).await?;
                self.learn().await
            }
            StopReason::OldCursor(why) => self.start_over(why, true).await,
            // Behind the first page, the cursor of the page itself is meant.
            StopReason::BadCursor(why) => {
                let is_first = self.at.cursor.is_none();
                self.start_over(why, is_first).await
            }
            StopReason::Unserved(why) if self.may_be_behind_the_end() => {
                Err(StopReason::Unserved(format!(
                    "{why}; if the upstream refuses a page behind a full last one like this, match it in `errors` with \
                    class = \"end\""
                )))
            }
            reason => Err(reason),
        }
    }

    /// Whether the page requested last follows a page that was full, and the upstream did not name it.
    fn may_be_behind_the_end(&self) -> bool {
        self.review.has_begun() && self.step.call.paging.can_lead_behind_the_end()
    }

    /// Whether no page was fetched yet of a list that goes on at a position which the program counted itself.
    fn resumes_where_it_counted(&self) -> bool {
        let goes_on = self.at.cursor.is_some() && !self.review.has_begun();
        goes_on && self.step.call.paging.counts_itself()
    }

    /// Refuses to go on behind more than [`MOST_EMPTY_PAGES`] empty pages in a row. The upstream's cursor can lead past any number
    /// of them, and each is paid for. Beyond the bound the list is not complete, and its cursor is kept.
    fn check_empty_pages(&self) -> Result<(), StopReason> {
        let (call, empty_pages) = (&self.step.call, self.at.empty_pages);
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
        let verdict = self.see(&page);
        // An empty page that alone has the cursor of the next pass is landed with it.
        let has_place = matches!(self.step.call.paging.lasting, Some(Lasting::At(_)));
        if verdict.has_proved && !(has_place && page.lasting.is_some()) {
            let is_proved = verdict.onward.is_proved();
            self.end(is_proved, false, verdict.said.doubts).await?;
            return self.learn().await;
        }
        let lacks_some = self.leave_out(&mut page) || page.skipped > 0 || page.is_unbounded;
        let dead_end = page.dead_end.take();
        let is_proof = matches!(verdict.onward, Onward::Proof(_));
        let has_proved = verdict.has_proved;
        let since = self.start.since.as_ref();
        let list = match self.of {
            Of::Step(_) => self.request().to_owned(),
            Of::Batch(_) => LIST_OF_ID.to_owned(),
        };
        let of_list = (self.step, &*list);
        let notes = self.start.greatest.see(self.job, of_list, since, &page);
        notes.into_iter().for_each(|note| self.said.note(note));
        match self.of {
            Of::Step(of) => self.land_in_step(of, page, verdict, lacks_some).await?,
            Of::Batch(_) => self.land_in_batch(page, verdict).await?,
        }
        if has_proved {
            self.learn().await?;
        }
        if is_proof && !self.is_done() {
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

    /// Returns what a page shows.
    fn see(&mut self, page: &Page) -> Verdict {
        let turn = Turn {
            before: self.at.pages,
            begins_at_cursor: self.start.lasting.is_some(),
            barren: self.at.list.barren,
            is_named: match &self.of {
                Of::Step(_) => self.at.list.is_named,
                // Of a batch that an earlier run began, its cursor shows it.
                Of::Batch(_) => {
                    self.at.cursor.is_some() && self.step.call.paging.names_next(None, false)
                }
            },
            ids: &self.start.ids,
        };
        let verdict = self.review.see(page, turn);
        let upstream = &self.job.credential.upstream.name;
        let notes = page.clock.note(upstream).into_iter();
        notes.for_each(|note| self.said.note(note));
        self.said.add(verdict.said.clone());
        verdict
    }

    /// Moves behind a page.
    fn advance(&mut self, cursor: Option<String>, is_empty: bool) {
        self.at.pages += 1;
        self.at.empty_pages = self.empty_pages(is_empty);
        self.at.cursor = cursor;
    }

    /// Returns how many pages are empty in a row behind one more.
    const fn empty_pages(&self, is_empty: bool) -> u64 {
        match is_empty {
            true => self.at.empty_pages.saturating_add(1),
            false => 0,
        }
    }

    /// A page to land, which says nothing of its list yet.
    fn landing(&self, page: &mut Page, pass: &PassRef) -> Landing {
        let (call, now) = (&self.step.call, self.context.clock.now());
        Landing {
            id: Uuid::now_v7(),
            pass: pass.clone(),
            step: self.at.step,
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

    /// Lands a page of a pass in the catalog.
    ///
    /// # Errors
    /// When the catalog cannot be written, or the pass is lost.
    async fn commit(
        &mut self,
        mut pass: MutexGuard<'_, PassRef>,
        landing: Landing,
        skipped: u64,
    ) -> Result<Landed, StopReason> {
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
        pass.confirm(&landed);
        Ok(landed)
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

    /// Ends the list behind its last landed page, with the doubts that this shows. `cut`: the next pass has to begin where it did.
    async fn end(
        &mut self,
        is_proved: bool,
        cut: bool,
        doubts: Vec<Doubted>,
    ) -> Result<(), StopReason> {
        let last = self.at.cursor.take();
        match &self.of {
            Of::Step(_) => {
                self.at.list.is_partial |= !is_proved;
                self.at.list.is_ended = is_proved;
                self.store_end(cut, &doubts).await
            }
            Of::Batch(_) => self.end_batch(is_proved, last, doubts).await,
        }
    }

    /// Starts over where a cursor is not accepted: without the one with which the pass began, if that can be meant.
    async fn start_over(&mut self, why: String, may_be_lasting: bool) -> Result<(), StopReason> {
        let is_begun = self.at.cursor.is_some();
        let begins_anew = may_be_lasting && self.start.lasting.is_some();
        if begins_anew {
            self.forget_lasting(&why).await?;
        }
        match &mut self.of {
            // A second restart would pay for the same pages again. A list that begins anew has no pages behind it.
            Of::Step(_) if is_begun || !begins_anew => self.restart_step(&why).await?,
            Of::Step(_) => {}
            Of::Batch(_) if !is_begun && !begins_anew => return Err(StopReason::BadCursor(why)),
            Of::Batch(of) => of.start_over(begins_anew, &why)?,
        }
        if !begins_anew || (is_begun && self.start.ids.is_empty()) {
            let (job, region, call) = (&self.job.name, self.region.key(), &self.step.call.name);
            tracing::warn!(job, region, call, "{why}; restarting the list");
            let note = format!("restarted from the first page: {why}");
            self.said.note(note);
        }
        // The list is read from its beginning.
        self.at = StepPosition {
            step: self.at.step,
            ..StepPosition::default()
        };
        let (job, step, last_pages) = (self.job, self.step, self.start.last_pages);
        let known = &self.context.known_calls;
        let known = known.of(&job.credential.upstream, &step.call);
        self.review = Review::new(job, step, self.region, known, last_pages);
        Ok(())
    }

    /// Gives up the cursor with which the list began.
    async fn forget_lasting(&mut self, why: &str) -> Result<(), StopReason> {
        let (job, region, call) = (&self.job.name, self.region.key(), &self.step.call.name);
        tracing::warn!(job, region, call, "{why}; listing everything again");
        self.said.note(format!(
            "the cursor of the last pass is too old, so everything is listed again: {why}"
        ));
        let catalog = &self.context.catalog;
        match self.start.ids.as_slice() {
            [] => {
                catalog.forget_lasting(job, &region, self.request()).await?;
            }
            [id, ..] => catalog.forget_lasting_of_id(job, call, id).await?,
        }
        self.start.lasting = None;
        Ok(())
    }
}
