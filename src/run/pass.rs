//! A pass of a region: its positions, and the walk through the steps that list.

use std::collections::HashMap;
use std::sync::Arc;

use super::context::Context;
use super::due::Candidate;
use super::pager::{Ended, NextPage, PagePosition, Pager, Parameters, Position, Target};
use super::stats::PassStats;
use super::steps::{listing_steps, readable, request_of, since_of};
use super::stop_reason::StopReason;
use crate::review::{Finding, Greatest, listed_anew, nothing_since_first};
use ingest_base::list_so_far::ListSoFar;
use ingest_base::record::Doubted;
use ingest_catalog::{
    AtKnown, KnownList, Landed, Lease, OpenPass, PassEnd, PassId, PassRef, StepPosition,
};
use ingest_config::{Field, Job, Lasting, Region, SinceValue, Step, Variable};
use ingest_quota::Timestamp;

/// A pass that this run walks, under its lease.
#[derive(Debug)]
pub struct Pass {
    pub job: Arc<Job>,
    pub region: Arc<Region>,
    /// The pass in the catalog.
    pub reference: PassRef,
    /// Whether an earlier run began it.
    pub resumed: bool,
    /// When it began.
    pub began: Timestamp,
    /// The value of `{since}`; `None`: the Unix epoch.
    pub since: Option<SinceValue>,
    /// The greatest value seen at the job's `since.at`, former passes included.
    pub greatest: Greatest,
    /// The cursors of the last complete pass with which its lists begin, by the step's index; none in one that lists everything
    /// again.
    pub lasting: HashMap<usize, String>,
    pub positions: Vec<StepPosition>,
    /// What it cost and contained, in this run.
    pub stats: PassStats,
    /// Notes for people.
    pub notes: Vec<String>,
    /// The doubts about its lists, those of earlier runs included.
    pub doubts: Vec<Doubted>,
    /// Whether it lists everything again, from the first value of `{since}`.
    pub relists: bool,
    /// The pages with records of each step in the last pass that read its list to the end, by the step's index.
    last_filled: HashMap<usize, u64>,
    /// Whether the lists of its steps can end at what is known, by the step's index.
    at_known: HashMap<usize, AtKnown>,
    /// Those of them that the pass before it read to their ends, by the step's index: what these lack and this pass does not meet is
    /// gone.
    walked: HashMap<usize, KnownList>,
    // Other runs keep away from the region until it is dropped.
    _lease: Lease,
}

impl Pass {
    /// Resumes the unfinished pass of a candidate, or starts a new one.
    #[must_use]
    pub fn new(candidate: &Candidate, lease: Lease, now: Timestamp) -> Self {
        let open = candidate.resumable(now);
        // A pass goes on as it began, whatever the options of the run that resumes it.
        let relists = open.map_or(candidate.job.relists, |pass| pass.relists);
        Self {
            reference: reference(&candidate.job, &candidate.region, open, now),
            resumed: open.is_some(),
            began: open.map_or(now, |pass| pass.started_at),
            positions: open.map(|pass| pass.steps.clone()).unwrap_or_default(),
            since: since_of(&candidate.job, &candidate.state, relists),
            doubts: open.map(|pass| pass.doubts.clone()).unwrap_or_default(),
            relists,
            last_filled: last_filled(candidate),
            at_known: at_known(candidate, now),
            walked: walked(candidate),
            greatest: greatest(candidate, open, relists, now),
            lasting: match relists {
                true => HashMap::new(),
                false => candidate.lasting.clone(),
            },
            job: Arc::clone(&candidate.job),
            region: Arc::clone(&candidate.region),
            stats: PassStats {
                skipped: open.map_or(0, skipped),
                ..PassStats::default()
            },
            notes: open.map_or_else(Vec::new, |open| said(candidate, open)),
            _lease: lease,
        }
    }

    /// Returns the position of a step.
    #[must_use]
    pub fn position(&self, step: usize) -> Position {
        match self.positions.iter().find(|position| position.step == step) {
            None => Position::Start,
            Some(StepPosition { cursor: None, .. }) => Position::Done,
            Some(StepPosition {
                cursor: Some(cursor),
                pages,
                empty_pages,
                ..
            }) => Position::At {
                cursor: cursor.clone(),
                pages: *pages,
                empty_pages: *empty_pages,
            },
        }
    }

