//! Leave to send one request: what this run knows already, then a connection, then the ledger.

use super::context::Context;
use super::fits::Claim;
use super::outcome::StoppedBy;
use super::pass_stats::PassStats;
use super::request::Asker;
use super::stop_reason::StopReason;
use crate::config::{Call, Job};
use crate::ledger::{Acquired, ChargeRequest, Permit, Purpose};
use crate::quota::{LimitName, Rejection, Units};
use crate::upstream::{Connection, Failure};

/// Leave to send one request, and the connection to send it on: what takes long comes before the charge. Waits where the
/// limit says that waiting is short. A failure says that no connection can be made; where the ledger rejects the charge
/// too, that is the outcome, since a limit is exhausted whether or not the upstream can be reached.
///
/// # Errors
/// Why it is not to be sent. Nothing is charged then.
pub async fn permit(
    context: &Context,
    asker: Asker<'_>,
    call: &Call,
    stats: &mut PassStats,
) -> Result<Result<(Permit, Connection), Failure>, StopReason> {
    let credential = &asker.job.credential;
    let mut connection = Connection::default();
    let purpose = purpose(asker, call);
    loop {
        ready(context, asker, call).await?;
        let mut unreachable = None;
        if !connection.is_open() {
            match context.upstream(credential)?.connect().await {
                Ok(made) => connection = made,
                Err(failure) => unreachable = Some(failure),
            }
        }
        match context
            .ledger
            .acquire(charge_request(context, asker, call, &purpose))
            .await?
        {
            Acquired::Permitted(permit) => {
                let Some(failure) = unreachable else {
                    stats.charge(&call.cost, permit.metered);
                    return Ok(Ok((permit, connection)));
                };
                context.ledger.release(&credential.account, &permit).await?;
                return Ok(Err(failure));
            }
            Acquired::Rejected(rejection) => {
                if rejection.retry_after > credential.wait(&rejection.limit) {
                    return Err(StopReason::Stopped(
                        remember(context, asker, call, &rejection).into(),
                    ));
                }
                context
                    .stop
                    .sleep(&*context.clock, rejection.retry_after)
                    .await;
            }
            Acquired::Never { limit, most } => {
                return Err(StopReason::Failed(never(call, &limit, most)));
            }
            Acquired::Refused(why) => return Err(StopReason::LedgerAway(why)),
        }
    }
}

/// Whether this charge need be put to the ledger at all; pauses where the upstream said to slow down.
async fn ready(context: &Context, asker: Asker<'_>, call: &Call) -> Result<(), StopReason> {
    let credential = &asker.job.credential;
    pause(context, &credential.account.name).await;
    if context.stop.signal().is_some() {
        return Err(StopReason::Interrupted(None));
    }
    if let Some(why) = context.blocked.denial(&credential.name) {
        return Err(StopReason::Denied(why));
    }
    let held = context.blocked.out_of_reach(&credential.upstream.name);
    if let Some(why) = held.or_else(|| context.blocked.held(&credential.account.name)) {
        return Err(StopReason::Failed(why));
    }
    context.can_land().await?;
    context.ready(credential).await?;
    match context
        .blocked
        .refusal(&credential.account, &call.cost, &asker.job.leave)
    {
        Some(refused) => {
            let units = call.cost.of(&refused.limit);
            Err(StopReason::Stopped(
                StoppedBy {
                    call: call.name.clone(),
                    units,
                    claim: claim(asker.job, call),
                    ..refused
                }
                .into(),
            ))
        }
        None => Ok(()),
    }
}

/// Waits as long as the upstream asked an account to; longer where it asks for more meanwhile.
async fn pause(context: &Context, account: &str) {
    let mut waited_for = None;
    while let Some(until) = context
        .blocked
        .slowed_until(account)
        .filter(|until| waited_for != Some(*until))
    {
        context
            .stop
            .sleep(&*context.clock, until.since(context.clock.now()))
            .await;
        waited_for = Some(until);
    }
}

fn purpose(asker: Asker<'_>, call: &Call) -> Purpose {
    Purpose {
        job: Some(asker.job.name.clone()),
        region: Some(asker.region.code.clone()),
        call: call.name.clone(),
    }
}

fn charge_request<'a>(
    context: &Context,
    asker: Asker<'a>,
    call: &'a Call,
    purpose: &'a Purpose,
) -> ChargeRequest<'a> {
    ChargeRequest {
        account: &asker.job.credential.account,
        id: None,
        cost: &call.cost,
        leave: &asker.job.leave,
        outage: call.outage_policy(context.cheap_max),
        purpose,
    }
}

/// What a call of this job takes and leaves.
pub fn claim(job: &Job, call: &Call) -> Claim {
    Claim {
        cost: call.cost.clone(),
        leave: job.leave.clone(),
    }
}

fn never(call: &Call, limit: &LimitName, most: Units) -> String {
    format!(
        "{} can never be granted: it needs more {limit} than the {most} that one charge can use",
        call.name
    )
}

fn remember(context: &Context, asker: Asker<'_>, call: &Call, rejection: &Rejection) -> StoppedBy {
    let units = call.cost.of(&rejection.limit);
    let stopped_by = StoppedBy {
        account: asker.job.credential.account.name.clone(),
        limit: rejection.limit.clone(),
        call: call.name.clone(),
        units,
        remaining: rejection.remaining,
        claim: claim(asker.job, call),
        retry_after: rejection.retry_after,
        retry_at: rejection.retry_at,
    };
    context.blocked.refuse(
        units + stopped_by.leave(),
        stopped_by.clone(),
        context.clock.now(),
    );
    stopped_by
}
