//! One list, page after page: a step of a pass, or a batch of ids.

use std::sync::{Arc, OnceLock};

use super::attempt::fetch_page;
use super::context::Context;
use super::stats::PassStats;
use super::steps::request_of;
use super::stop_reason::StopReason;
use crate::review::{Finding, ListJudged, ListRef, Review, Turn};
use ingest_base::clock::Monotonic;
use ingest_base::list_so_far::ListSoFar;
use ingest_base::plain::plain;
use ingest_base::record::{Doubted, Record};
use ingest_catalog::{AtKnown, IdSince, Landed, Landing, OpenBatch, PassRef, Resource};
use ingest_config::{Job, Lasting, MOST_EMPTY_PAGES, Region, SinceValue, Step};
use ingest_quota::Timestamp;
use ingest_upstream::{Page, PageRequest};
use tokio::sync::OwnedMutexGuard;
use uuid::Uuid;

/// The position of a list.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Position {
    /// Before its first page.
    Start,
    /// Between two pages.
    At {
        /// The cursor of the next page.
        cursor: String,
        /// Pages landed.
        pages: u64,
        /// How many of them were empty, in a row at the end.
        empty_pages: u64,
    },
    /// After its last page.
    Done,
}

/// What the requests of a list have in common.
pub struct Parameters<'a> {
    /// The ids of a batch; empty in a step that lists.
    pub ids: &'a [String],
    /// The start of the pass: the time with which its templates are rendered.
    pub began: Timestamp,
    /// The value of `{since}`; `None`: the Unix epoch.
    pub since: Option<&'a SinceValue>,
    /// The cursor of the last pass with which this one began; `None` in one that lists everything.
    pub lasting: Option<&'a str>,
    /// Whether the upstream named the next page, or said that there is one.
    pub is_named: bool,
}

/// A list whose pages are fetched.
pub trait Target {
    /// Returns where it continues.
    fn position(&self) -> Position;

    /// Returns what its requests have in common.
    fn parameters(&self) -> Parameters<'_>;