    /// Moves a step behind a landed page, to `now_at`.
    pub fn advance(&mut self, landed: Landed, mut now_at: StepPosition) {
        self.reference = PassRef::Open(landed.pass);
        // A cursor that the pass has followed before leads in a circle, of which every page would be paid for again.
        let is_over = landed.cursor_repeats || landed.is_known;
        now_at.cursor = now_at.cursor.filter(|_| !is_over);
        self.positions.retain(|at| at.step != now_at.step);
        self.positions.push(now_at);
    }

    /// Ends a step at the pages that are landed.
    pub fn end_step(&mut self, step: usize, list: ListSoFar) {
        if let Some(position) = self.positions.iter_mut().find(|one| one.step == step) {
            position.cursor = None;
            position.list = list;
        }
    }

    /// Whether the upstream named the next page of a step, or said that there is one.
    fn is_named(&self, step: usize) -> bool {
        let position = self.positions.iter().find(|one| one.step == step);
        position.is_some_and(|one| one.list.is_named)
    }

    /// Returns what the pages of a step showed of its list.
    fn list_of(&self, step: usize) -> ListSoFar {
        let position = self.positions.iter().find(|one| one.step == step);
        position.map_or_else(ListSoFar::default, |one| one.list.clone())
    }

    /// Adds notes, each once.
    fn note_all(&mut self, notes: Vec<String>) {
        for note in notes {
            if !self.notes.contains(&note) {
                self.notes.push(note);
            }
        }
    }

    /// Returns a step to before its first page.
    pub fn restart(&mut self, step: usize) {
        self.positions.retain(|position| position.step != step);
    }

    /// Ends it: as doubtful, or as complete, and marks the records as gone that its lists lost. A list for a time, such as `{since}`
    /// or `{date}`, lists something else in every pass, and one that names changes loses none.
    ///
    /// # Errors
    /// When the catalog cannot be written.
    pub async fn complete(&self, context: &Context) -> Result<PassId, StopReason> {
        let whole: Vec<usize> = listing_steps(&self.job)
            // In a list that can end at what is known, a record moves to the front when it changes, also while the pass reads on: the
            // next pass finds that first.
            .filter(|(_, step)| step.stop_at_known.is_none())
            .filter(|(index, step)| {
                !self.list_of(*index).is_partial && self.marks_gone(*index, step)
            })
            .map(|(index, _)| index)
            .collect();
        let now = context.clock.now();
        // A list that may lack pages does not show of any record that it is gone.
        if !self.doubts.is_empty() {
            let finish = context
                .catalog
                .finish(&self.reference, PassEnd::Doubtful, now);
            let id = finish.await?;
            let read = readable(&self.job, &self.region);
            context.catalog.store_refusal(id, &read).await?;
            return Ok(id);
        }
        for walked in self.walked.values() {
            let steps = [walked.step];
            context.catalog.mark_gone(walked.pass, &steps, now).await?;
        }
        let Some(id) = self.id() else {
            let finish = context
                .catalog
                .finish(&self.reference, PassEnd::Complete, now);
            return Ok(finish.await?);
        };
        let gone = context.catalog.complete(id, &whole, now).await?;
        let (job, region) = (&self.job.name, self.region.key());
        tracing::debug!(job, region, gone, "marked records as gone");
        Ok(id)
    }

    /// Whether records that a list lacks are marked as gone, if it is whole.
    fn marks_gone(&self, index: usize, step: &Step) -> bool {
        self.job.time_of(step).is_none() && self.names_everything(index, step)
    }

    /// Whether what a list leaves out is not there. One whose passes begin at cursors names everything where it begins without one;
    /// where nothing says that a record was removed, it can be a feed that keeps the last events only.
    fn names_everything(&self, index: usize, step: &Step) -> bool {
        let begins_anew =
            !self.lasting.contains_key(&index) && step.call.paging.lasting().is_some();
        !step.call.names_changes() || (begins_anew && step.call.names_removed())
    }

