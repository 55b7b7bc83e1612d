//! One page: charge, request, understand; again where that can help. Every attempt is charged.

use std::time::Duration;

use super::context::Context;
use super::exhausted::{close, close_for, reopen};
use super::learned_cost::{lower_of, truth_of_a_refusal};
use super::not_modified;
use super::pass_stats::PassStats;
use super::permit::permit;
use super::reconcile::{correct, reconcile, settle};
use super::request_stats::RequestOutcome;
use super::stop_reason::StopReason;
use crate::clock::Monotonic;
use crate::config::{Call, Job, Region};
use crate::ledger::Permit;
use crate::quota::Cost;
use crate::upstream::{Exchange, Failure, LONGEST_WAIT, Page, PageRequest, ReportedCost};

/// A pause that an upstream asks for and that is longer than this ends the pass instead: the next run goes on.
pub const LONGEST_PAUSE: Duration = Duration::from_secs(60);

/// Who asks for a page.
#[derive(Clone, Copy)]
pub struct Asker<'a> {
    /// For which job.
    pub job: &'a Job,
    /// For which region.
    pub region: &'a Region,
}

/// An attempt that brought no page, and that can be made once more.
struct Retry {
    /// How long the upstream asked us to wait.
    pause: Option<Duration>,
    why: String,
    trouble: Trouble,
    /// Whether it stays charged: it left, or may have.
    charged: bool,
    /// The limit that the error rule names, if it names one.
    limit: Option<String>,
}

/// What kept an attempt from bringing a page: whether it would keep others from it too.
#[derive(Clone, Copy)]
enum Trouble {
    /// No connection to the upstream can be made.
    Unreachable,
    /// The account asks too fast.
    SlowDown,
    /// Something of this request's own.
    Other,
}

/// Fetches one page, charged before each attempt.
///
/// # Errors
/// Why there is no page. What was spent on it is in `stats` either way.
pub async fn fetch(
    context: &Context,
    asker: Asker<'_>,
    request: PageRequest<'_>,
    stats: &mut PassStats,
) -> Result<Page, StopReason> {
    let known = not_modified::cached_page(context, asker, request).await?;
    let request = PageRequest {
        known: known.as_ref(),
        ..request
    };
    let mut attempt = 1;
    let mut in_doubt = None;
    loop {
        match attempt_once(context, asker, request, stats).await {
            Ok(Ok(page)) => return Ok(page),
            Ok(Err(retry)) => {
                in_doubt = retry.charged.then(|| retry.why.clone());
                wait_for_next(context, asker, &request.step.call, retry, attempt).await?;
            }
            Err(StopReason::Interrupted(_)) => return Err(StopReason::Interrupted(in_doubt)),
            Err(reason) => return Err(reason),
        }
        attempt += 1;
    }
}

/// One attempt: charged, sent, and understood.
async fn attempt_once(
    context: &Context,
    asker: Asker<'_>,
    request: PageRequest<'_>,
    stats: &mut PassStats,
) -> Result<Result<Page, Retry>, StopReason> {
    let upstream = context.upstream(&asker.job.credential)?;
    let call = &*context.learned_costs.priced(asker.job, &request.step.call);
    let (permit, connection) = match permit(context, asker, call, stats).await? {
        Ok(permitted) => permitted,
        Err(failure) => {
            count(context, asker, call, &Err(failure.clone()), Duration::ZERO);
            return uncharged(failure).map(Err);
        }
    };
    let _under_way = context
        .in_flight
        .send(&asker.job.credential.account.name, &call.cost);
    let sent = Monotonic::now();
    let request = PageRequest {
        now: context.clock.now(),
        ..request
    };
    let Exchange { page, reported } = upstream.fetch(request, connection, permit.deadline).await;
    count(context, asker, call, &page, sent.elapsed());
    match page {
        Ok(page) => {
            reopen(context, asker, &permit).await;
            if page.unchanged {
                not_modified::give_back(context, asker, call, &permit, stats).await;
            }
            settle(context, asker, call, &permit, &reported.cost, stats).await;
            reconcile(context, asker, call, &permit, &reported.limits).await;
            Ok(Ok(page))
        }
        Err(failure) => {
            let truth = true_cost_of_refusal(asker, call, &permit, &failure, &reported);
            correct(context, asker, call, &permit, &truth, stats).await;
            reconcile(context, asker, call, &permit, &reported.limits).await;
            let retry = after(context, asker, call, &permit, failure, stats).await?;
            Ok(Err(Retry {
                charged: retry.charged && !reported.free,
                ..retry
            }))
        }
    }
}

