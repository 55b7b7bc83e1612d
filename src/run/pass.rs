//! A pass of a region: its positions, and the walk through the steps that list.

use std::sync::Arc;

use super::context::Context;
use super::due::Candidate;
use super::pager::{List, Of, Start, StepOfPass, marks_gone};
use super::stats::PassStats;
use super::steps::{is_edited, listing_steps, lists_what_is_new, readable, since_of};
use super::stop_reason::StopReason;
use crate::review::{Greatest, Said};
use ingest_catalog::{
    AtKnown, KeptLists, KnownList, Lease, OpenPass, PassEnd, PassId, PassRef, StepPosition,
    UncutPass,
};
use ingest_config::{Job, Region, Step, Variable};
use ingest_quota::Timestamp;
use tokio::sync::Mutex;

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
    /// The lists of its steps, in the order of these.
    lists: Vec<PassList>,
    /// What it cost and contained, in this run.
    pub stats: PassStats,
    /// Notes for people, and the doubts about its lists, those of earlier runs included.
    pub said: Said,
    /// Whether it lists everything again, from the first value of `{since}`.
    pub relists: bool,
    // Other runs keep away from the region until it is dropped.
    _lease: Lease,
}

/// The list of a step of a pass.
#[derive(Debug)]
struct PassList {
    at: StepPosition,
    /// The cursor of the last complete pass with which it begins; `None` in a pass that lists everything again.
    lasting: Option<String>,
    /// The pages with records in the last pass that read it to the end.
    last_filled: u64,
    /// Whether it can end at what is known.
    at_known: AtKnown,
    /// The same list of the last complete pass, if that read it to its end and it can end at what is known: what neither of both has is
    /// gone.
    walked: Option<KnownList>,
}