    /// Returns the pass in the catalog; `None` before its first page.
    #[must_use]
    pub const fn id(&self) -> Option<PassId> {
        match self.reference {
            PassRef::Open(id) => Some(id),
            PassRef::New { .. } => None,
        }
    }

    /// Returns how many pages its steps list at most; 0 where the configuration has no bound.
    #[must_use]
    pub fn expected_pages(&self) -> u64 {
        listing_steps(&self.job)
            .map(|(_, step)| step.max_pages.unwrap_or_default())
            .sum()
    }

    /// Returns how many pages its listing steps have landed, in all runs.
    #[must_use]
    pub fn pages(&self) -> u64 {
        self.positions.iter().map(|position| position.pages).sum()
    }
}

/// Returns the records without an id in the pages of an unfinished pass.
fn skipped(open: &OpenPass) -> u64 {
    open.steps.iter().map(|at| at.list.skipped).sum()
}

/// Returns the notes with which an unfinished pass is resumed.
fn said(candidate: &Candidate, open: &OpenPass) -> Vec<String> {
    let of_lists = open.steps.iter().flat_map(|at| at.list.notes.clone());
    let edited = candidate.edited.notes.iter().cloned();
    edited.chain(of_lists).collect()
}

/// Returns the pages with records of each step in the last pass that read its list to the end, by the step's index.
fn last_filled(candidate: &Candidate) -> HashMap<usize, u64> {
    let mut filled: HashMap<usize, u64> = candidate.state.last_filled.iter().copied().collect();
    for (index, step) in listing_steps(&candidate.job) {
        if step.stop_at_known.is_some() {
            let list = candidate.known_list(step);
            filled.insert(index, list.map_or(0, |list| list.filled));
        }
    }
    filled
}

/// Returns whether the lists of the steps can end at what is known, by the step's index.
fn at_known(candidate: &Candidate, now: Timestamp) -> HashMap<usize, AtKnown> {
    let steps = listing_steps(&candidate.job);
    steps
        .map(|(index, step)| (index, candidate.at_known(step, now)))
        .collect()
}

/// Returns the lists that the last complete pass read to their ends, which can end at what is known, by the step's index.
fn walked(candidate: &Candidate) -> HashMap<usize, KnownList> {
    let last = candidate.state.last_complete_pass;
    let walked = |(index, step): (usize, &Step)| {
        let list = candidate.known_list(step).copied();
        let list = list.filter(|list| list.is_whole && Some(list.pass) == last)?;
        (!step.call.names_changes()).then_some((index, list))
    };
    listing_steps(&candidate.job).filter_map(walked).collect()
}

/// Returns the greatest value that an unfinished pass, or the last complete one, saw.
fn greatest(
    candidate: &Candidate,
    open: Option<&OpenPass>,
    relists: bool,
    now: Timestamp,
) -> Greatest {
    let last = candidate.state.since.as_ref().filter(|_| !relists);
    let stored = [
        open.and_then(|pass| pass.greatest.as_deref()),
        // Without a place it is when the last pass started.
        last.filter(|_| candidate.job.since.at.is_some())
            .and_then(|last| last.greatest.as_deref()),
    ];
    let began = open.map_or(now, |pass| pass.started_at);
    Greatest::read(&candidate.job, began, stored)
}

fn reference(job: &Job, region: &Region, open: Option<&OpenPass>, now: Timestamp) -> PassRef {
    match open {
        Some(pass) => PassRef::Open(pass.id),
        None => PassRef::New {
            job: job.name.clone(),
            region: region.code.clone(),
            slice: region.slice,
            started_at: now,
        },
    }
}

const ENDS_EARLY: &str = "the list ended before any record that earlier passes knew; this pass marks no record as gone, and the \
                          next one reads on to what the passes before this one knew (`--relist` reads everything)";

