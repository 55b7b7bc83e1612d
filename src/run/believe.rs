//! What an answer tells of the quota, brought to the ledger: a true cost, and limits that stand lower than was known.

use super::context::Context;
use super::estimate::truth;
use super::request::Asker;
use super::tally::Tally;
use crate::config::Call;
use crate::ledger::Permit;
use crate::quota::{ChargeId, Cost, Entry, Limit, Timestamp, Units};
use crate::upstream::{Page, Standing};

/// Brings what an answer tells to the ledger. The page is paid for: it is landed even if the ledger cannot be told.
pub(super) async fn believe(
    context: &Context,
    asker: Asker<'_>,
    call: &Call,
    permit: &Permit,
    page: &Page,
    tally: &mut Tally,
) {
    if !page.cost.is_empty() {
        settle(context, asker, call, permit, &truth(&call.cost, &page.cost), tally).await;
    }
    for told in &page.told {
        let left = permit.grant.remaining.get(&told.limit);
        if left.is_some_and(|left| *left > told.remaining) {
            lower(context, asker, told).await;
        }
    }
}

/// Corrects the charge, beyond the limit too, and learns from it.
async fn settle(context: &Context, asker: Asker<'_>, call: &Call, permit: &Permit, truth: &Cost, tally: &mut Tally) {
    let upstream = &asker.job.credential.upstream.name;
    if *truth != call.cost {
        tally.settle(&call.cost, truth);
        if let Err(error) = context.meter.settle(&asker.job.credential.account, &permit.id, truth).await {
            tracing::warn!(call = call.name, %error, "the ledger could not be told what a request truly cost");
        }
    }
    let estimate = context.estimates.learn(asker.job, call, truth);
    if estimate != call.cost
        && let Err(error) = context.catalog.learn(upstream, &call.name, &estimate).await
    {
        tracing::warn!(call = call.name, %error, "what a call costs could not be written down");
    }
}

/// Makes the ledger believe that no more is left of a limit than was told. One at a time, or two answers would both take
/// away the same units.
///
/// What is missing becomes an entry of the ledger's own, at the time that makes it leave the window at the reset that was
/// told. Requests of ours that the upstream had not counted yet are charged already, so that the ledger never stands
/// higher than what was told.
async fn lower(context: &Context, asker: Asker<'_>, told: &Standing) {
    let account = &asker.job.credential.account;
    let Some(limit) = account.limits.get(&told.limit) else { return };
    let _alone = context.believing.lock().await;
    let told_left = told.remaining.less(limit.headroom());
    let believed = match context.meter.usage(account).await {
        Ok(usage) => usage.into_iter().find(|usage| usage.limit == told.limit),
        Err(error) => return tracing::warn!(limit = told.limit, %error, "how the ledger stands could not be asked"),
    };
    // While a limit is closed nothing is let through anyway, and what it holds cannot be seen.
    let Some(believed) = believed.filter(|usage| usage.closed_until.is_none()) else { return };
    let missing = limit.enforced().less(believed.used).less(told_left);
    if missing == Units::ZERO {
        return;
    }
    let at = counts_until(limit, told.reset, context.clock.now());
    let id = format!("told-{}-{}-{}", told.limit, at, ChargeId::fresh());
    let entry =
        Entry { id: ChargeId::new(id), at, cost: Cost::from_iter([(told.limit.clone(), missing)]) };
    match context.meter.absorb(account, entry).await {
        Ok(()) => tracing::info!(
            account = account.name, limit = told.limit, %missing, left = %told_left,
            "the upstream told that less is left than the ledger knew: somebody else spends it too"
        ),
        Err(error) => tracing::warn!(limit = told.limit, %error, "the ledger could not be told what is left"),
    }
}

/// When something must have been charged that leaves the window at `reset`: now, where that is unknown or the limit
/// follows the calendar.
fn counts_until(limit: &Limit, reset: Option<Timestamp>, now: Timestamp) -> Timestamp {
    match (limit.window().sliding(), limit.window().resets(), reset) {
        (Some(span), None, Some(reset)) => reset.before(span).min(now),
        _ => now,
    }
}
