//! One page: charge, request, understand; again where that can help. Every attempt is charged.

use std::time::Duration;

use super::asked::Led;
use super::believe::{believe, settle};
use super::context::Context;
use super::halt::Halt;
use super::outcome::StoppedBy;
use super::tally::Tally;
use super::unchanged;
use crate::clock::Monotonic;
use crate::config::{Call, Job, Region};
use crate::ledger::{Ask, Permit, Purpose, Verdict};
use crate::quota::{Closing, Cost, LimitName, Rejection, Timestamp, Units};
use crate::upstream::{Answered, Failure, Page, PageRequest};

/// A pause that an upstream asks for and that is longer than this ends the pass instead: the next run goes on.
const LONGEST_PAUSE: Duration = Duration::from_secs(60);

/// Who asks for a page.
#[derive(Clone, Copy)]
pub struct Asker<'a> {
    /// For which job.
    pub job: &'a Job,
    /// For which region.
    pub region: &'a Region,
}

/// What an attempt that brought no page leads to.
enum Next {
    /// Once more, after a pause.
    Retry { pause: Option<Duration>, why: String },
    /// No further.
    Halt(Halt),
}

/// Fetches one page, charged before each attempt.
///
/// # Errors
/// Why there is no page. What was spent on it is in the tally either way.
pub async fn fetch(
    context: &Context,
    asker: Asker<'_>,
    request: PageRequest<'_>,
    tally: &mut Tally,
) -> Result<Page, Halt> {
    let upstream = context.upstream(&asker.job.credential)?;
    let attempts = asker.job.credential.upstream.attempts.max(1);
    let known = unchanged::known(context, asker, request).await?;
    let mut attempt = 1;
    loop {
        let call = &*context.estimates.priced(asker.job, &request.step.call);
        let permit = permit(context, asker, call, tally).await?;
        let under_way = context.believing.send(&asker.job.credential.account.name, &call.cost);
        let request = PageRequest { now: context.clock.now(), known: known.as_ref(), ..request };
        let sent = Monotonic::now();
        let Answered { page: fetched, told } = upstream.fetch(request).await;
        count(context, asker, &request.step.call, &fetched, sent.elapsed());
        let unreachable = matches!(fetched, Err(Failure::Unreachable(_)));
        let next = match fetched {
            Ok(page) => {
                reopen(context, asker, &permit).await;
                if page.unchanged {
                    unchanged::give_back(context, asker, call, &permit, tally).await;
                }
                settle(context, asker, call, &permit, &page, tally).await;
                believe(context, asker, call, &permit, &told).await;
                return Ok(page);
            }
            Err(failure) => {
                believe(context, asker, call, &permit, &told).await;
                after(context, asker, call, &permit, failure, tally).await
            }
        };
        drop(under_way);
        match next {
            Next::Halt(halt) => return Err(halt),
            Next::Retry { why, .. } if attempt >= attempts => {
                let why = gave_up(attempts, &why);
                if unreachable {
                    context.gate.unreachable(&asker.job.credential.upstream.name, &why);
                }
                return Err(Halt::Failed(why));
            }
            Next::Retry { pause: Some(pause), why } if pause > LONGEST_PAUSE => {
                return Err(Halt::Failed(format!("{why}; it asks to wait {}", humantime::format_duration(pause))));
            }
            Next::Retry { pause, why } => {
                let pause = pause.unwrap_or_else(|| growing(asker.job.credential.upstream.pause, attempt));
                tracing::info!(
                    job = asker.job.name,
                    region = asker.region.code,
                    call = call.name,
                    units = shown(&call.cost),
                    attempt,
                    ?pause,
                    "{why}; trying again"
                );
                context.stop.sleep(&*context.clock, pause).await;
            }
        }
        attempt += 1;
    }
}

/// Counts a request, and tells whoever reads the log of a page.
fn count(context: &Context, asker: Asker<'_>, call: &Call, fetched: &Result<Page, Failure>, took: Duration) {
    let led = fetched.as_ref().map_or_else(Led::from, |_| Led::Page);
    context.asked.count(&asker.job.credential.account.name, &call.name, led, took);
    if let Ok(page) = fetched {
        let (job, region, units) = (&asker.job.name, &asker.region.code, shown(&call.cost));
        tracing::info!(job, region, call = call.name, units, records = page.records.len(), ?took, "a page");
    }
}

