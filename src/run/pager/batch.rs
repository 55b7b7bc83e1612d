//! A list that is a batch of ids of a job's shared pass.

use std::collections::HashSet;

use super::{List, Of};
use crate::review::Verdict;
use crate::run::stop_reason::StopReason;
use ingest_base::fnv::fnv;
use ingest_base::record::Doubted;
use ingest_catalog::{IdSince, Landing, LastingCursor, OpenBatch, PassRef};
use ingest_config::{Job, Lasting, Step, Variable};
use ingest_quota::Timestamp;
use ingest_upstream::Page;

/// A batch of ids of a job's shared pass.
pub struct Batch {
    pub batch: OpenBatch,
    /// Whether its list is judged as a whole: it is of one id, and this run reads it from its first page.
    is_judged: bool,
    is_restarted: bool,
    /// The hashes of the ids that its pages returned in this run.
    seen: HashSet<u128>,
}

impl Batch {
    /// A batch that is not requested yet, or between two pages.
    #[must_use]
    pub fn new(batch: OpenBatch) -> Self {
        Self {
            is_judged: batch.ids.len() == 1 && batch.cursor().is_none(),
            is_restarted: false,
            seen: HashSet::new(),
            batch,
        }
    }

    /// Goes back to its first page: once, or again where `begins_anew`, without the cursor of the last list.
    pub(super) fn start_over(&mut self, begins_anew: bool, why: &str) -> Result<(), StopReason> {
        if !begins_anew && std::mem::replace(&mut self.is_restarted, true) {
            return Err(StopReason::BadCursor(why.to_owned()));
        }
        self.is_judged = self.batch.ids.len() == 1;
        self.batch.start_over();
        self.seen.clear();
        Ok(())
    }
}

impl List<'_> {
    /// Lands a page of a batch.
    pub(super) async fn land_in_batch(
        &mut self,
        mut page: Page,
        verdict: Verdict,
    ) -> Result<(), StopReason> {
        let Of::Batch(of) = &mut self.of else {
            return Ok(());
        };
        let completes = verdict.onward.is_proved() && !verdict.has_no_list;
        let mut brings_new = false;
        for record in &page.records {
            brings_new |= of.seen.insert(fnv(&record.id));
        }
        // A cursor that repeats without a new record would never end the list.
        let repeats = |next: &String| !brings_new && of.batch.cursors.contains(next);
        let next = verdict.onward.into_cursor();
        let (is_empty, leads_on) = (page.is_empty(), next.is_some());
        let cursor = next.filter(|next| !repeats(next));
        let repeated = cursor.is_none() && leads_on && !is_empty;
        let mut doubts = verdict.said.doubts;
        if of.is_judged {
            self.review.add_to(&mut self.at.list, &page);
            self.at.list.listed = of.seen.len() as u64;
        }
        if repeated {
            doubts.extend(verdict.if_repeats.doubts.clone());
            self.said.add(verdict.if_repeats);
        }
        let mut is_cut = repeated;
        if completes && !repeated && doubts.is_empty() {
            (doubts, is_cut) = self.judge_batch();
        }
        // A page before this one can have raised a doubt, too.
        let is_doubtful = self.said.is_doubtful() || !doubts.is_empty();
        let is_whole = completes && !is_cut && !is_doubtful;
        let since = self.end_of_batch(page.lasting.clone());
        // The ids that a response lacks which is doubtful, or perhaps cut, count as requested for this pass, and not as fresh for the next one; nor do those
        // behind the first ids of a batch, which an upstream may cap.
        let is_unsure = is_doubtful || page.is_unbounded || self.review.lacks_ids();
        let fresh_for = self.step.ids.as_ref().and_then(|ids| ids.fresh_for);
        let stale_at = self.context.clock.now() - fresh_for.unwrap_or_default();
        self.advance(cursor, is_empty);
        let pass = self.pass.lock().await;
        let landing = Landing {
            since: since.filter(|_| is_whole),
            absent_at: is_unsure.then_some(stale_at),
            doubts,
            ..self.batch_landing(&mut page, &pass)
        };
        self.commit(pass, landing, page.skipped).await.map(drop)
    }

    /// Lands the end of a batch, behind its last landed page. `last`: the cursor that led to no further page.
    pub(super) async fn end_batch(
        &mut self,
        is_proved: bool,
        last: Option<String>,
        mut doubts: Vec<Doubted>,
    ) -> Result<(), StopReason> {
        let mut is_whole = is_proved;
        if is_proved && doubts.is_empty() {
            let is_cut;
            (doubts, is_cut) = self.judge_batch();
            is_whole = doubts.is_empty() && !is_cut;
        }
        // The page that only seemed to be the last had it.
        let is_last = self.step.call.paging.lasting == Some(Lasting::Last);
        let since = self.end_of_batch(last.filter(|_| is_last));
        let pass = self.pass.lock().await;
        let landing = Landing {
            since: since.filter(|_| is_whole),
            doubts,
            ..self.batch_landing(&mut Page::default(), &pass)
        };
        self.commit(pass, landing, 0).await.map(drop)
    }

    /// Lands that the upstream refused the only id of a batch: it counts as fetched at `absent_at`; `None`: now.
    pub async fn leave_out_id(&mut self, absent_at: Option<Timestamp>) -> Result<(), StopReason> {
        self.advance(None, false);
        let pass = self.pass.lock().await;
        let landing = Landing {
            absent_at,
            ..self.batch_landing(&mut Page::default(), &pass)
        };
        self.commit(pass, landing, 0).await.map(drop)
    }

    /// A page to land of a batch, which is at its position behind it.
    fn batch_landing(&mut self, page: &mut Page, pass: &PassRef) -> Landing {
        let greatest = self.start.greatest.stored(self.job);
        let mut landing = self.landing(page, pass);
        if let Of::Batch(of) = &mut self.of {
            of.batch.empty_pages = self.at.empty_pages;
            of.batch.greatest = greatest;
            let ids = landing.records.iter().map(|record| record.id.as_str());
            let came: HashSet<&str> = ids.collect();
            landing.requested = of.batch.advance(&came, self.at.cursor.clone());
            landing.batch = Some(of.batch.clone());
        }
        landing
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
            self.at.list.total = None;
        }
        let judged = self.review.judge(&self.at.list, false);
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
}

/// Whether the list of an id continues where the last one ended.
#[must_use]
pub fn continues(job: &Job, step: &Step) -> bool {
    job.names(step, &Variable::Since) || step.call.paging.lasting.is_some()
}
