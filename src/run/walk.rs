//! The steps of one pass that list, page after page.

use super::again::Before;
use super::context::Context;
use super::early::{Named, Told};
use super::halt::Halt;
use super::pass::{Pass, Position};
use super::request::{Asker, fetch};
use crate::catalog::{Landing, PassRef};
use crate::config::Step;
use crate::upstream::{Page, PageRequest};

/// Walks all listing steps of a pass to their ends; `told` learns what each page names that landed.
///
/// # Errors
/// Why it went no further; the pass knows how far it came.
pub async fn walk(context: &Context, pass: &mut Pass, told: Option<&Told>) -> Result<(), Halt> {
    for step in pass.listing_steps() {
        while let Err(halt) = walk_step(context, pass, step, told).await {
            let Halt::BadCursor(why) = halt else {
                return Err(halt);
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
) -> Result<(), Halt> {
    let job = pass.job.clone();
    let Some(step) = job.steps.get(index) else {
        return Ok(());
    };
    let mut before = Before::default();
    let mut no_list = NoList::default();
    loop {
        let (cursor, pages) = match pass.position(index) {
            Position::Done => {
                pass.notes.extend(no_list.note(step));
                return Ok(());
            }
            Position::Start => (None, 0),
            Position::At { cursor, pages } => (Some(cursor), pages),
        };
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
        land(context, pass, index, step, pages + 1, page).await?;
        if let Some((told, named)) = named {
            // Nobody may be left to listen, and need not.
            let _ = told.send(named);
        }
        if let Some(why) = dead_end {
            return Err(Halt::Unserved(why));
        }
    }
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
            "no answer of {} had a list at `{}`: see its records.at",
            step.call.name, records.at
        ))
    }
}

async fn next_page(
    context: &Context,
    pass: &mut Pass,
    step: &Step,
    cursor: Option<&str>,
) -> Result<Page, Halt> {
    let region = pass.region.clone();
    let job = pass.job.clone();
    let request = PageRequest {
        step,
        region: &region,
        ids: &[],
        cursor,
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
        &mut pass.tally,
    )
    .await
}

async fn land(
    context: &Context,
    pass: &mut Pass,
    index: usize,
    step: &Step,
    pages: u64,
    page: Page,
) -> Result<(), Halt> {
    let Some(records) = &step.call.records else {
        return Ok(());
    };
    let next = page
        .next
        .filter(|_| step.max_pages.is_none_or(|most| pages < most));
    let landing = Landing {
        pass: &pass.reference,
        step: index,
        upstream: &pass.job.credential.upstream.name,
        call: &step.call.name,
        kind: records,
        records: &page.records,
        next: next.as_deref(),
        asked: &[],
        batch: None,
        requests: pass.tally.unlanded_requests,
        units: &pass.tally.unlanded_units,
        tag: page.tag.as_ref(),
        now: context.clock.now(),
    };
    let landed = context.land(landing).await?;
    let count = page.records.len() as u64;
    pass.tally.land(count, page.skipped);
    pass.advance(index, landed, next);
    if landed.cursor_repeats {
        pass.notes.push(format!(
            "{} gave the same cursor again: its list ends there",
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
) -> Result<(), Halt> {
    let PassRef::Open(id) = pass.reference else {
        return Err(Halt::Failed(why));
    };
    if !context.catalog.restart_step(id, step).await? {
        // It is not asked for again at every run: the pass ends, and the next one begins when it is due.
        return Err(Halt::Unserved(format!(
            "{why}; and it had started over once already"
        )));
    }
    tracing::warn!(
        job = pass.job.name,
        region = pass.region.code,
        "{why}: the step starts over"
    );
    pass.notes.push(format!("started over: {why}"));
    pass.restart(step);
    Ok(())
}