/// Units by limit, as a log shows them: `daily=100 search=1`
pub fn shown(cost: &Cost) -> String {
    let parts: Vec<String> = cost.iter().map(|(limit, units)| format!("{limit}={units}")).collect();
    parts.join(" ")
}

fn gave_up(attempts: u32, why: &str) -> String {
    if attempts == 1 { why.to_owned() } else { format!("{why} (tried {attempts} times)") }
}

/// Twice as long after each attempt, with jitter, so that many clients do not come back all at once.
fn growing(first: Duration, attempt: u32) -> Duration {
    let full = first.saturating_mul(1 << (attempt - 1).min(6)).min(LONGEST_PAUSE);
    full.mul_f64(0.75 + 0.5 * jitter())
}

/// Something between 0 and 1 that differs from call to call; nothing depends on how random it is.
fn jitter() -> f64 {
    let [.., first, second] = *uuid::Uuid::now_v7().as_bytes();
    f64::from(u16::from_be_bytes([first, second])) / f64::from(u16::MAX)
}

/// Leave to send one request; waits where the limit says that waiting is short.
async fn permit(context: &Context, asker: Asker<'_>, call: &Call, tally: &mut Tally) -> Result<Permit, Halt> {
    let credential = &asker.job.credential;
    let account = &credential.account;
    let purpose = purpose(asker, call);
    loop {
        ready(context, asker, call).await?;
        match context.meter.ask(ask(context, asker, call, &purpose)).await? {
            Verdict::Permitted(permit) if permit.is_stale() => context.meter.release(account, &permit).await?,
            Verdict::Permitted(permit) => {
                tally.charge(&call.cost, permit.metered);
                return Ok(permit);
            }
            Verdict::Rejected(rejection) => {
                if rejection.retry_after > credential.wait(&rejection.limit) {
                    return Err(Halt::Stopped(remember(context, asker, call, &rejection).into()));
                }
                context.stop.sleep(&*context.clock, rejection.retry_after).await;
            }
            Verdict::Never { limit, most } => return Err(Halt::Failed(never(call, &limit, most))),
            Verdict::Refused(why) => return Err(Halt::Unmetered(why)),
        }
    }
}

/// Whether this charge need be put to the ledger at all; pauses where the upstream said to slow down.
async fn ready(context: &Context, asker: Asker<'_>, call: &Call) -> Result<(), Halt> {
    let credential = &asker.job.credential;
    let pause = context.gate.pause(&credential.account.name, context.clock.now());
    if !pause.is_zero() {
        context.stop.sleep(&*context.clock, pause).await;
    }
    if context.stop.signal().is_some() {
        return Err(Halt::Interrupted);
    }
    if let Some(why) = context.gate.denial(&credential.name) {
        return Err(Halt::Denied(why));
    }
    if let Some(why) = context.gate.out_of_reach(&credential.upstream.name) {
        return Err(Halt::Failed(why));
    }
    context.ready(credential).await?;
    match context.gate.refusal(&credential.account, &call.cost, &asker.job.leave) {
        Some(stopped_by) => Err(Halt::Stopped(StoppedBy { call: call.name.clone(), ..stopped_by }.into())),
        None => Ok(()),
    }
}

fn purpose(asker: Asker<'_>, call: &Call) -> Purpose {
    Purpose { job: Some(asker.job.name.clone()), region: Some(asker.region.code.clone()), call: call.name.clone() }
}

fn ask<'a>(context: &Context, asker: Asker<'a>, call: &'a Call, purpose: &'a Purpose) -> Ask<'a> {
    Ask {
        account: &asker.job.credential.account,
        id: None,
        cost: &call.cost,
        leave: &asker.job.leave,
        outage: call.outage_policy(context.cheap_max),
        purpose,
    }
}

fn never(call: &Call, limit: &LimitName, most: Units) -> String {
    format!("{} can never be granted: it takes more of {limit} than the {most} that one charge can take", call.name)
}

fn remember(context: &Context, asker: Asker<'_>, call: &Call, rejection: &Rejection) -> StoppedBy {
    let units = call.cost.of(&rejection.limit);
    let stopped_by = StoppedBy {
        account: asker.job.credential.account.name.clone(),
        limit: rejection.limit.clone(),
        call: call.name.clone(),
        units,
        remaining: rejection.remaining,
        retry_after: rejection.retry_after,
        retry_at: rejection.retry_at,
    };
    context.gate.refuse(units + asker.job.leave.of(&rejection.limit), stopped_by.clone());
    stopped_by
}

