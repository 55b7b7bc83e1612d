//! The steps of one pass that list, page after page.

use super::again::{Before, empty_pages, may_go_on};
use super::context::Context;
use super::pass::{Pass, Position};
use super::prefetch::{Named, Told};
use super::request::{Asker, fetch};
use super::steps::{names, request_of};
use super::stop_reason::StopReason;
use crate::catalog::{Landing, PassRef, StepPosition};
use crate::config::{Step, Variable};
use crate::upstream::{Page, PageRequest};

/// Walks all listing steps of a pass to their ends; `told` learns what each page names that landed.
///
/// # Errors
/// Why it went no further; the pass knows how far it came.
pub async fn walk(
    context: &Context,
    pass: &mut Pass,
    told: Option<&Told>,
) -> Result<(), StopReason> {
    for step in pass.listing_steps() {
        while let Err(reason) = walk_step(context, pass, step, told).await {
            let StopReason::BadCursor(why) = reason else {
                return Err(reason);
            };
            start_over(context, pass, step, why).await?;
        }
    }
    Ok(())
}

async fn walk_step(
    context: &Context,
    pass: &mut Pass,
    index: usize,
    told: Option<&Told>,
) -> Result<(), StopReason> {
    let job = pass.job.clone();
    let Some(step) = job.steps.get(index) else {
        return Ok(());
    };
    let mut before = Before::default();
    let mut no_list = NoList::default();
    loop {
        let (cursor, pages, empty) = match pass.position(index) {
            Position::Done => {
                pass.notes.extend(no_list.note(step));
                return Ok(());
            }
            Position::At { pages, .. } if is_last(step, pages) => {
                end_step(context, pass, index, step).await?;
                continue;
            }
            Position::Start => (None, 0, 0),
            Position::At {
                cursor,
                pages,
                empty_pages,
            } => (Some(cursor), pages, empty_pages),
        };
        may_go_on(empty, &step.call)?;
        let mut page = next_page(context, pass, step, cursor.as_deref()).await?;
        no_list.see(&page);
        if let Some(why) = before.ends(&page, &step.call) {
            page.next = None;
            pass.notes.push(why);
        }
        let dead_end = page.dead_end.take();
        let named = told.map(|told| {
            (
                told,
                Named::by(&job, &step.call.name, &page.records, pass.began),
            )
        });
        let place = Place {
            index,
            pages: pages + 1,
            empty_pages: empty_pages(empty, &page),
        };
        land(context, pass, step, place, page).await?;
        if let Some((told, named)) = named {
            // Nobody may be left to listen, and need not.
            let _ = told.send(named);
        }
        if let Some(why) = dead_end {
            return Err(StopReason::Unserved(why));
        }
    }
}

/// Which page of which step is landed.
struct Place {
    index: usize,
    pages: u64,
    empty_pages: u64,
}

/// Whether a page is the last that a step may have.
fn is_last(step: &Step, pages: u64) -> bool {
    step.max_pages.is_some_and(|most| pages >= most)
}

/// Ends a step whose `max_pages` is now below the pages that are landed: no further page is paid for.
async fn end_step(
    context: &Context,
    pass: &mut Pass,
    index: usize,
    step: &Step,
) -> Result<(), StopReason> {
    let cut = cuts(pass, step);
    if let Some(id) = pass.id() {
        context.catalog.end_step(id, index, cut).await?;
    }
    pass.end_step(index);
    Ok(())
}

/// Whether a step that `max_pages` ends names `{since}`: what it did not list would then be lost, if the next pass listed
/// only what is newer than this one. It is told.
fn cuts(pass: &mut Pass, step: &Step) -> bool {
    let cut = names(&pass.job, step, &Variable::Since);
    if cut {
        pass.notes.push(format!(
            "{} stopped at max_pages before the end of its list; the next pass uses the same \
            {{since}}",
            step.call.name
        ));
    }
    cut
}

/// Whether the pages of a step had a list at all: where none has, the configuration may look for it in the wrong place.
#[derive(Default)]
struct NoList {
    pages: u64,
    without: u64,
}

impl NoList {
    fn see(&mut self, page: &Page) {
        self.pages += 1;
        self.without += u64::from(page.lacks_list);
    }

    fn note(&self, step: &Step) -> Option<String> {
        let records = step
            .call
            .records
            .as_ref()
            .filter(|_| self.pages > 0 && self.without == self.pages)?;
        Some(format!(
            "no response of {} has a list at `{}`; check its records.at",
            step.call.name, records.at
        ))
    }
}

async fn next_page(
    context: &Context,
    pass: &mut Pass,
    step: &Step,
    cursor: Option<&str>,
) -> Result<Page, StopReason> {
    let region = pass.region.clone();
    let job = pass.job.clone();
    let request = PageRequest {
        step,
        region: &region,
        ids: &[],
        cursor,
        began: pass.began,
        now: context.clock.now(),
        since: pass.since,
        known: None,
    };
    fetch(
        context,
        Asker {
            job: &job,
            region: &region,
        },
        request,
        &mut pass.stats,
    )
    .await
}

async fn land(
    context: &Context,
    pass: &mut Pass,
    step: &Step,
    place: Place,
    page: Page,
) -> Result<(), StopReason> {
    let Some(records) = &step.call.records else {
        return Ok(());
    };
    let ends = is_last(step, place.pages);
    let cut = ends && page.next.is_some() && cuts(pass, step);
    let next = page.next.filter(|_| !ends);
    let request = request_of(&pass.job, step, &pass.region);
    let landing = Landing {
        pass: &pass.reference,
        step: place.index,
        upstream: &pass.job.credential.upstream.name,
        call: &step.call.name,
        kind: records,
        records: &page.records,
        request: &request,
        next: next.as_deref(),
        cut,
        empty_pages: place.empty_pages,
        requested: &[],
        batch: None,
        requests: pass.stats.unlanded_requests,
        units: &pass.stats.unlanded_units,
        tag: page.tag.as_ref(),
        now: context.clock.now(),
    };
    let landed = context.land(landing).await?;
    let count = page.records.len() as u64;
    pass.stats.land(count, page.skipped);
    pass.advance(
        landed,
        StepPosition {
            step: place.index,
            pages: place.pages,
            cursor: next,
            request: Some(request),
            empty_pages: place.empty_pages,
        },
    );
    if landed.cursor_repeats {
        pass.notes.push(format!(
            "{} returned the same cursor twice; treating the list as complete",
            step.call.name
        ));
    }
    context
        .progress
        .landed(&pass.job.name, &pass.region.code, count);
    Ok(())
}

/// A cursor that the upstream no longer takes: the step begins anew, once in a pass.
async fn start_over(
    context: &Context,
    pass: &mut Pass,
    step: usize,
    why: String,
) -> Result<(), StopReason> {
    let PassRef::Open(id) = pass.reference else {
        return Err(StopReason::Failed(why));
    };
    if !context.catalog.restart_step(id, step).await? {
        // It is not asked for again at every run: the pass ends, and the next one begins when it is due.
        return Err(StopReason::Unserved(format!(
            "{why}; the step was already restarted once"
        )));
    }
    tracing::warn!(
        job = pass.job.name,
        region = pass.region.code,
        "{why}; restarting the step"
    );
    pass.notes
        .push(format!("restarted from the first page: {why}"));
    pass.restart(step);
    Ok(())
}