/// What a request cost that brought no page: nothing where its error rule says so. A declined probe costs the call's
/// smallest cost, which is its configured one where answers report what pages cost; any other keeps what it was charged.
fn true_cost_of_refusal(
    asker: Asker<'_>,
    call: &Call,
    permit: &Permit,
    failure: &Failure,
    reported: &ReportedCost,
) -> Cost {
    if reported.free {
        return Cost::none();
    }
    let is_declined = matches!(failure, Failure::Spent { .. } | Failure::SlowDown { .. });
    let configured = asker.job.credential.upstream.calls.get(&call.name);
    let least = configured.filter(|_| is_declined && !permit.grant.probing.is_empty());
    let charged = least.map_or_else(
        || call.cost.clone(),
        |least| lower_of(&call.cost, &least.cost),
    );
    truth_of_a_refusal(&charged, &reported.cost)
}

/// Waits for the next attempt, if there is one. What would keep other requests from their pages too is remembered, so that
/// they need not be charged to hear it again.
async fn wait_for_next(
    context: &Context,
    asker: Asker<'_>,
    call: &Call,
    Retry {
        pause,
        why,
        trouble,
        limit,
        ..
    }: Retry,
    attempt: u32,
) -> Result<(), StopReason> {
    let (account, upstream) = (
        &asker.job.credential.account.name,
        &asker.job.credential.upstream,
    );
    let attempts = upstream.attempts.max(1);
    if let Some(pause) = pause.filter(|pause| *pause > LONGEST_PAUSE) {
        let why = format!("{why}; the upstream requests a pause of {}", wait(pause));
        return Err(close_for(context, asker, call, why, (limit.as_deref(), pause)).await);
    }
    if attempt >= attempts {
        let why = gave_up(attempts, &why);
        match trouble {
            Trouble::Unreachable => context.blocked.unreachable(&upstream.name, &why),
            Trouble::SlowDown => context.blocked.hold(account, &why),
            Trouble::Other => {}
        }
        return Err(StopReason::Failed(why));
    }
    let pause = pause.unwrap_or_else(|| growing(upstream.pause, attempt));
    let (job, region, units) = (&asker.job.name, &asker.region.code, shown(&call.cost));
    tracing::info!(
        job,
        region,
        call = call.name,
        units,
        attempt,
        ?pause,
        "{why}; retrying"
    );
    context.stop.sleep(&*context.clock, pause).await;
    Ok(())
}

/// Counts a request, and tells whoever reads the log of a page.
fn count(
    context: &Context,
    asker: Asker<'_>,
    call: &Call,
    fetched: &Result<Page, Failure>,
    took: Duration,
) {
    let outcome = fetched
        .as_ref()
        .map_or_else(RequestOutcome::from, |_| RequestOutcome::Page);
    context.request_stats.count(
        &asker.job.credential.account.name,
        &call.name,
        outcome,
        took,
    );
    if let Ok(page) = fetched {
        let (job, region, units) = (&asker.job.name, &asker.region.code, shown(&call.cost));
        tracing::info!(
            job,
            region,
            call = call.name,
            units,
            records = page.records.len(),
            ?took,
            "page fetched"
        );
    }
}

/// Units by limit, as a log shows them: `daily=100 search=1`
pub fn shown(cost: &Cost) -> String {
    let parts: Vec<String> = cost
        .iter()
        .map(|(limit, units)| format!("{limit}={units}"))
        .collect();
    parts.join(" ")
}

