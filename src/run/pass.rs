//! A pass of a region: its positions, and the walk through the steps that list.

use std::collections::HashMap;
use std::sync::Arc;

use super::context::Context;
use super::due::Candidate;
use super::pager::{List, Of, Position, Start, StepOfPass, marks_gone};
use super::stats::PassStats;
use super::steps::{is_edited, listing_steps, readable, since_of};
use super::stop_reason::StopReason;
use crate::review::{Greatest, Said};
use ingest_base::list_so_far::ListSoFar;
use ingest_catalog::{
    AtKnown, KeptLists, KnownList, Lease, OpenPass, PassEnd, PassId, PassRef, StepPosition,
    UncutPass,
};
use ingest_config::{Job, Region, Step, Variable};
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
    /// The pass behind which lists with `{since}` go on; `None`: they begin at its first value.
    pub last: Option<UncutPass>,
    /// The greatest value seen at the job's `since.at`, former passes included.
    pub greatest: Greatest,
    /// The cursors of the last complete pass with which its lists begin, by the step's index; none in one that lists everything
    /// again.
    pub lasting: HashMap<usize, String>,
    pub positions: Vec<StepPosition>,
    /// What it cost and contained, in this run.
    pub stats: PassStats,
    /// Notes for people, and the doubts about its lists, those of earlier runs included.
    pub said: Said,
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
    /// Resumes the unfinished pass of a candidate, which is `taken` up, or starts a new one.
    #[must_use]
    pub fn new(
        candidate: &Candidate,
        taken: Option<PassRef>,
        lease: Lease,
        now: Timestamp,
    ) -> Self {
        let open = candidate.resumable(now);
        // A pass goes on as it began, whatever the options of the run that resumes it.
        let relists = open.map_or(candidate.job.relists, |pass| pass.relists);
        Self {
            reference: taken.unwrap_or_else(|| {
                let (job, region) = (&candidate.job, &candidate.region);
                PassRef::new(&job.name, &region.code, region.slice, now)
            }),
            resumed: open.is_some(),
            began: open.map_or(now, |pass| pass.started_at),
            positions: open.map(|pass| pass.steps.clone()).unwrap_or_default(),
            last: candidate.state.since.clone().filter(|_| !relists),
            said: said(candidate, open, relists),
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
            _lease: lease,
        }
    }

    /// Returns the list of a step, at its position.
    fn list<'a>(
        &self,
        context: &'a Context,
        (job, region): (&'a Job, &'a Region),
        (index, step): (usize, &'a Step),
    ) -> List<'a> {
        let filled = self.last_filled.get(&index).copied().unwrap_or(0);
        let at_known = self.at_known.get(&index).copied().unwrap_or_default();
        let lasting = self.lasting.get(&index).cloned();
        let start = Start {
            ids: Vec::new(),
            began: self.began,
            since: since_of(job, (region, step), self.last.as_ref()),
            greatest: self.greatest.clone(),
            relists: self.relists,
            last_pages: match at_known {
                // What changed has any number of pages.
                _ if lasting.is_some() || filled == 0 => 0,
                // What is known is further behind, however many pages are new, so any end before it is checked.
                AtKnown::Stop | AtKnown::ReadOn => u64::MAX,
                AtKnown::Ignore => filled,
            },
            lasting,
        };
        let of = StepOfPass {
            pass: self.reference.clone(),
            is_doubtful: self.said.is_doubtful(),
            at_known,
            had_records: filled > 0,
            is_cut: false,
        };
        let mut list = List::new(context, (job, region), (index, step), start, Of::Step(of));
        if let Some(at) = self.positions.iter().find(|at| at.step == index) {
            list.resume(at);
        }
        list
    }

    /// Takes over where the list of a step is now, and what it showed.
    fn take_back(&mut self, list: List<'_>) {
        let (index, start, position) = (list.index, list.start, list.position);
        self.stats.add(&list.stats);
        self.said.add(list.said);
        self.greatest = start.greatest;
        self.positions.retain(|at| at.step != index);
        if position != Position::default() {
            self.positions.push(StepPosition {
                step: index,
                pages: position.pages,
                cursor: position.cursor,
                request: None,
                empty_pages: position.empty_pages,
                list: list.so_far,
            });
        }
        if start.lasting.is_none() {
            self.lasting.remove(&index);
        }
        if let Of::Step(of) = list.of {
            self.reference = of.pass;
            if of.is_cut {
                self.walked.remove(&index);
            }
        }
    }

    /// Returns what the pages of a step showed of its list.
    fn list_of(&self, step: usize) -> ListSoFar {
        let position = self.positions.iter().find(|one| one.step == step);
        position.map_or_else(ListSoFar::default, |one| one.list.clone())
    }

    /// Ends it: as doubtful, or as complete, and marks the records as gone that its lists lost.
    ///
    /// # Errors
    /// When the catalog cannot be written.
    pub async fn complete(&mut self, context: &Context) -> Result<(), StopReason> {
        for (index, step) in listing_steps(&self.job) {
            let list = self.list_of(index);
            // One that `max_pages` cut did not end.
            if self.said.is_doubtful() || (list.is_ended && list.is_partial) {
                context.forget_tags(&self.job, &step.call).await?;
            }
        }
        let (whole, moved): (Vec<usize>, Vec<usize>) = listing_steps(&self.job)
            // In a list that can end at what is known, a record moves to the front when it changes, also while the pass reads on: the
            // next pass finds that first.
            .filter(|(_, step)| step.stop_at_known.is_none())
            .filter(|(index, step)| {
                let begins_at_cursor = self.lasting.contains_key(index);
                self.list_of(*index).is_ended && marks_gone(&self.job, step, begins_at_cursor)
            })
            .map(|(index, _)| index)
            .partition(|index| !self.list_of(*index).is_partial);
        let now = context.clock.now();
        // A list that may lack pages does not show of any record that it is gone.
        if self.said.is_doubtful() {
            let finish = context
                .catalog
                .finish(&mut self.reference, PassEnd::Doubtful, now);
            finish.await?;
            let read = readable(&self.job, &self.region);
            let store = context.catalog.store_refusal(&mut self.reference, &read);
            return Ok(store.await?);
        }
        let kept = KeptLists {
            moved,
            new_only: self.steps_with_since(),
        };
        let pass = &mut self.reference;
        if pass.id.is_none() {
            let finish = context.catalog.finish(pass, PassEnd::Complete, now);
            return Ok(finish.await.map(drop)?);
        }
        for walked in self.walked.values() {
            let of = (walked.pass, &[walked.step][..]);
            context.catalog.mark_gone(pass, of, now).await?;
        }
        if !kept.is_empty() {
            context.catalog.keep_named(pass, kept).await?;
        }
        let gone = context.catalog.complete(pass, &whole, now).await?;
        let (job, region) = (&self.job.name, self.region.key());
        tracing::debug!(job, region, gone, "marked records as gone");
        Ok(())
    }

    /// Whether the next pass of the region perhaps lists nothing of what this one lists.
    #[must_use]
    pub fn is_listed_once(&self) -> bool {
        let reads_on = |(_, step): (usize, &Step)| {
            let is_feed = step.stop_at_known.is_some() || step.call.paging.lasting.is_some();
            is_feed || self.job.names(step, &Variable::Since)
        };
        self.region.slice.is_some() || listing_steps(&self.job).any(reads_on)
    }

    /// Returns the steps that requested what is newer than the last pass.
    fn steps_with_since(&self) -> Vec<usize> {
        listing_steps(&self.job)
            .filter(|(_, step)| self.job.names(step, &Variable::Since))
            .map(|(index, _)| index)
            .collect()
    }

    /// Returns the pass in the catalog; `None` before its first page.
    #[must_use]
    pub const fn id(&self) -> Option<PassId> {
        self.reference.id
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

/// Returns what is said of an unfinished pass that is resumed, and of lists that were edited since their `{since}`.
fn said(candidate: &Candidate, open: Option<&OpenPass>, relists: bool) -> Said {
    let (job, region) = (&candidate.job, &candidate.region);
    let last = candidate.state.since.as_ref().filter(|_| !relists);
    let is_edited = |step: &&Step| {
        let names_since = job.names(step, &Variable::Since);
        names_since && last.is_some_and(|last| is_edited(job, (region, step), last))
    };
    let again = listing_steps(job).map(|(_, step)| step).filter(is_edited);
    let again = again.map(|step| {
        format!(
            "{}: the call or its parameters were edited since the last complete pass, so {{since}} begins anew",
            step.call.name
        )
    });
    let of_lists = open.into_iter().flat_map(|open| &open.steps);
    let of_lists = of_lists.flat_map(|at| at.list.notes.clone());
    let edited = candidate.edited.notes.iter().cloned();
    let mut said = Said {
        doubts: open.map_or_else(Vec::new, |open| open.doubts.clone()),
        notes: Vec::new(),
    };
    let notes = edited.filter(|_| open.is_some()).chain(of_lists);
    notes.chain(again).for_each(|note| said.note(note));
    said
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

/// Walks all listing steps of a pass to their ends.
///
/// # Errors
/// Why it went no further. The pass has the positions that it reached.
pub async fn walk(context: &Context, pass: &mut Pass) -> Result<(), StopReason> {
    let (job, region) = (Arc::clone(&pass.job), Arc::clone(&pass.region));
    for step in listing_steps(&job) {
        let mut list = pass.list(context, (&job, &region), step);
        let mut walked = list.run().await;
        if walked.is_ok() {
            walked = list.judge().await;
        }
        if walked.is_ok() && !pass.resumed {
            list.note_nothing_found();
        }
        // Of a list that stopped, too: its requests are paid for.
        pass.take_back(list);
        walked?;
    }
    Ok(())
}