/// Walks all listing steps of a pass to their ends.
///
/// # Errors
/// Why it went no further. The pass has the positions that it reached.
pub async fn walk(context: &Context, pass: &mut Pass) -> Result<(), StopReason> {
    let (job, region) = (Arc::clone(&pass.job), Arc::clone(&pass.region));
    for (index, step) in listing_steps(&job) {
        let last_pages = pass.last_filled.get(&index).copied();
        // What changed has any number of pages.
        let last_pages = last_pages.filter(|_| !pass.lasting.contains_key(&index));
        let last_pages = match (last_pages, pass.at_known.get(&index)) {
            // What is known is further behind, however many pages are new, so any end before it is checked.
            (Some(1..), Some(AtKnown::Stop | AtKnown::ReadOn)) => u64::MAX,
            (last_pages, _) => last_pages.unwrap_or(0),
        };
        let mut pager = Pager::new(context, &job, &region, step, last_pages);
        let mut list = Listing {
            pass: &mut *pass,
            index,
        };
        let mut walked = pager.run(&mut list).await;
        if walked.is_ok() {
            walked = list.judge(&mut pager).await;
        }
        if walked.is_ok() {
            pager.notes.extend(found_nothing(pass, &pager));
            pager.notes.extend(lists_the_same(pass, &pager));
        }
        // Of a list that stopped, too: its requests are paid for.
        pass.stats.add(&pager.stats);
        let notes = std::mem::take(&mut pager.notes);
        pass.note_all(notes);
        pass.doubts.append(&mut pager.doubts);
        walked?;
    }
    Ok(())
}

/// The list of one step of a pass.
struct Listing<'a> {
    pass: &'a mut Pass,
    /// The step's index in its job.
    index: usize,
}

