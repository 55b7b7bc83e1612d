//! Walks the admitted regions concurrently, then fetches the ids that their listings name, and ends the passes that are complete.

use std::collections::HashMap;

use super::all::all;
use super::batches::{Batches, fetch_batches};
use super::context::Context;
use super::due::{Candidate, jobs, reread};
use super::estimate::names_ids;
use super::outcome::PassOutcome;
use super::pass::{Pass, walk};
use super::report::Walked;
use super::steps::refusable;
use super::stop_reason::StopReason;
use crate::review::Said;
use ingest_catalog::{PassEnd, PassId, Resource, Taken};
use ingest_config::Job;
use ingest_quota::Timestamp;

/// A pass whose listing steps were walked.
pub struct Listed {
    pub pass: Pass,
    /// Why it stopped; `None` where all its lists are complete.
    pub reason: Option<StopReason>,
    /// Whether nothing is left to do for it.
    pub is_ended: bool,
}

/// A region that was not walked, and why.
type Left = (Candidate, PassOutcome, Option<StopReason>);

/// Walks these regions to their ends, or until something stops them.
pub async fn walk_admitted(context: &Context, admitted: Vec<Candidate>, walked: &mut Walked) {
    let (jobs, began) = (jobs(&admitted), context.clock.now());
    let mut listed = list_all(context, admitted, walked).await;
    for job in jobs {
        if let Some(listed) = listed.remove(&job.name) {
            complete(context, &job, listed, began, walked).await;
        }
    }
}

/// Walks the listing steps of these regions, and returns their passes by job.
async fn list_all(
    context: &Context,
    admitted: Vec<Candidate>,
    walked: &mut Walked,
) -> HashMap<String, Vec<Listed>> {
    let mut by_job: HashMap<String, Vec<Listed>> = HashMap::new();
    // A turn that ends early, such as that of a region that another machine walks, makes way for the next one at once.
    let turns = admitted.into_iter().map(|one| list(context, one));
    let turns = all(context.concurrency, turns).await;
    for turn in turns {
        match turn {
            Ok(listed) => {
                let of_job = by_job.entry(listed.pass.job.name.clone());
                of_job.or_default().push(*listed);
            }
            Err(left) => {
                let (candidate, outcome, why) = *left;
                let candidates = [candidate];
                walked.add_not_walked(&candidates, outcome, why.as_ref());
                context.store_not_walked(&candidates, why.as_ref()).await;
            }
        }
    }
    by_job
}

/// Walks the listing steps of one region, unless another run walks it or has walked it.
async fn list(context: &Context, candidate: Candidate) -> Result<Box<Listed>, Box<Left>> {
    if context.stop.signal().is_some() {
        return Err(Box::new((candidate, PassOutcome::Interrupted, None)));
    }
    let (waits, job) = (&context.waits, &candidate.job.name);
    let key = candidate.region.key();
    let listed = waits.begin(format_args!("{key} of {job}"), "the lease");
    let taken = take_up(context, &candidate).await;
    drop(listed);
    match taken {
        Ok(Ok(mut pass)) => {
            let (job, region) = (pass.job.name.clone(), pass.region.key());
            context
                .progress
                .started(&job, &region, pass.pages(), pass.expected_pages());
            let mut walked = walk(context, &mut pass).await;
            // Other regions wait for their upstream meanwhile.
            let is_ended = !names_ids(&pass.job);
            if is_ended {
                walked = end(context, &mut pass, walked).await;
            }
            let reason = walked.err();
            context.progress.ended(&job, &region);
            Ok(Box::new(Listed {
                pass,
                reason,
                is_ended,
            }))
        }
        Ok(Err(left)) => Err(Box::new((candidate, left, None))),
        Err(reason) => Err(Box::new((candidate, reason.outcome(), Some(reason)))),
    }
}

/// Takes a region and reads its state again: another run may have walked it in between.
async fn take_up(
    context: &Context,
    candidate: &Candidate,
) -> Result<Result<Pass, PassOutcome>, StopReason> {
    let (job, region) = (&candidate.job, &candidate.region);
    let resource = Resource::region(&job.name, &region.key());
    let taken = context.leases.take(&resource).await?;
    let lease = match taken {
        Taken::Granted(lease) => lease,
        Taken::Held(holder) => return Err(StopReason::Busy(holder)),
    };
    let now = context.clock.now();
    let fresh = reread(&context.catalog, candidate, now).await?;
    // A region that another run completed since this one chose it is not the one that waited longest any more, even if it is due
    // again already.
    let was_walked =
        |fresh: &Candidate| fresh.state.last_complete_pass != candidate.state.last_complete_pass;
    let Some(fresh) = fresh.filter(|fresh| fresh.is_due(now) && !was_walked(fresh)) else {
        return Ok(Err(PassOutcome::NotDue));
    };
    if let Some(old) = fresh
        .state
        .unfinished
        .as_ref()
        .filter(|_| fresh.resumable(now).is_none())
    {
        let why = match job.relists {
            true => "for `--relist`",
            false => "older than `resume_within`",
        };
        tracing::warn!(job = job.name, region = region.key(), began = %old.started_at, "abandoned \
            an unfinished pass {why}; its pages are kept");
        let mut old = context.take_up(job, old).await?;
        context
            .catalog
            .finish(&mut old, PassEnd::Abandoned, now)
            .await?;
    }
    let mut taken = None;
    if let Some(open) = fresh.resumable(now) {
        let pass = taken.insert(context.take_up(job, open).await?);
        context
            .fit_to_job((job, region), pass, &fresh.edited)
            .await?;
    }
    Ok(Ok(Pass::new(&fresh, taken, lease, now)))
}

