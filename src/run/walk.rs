//! Walks the admitted regions concurrently, then fetches the ids that their listings name, and ends the passes that are complete.

use std::collections::HashMap;

use super::all::all;
use super::batches::{Batches, fetch_batches};
use super::candidates::{jobs, reread};
use super::context::Context;
use super::due::Candidate;
use super::estimate::names_ids;
use super::outcome::PassOutcome;
use super::pass::{Pass, walk};
use super::report::Walked;
use super::steps::refusable;
use super::stop_reason::StopReason;
use crate::review::Said;
use ingest_catalog::{OpenPass, PassEnd, PassId, Resource, Taken};
use ingest_config::Job;
use ingest_quota::Timestamp;

/// A pass whose listing steps were walked.
pub struct Listed {
    pub pass: Pass,
    /// Why it stopped, where it did.
    pub ended: Result<(), StopReason>,
}

/// Why a region was not walked.
struct NotWalked {
    outcome: PassOutcome,
    why: Option<StopReason>,
}

impl From<PassOutcome> for NotWalked {
    fn from(outcome: PassOutcome) -> Self {
        Self { outcome, why: None }
    }
}

impl<E: Into<StopReason>> From<E> for NotWalked {
    fn from(why: E) -> Self {
        let why = why.into();
        Self {
            outcome: why.outcome(),
            why: Some(why),
        }
    }
}

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
    let turns = admitted.into_iter().map(async |candidate| {
        let listed = list(context, &candidate).await;
        (candidate, listed)
    });
    for (candidate, listed) in all(context.concurrency, turns).await {
        match listed {
            Ok(listed) => {
                let of_job = by_job.entry(candidate.job.name.clone());
                of_job.or_default().push(listed);
            }
            Err(NotWalked { outcome, why }) => {
                let candidates = [candidate];
                walked.add_not_walked(&candidates, outcome, why.as_ref());
                context.store_not_walked(&candidates, why.as_ref()).await;
            }
        }
    }
    by_job
}

/// Walks the listing steps of one region, unless another run walks it or has walked it.
async fn list(context: &Context, candidate: &Candidate) -> Result<Listed, NotWalked> {
    if context.stop.signal().is_some() {
        return Err(PassOutcome::Interrupted.into());
    }
    let (job, region) = (&candidate.job.name, candidate.region.key());
    let waiting = context
        .waits
        .begin(format_args!("{region} of {job}"), "the lease");
    let taken = take_up(context, candidate).await;
    drop(waiting);
    let mut pass = taken?;
    let (progress, landed) = (&context.progress, pass.pages());
    progress.started(job, &region, landed, pass.expected_pages());
    let mut ended = walk(context, &mut pass).await;
    // Other regions wait for their upstream meanwhile.
    if !names_ids(&pass.job) {
        ended = end(context, &mut pass, ended).await;
    }
    progress.ended(job, &region);
    Ok(Listed { pass, ended })
}

/// Takes a region and reads its state again: another run may have walked it in between.
async fn take_up(context: &Context, candidate: &Candidate) -> Result<Pass, NotWalked> {
    let (job, region) = (&candidate.job, &candidate.region);
    let resource = Resource::region(&job.name, &region.key());
    let lease = match context.leases.take(&resource).await? {
        Taken::Granted(lease) => lease,
        Taken::Held(holder) => return Err(StopReason::Busy(holder).into()),
    };
    let now = context.clock.now();
    let fresh = reread(&context.catalog, candidate, now).await?;
    // A region that another run completed since this one chose it is not the one that waited longest any more, even if it is due
    // again already.
    let was_walked =
        |fresh: &Candidate| fresh.state.last_complete_pass != candidate.state.last_complete_pass;
    let Some(fresh) = fresh.filter(|fresh| fresh.is_due(now) && !was_walked(fresh)) else {
        return Err(PassOutcome::NotDue.into());
    };
    let taken = match (fresh.resumable(now), &fresh.state.unfinished) {
        (Some(open), _) => {
            let mut pass = context.take_up(job, open).await?;
            let fitted = context.fit_to_job((job, region), &mut pass, &fresh.edited);
            fitted.await?;
            Some(pass)
        }
        (None, Some(old)) => {
            abandon(context, &fresh, old).await?;
            None
        }
        (None, None) => None,
    };
    Ok(Pass::new(&fresh, taken, lease, now))
}