impl Target for Listing<'_> {
    fn position(&self) -> Position {
        self.pass.position(self.index)
    }

    fn parameters(&self) -> Parameters<'_> {
        Parameters {
            ids: &[],
            began: self.pass.began,
            since: self.pass.since.as_ref(),
            lasting: self.pass.lasting.get(&self.index).map(String::as_str),
            is_named: self.pass.is_named(self.index),
        }
    }

    async fn land(&mut self, pager: &mut Pager<'_>, mut page: NextPage) -> Result<(), StopReason> {
        let (job, call) = (pager.job, &pager.step.call.name);
        let Pass {
            greatest, since, ..
        } = &mut *self.pass;
        pager.note_all(greatest.see(job, pager.step, since.as_ref(), &page.page));
        if pager.context.regional_records.is_some() {
            pager.stats.findings.see_ids(job, call, &page.page.records);
        }
        let names_since = job.names(pager.step, &Variable::Since);
        let doubts = std::mem::take(&mut page.doubts);
        // An upstream that has one cursor for the whole list ends it with an empty page.
        let is_empty = page.page.records.is_empty() && page.page.removed.is_empty();
        let repeated = (!is_empty).then(|| page.if_repeats.clone());
        let doubted = [&doubts, &pager.doubts, &self.pass.doubts];
        let is_doubtful = doubted.iter().any(|doubts| !doubts.is_empty());
        let lasting = self.lasting(&page, pager.step);
        let mut list = self.pass.list_of(self.index);
        list.is_partial |= page.is_partial;
        list.is_ended = page.completes;
        pager.add_to(&mut list, &page.page);
        pager.notes.iter().for_each(|note| list.note(note));
        let place = PagePosition {
            pass: self.pass.reference.clone(),
            step: self.index,
            next: page.next.clone(),
            at_known: self.at_known(&page),
            cut: page.is_cut && names_since,
            list: list.clone(),
            greatest: self.pass.greatest.stored(job),
            empty_pages: page.empty_pages,
            requested: Vec::new(),
            withheld_until: None,
            batch: None,
            // The next pass would begin behind the records that a doubtful list has perhaps missed, and no pass would find
            // them.
            lasting: lasting.filter(|_| !is_doubtful),
            since: None,
            doubts,
            if_repeats: match &repeated {
                Some(Finding::Doubt(doubt)) => Some(doubt.clone()),
                Some(Finding::Note(_)) | None => None,
            },
            relists: self.pass.relists,
        };
        let landed = pager.store(page.page, place).await?;
        if let Some(finding) = repeated.filter(|_| landed.cursor_repeats) {
            pager.add(finding);
        }
        list.listed = landed.listed;
        list.is_known = landed.is_known;
        list.is_partial |= landed.is_known;
        self.pass.advance(
            landed,
            StepPosition {
                step: self.index,
                pages: page.pages,
                cursor: page.next,
                request: Some(pager.request().to_owned()),
                empty_pages: page.empty_pages,
                list,
            },
        );
        Ok(())
    }

    async fn end(&mut self, pager: &mut Pager<'_>, why: Ended) -> Result<(), StopReason> {
        let names_since = pager.job.names(pager.step, &Variable::Since);
        let (cut, proved, doubts) = match why {
            Ended::AtMost(doubts) => (names_since, false, doubts),
            Ended::Proved(proved, doubts) => (false, proved, doubts),
        };
        let mut list = self.pass.list_of(self.index);
        list.is_partial |= !proved;
        list.is_ended = proved;
        pager.notes.iter().for_each(|note| list.note(note));
        if let Some(id) = self.pass.id() {
            let catalog = &pager.context.catalog;
            // Before the end: a run that is killed in between finds the list to be ended again.
            if !doubts.is_empty() {
                catalog.store_doubts(id, &doubts).await?;
            }
            catalog.end_step(id, self.index, cut, &list).await?;
        }
        self.pass.end_step(self.index, list);
        Ok(())
    }

    async fn restart(&mut self, pager: &mut Pager<'_>, why: String) -> Result<(), StopReason> {
        let PassRef::Open(id) = self.pass.reference else {
            return Err(StopReason::Failed(why));
        };
        if !pager.context.catalog.restart_step(id, self.index).await? {
            // A failed pass would request the expired cursor again at every run. A refused one ends, and the next pass
            // begins when it is due.
            return Err(StopReason::Unserved(format!(
                "{why}; the step was already restarted once"
            )));
        }
        let (job, region) = (&self.pass.job.name, self.pass.region.key());
        tracing::warn!(job, region, "{why}; restarting the step");
        pager
            .notes
            .push(format!("restarted from the first page: {why}"));
        self.pass.restart(self.index);
        Ok(())
    }

    async fn begin_anew(&mut self, pager: &mut Pager<'_>, why: String) -> Result<(), StopReason> {
        let (job, region) = (&self.pass.job.name, self.pass.region.key());
        tracing::warn!(job, region, "{why}; listing everything again");
        pager.notes.push(listed_anew(&why));
        let catalog = &pager.context.catalog;
        let request = request_of(pager.job, pager.step, pager.region);
        catalog.forget_lasting(job, &region, &request).await?;
        self.pass.lasting.remove(&self.index);
        match self.position() {
            Position::Start => Ok(()),
            Position::At { .. } | Position::Done => self.restart(pager, why).await,
        }
    }

    fn dead_end(&self, why: String) -> StopReason {
        StopReason::Unserved(why)
    }
}