/// What a failed attempt leads to, and what the ledger has to know of it.
async fn after(
    context: &Context,
    asker: Asker<'_>,
    call: &Call,
    permit: &Permit,
    failure: Failure,
    tally: &mut Tally,
) -> Next {
    match failure {
        Failure::Unreachable(why) | Failure::NotSent(why) => {
            match context.meter.release(&asker.job.credential.account, permit).await {
                Ok(()) => {
                    tally.release(&call.cost, permit.metered);
                    Next::Retry { pause: None, why }
                }
                Err(error) => Next::Halt(error.into()),
            }
        }
        Failure::Spent { message, limit, until } => {
            Next::Halt(close(context, asker, call, message, limit.as_deref(), until).await)
        }
        Failure::SlowDown { message, retry_after } => {
            if let Some(pause) = retry_after.filter(|pause| *pause <= LONGEST_PAUSE) {
                context.gate.slow_down(&asker.job.credential.account.name, context.clock.now().after(pause));
            }
            Next::Retry { pause: retry_after, why: message }
        }
        Failure::Denied(why) => {
            context.gate.deny(&asker.job.credential.name, &why);
            Next::Halt(Halt::Denied(why))
        }
        Failure::Skip(why) => Next::Halt(Halt::Unserved(why)),
        Failure::BadCursor(why) => {
            unchanged::forget(context, asker, call).await;
            Next::Halt(Halt::BadCursor(why))
        }
        Failure::Transient { message, retry_after } => Next::Retry { pause: retry_after, why: message },
    }
}

/// The upstream accepted what a limit without a known reset let through to try: it is no longer spent.
async fn reopen(context: &Context, asker: Asker<'_>, permit: &Permit) {
    for limit in &permit.grant.probing {
        if let Err(error) = context.meter.reopen(&asker.job.credential.account, limit).await {
            tracing::warn!(limit, %error, "a limit that the upstream serves again could not be reopened");
        }
    }
}

/// Closes the limits that the upstream called spent, for every run of every machine.
async fn close(
    context: &Context,
    asker: Asker<'_>,
    call: &Call,
    message: String,
    named: Option<&str>,
    until: Option<Timestamp>,
) -> Halt {
    let account = &asker.job.credential.account;
    let now = context.clock.now();
    let mut stops = Vec::new();
    for limit in spent_limits(asker, &call.cost, named) {
        let reset = until.or_else(|| account.limits.get(&limit).and_then(|limit| limit.closed_until(now)));
        let closing = reset.map_or(Closing::Probing, Closing::Until);
        if let Err(error) = context.meter.close(account, &limit, closing).await {
            return error.into();
        }
        let retry_at = reset.unwrap_or_else(|| now.after(Closing::PROBE_AFTER));
        let units = call.cost.of(&limit);
        let stopped_by = StoppedBy {
            account: account.name.clone(),
            limit,
            call: call.name.clone(),
            units,
            remaining: Units::ZERO,
            retry_after: retry_at.since(now),
            retry_at,
        };
        tracing::warn!(account = account.name, limit = stopped_by.limit, until = %retry_at,
            "the upstream says that this limit is spent although the ledger had units left: somebody else spends it too");
        context.gate.refuse(Units::new(1), stopped_by.clone());
        stops.push(stopped_by);
    }
    match stops.into_iter().max_by_key(|stop| stop.retry_at) {
        Some(stopped_by) => Halt::Spent(stopped_by.into(), message),
        None => Halt::Failed(message),
    }
}

/// The limit that was named, by the upstream's name or its own, else every limit that the call charges.
fn spent_limits(asker: Asker<'_>, cost: &Cost, named: Option<&str>) -> Vec<LimitName> {
    let credential = &asker.job.credential;
    let charged: Vec<LimitName> = cost.limits().cloned().collect();
    let is_named = |limit: &&LimitName| {
        let upstream_name = credential.limits.get(*limit).and_then(|limit| limit.upstream_name.as_deref());
        named.is_some() && (upstream_name == named || Some(limit.as_str()) == named)
    };
    match charged.iter().find(is_named) {
        Some(limit) => vec![limit.clone()],
        None => charged,
    }
}
