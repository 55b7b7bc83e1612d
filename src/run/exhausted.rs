//! Limits that the upstream calls spent although the ledger had units left, and that it serves again.

use std::time::Duration;

use super::context::Context;
use super::outcome::StoppedBy;
use super::permit::claim;
use super::request::{Asker, LONGEST_PAUSE};
use super::stop_reason::StopReason;
use crate::config::Call;
use crate::ledger::Permit;
use crate::quota::{Closing, Cost, Limit, LimitName, Timestamp, Units};

/// The upstream accepted what a limit without a known reset let through to try: it is no longer spent.
pub async fn reopen(context: &Context, asker: Asker<'_>, permit: &Permit) {
    for limit in permit.grant.probing.keys() {
        if let Err(error) = context
            .ledger
            .reopen(&asker.job.credential.account, limit)
            .await
        {
            tracing::warn!(limit, %error, "cannot reopen the limit, which the upstream serves again");
        }
    }
}

/// Closes the limits that the upstream called spent, for every run of every machine.
pub async fn close(
    context: &Context,
    asker: Asker<'_>,
    call: &Call,
    message: String,
    named: Option<&str>,
    until: Option<Timestamp>,
) -> StopReason {
    let account = &asker.job.credential.account;
    let now = context.clock.now();
    let mut stops = Vec::new();
    for limit in exhausted_limits(asker, &call.cost, named) {
        let reset = account
            .limits
            .get(&limit)
            .and_then(|limit| reopens(limit, until, now));
        let closing = reset.map_or(Closing::Probing, Closing::Until);
        if let Err(error) = context.ledger.close(account, &limit, closing).await {
            return error.into();
        }
        let opens = opens(context, asker, &limit, closing).await;
        let stopped_by = stopped_by(asker, call, limit, opens, now);
        tracing::warn!(account = account.name, limit = stopped_by.limit, until = %stopped_by.retry_at,
            "upstream reports the limit exhausted although the ledger has units left; another \
            client is using this quota");
        context.blocked.spent(stopped_by.clone(), now);
        stops.push(stopped_by);
    }
    match stops.into_iter().max_by_key(|stop| stop.retry_at) {
        Some(stopped_by) => StopReason::Exhausted(stopped_by.into(), message),
        None => StopReason::Failed(message),
    }
}

/// When a limit that was just closed opens, if only for a probe. Only the ledger knows how many were declined.
async fn opens(context: &Context, asker: Asker<'_>, limit: &str, closing: Closing) -> Timestamp {
    let account = &asker.job.credential.account;
    let stored = match closing {
        Closing::Until(_) => None,
        Closing::Probing | Closing::Copied { .. } => context.ledger.usage(account).await.ok(),
    };
    let usage = stored
        .into_iter()
        .flatten()
        .find(|usage| usage.limit == limit);
    usage
        .and_then(|usage| usage.closed_until)
        .unwrap_or_else(|| closing.over(None, context.clock.now()).until)
}

fn stopped_by(
    asker: Asker<'_>,
    call: &Call,
    limit: LimitName,
    retry_at: Timestamp,
    now: Timestamp,
) -> StoppedBy {
    StoppedBy {
        account: asker.job.credential.account.name.clone(),
        units: call.cost.of(&limit),
        limit,
        call: call.name.clone(),
        remaining: Units::ZERO,
        claim: claim(asker.job, call),
        retry_after: retry_at.since(now),
        retry_at,
    }
}

/// Closes limits for as long as the upstream asks to wait: the one that its error rule names, otherwise every limit that
/// the call charges. A call that charges none is not requested again by this run.
pub async fn close_for(
    context: &Context,
    asker: Asker<'_>,
    call: &Call,
    message: String,
    (named, pause): (Option<&str>, Duration),
) -> StopReason {
    let account = &asker.job.credential.account;
    let now = context.clock.now();
    let until = now + pause;
    let mut stop = None;
    for limit in exhausted_limits(asker, &call.cost, named) {
        let closing = Closing::Until(until);
        if let Err(error) = context.ledger.close(account, &limit, closing).await {
            return error.into();
        }
        tracing::warn!(account = account.name, limit, %until, "the upstream requests a pause: \
            {message}");
        let stopped_by = stopped_by(asker, call, limit, until, now);
        context.blocked.spent(stopped_by.clone(), now);
        stop.get_or_insert(stopped_by);
    }
    match stop {
        Some(stop) => StopReason::Paused(stop.into(), message),
        None => {
            context.blocked.hold(&account.name, &message);
            StopReason::Failed(message)
        }
    }
}

/// When a limit that the upstream called spent has units again, as far as that is known: at its own reset, or before that
/// where the upstream says so; a moment from now is no reset. What slides is all back after its window.
fn reopens(limit: &Limit, until: Option<Timestamp>, now: Timestamp) -> Option<Timestamp> {
    let reset = limit.closed_until(now);
    let latest = reset.unwrap_or_else(|| now + limit.window().longest() + limit.grace());
    let earliest = if reset.is_some() {
        now + LONGEST_PAUSE
    } else {
        now
    };
    until
        .filter(|until| *until >= earliest)
        .map(|until| until.min(latest))
        .or(reset)
}

/// The limit that was named, by the upstream's name or its own, else every limit that the call charges.
fn exhausted_limits(asker: Asker<'_>, cost: &Cost, named: Option<&str>) -> Vec<LimitName> {
    let credential = &asker.job.credential;
    let charged: Vec<LimitName> = cost.limits().cloned().collect();
    let is_named = |limit: &&LimitName| {
        let upstream_name = credential
            .limits
            .get(*limit)
            .and_then(|limit| limit.upstream_name.as_deref());
        named.is_some() && (upstream_name == named || Some(limit.as_str()) == named)
    };
    match charged.iter().find(is_named) {
        Some(limit) => vec![limit.clone()],
        None => charged,
    }
}
