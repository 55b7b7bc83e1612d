//! What follows from an attempt that returned no page: what it cost, what other requests have to know, and whether to retry.

use std::time::Duration;

use super::turn::Turn;
use super::{Attempt, LONGEST_PAUSE};
use crate::run::blocked::Subject;
use crate::run::learned_cost::{lower_of, truth_of_a_refusal};
use crate::run::stats::logged;
use crate::run::stop_reason::StopReason;
use ingest_ledger::Permit;
use ingest_quota::{Cost, Period};
use ingest_upstream::{Failure, ReportedCost, ReportedLimit, Wait};

/// An attempt that returned no page, and that can be repeated.
pub struct Retry {
    pub why: String,
    cause: Cause,
    /// How long the upstream requests to wait.
    wait: Option<Wait>,
    /// The limit that the error rule names, if it names one.
    limit: Option<String>,
    /// Whether the attempt stays charged: it was sent, or may have been.
    pub charged: bool,
}

/// What failed.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Cause {
    /// No connection to the upstream can be made, for any request.
    Unreachable,
    /// The grant expired before the request could be sent: a new one is charged at once.
    TooLate,
    /// The account makes requests too fast, with any of them.
    SlowDown,
    /// The body is not in the configured format. Holds its hash.
    Unreadable(u128),
    /// Only this request is concerned.
    Transient,
}

impl Retry {
    /// No connection could be made, so nothing was sent.
    pub const fn unreachable(why: String) -> Self {
        Self::unsent(Cause::Unreachable, why)
    }

    const fn unsent(cause: Cause, why: String) -> Self {
        Self {
            why,
            cause,
            wait: None,
            limit: None,
            charged: false,
        }
    }

    /// The upstream answered, and may have counted the request.
    const fn answered(
        cause: Cause,
        why: String,
        wait: Option<Wait>,
        limit: Option<String>,
    ) -> Self {
        Self {
            why,
            cause,
            wait,
            limit,
            charged: true,
        }
    }

    /// Compares with the body of the attempt before, which `last` holds, and replaces it.
    ///
    /// # Errors
    /// The same body came again although it cannot be read: it would come again.
    pub fn is_new(&self, last: &mut Option<u128>, number: u32) -> Result<(), StopReason> {
        let body = match self.cause {
            Cause::Unreadable(body) => Some(body),
            _ => None,
        };
        let before = std::mem::replace(last, body);
        if body.is_none() || before != body {
            return Ok(());
        }
        let why = format!(
            "{} ({number} attempts, the last two with this response)",
            self.why
        );
        Err(StopReason::Failed(why))
    }
}