/// Ends an unfinished pass that is not resumed.
async fn abandon(
    context: &Context,
    candidate: &Candidate,
    old: &OpenPass,
) -> Result<(), StopReason> {
    let (job, region) = (&candidate.job, candidate.region.key());
    let why = match job.relists {
        true => "for `--relist`",
        false => "older than `resume_within`",
    };
    tracing::warn!(job = job.name, region, began = %old.started_at, "abandoned an unfinished pass {why}; its pages are kept");
    let mut old = context.take_up(job, old).await?;
    let now = context.clock.now();
    let abandoned = context.catalog.finish(&mut old, PassEnd::Abandoned, now);
    Ok(abandoned.await.map(drop)?)
}

/// Fetches the ids that the listings of a job name, and reports its passes and their batches. `began`: when its regions began to
/// walk.
async fn complete(
    context: &Context,
    job: &Job,
    listed: Vec<Listed>,
    began: Timestamp,
    walked: &mut Walked,
) {
    let (ended, batches) = match names_ids(job) {
        true => {
            let (ended, batches) = fetch_ids(context, job, listed).await;
            (ended, Some(batches))
        }
        false => (listed, None),
    };
    for Listed { pass, ended } in ended {
        let reference = pass.reference.clone();
        let report = walked.add(pass, ended.as_ref().err());
        context.store_outcome(&reference, &report).await;
    }
    let Some(batches) = batches else { return };
    // A pass that began after its charges would look like one that a restored ledger lacks, and be charged again.
    let reference = batches.reference(job, began);
    context.count_unproductive(&reference, &batches.stats).await;
    if let Some(report) = walked.add_batches(job, batches) {
        context.store_outcome(&reference, &report).await;
    }
}

/// Fetches the ids that the listings of a job name, and ends the passes that are complete with them.
async fn fetch_ids(context: &Context, job: &Job, listed: Vec<Listed>) -> (Vec<Listed>, Batches) {
    let complete = listed.iter().filter(|one| one.ended.is_ok());
    let listings: Vec<PassId> = complete.filter_map(|one| one.pass.id()).collect();
    let batches = fetch_batches(context, job, &listings).await;
    let ends = listed.into_iter().map(async |Listed { mut pass, ended }| {
        // The next pass would not name the ids again that a doubtful response lacks.
        if batches.said.is_doubtful() && pass.is_listed_once() {
            let doubts = batches.said.doubts.clone();
            pass.said.add(Said {
                doubts,
                ..Said::default()
            });
        }
        let ended = ended.and_then(|()| batches.has_served(pass.id()));
        let ended = end(context, &mut pass, ended).await;
        Listed { pass, ended }
    });
    let ended = all(context.concurrency, ends).await;
    (ended, batches)
}

/// Ends a pass that is complete or that the upstream does not serve. Any other stays unfinished.
async fn end(
    context: &Context,
    pass: &mut Pass,
    ended: Result<(), StopReason>,
) -> Result<(), StopReason> {
    let (waits, job) = (&context.waits, &pass.job.name);
    let _listed = waits.begin(
        format_args!("{} of {job}", pass.region.key()),
        "the catalog",
    );
    match &ended {
        Ok(()) => {
            pass.complete(context).await?;
            if pass.said.is_doubtful() {
                pass.said.notes.extend(again(pass));
            }
        }
        Err(StopReason::Unserved(_) | StopReason::Unsendable(_) | StopReason::Forbidden(_)) => {
            let (catalog, now) = (&context.catalog, context.clock.now());
            let finish = catalog.finish(&mut pass.reference, PassEnd::Refused, now);
            finish.await?;
            let request = refusable(&pass.job, &pass.region);
            let store = catalog.store_refusal(&mut pass.reference, &request);
            store.await?;
            let again = again(pass);
            pass.said.notes.extend(again);
        }
        Err(_) => {}
    }
    let (pass, stats) = (&pass.reference, &pass.stats);
    context.count_unproductive(pass, stats).await;
    ended
}

/// Returns when a region whose pass is doubtful or refused is requested again; `None` where the next run does.
fn again(pass: &Pass) -> Option<String> {
    let what = match pass.said.is_doubtful() {
        true => "the pass is not complete; ",
        false => {
            Candidate::after_refusal(&pass.job, &pass.region)?;
            ""
        }
    };
    let after = pass.job.every.map_or("a day", |_| "`every`");
    Some(format!(
        "{what}it is requested again after {after}, or as soon as its configuration changes"
    ))
}
