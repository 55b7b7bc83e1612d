//! What an answer tells of the quota, brought to the ledger: a true cost, and limits that stand lower than was known.

use std::collections::{BTreeMap, HashMap};
use std::sync::{Mutex, MutexGuard, PoisonError};

use super::context::Context;
use super::learned_cost::truth;
use super::pass_stats::PassStats;
use super::request::Asker;
use crate::config::Call;
use crate::ledger::{Permit, fresh_id};
use crate::quota::{ChargeId, Cost, Entry, Limit, LimitName, Timestamp, Units};
use crate::upstream::ReportedLimit;

/// What is under way, for whoever is told what is left.
#[derive(Debug, Default)]
pub struct InFlight {
    /// Whoever lowers a limit does so alone.
    alone: tokio::sync::Mutex<()>,
    /// What the requests under way were charged, by account.
    charged: Mutex<HashMap<String, Cost>>,
}

impl InFlight {
    /// A request of this cost is under way until what is returned is dropped.
    pub fn send<'a>(&'a self, account: &'a str, cost: &'a Cost) -> InFlightGuard<'a> {
        self.costs()
            .entry(account.to_owned())
            .or_default()
            .add(cost);
        InFlightGuard {
            in_flight: self,
            account,
            cost,
        }
    }

    fn charged(&self, account: &str, limit: &str) -> Units {
        self.costs()
            .get(account)
            .map_or(Units::ZERO, |cost| cost.of(limit))
    }

    fn costs(&self) -> MutexGuard<'_, HashMap<String, Cost>> {
        self.charged.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A request under way.
pub struct InFlightGuard<'a> {
    in_flight: &'a InFlight,
    account: &'a str,
    cost: &'a Cost,
}

impl Drop for InFlightGuard<'_> {
    fn drop(&mut self) {
        if let Some(cost) = self.in_flight.costs().get_mut(self.account) {
            cost.take(self.cost);
        }
    }
}

/// Brings to the ledger what an answer tells of its limits, be it a page or a refusal.
pub async fn reconcile(
    context: &Context,
    asker: Asker<'_>,
    call: &Call,
    permit: &Permit,
    told: &[ReportedLimit],
) {
    for told in told {
        let Some(limit) = asker.job.credential.account.limits.get(&told.limit) else {
            continue;
        };
        let left = permit.grant.remaining.get(&told.limit);
        if left.is_some_and(|left| *left > told.remaining.saturating_sub(limit.headroom())) {
            lower(context, asker, told, limit, call.cost.of(&told.limit)).await;
        }
    }
}

/// Corrects the charge to what a page truly cost, beyond the limit too, and learns from it. The page is paid for: it is
/// landed even if the ledger cannot be told.
pub async fn settle(
    context: &Context,
    asker: Asker<'_>,
    call: &Call,
    permit: &Permit,
    told: &BTreeMap<LimitName, Units>,
    stats: &mut PassStats,
) {
    if told.is_empty() {
        return;
    }
    let truth = &truth(&call.cost, told);
    correct(context, asker, call, permit, truth, stats).await;
    let upstream = &asker.job.credential.upstream.name;
    let estimate = context.learned_costs.learn(asker.job, call, truth);
    if estimate != call.cost
        && let Err(error) = context.catalog.learn(upstream, &call.name, &estimate).await
    {
        tracing::warn!(call = call.name, %error, "cannot store the learned cost of a call");
    }
}

/// Corrects a charge to what its request truly cost.
pub async fn correct(
    context: &Context,
    asker: Asker<'_>,
    call: &Call,
    permit: &Permit,
    truth: &Cost,
    stats: &mut PassStats,
) {
    if *truth == call.cost {
        return;
    }
    stats.settle(&call.cost, truth, permit.metered);
    if let Err(error) = context
        .ledger
        .settle(&asker.job.credential.account, &permit.id, truth)
        .await
    {
        tracing::warn!(call = call.name, %error, "cannot record the reported cost of a request in \
            the ledger");
    }
}

/// Makes the ledger believe that no more is left of a limit than was told. One at a time, or two answers would both take
/// away the same units.
///
/// What is missing becomes an entry of the ledger's own, at the time that makes it leave the window at the reset that was
/// told. Where something is missing, the requests of this run that are under way are taken for ones that the upstream had
/// not counted yet. Where nothing is, nothing need be known of them: they are charged.
async fn lower(
    context: &Context,
    asker: Asker<'_>,
    told: &ReportedLimit,
    limit: &Limit,
    own: Units,
) {
    let account = &asker.job.credential.account;
    let _alone = context.in_flight.alone.lock().await;
    let told_left = told.remaining.saturating_sub(limit.headroom());
    let believed = match context.ledger.usage(account).await {
        Ok(usage) => usage.into_iter().find(|usage| usage.limit == told.limit),
        Err(error) => {
            return tracing::warn!(limit = told.limit, %error, "cannot read ledger usage");
        }
    };
    // While a limit is closed nothing is let through anyway, and what it holds cannot be seen.
    let Some(believed) = believed.filter(|usage| usage.closed_until.is_none()) else {
        return;
    };
    let believed_left = limit.enforced().saturating_sub(believed.used);
    if believed_left <= told_left {
        return;
    }
    let charged = context
        .in_flight
        .charged(&account.name, &told.limit)
        .saturating_sub(own);
    let missing = believed_left.saturating_sub(told_left.saturating_sub(charged));
    let at = counts_until(limit, told.reset, context.clock.now());
    let id = format!("told-{}-{}-{}", told.limit, at, fresh_id());
    let entry = Entry {
        id: ChargeId::new(id),
        at,
        cost: Cost::from_iter([(told.limit.clone(), missing)]),
    };
    match context.ledger.absorb(account, &[entry]).await {
        Ok(()) => tracing::info!(
            account = account.name, limit = told.limit, %missing, left = %told_left,
            "upstream reports fewer units remaining than the ledger; another client is using this \
            quota"
        ),
        Err(error) => {
            tracing::warn!(limit = told.limit, %error, "cannot record the reported remaining \
                units in the ledger")
        }
    }
}

/// When something must have been charged that leaves the window at `reset`: now, where that is unknown or the limit
/// follows the calendar.
fn counts_until(limit: &Limit, reset: Option<Timestamp>, now: Timestamp) -> Timestamp {
    match (limit.window().sliding(), limit.window().resets(), reset) {
        (Some(span), None, Some(reset)) => (reset - span).min(now),
        _ => now,
    }
}
