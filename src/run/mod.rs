//! One run: which regions are due and in which order, the pages of each, and the report.
//!
//! A page: admission → charge → request → reconcile → land (records and next cursor in one transaction) → next page.

pub(crate) mod admission;
mod all;
mod attempt;
mod batches;
mod blocked;
mod candidates;
mod context;
mod credentials;
pub(crate) mod due;
pub(crate) mod estimate;
mod fill;
mod known_calls;
mod learned_cost;
pub(crate) mod outcome;
mod pager;
mod pass;
mod range;
mod remaining;
mod report;
pub(crate) mod retention;
mod stats;
pub(crate) mod steps;
mod stop;
mod stop_reason;
mod unlanded;
mod waits;
mod walk;

use std::collections::VecDeque;
use std::sync::Arc;

use thiserror::Error;

use ingest_catalog::CatalogError;
use ingest_config::{Job, Region};
use ingest_quota::Timestamp;

pub use attempt::fetch_once;
pub use blocked::Blocked;
pub use candidates::{candidates, each_region, jobs};
pub use context::{Context, Progress, Silent, Upstreams};
pub use credentials::{Credentials, HeldBack, Rejections};
pub use due::{Backfill, Candidate};
pub use known_calls::KnownCalls;
pub use learned_cost::{LearnedCosts, learned};
pub use outcome::{
    ClosedBy, LimitReport, PassOutcome, PassReport, RunOutcome, RunReport, StoppedBy,
};
pub use range::Range;
pub use report::{CLOSING, FAILURE, accounts, limit_report, limit_reports};
pub use retention::Deletion;
pub use stats::InFlight;
pub use steps::{request_of, since_of, since_of_id};
pub use stop::{Signal, Stop, StopSender, channel};
pub use stop_reason::StopReason;
pub use unlanded::Unlanded;
pub use waits::Waits;

use admission::Admission;
use due::fairest_first;
use report::{Walked, report};
use walk::walk_admitted;

/// The jobs of a run, each with its selected regions.
pub type Selection = Vec<(Arc<Job>, Vec<Arc<Region>>)>;

/// Why a run sent no request.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum RunError {
    /// The catalog cannot be read.
    #[error(transparent)]
    Catalog(#[from] CatalogError),
    /// No credential of the due jobs is complete.
    #[error("{0}")]
    NoCredential(String),
}

/// Walks the due regions, fairest first, until all are done or a limit, a failure or a signal stops the run.
///
/// # Errors
/// When the catalog cannot be read, or no credential can be used. No request was sent then.
pub async fn run(context: &Context, selection: &Selection) -> Result<RunReport, RunError> {
    let candidates = candidates(&context.catalog, selection, context.clock.now());
    let candidates = context.waits.on("the run", "the catalog", candidates);
    run_over(context, selection, candidates.await?).await
}

/// The same, where the candidates of the selection are known.
///
/// # Errors
/// As [`run`].
pub async fn run_over(
    context: &Context,
    selection: &Selection,
    candidates: Vec<Candidate>,
) -> Result<RunReport, RunError> {
    let now = context.clock.now();
    let known = context.known_calls.load(&context.catalog);
    context.waits.on("the run", "the catalog", known).await?;
    let (due, not_due): (Vec<Candidate>, Vec<Candidate>) =
        candidates.into_iter().partition(|one| one.is_due(now));
    // Asked once before anything walks: otherwise each region would fail with the same message.
    if let Err(error) = some_credential(context, &due).await {
        let reason = StopReason::Failed(error.to_string());
        context.store_not_walked(&due, Some(&reason)).await;
        return Err(error);
    }
    let queue = in_order(context, due, now);
    let mut walked = Walked::default();
    context.progress.planned(queue.len());
    let left = walk_all(context, queue, &mut walked).await;
    walked.add_not_walked(&left, PassOutcome::Interrupted, None);
    walked.add_not_walked(&not_due, PassOutcome::NotDue, None);
    // A signal asks for a quick end, and the next run deletes the same records.
    if context.stop.signal().is_none() {
        delete_unseen(context, selection, &mut walked.deletions).await;
    }
    let report = report(context, selection, walked);
    Ok(context.waits.on("the report", "the ledger", report).await)
}

/// Returns the regions in the order in which they walk: fairest first, behind them those at which their credential was rejected.
fn in_order(context: &Context, mut due: Vec<Candidate>, now: Timestamp) -> VecDeque<Candidate> {
    fairest_first(&mut due, now);
    let credentials = &context.blocked.credentials;
    due.sort_by_cached_key(|one| credentials.was_rejected_at(&one.job, &one.region.key()));
    due.into()
}

/// Admits and walks regions until none is left, or a signal ends the run. Returns those that are left then.
async fn walk_all(
    context: &Context,
    mut queue: VecDeque<Candidate>,
    walked: &mut Walked,
) -> Vec<Candidate> {
    let mut admission = Admission::default();
    while !queue.is_empty() && context.stop.signal().is_none() {
        // For each group anew: what the regions before it really used is known by now.
        let admitted = admission.next(context, &mut queue, walked.requests());
        let admitted = context
            .waits
            .on("the choice of regions", "catalog and ledger", admitted);
        match admitted.await {
            Ok(admitted) => walk_admitted(context, admitted, walked).await,
            Err(reason) => {
                // The catalog cannot be read, which concerns all that are left.
                let left = Vec::from(std::mem::take(&mut queue));
                walked.add_not_walked(&left, reason.outcome(), Some(&reason));
                context.store_not_walked(&left, Some(&reason)).await;
            }
        }
    }
    queue.into()
}

/// Deletes records that no response contained within `keep`.
async fn delete_unseen(context: &Context, selection: &Selection, deletions: &mut Vec<Deletion>) {
    let deleted = retention::drop_unseen(context, selection, deletions);
    let deleted = context
        .waits
        .on("the deletion of old records", "the catalog", deleted);
    if let Err(error) = deleted.await {
        tracing::error!(%error, "cannot delete records that were not seen within `keep`; the next \
            run tries again");
    }
}

/// Checks that at least one credential of the due jobs can be used. Where only some cannot, their regions fail and say why.
async fn some_credential(context: &Context, due: &[Candidate]) -> Result<(), RunError> {
    let mut missing = Vec::new();
    for job in jobs(due) {
        for credential in job.credentials() {
            let missing_secret = context.missing_secret(&job, credential);
            let name = format_args!("the credential {}", credential.name);
            match context.waits.on(name, "its secret", missing_secret).await {
                None => return Ok(()),
                Some(why) => missing.push(why),
            }
        }
    }
    missing.dedup();
    if missing.is_empty() {
        Ok(())
    } else {
        Err(RunError::NoCredential(missing.join("; ")))
    }
}