impl Attempt<'_> {
    /// Returns the cost of a refused request, without what its error rule calls `free`. A declined probe costs the configured cost of
    /// the call, even if a higher one was learned. Only `spent` and `slow_down` decline a probe: the upstream may have counted a
    /// truncated response as a page. Every other refusal keeps its charge, because the upstream may have counted it.
    pub fn cost_of_refusal(
        &self,
        permit: &Permit,
        failure: &Failure,
        reported: &ReportedCost,
    ) -> Cost {
        let is_declined = matches!(failure, Failure::Spent { .. } | Failure::SlowDown { .. });
        let calls = &self.job.credential.upstream.calls;
        let configured = calls
            .get(&self.call.name)
            .filter(|_| is_declined && !permit.grant.probing.is_empty())
            .and_then(|call| self.job.credential.in_ledger(&call.cost, self.region).ok());
        let charged = configured.map_or_else(
            || self.cost.clone(),
            |configured| lower_of(&self.cost, &configured),
        );
        let truth = truth_of_a_refusal(&charged, &reported.cost);
        reported.free.rest_of(&truth)
    }

    /// Releases, closes, slows down or blocks what a failed attempt calls for, and returns how to retry it.
    ///
    /// # Errors
    /// It cannot be retried: the run of this list stops for this reason.
    pub async fn refused(
        &mut self,
        permit: &Permit,
        turn: &Turn,
        failure: Failure,
        reported: &[ReportedLimit],
    ) -> Result<Retry, StopReason> {
        match failure {
            Failure::Unreachable(why) => {
                self.release(permit).await?;
                Ok(Retry::unreachable(why))
            }
            Failure::NotSent(why) => {
                self.release(permit).await?;
                Err(StopReason::Failed(why))
            }
            Failure::Unsendable(why) => {
                self.release(permit).await?;
                Err(StopReason::Unsendable(why))
            }
            Failure::TooLate => {
                self.release(permit).await?;
                Ok(Retry::unsent(Cause::TooLate, failure.to_string()))
            }
            Failure::Spent {
                message,
                limit,
                until,
            } => {
                let limit = limit.as_deref();
                let closed = self.close_exhausted(message, limit, until, reported);
                Err(closed.await)
            }
            Failure::SlowDown {
                message,
                retry_after,
                limit,
            } => {
                self.slow_down(retry_after);
                let cause = Cause::SlowDown;
                Ok(Retry::answered(cause, message, retry_after, limit))
            }
            Failure::Denied(why)
                if self
                    .context
                    .blocked
                    .is_of_request(&self.job.credential.name) =>
            {
                Err(StopReason::Forbidden(why))
            }
            Failure::Denied(why) => Err(self.rejected(turn, why)),
            Failure::Skip(why) => Err(StopReason::Unserved(why)),
            Failure::WrongShape(why) => Err(StopReason::Failed(why)),
            Failure::BadCursor(why) => {
                self.forget_cached_pages().await;
                Err(StopReason::BadCursor(why))
            }
            Failure::OldCursor(why) => Err(StopReason::OldCursor(why)),
            Failure::Transient {
                message,
                retry_after,
                limit,
            } => {
                let cause = Cause::Transient;
                Ok(Retry::answered(cause, message, retry_after, limit))
            }
            Failure::Unreadable { message, body } => {
                let cause = Cause::Unreadable(body);
                Ok(Retry::answered(cause, message, None, None))
            }
        }
    }

    /// Waits for the next attempt.
    ///
    /// # Errors
    /// Where there is none: the attempts are used up, or the upstream requests a longer pause than a run waits out. What
    /// would fail other requests too is remembered, so that they are not charged for it.
    pub async fn wait_to_retry(&self, retry: Retry, number: u32) -> Result<(), StopReason> {
        let upstream = &self.job.credential.upstream;
        let attempts = upstream.attempts.max(1);
        if let Some(pause) = retry.wait
            && pause.length() > LONGEST_PAUSE
        {
            let why = format!(
                "{}; the upstream requests a pause of {}",
                retry.why,
                shown(pause.length())
            );
            return Err(self.close_for(pause, why, retry.limit.as_deref()).await);
        }
        if number >= attempts {
            let why = gave_up(attempts, &retry.why);
            let blocked = &self.context.blocked;
            // Other requests stop for the same reason, after attempts of their own or none.
            match retry.cause {
                Cause::Unreachable => {
                    blocked.block(Subject::Upstream(upstream.name.clone()), &retry.why);
                }
                Cause::SlowDown => {
                    blocked.block(Subject::Account(self.account().name.clone()), &retry.why);
                }
                Cause::TooLate | Cause::Unreadable(_) | Cause::Transient => {}
            }
            return Err(StopReason::Failed(why));
        }
        let requested = retry.wait.map_or(Duration::ZERO, Wait::length);
        let pause = match retry.cause {
            Cause::TooLate => Duration::ZERO,
            _ => backoff(upstream.pause, number).max(requested),
        };
        let (job, region, call) = (&self.job.name, self.region.key(), &self.call.name);
        let (units, why) = (logged(&self.cost), retry.why);
        tracing::info!(
            job,
            region,
            call,
            units,
            attempt = number,
            ?pause,
            "{why}; retrying"
        );
        self.context.stop.sleep(&*self.context.clock, pause).await;
        Ok(())
    }

    /// Makes all requests of the account pause, unless the pause is so long that the pass stops instead.
    fn slow_down(&self, retry_after: Option<Wait>) {
        let pause = retry_after.map(Wait::length);
        if let Some(pause) = pause.filter(|pause| *pause <= LONGEST_PAUSE) {
            let until = self.context.clock.now() + pause;
            self.context.blocked.slow_down(&self.account().name, until);
        }
    }

    /// Releases the charge of a request that provably was not sent.
    async fn release(&mut self, permit: &Permit) -> Result<(), StopReason> {
        self.context.ledger.release(self.account(), permit).await?;
        self.stats.release(&self.cost, permit.metered);
        Ok(())
    }

    /// Forgets the cached pages of the call: one of them led on to a cursor that has expired, and would again.
    async fn forget_cached_pages(&self) {
        if let Err(error) = self.context.forget_tags(self.job, &self.call).await {
            let call = &self.call.name;
            tracing::warn!(call, %error, "cannot delete cached pages with an expired cursor");
        }
    }
}

/// The pause that an upstream requests. What is cut to [`Period::longest`] is not shown as an exact figure.
fn shown(pause: Duration) -> String {
    if pause >= Period::longest() {
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

/// The configured pause, twice as long after each attempt. Jitter adds up to half of it, so that many clients do not retry at the
/// same instant.
fn backoff(first: Duration, attempt: u32) -> Duration {
    let full = first
        .saturating_mul(1 << (attempt - 1).min(6))
        .min(LONGEST_PAUSE);
    full.mul_f64(1.0 + 0.5 * jitter())
}

/// A number between 0 and 1 that differs from call to call. Nothing depends on how random it is.
fn jitter() -> f64 {
    let [.., first, second] = *uuid::Uuid::now_v7().as_bytes();
    f64::from(u16::from_be_bytes([first, second])) / f64::from(u16::MAX)
}