impl Listing<'_> {
    /// Whether the list can end at a page if that is known. One that could not be read completely shows nothing, and a record that was
    /// removed changed.
    fn at_known(&self, page: &NextPage) -> AtKnown {
        let is_whole = !page.is_partial && page.page.removed.is_empty();
        match self.pass.at_known.get(&self.index).copied() {
            Some(AtKnown::Stop) if !is_whole => AtKnown::ReadOn,
            at_known => at_known.unwrap_or_default(),
        }
    }

    /// Whether a list that can stop at what is known ended, and nothing of it was: the records that are known are behind an end that
    /// cannot be right, or are all gone, which a pass that reads everything shows.
    async fn passed_what_is_known(&self, pager: &Pager<'_>) -> Result<bool, StopReason> {
        let can_stop = self.pass.at_known.get(&self.index) == Some(&AtKnown::Stop);
        let known = self.pass.last_filled.get(&self.index).copied();
        match self.pass.id() {
            Some(id) if can_stop && known.is_some_and(|pages| pages > 0) => {
                let catalog = &pager.context.catalog;
                let meets = catalog.meets_known(id, self.index, pager.request());
                Ok(!meets.await?)
            }
            Some(_) | None => Ok(false),
        }
    }

    /// Judges the list by what all its pages showed, those of earlier runs included, once its end is proved or it reached what is
    /// known.
    async fn judge(&mut self, pager: &mut Pager<'_>) -> Result<(), StopReason> {
        let mut list = self.pass.list_of(self.index);
        if !(list.is_ended || list.is_known) || !pager.doubts.is_empty() {
            return Ok(());
        }
        let marks_gone = list.is_ended && self.pass.marks_gone(self.index, pager.step);
        let mut judged = pager.judge(&list, marks_gone);
        if list.is_ended && self.passed_what_is_known(pager).await? {
            (judged.is_partial, judged.is_cut) = (true, true);
            judged.findings.push(Finding::Note(ENDS_EARLY.to_owned()));
        }
        let findings = judged.findings.into_iter();
        let doubts: Vec<Doubted> = findings.filter_map(|one| pager.add(one)).collect();
        if judged.is_cut {
            self.pass.walked.remove(&self.index);
        }
        let Some(id) = self.pass.id().filter(|_| judged.is_partial) else {
            return Ok(());
        };
        list.is_partial = true;
        pager.notes.iter().for_each(|note| list.note(note));
        let catalog = &pager.context.catalog;
        // A run that is killed in between judges the list again.
        if !doubts.is_empty() {
            catalog.store_doubts(id, &doubts).await?;
        }
        catalog
            .end_step(id, self.index, judged.is_cut, &list)
            .await?;
        self.pass.end_step(self.index, list);
        Ok(())
    }

    /// The cursor with which the next pass begins: that of the last page, or the former one where `max_pages` cut the list. A page
    /// that only seems to be the last has it too, and those behind it replace it.
    fn lasting(&self, page: &NextPage, step: &Step) -> Option<String> {
        let is_last = step.call.paging.lasting() == Some(&Lasting::Last);
        let own = page.page.lasting.as_ref();
        match page.is_cut {
            true if is_last => page.page.next.as_ref().or(own).cloned(),
            true => self.pass.lasting.get(&self.index).cloned(),
            false => own.cloned(),
        }
    }
}

/// Returns a note if a list has no record at all that begins at a configured `{since}`, or before the newest record that was seen.
fn found_nothing(pass: &Pass, pager: &Pager<'_>) -> Option<String> {
    let is_empty = pager.stats.records == 0 && pager.stats.skipped == 0;
    if pass.resumed
        || !is_empty
        || !pager.doubts.is_empty()
        || !pager.job.names(pager.step, &Variable::Since)
    {
        return None;
    }
    let call = &pager.step.call.name;
    if pass.since.is_some() && pass.since == pass.job.since.first {
        return Some(nothing_since_first(call));
    }
    let has_seen_one = pass
        .since
        .as_ref()
        .is_some_and(|since| since.text().is_some());
    (has_seen_one && pager.step.shifts_since()).then(|| {
        format!(
            "{call}: no record, although {{since}} begins before the newest record that was seen; check the parameter that carries \
            it, and its format, such as {{since:%s}} for seconds"
        )
    })
}

/// Returns a note if another region requests the same list. Where `records.id` contains the region, the records do not show it.
fn lists_the_same(pass: &Pass, pager: &Pager<'_>) -> Option<String> {
    let ids = &pager.step.call.records.as_ref()?.id;
    let of_region = |field: &Field| match field {
        Field::At(_) => false,
        Field::Template(template) => template
            .variables()
            .iter()
            .any(|variable| matches!(variable, Variable::Region | Variable::OfRegion(_))),
    };
    let first = pass
        .job
        .regions
        .first()
        .filter(|_| ids.iter().any(of_region))?;
    let request = |region: &Region| request_of(&pass.job, pager.step, region);
    let is_same = first.code != pass.region.code && request(first) == request(&pass.region);
    is_same.then(|| {
        format!(
            "{}: the request is the same as for {}: no parameter, path or body contains {{region}} or a value of it, so each region \
            requests the same list",
            pager.step.call.name, first.code
        )
    })
}