impl PassList {
    fn new(candidate: &Candidate, (index, step): (usize, &Step), now: Timestamp) -> Self {
        let (state, open) = (&candidate.state, candidate.resumable(now));
        let at = open.and_then(|pass| pass.steps.iter().find(|at| at.step == index));
        let before_its_first_page = || StepPosition {
            step: index,
            ..StepPosition::default()
        };
        let known = candidate.known_list(step).copied();
        let filled = state.last_filled.iter().find(|(step, _)| *step == index);
        let is_last = |list: &KnownList| {
            let is_of_last = Some(list.pass) == state.last_complete_pass;
            list.is_whole && is_of_last && !step.call.names_changes()
        };
        Self {
            at: at.cloned().unwrap_or_else(before_its_first_page),
            lasting: candidate.lasting.get(&index).cloned(),
            last_filled: match step.stop_at_known {
                Some(_) => known.map_or(0, |list| list.filled),
                None => filled.map_or(0, |(_, pages)| *pages),
            },
            at_known: candidate.at_known(step, now),
            walked: known.filter(is_last),
        }
    }
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
            lists: listing_steps(&candidate.job)
                .map(|step| PassList::new(candidate, step, now))
                .collect(),
            last: candidate.state.since.clone().filter(|_| !relists),
            said: said(candidate, open, relists),
            relists,
            greatest: greatest(candidate, open, relists, now),
            job: Arc::clone(&candidate.job),
            region: Arc::clone(&candidate.region),
            stats: PassStats {
                skipped: open.map_or(0, skipped),
                ..PassStats::default()
            },
            _lease: lease,
        }
    }

    /// Returns the list of a step, at its position. Its pages are landed in the pass that is `reference`.
    fn list<'a>(
        &self,
        context: &'a Context,
        (job, region, step): (&'a Job, &'a Region, &'a Step),
        reference: &'a Mutex<PassRef>,
        list: &PassList,
    ) -> List<'a> {
        let start = Start {
            ids: Vec::new(),
            began: self.began,
            since: since_of(job, (region, step), self.last.as_ref()),
            greatest: self.greatest.clone(),
            relists: self.relists,
            last_pages: match list.at_known {
                // What changed has any number of pages.
                _ if list.lasting.is_some() || list.last_filled == 0 => 0,
                // What is known is further behind, however many pages are new, so any end before it is checked.
                AtKnown::Stop | AtKnown::ReadOn => u64::MAX,
                AtKnown::Ignore => list.last_filled,
            },
            lasting: list.lasting.clone(),
        };
        let of = Of::Step(StepOfPass {
            is_doubtful: self.said.is_doubtful(),
            at_known: list.at_known,
            had_records: list.last_filled > 0,
            is_cut: false,
        });
        let (of_step, at) = ((job, region, step), list.at.clone());
        List::new((context, reference), of_step, of, start, at)
    }

    /// Takes over where the list of a step is now, and what it showed.
    fn take_back(&mut self, list: List<'_>) {
        self.stats.add(&list.stats);
        self.said.add(list.said);
        self.greatest = list.start.greatest;
        let is_cut = matches!(list.of, Of::Step(StepOfPass { is_cut: true, .. }));
        let mut lists = self.lists.iter_mut();
        if let Some(of_step) = lists.find(|one| one.at.step == list.at.step) {
            of_step.at = list.at;
            of_step.lasting = list.start.lasting;
            of_step.walked = of_step.walked.filter(|_| !is_cut);
        }
    }

    /// Returns its listing steps with their lists.
    fn steps(&self) -> impl Iterator<Item = (&Step, &PassList)> {
        let steps = listing_steps(&self.job).map(|(_, step)| step);
        steps.zip(&self.lists)
    }

    /// Ends it: as doubtful, or as complete, and marks the records as gone that its lists lost.
    pub async fn complete(&mut self, context: &Context) -> Result<(), StopReason> {
        for (step, PassList { at, .. }) in self.steps() {
            // One that `max_pages` cut did not end.
            if self.said.is_doubtful() || (at.list.is_ended && at.list.is_partial) {
                context.forget_tags(&self.job, &step.call).await?;
            }
        }
        let (whole, moved): (Vec<&PassList>, Vec<&PassList>) = self
            .steps()
            // In a list that can end at what is known, a record moves to the front when it changes, also while the pass reads on: the
            // next pass finds that first.
            .filter(|(step, _)| step.stop_at_known.is_none())
            .filter(|(step, list)| {
                let begins_at_cursor = list.lasting.is_some();
                list.at.list.is_ended && marks_gone(&self.job, step, begins_at_cursor)
            })
            .map(|(_, list)| list)
            .partition(|list| !list.at.list.is_partial);
        let indices = |lists: Vec<&PassList>| lists.iter().map(|list| list.at.step).collect();
        let (whole, moved): (Vec<usize>, Vec<usize>) = (indices(whole), indices(moved));
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
        for walked in self.lists.iter().filter_map(|list| list.walked) {
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
        self.region.slice.is_some() || lists_what_is_new(&self.job)
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
        self.lists.iter().map(|list| list.at.pages).sum()
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
    let left = candidate.state.unfinished.as_ref();
    let abandoned = left.filter(|_| open.is_none() && !relists).map(abandoned);
    let mut said = Said {
        doubts: open.map_or_else(Vec::new, |open| open.doubts.clone()),
        notes: Vec::new(),
    };
    let notes = edited.filter(|_| open.is_some()).chain(of_lists);
    let notes = notes.chain(again).chain(abandoned);
    notes.for_each(|note| said.note(note));
    said
}

/// Says that a pass begins in place of one that is too old: a list that takes longer than that is paid for and never complete.
pub fn abandoned(old: &OpenPass) -> String {
    format!(
        "the unfinished pass that began at {} is older than `resume_within`: its pages are kept, and the list begins anew; where each \
        pass ends so, raise `resume_within`",
        old.started_at.to_utc().format("%FT%TZ")
    )
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
    let reference = Mutex::new(pass.reference.clone());
    let mut walked = Ok(());
    for (place, (_, step)) in listing_steps(&job).enumerate() {
        let Some(of_step) = pass.lists.get(place).filter(|_| walked.is_ok()) else {
            break;
        };
        let mut list = pass.list(context, (&job, &region, step), &reference, of_step);
        walked = list.run().await;
        if walked.is_ok() {
            walked = list.judge().await;
        }
        if walked.is_ok() && !pass.resumed {
            list.note_nothing_found();
        }
        // Of a list that stopped, too: its requests are paid for.
        pass.take_back(list);
    }
    pass.reference = reference.into_inner();
    walked
}