/// How long an upstream asks to wait. Beyond what it is believed, the figure would be ours.
fn wait(pause: Duration) -> String {
    if pause >= LONGEST_WAIT {
        return "more than 32 days".to_owned();
    }
    humantime::format_duration(pause).to_string()
}

fn gave_up(attempts: u32, why: &str) -> String {
    if attempts == 1 {
        why.to_owned()
    } else {
        format!("{why} ({attempts} attempts)")
    }
}

/// Twice as long after each attempt, with jitter, so that many clients do not come back all at once.
fn growing(first: Duration, attempt: u32) -> Duration {
    let full = first
        .saturating_mul(1 << (attempt - 1).min(6))
        .min(LONGEST_PAUSE);
    full.mul_f64(0.75 + 0.5 * jitter())
}

/// Something between 0 and 1 that differs from call to call; nothing depends on how random it is.
fn jitter() -> f64 {
    let [.., first, second] = *uuid::Uuid::now_v7().as_bytes();
    f64::from(u16::from_be_bytes([first, second])) / f64::from(u16::MAX)
}

/// What the ledger and other requests have to know of a failed attempt, and how it can be made once more.
async fn after(
    context: &Context,
    asker: Asker<'_>,
    call: &Call,
    permit: &Permit,
    failure: Failure,
    stats: &mut PassStats,
) -> Result<Retry, StopReason> {
    match failure {
        Failure::Unreachable(why) => {
            give_back(context, asker, call, permit, stats).await?;
            Ok(Retry {
                pause: None,
                why,
                trouble: Trouble::Unreachable,
                charged: false,
                limit: None,
            })
        }
        Failure::NotSent(why) => {
            give_back(context, asker, call, permit, stats).await?;
            Err(StopReason::Failed(why))
        }
        Failure::TooLate => {
            give_back(context, asker, call, permit, stats).await?;
            Ok(Retry {
                pause: Some(Duration::ZERO),
                why: failure.to_string(),
                trouble: Trouble::Other,
                charged: false,
                limit: None,
            })
        }
        Failure::Spent {
            message,
            limit,
            until,
        } => Err(close(context, asker, call, message, limit.as_deref(), until).await),
        Failure::SlowDown {
            message,
            retry_after,
            limit,
        } => {
            if let Some(pause) = retry_after.filter(|pause| *pause <= LONGEST_PAUSE) {
                context.blocked.slow_down(
                    &asker.job.credential.account.name,
                    context.clock.now() + pause,
                );
            }
            Ok(Retry {
                pause: retry_after,
                why: message,
                trouble: Trouble::SlowDown,
                charged: true,
                limit,
            })
        }
        Failure::Denied(why) => {
            context.blocked.deny(&asker.job.credential.name, &why);
            Err(StopReason::Denied(why))
        }
        Failure::Skip(why) => Err(StopReason::Unserved(why)),
        Failure::WrongShape(why) => Err(StopReason::Failed(why)),
        Failure::BadCursor(why) => {
            not_modified::forget(context, asker, call).await;
            Err(StopReason::BadCursor(why))
        }
        Failure::Transient {
            message,
            retry_after,
            limit,
        } => Ok(Retry {
            pause: retry_after,
            why: message,
            trouble: Trouble::Other,
            charged: true,
            limit,
        }),
    }
}

/// How a request can be made once more that was not charged, since no connection could be made.
fn uncharged(failure: Failure) -> Result<Retry, StopReason> {
    match failure {
        Failure::Unreachable(why) => Ok(Retry {
            pause: None,
            why,
            trouble: Trouble::Unreachable,
            charged: false,
            limit: None,
        }),
        failure => Err(StopReason::Failed(failure.to_string())),
    }
}

/// Gives back what was charged for a request that provably never left.
async fn give_back(
    context: &Context,
    asker: Asker<'_>,
    call: &Call,
    permit: &Permit,
    stats: &mut PassStats,
) -> Result<(), StopReason> {
    context
        .ledger
        .release(&asker.job.credential.account, permit)
        .await?;
    stats.release(&call.cost, permit.metered);
    Ok(())
}
