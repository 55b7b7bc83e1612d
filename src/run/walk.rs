//! The steps of one pass that list.

use std::sync::Arc;

use super::context::Context;
use super::pager::{NextPage, Pager, Parameters, Place, Target};
use super::pass::{Pass, Position, listing_steps};
use super::prefetch::{ListedIds, PrefetchSender};
use super::steps::{names, request_of};
use super::stop_reason::StopReason;
use crate::catalog::{PassRef, StepPosition};
use crate::config::Variable;

/// Walks all listing steps of a pass to their ends. `prefetch` receives the ids that each landed page names.
///
/// # Errors
/// Why it went no further. The pass has the positions that it reached.
pub async fn walk(
    context: &Context,
    pass: &mut Pass,
    prefetch: Option<&PrefetchSender>,
) -> Result<(), StopReason> {
    let (job, region) = (Arc::clone(&pass.job), Arc::clone(&pass.region));
    for (index, step) in listing_steps(&job) {
        let mut pager = Pager::new(context, &job, &region, step);
        let mut list = Listing {
            pass: &mut *pass,
            index,
            prefetch,
        };
        let walked = pager.run(&mut list).await;
        pass.stats.add(&pager.stats);
        pass.notes.append(&mut pager.notes);
        walked?;
    }
    Ok(())
}

/// The list of one step of a pass.
struct Listing<'a> {
    pass: &'a mut Pass,
    /// The step's index in its job.
    index: usize,
    prefetch: Option<&'a PrefetchSender>,
}

impl Target for Listing<'_> {
    fn position(&self) -> Position {
        self.pass.position(self.index)
    }

    fn parameters(&self) -> Parameters<'_> {
        Parameters {
            ids: &[],
            began: self.pass.began,
            since: self.pass.since,
        }
    }

    async fn land(&mut self, pager: &mut Pager<'_>, page: NextPage) -> Result<(), StopReason> {
        let (job, call) = (pager.job, &pager.step.call.name);
        let listed = self
            .prefetch
            .map(|_| ListedIds::new(job, call, &page.page.records, self.pass.began));
        let place = Place {
            pass: self.pass.reference.clone(),
            step: self.index,
            next: page.next.clone(),
            cut: page.is_cut && cuts(pager),
            empty_pages: page.empty_pages,
            requested: Vec::new(),
            batch: None,
        };
        let landed = pager.store(page.page, place).await?;
        self.pass.advance(
            landed,
            StepPosition {
                step: self.index,
                pages: page.pages,
                cursor: page.next,
                request: Some(request_of(job, pager.step, pager.region)),
                empty_pages: page.empty_pages,
            },
        );
        if landed.cursor_repeats {
            pager.notes.push(format!(
                "{call} returned the same cursor twice; treating the list as complete"
            ));
        }
        if let (Some(prefetch), Some(listed)) = (self.prefetch, listed) {
            // The prefetcher may have stopped. The batches that follow the listings fetch these ids then.
            let _ = prefetch.send(listed);
        }
        Ok(())
    }

    async fn end(&mut self, pager: &mut Pager<'_>) -> Result<(), StopReason> {
        let cut = cuts(pager);
        if let Some(id) = self.pass.id() {
            pager.context.catalog.end_step(id, self.index, cut).await?;
        }
        self.pass.end_step(self.index);
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
        let (job, region) = (&self.pass.job.name, &self.pass.region.code);
        tracing::warn!(job, region, "{why}; restarting the step");
        pager
            .notes
            .push(format!("restarted from the first page: {why}"));
        self.pass.restart(self.index);
        Ok(())
    }

    fn dead_end(&self, why: String) -> StopReason {
        StopReason::Unserved(why)
    }
}

/// Returns whether a step that `max_pages` ends names `{since}`, and notes it. If the next pass listed only what is newer than
/// this one, what this one did not list would be lost.
fn cuts(pager: &mut Pager<'_>) -> bool {
    let cut = names(pager.job, pager.step, &Variable::Since);
    if cut {
        pager.notes.push(format!(
            "{} stopped at max_pages before the end of its list; the next pass uses the same \
            {{since}}",
            pager.step.call.name
        ));
    }
    cut
}