/// Fetches the ids that the listings of a job name, and ends the complete passes. `began`: when its regions began to walk.
async fn complete(
    context: &Context,
    job: &Job,
    listed: Vec<Listed>,
    began: Timestamp,
    walked: &mut Walked,
) {
    let mut batches = Batches::default();
    let complete = listed.iter().filter(|one| one.reason.is_none());
    let listings: Vec<PassId> = complete.filter_map(|one| one.pass.id()).collect();
    if names_ids(job)
        && !listings.is_empty()
        && let Err(reason) = fetch_batches(context, job, &listings, &mut batches).await
    {
        // What failed is the catalog or a lease, so nobody knows which of their ids are fetched.
        batches.waiting = listings.into_iter().collect();
        batches.reason = Some(reason);
    }
    let ends = listed.into_iter().map(|mut one| {
        let (context, batches) = (context, &batches);
        async move {
            if !one.is_ended {
                // The next pass would not name the ids again that a doubtful response lacks.
                if batches.said.is_doubtful() && one.pass.is_listed_once() {
                    let doubts = batches.said.doubts.clone();
                    one.pass.said.add(Said {
                        doubts,
                        ..Said::default()
                    });
                }
                let waits = one.pass.id().is_some_and(|id| batches.waits(id));
                let waits = || waits.then(|| batches.why());
                let ended = one.reason.take().or_else(waits).map_or(Ok(()), Err);
                one.reason = end(context, &mut one.pass, ended).await.err();
            }
            one
        }
    });
    for one in all(context.concurrency, ends).await {
        let reference = one.pass.reference.clone();
        let report = walked.add(one.pass, one.reason.as_ref());
        context.store_outcome(&reference, &report).await;
    }
    // A pass that began after its charges would look like one that a restored ledger lacks, and be charged again.
    let reference = batches.reference(job, began);
    context.count_unproductive(&reference, &batches.stats).await;
    if let Some(report) = walked.add_batches(job, batches) {
        context.store_outcome(&reference, &report).await;
    }
}

/// Ends a pass that is complete or that the upstream does not serve. Any other stays unfinished.
async fn end(
    context: &Context,
    pass: &mut Pass,
    ended: Result<(), StopReason>,
) -> Result<(), StopReason> {
    let end = match &ended {
        Ok(()) => Some(PassEnd::Complete),
        Err(StopReason::Unserved(_) | StopReason::Unsendable(_) | StopReason::Forbidden(_)) => {
            Some(PassEnd::Refused)
        }
        Err(_) => None,
    };
    let now = context.clock.now();
    let (waits, job) = (&context.waits, &pass.job.name);
    let _listed = waits.begin(
        format_args!("{} of {job}", pass.region.key()),
        "the catalog",
    );
    match end {
        Some(PassEnd::Complete) => {
            pass.complete(context).await?;
            if pass.said.is_doubtful() {
                pass.said.notes.extend(again(pass));
            }
        }
        Some(end) => {
            let catalog = &context.catalog;
            catalog.finish(&mut pass.reference, end, now).await?;
            let request = refusable(&pass.job, &pass.region);
            let store = catalog.store_refusal(&mut pass.reference, &request);
            store.await?;
            let again = again(pass);
            pass.said.notes.extend(again);
        }
        None => {}
    }
    context
        .count_unproductive(&pass.reference, &pass.stats)
        .await;
    ended
}

/// Returns when a region whose pass is doubtful or refused is requested again; `None` where the next run does.
fn again(pass: &Pass) -> Option<String> {
    let after = pass.job.every.map_or("a day", |_| "`every`");
    let is_doubtful = pass.said.is_doubtful();
    if !is_doubtful {
        Candidate::after_refusal(&pass.job, &pass.region)?;
    }
    let what = if is_doubtful {
        "the pass is not complete; "
    } else {
        ""
    };
    Some(format!(
        "{what}it is requested again after {after}, or as soon as its configuration changes"
    ))
}