    /// Lands a page, and continues after it.
    async fn land(&mut self, pager: &mut Pager<'_>, page: NextPage) -> Result<(), StopReason>;

    /// Ends the list where it is, and no further page is paid for or landed.
    async fn end(&mut self, pager: &mut Pager<'_>, why: Ended) -> Result<(), StopReason>;

    /// Returns to before the first page, once: the cursor has expired, for the reason given.
    async fn restart(&mut self, pager: &mut Pager<'_>, why: String) -> Result<(), StopReason>;

    /// Returns to before the first page of a list that names everything: the cursor with which the pass began is too old, for the
    /// reason given.
    async fn begin_anew(&mut self, pager: &mut Pager<'_>, why: String) -> Result<(), StopReason>;

    /// Why the list stops after a landed page that leads on to where no request can be sent.
    fn dead_end(&self, why: String) -> StopReason;
}

/// Why a list ends behind its last landed page.
pub enum Ended {
    /// `max_pages` is now below the pages landed. What speaks against the list then.
    AtMost(Vec<Doubted>),
    /// Nothing follows: a further page was empty, or is known to be. Whether that is proved, and the doubts about the list.
    Proved(bool, Vec<Doubted>),
}

/// A fetched page, and the position after it.
pub struct NextPage {
    pub page: Page,
    /// The cursor of the next page, unless the list ends here.
    pub next: Option<String>,
    /// Whether `max_pages` ends the list here although it continues.
    pub is_cut: bool,
    /// Whether the list has perhaps more than was landed: its end is not proved, `max_pages` cut it, some of its records have no
    /// id or one that cannot be stored, or no page so far has a list.
    pub is_partial: bool,
    /// Whether the list ends here and is all that there is.
    pub completes: bool,
    /// The doubts that the page adds.
    pub doubts: Vec<Doubted>,
    /// What speaks against the list if the page repeats its cursor without a new record.
    pub if_repeats: Finding,
    /// Pages of the list, this one included.
    pub pages: u64,
    /// How many of them are empty, in a row at the end.
    pub empty_pages: u64,
}

/// Where a page belongs in the catalog.
pub struct PagePosition {
    pub pass: PassRef,
    /// The index of its step.
    pub step: usize,
    pub next: Option<String>,
    /// Whether its list can end at what is known.
    pub at_known: AtKnown,
    /// Whether `max_pages` ended a step that names `{since}`.
    pub cut: bool,
    /// What the pages of its list showed until now, this one included.
    pub list: ListSoFar,
    /// The greatest value seen, as [`ingest_config::Since::stored`] writes it.
    pub greatest: Option<String>,
    pub empty_pages: u64,
    /// The ids of a batch whose fate the page decides.
    pub requested: Vec<String>,
    /// Until when those that did not come are not requested again, beyond `fresh_for`.
    pub withheld_until: Option<Timestamp>,
    /// The batch after this page.
    pub batch: Option<OpenBatch>,
    /// The cursor with which the next pass begins, on a last page.
    pub lasting: Option<String>,
    /// Where the next list of the batch's only id continues; `None` unless the page completes its list.
    pub since: Option<IdSince>,
    /// The doubts that the page adds to the pass, and the one that it adds if its cursor repeats.
    pub doubts: Vec<Doubted>,
    pub if_repeats: Option<Doubted>,
    /// Whether a pass that it begins lists everything again.
    pub relists: bool,
}

/// Fetches the pages of one list to its end.
pub struct Pager<'a> {
    pub context: &'a Context,
    pub job: &'a Job,
    pub region: &'a Region,
    pub step: &'a Step,
    /// What the pages cost and contained.
    pub stats: PassStats,
    /// What a person should know of the list.
    pub notes: Vec<String>,
    /// The doubts about its lists.
    pub doubts: Vec<Doubted>,
    /// What its pages show.
    review: Review<'a>,
    /// What the list requests, once that is needed.
    request: OnceLock<String>,
    /// Held while a further page is requested that tells how lists of the call end.
    proof: Option<OwnedMutexGuard<()>>,
    /// The pages with records in the last complete list of the region.
    last_pages: u64,
}

impl<'a> Pager<'a> {
    /// Begins with a list whose region's last complete pass had this many pages with records.
    #[must_use]
    pub fn new(
        context: &'a Context,
        job: &'a Job,
        region: &'a Region,
        step: &'a Step,
        last_pages: u64,
    ) -> Self {
        Self {
            context,
            job,
            region,
            step,
            stats: PassStats::default(),
            notes: Vec::new(),
            doubts: Vec::new(),
            review: review(context, job, step, region, last_pages),
            request: OnceLock::new(),
            proof: None,
            last_pages,
        }
    }

    /// Fetches and lands all pages that are left.
    ///
    /// # Errors
    /// Why it went no further. The target is at the last landed page.
    pub async fn run(&mut self, target: &mut impl Target) -> Result<(), StopReason> {
        let ended = self.go_on(target).await;
        // A pager outlives its list, and other lists wait for the turn of one that could not request its further page.
        self.proof = None;
        ended
    }

    async fn go_on(&mut self, target: &mut impl Target) -> Result<(), StopReason> {
        loop {
            let position = target.position();
            let (cursor, pages, empty_pages) = match &position {
                Position::Done => return self.learn().await,
                // A further page that tells how the list ended is not one of its pages.
                Position::At { pages, .. } if self.is_last(*pages) && self.proof.is_none() => {
                    let cut = self.review.cut().and_then(|cut| self.add(cut));
                    target.end(self, Ended::AtMost(Vec::from_iter(cut))).await?;
                    continue;
                }
                Position::Start => (None, 0, 0),
                Position::At {
                    cursor,
                    pages,
                    empty_pages,
                } => (Some(cursor.as_str()), *pages, *empty_pages),
            };
            self.check_empty_pages(empty_pages)?;
            match self.fetch(target, cursor).await {
                Ok(page) => self.land(target, page, pages, empty_pages).await?,
                // An earlier run stopped before this page. It may be one that was to tell how the list ends, and many upstreams
                // refuse a page behind the last one.
                Err(StopReason::Unserved(why)) if self.resumes_where_it_counted(cursor) => {
                    self.start_over(target, why, false).await?;
                }
                // Many upstreams refuse a page behind the last one.
                Err(
                    StopReason::Unserved(_) | StopReason::BadCursor(_) | StopReason::OldCursor(_),
                ) if self.proof.is_some() => {
                    // As in `land`: held until the end is learned.
                    let _proof = self.proof.take();
                    self.review.refused();
                    let ended = Ended::Proved(true, Vec::new());
                    target.end(self, ended).await?;
                    self.learn().await?;
                }
                Err(StopReason::OldCursor(why)) => self.start_over(target, why, true).await?,
                // Behind the first page, the cursor of the page itself is meant.
                Err(StopReason::BadCursor(why)) => {
                    self.start_over(target, why, cursor.is_none()).await?;
                }
                Err(StopReason::Unserved(why)) if self.may_be_behind_the_end() => {
                    return Err(StopReason::Unserved(format!(
                        "{why}; if the upstream refuses a page behind a full last one like this, match it in `errors` with \
                        class = \"end\""
                    )));
                }
                Err(reason) => return Err(reason),
            }
        }
    }

    /// Whether the page requested last follows a page that was full, and the upstream did not name it.
    fn may_be_behind_the_end(&self) -> bool {
        self.review.has_begun() && self.step.call.paging.can_lead_behind_the_end()
    }

    /// Starts over where a cursor is not accepted: without the one with which the pass began, if that can be meant.
    async fn start_over(
        &mut self,
        target: &mut impl Target,
        why: String,
        may_be_lasting: bool,
    ) -> Result<(), StopReason> {
        match may_be_lasting && target.parameters().lasting.is_some() {
            true => target.begin_anew(self, why).await?,
            false => target.restart(self, why).await?,
        }
        self.forget();
        Ok(())
    }

    /// Forgets what the pages so far show: the list is read from its beginning.
    fn forget(&mut self) {
        let (job, step, region) = (self.job, self.step, self.region);
        self.review = review(self.context, job, step, region, self.last_pages);
    }

    /// Whether no page was fetched yet of a list that goes on at a position which the program counted itself.
    fn resumes_where_it_counted(&self, cursor: Option<&str>) -> bool {
        cursor.is_some() && !self.review.has_begun() && self.step.call.paging.counts_itself()
    }

    /// Returns what the list requests, whatever the time.
    pub fn request(&self) -> &str {
        self.request
            .get_or_init(|| request_of(self.job, self.step, self.region))
    }

    /// Adds what a page shows to what those of its list before it showed.
    pub fn add_to(&self, list: &mut ListSoFar, page: &Page) {
        self.review.add_to(list, page);
    }

    /// Judges a list that ended, by what all its pages showed.
    pub fn judge(&self, list: &ListSoFar, marks_gone: bool) -> ListJudged {
        self.review.judge(list, marks_gone)
    }

    /// Adds a note, unless it has the same one.
    pub fn note(&mut self, note: String) {
        if !self.notes.contains(&note) {
            self.notes.push(note);
        }
    }

    /// Adds notes, each once.
    pub fn note_all(&mut self, notes: Vec<String>) {
        notes.into_iter().for_each(|note| self.note(note));
    }

    /// Adds doubts, each once.
    fn doubt_all(&mut self, doubts: &[Doubted]) {
        for doubt in doubts {
            if !self.doubts.contains(doubt) {
                self.doubts.push(doubt.clone());
            }
        }
    }

    /// Adds a finding. Returns the doubt; `None` if it is a note.
    pub fn add(&mut self, finding: Finding) -> Option<Doubted> {
        match finding {
            Finding::Doubt(doubt) => {
                self.doubt_all(std::slice::from_ref(&doubt));
                Some(doubt)
            }
            Finding::Note(note) => {
                self.note(note);
                None
            }
        }
    }

    /// Lands a page in the catalog.
    ///
    /// # Errors
    /// When the catalog cannot be written.
    pub async fn store(&mut self, page: Page, place: PagePosition) -> Result<Landed, StopReason> {
        let call = &self.step.call;
        let Some(kind) = &call.records else {
            return Err(StopReason::Failed(format!(
                "`{}` has no records",
                call.name
            )));
        };
        let request = self.request().to_owned();
        let list = ListRef {
            job: self.job,
            step: self.step,
            region: self.region,
            request: &request,
            ids: place.batch.as_ref().map_or(&[], |batch| &batch.ids),
        };
        if let Some(regional) = &self.context.regional_records {
            regional.compare(list, &page.records, &mut self.stats.findings);
        }
        let place_of_lease = Resource::region(&self.job.name, &self.region.key());
        let landing = Landing {
            id: Uuid::now_v7(),
            pass: place.pass,
            step: place.step,
            upstream: self.job.credential.upstream.name.clone(),
            call: call.name.clone(),
            kind: Arc::clone(kind),
            records: page.records,
            request,
            next: place.next,
            removed: page.removed,
            // A slice is listed once, and again by `--relist` only, which begins at no cursor.
            lasting: place.lasting.filter(|_| self.region.slice.is_none()),
            at_known: place.at_known,
            cut: place.cut,
            list: place.list,
            greatest: place.greatest,
            empty_pages: place.empty_pages,
            requested: place.requested,
            withheld_until: place.withheld_until,
            batch: place.batch,
            since: place.since,
            doubts: place.doubts,
            if_repeats: place.if_repeats,
            relists: place.relists,
            requests: self.stats.unlanded_requests,
            units: self.stats.unlanded_units.clone(),
            tag: page.tag,
            now: self.context.clock.now(),
            term: self.context.leases.term(&place_of_lease),
        };
        let records = landing.records.len() as u64;
        let began = Monotonic::now();
        let landed = self.context.land(landing).await;
        let landed = landed.map_err(|not_landed| self.stats.keep(not_landed))?;
        self.stats.land(records, page.skipped);
        let (job, region) = (&self.job.name, self.region.key());
        tracing::debug!(job, region, call = call.name, took = ?began.elapsed(), "page landed");
        self.context.progress.landed(job, &region, records);
        // The page is paid for and stays. But another run may walk the same list, so this one goes no further.
        if landed.lease_lost {
            return Err(StopReason::Failed(format!(
                "another run may have taken over {job} {region}, or the database lost pages in a failover: \
                the records of the last page are kept, and the next run may request it again"
            )));
        }
        Ok(landed)
    }

    async fn fetch(
        &mut self,
        target: &impl Target,
        cursor: Option<&str>,
    ) -> Result<Page, StopReason> {
        let Parameters {
            ids,
            began,
            since,
            lasting,
            is_named: _,
        } = target.parameters();
        let request = PageRequest {
            step: self.step,
            region: self.region,
            ids,
            cursor,
            lasting,
            began,
            now: self.context.clock.now(),
            since,
            known: None,
        };
        fetch_page(self.context, self.job, request, &mut self.stats).await
    }

    /// Lands a page behind `pages` others, of which the last `empty_pages` were empty.
    async fn land(
        &mut self,
        target: &mut impl Target,
        mut page: Page,
        pages: u64,
        empty_pages: u64,
    ) -> Result<(), StopReason> {
        // Held until what the page proves is known to the lists that wait for it.
        let _proof = self.proof.take();
        let Parameters {
            ids,
            since,
            lasting,
            is_named,
            ..
        } = target.parameters();
        let turn = Turn {
            before: pages,
            since,
            begins_at_cursor: lasting.is_some(),
            is_named,
            ids,
        };
        let verdict = self.review.see(&page, turn);
        let upstream = &self.job.credential.upstream.name;
        self.note_all(page.clock.note(upstream).into_iter().collect());
        self.note_all(verdict.notes);
        self.doubt_all(&verdict.doubts);
        // An empty page that alone has the cursor of the next pass is landed with it.
        let is_named = matches!(self.step.call.paging.lasting(), Some(Lasting::At(_)));
        if verdict.has_proved && !(is_named && page.lasting.is_some()) {
            let ended = Ended::Proved(verdict.is_proved, verdict.doubts);
            target.end(self, ended).await?;
            return self.learn().await;
        }
        let is_empty = page.records.is_empty() && page.removed.is_empty();
        let lacks_some = self.leave_out(&mut page);
        let dead_end = page.dead_end.take();
        let (is_cut, has_no_list) = (verdict.is_cut, verdict.has_no_list);
        let is_unproved = verdict.next.is_none() && !verdict.is_proved;
        let next = NextPage {
            is_cut,
            is_partial: lacks_some || page.skipped > 0 || is_cut || is_unproved || has_no_list,
            completes: verdict.next.is_none() && verdict.is_proved && !has_no_list,
            next: verdict.next.filter(|_| !is_cut),
            doubts: verdict.doubts,
            if_repeats: verdict.if_repeats,
            pages: pages + 1,
            empty_pages: match is_empty {
                true => empty_pages.saturating_add(1),
                false => 0,
            },
            page,
        };
        target.land(self, next).await?;
        if verdict.has_proved {
            self.learn().await?;
        }
        if verdict.is_proof {
            self.ask(target).await?;
        }
        // The page is paid for, so it is landed before the list stops.
        dead_end.map_or(Ok(()), |why| Err(target.dead_end(why)))
    }

    /// Waits for the turn to request a further page that tells how lists of the call end, unless another list has found out
    /// meanwhile.
    async fn ask(&mut self, target: &mut impl Target) -> Result<(), StopReason> {
        if !matches!(target.position(), Position::At { .. }) {
            return Ok(());
        }
        let (upstream, call) = (&self.job.credential.upstream, &self.step.call);
        let known = &self.context.known_calls;
        let turn = known.prove(upstream, call);
        let task = format!("{} of {}", self.region.key(), self.job.name);
        let waits = &self.context.waits;
        let turn = waits.on(task, "how other lists of the call end", turn);
        let mut stop = self.context.stop.clone();
        self.proof = tokio::select! {
            // A run that is told to stop sends no further page, even where its turn came at the same moment.
            biased;
            () = stop.wait() => return Err(StopReason::Interrupted(None)),
            turn = turn => Some(turn),
        };
        if self.review.learn(known.of(upstream, call)) {
            self.proof = None;
            return target.end(self, Ended::Proved(true, Vec::new())).await;
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
        let alone = (!self.doubts.is_empty()).then(|| shown.errors_alone());
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

    /// Removes the records whose ids the catalog cannot store, and notes that. Returns whether there are any.
    fn leave_out(&mut self, page: &mut Page) -> bool {
        let catalog = &self.context.catalog;
        let is_too_long = |record: &&Record| !catalog.takes_id(&record.id);
        let Some(first) = page.records.iter().find(is_too_long) else {
            return false;
        };
        let (call, bytes, id) = (&self.step.call.name, first.id.len(), plain(&first.id));
        let note = format!(
            "{call} returned records that are not stored, since their ids are too long for the catalog: check records.id; \
            the first one has {bytes} bytes: {id:.60}..."
        );
        page.records.retain(|record| catalog.takes_id(&record.id));
        // What is not stored cannot be shown again for a page that did not change.
        page.tag = None;
        self.note(note);
        true
    }

    /// Whether a list of `pages` pages may have no more.
    fn is_last(&self, pages: u64) -> bool {
        self.step.max_pages.is_some_and(|most| pages >= most)
    }

    /// Checks that a list may continue behind this many empty pages in a row. The upstream's cursor can lead past any number
    /// of them, and each is paid for. Beyond the bound the list is not complete, and its cursor is kept.
    fn check_empty_pages(&self, empty_pages: u64) -> Result<(), StopReason> {
        let call = &self.step.call;
        if empty_pages <= MOST_EMPTY_PAGES || call.paging.empty_page_ends() {
            return Ok(());
        }
        Err(StopReason::Failed(format!(
            "{} returned {empty_pages} empty pages in a row and its cursor continues, so the list \
            is not complete; if an empty page ends it, write empty_page_ends = true in its `page`",
            call.name
        )))
    }
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
