//! Limits that the upstream reports exhausted although the ledger has units left, and that it serves again later.

use std::time::Duration;

use super::{Attempt, LONGEST_PAUSE};
use crate::run::outcome::StoppedBy;
use crate::run::stop_reason::StopReason;
use ingest_ledger::{ClientError, Permit};
use ingest_quota::{Closing, Limit, LimitName, Timestamp};
use ingest_upstream::{Failure, ReportedLimit};

impl Attempt<'_> {
    /// Reopens the limits that the request probed: the upstream served it.
    pub async fn reopen(&self, permit: &Permit) {
        for limit in permit.grant.probing.keys() {
            if let Err(error) = self.context.ledger.reopen(self.account(), limit).await {
                tracing::warn!(limit, %error, "cannot reopen the limit, which the upstream serves again");
            }
        }
    }

    /// Closes the limits that the upstream reports exhausted, for every run of every machine: until the time that the error rule
    /// or else `reported` has.
    pub async fn close_exhausted(
        &self,
        message: String,
        named: Option<&str>,
        until: Option<Timestamp>,
        reported: &[ReportedLimit],
    ) -> StopReason {
        let now = self.context.clock.now();
        let mut stops = Vec::new();
        for name in self.exhausted_limits(named) {
            let limit = self.account().limits.get(&name);
            let its_reset = || reported.iter().find(|one| one.limit == name)?.reset;
            let until = until.or_else(its_reset);
            let reset = limit.and_then(|limit| reopens(limit, until, now));
            let closing = reset.map_or(Closing::Probing, Closing::Until);
            let stop = match self.close(name, closing).await {
                Ok(stop) => stop,
                Err(error) => return error.into(),
            };
            tracing::warn!(account = stop.account, limit = stop.limit, until = %stop.retry_at,
                "upstream reports the limit exhausted although the ledger has units left; another \
                client is using this quota");
            stops.push(stop);
        }
        match stops.into_iter().max_by_key(|stop| stop.retry_at) {
            Some(stop) => StopReason::Exhausted(stop.into(), message),
            None => StopReason::Failed(message),
        }
    }

    /// Closes limits for as long as the upstream requests to wait. A call that charges no limit is not requested again by
    /// this run.
    pub async fn close_for(
        &self,
        pause: Duration,
        message: String,
        named: Option<&str>,
    ) -> StopReason {
        let until = self.context.clock.now() + pause;
        let mut first = None;
        for name in self.exhausted_limits(named) {
            let stop = match self.close(name, Closing::Until(until)).await {
                Ok(stop) => stop,
                Err(error) => return error.into(),
            };
            tracing::warn!(account = stop.account, limit = stop.limit, %until, "the upstream \
                requests a pause: {message}");
            first.get_or_insert(stop);
        }
        match first {
            Some(stop) => StopReason::Paused(stop.into(), message),
            None => {
                let account = &self.account().name;
                self.context.blocked.hold(account, &message);
                StopReason::Failed(message)
            }
        }
    }

    /// Closes a limit of which a response reports only until when no more requests may follow. The response is kept even if the
    /// ledger fails.
    pub async fn close_until(&self, limit: &LimitName, until: Timestamp) {
        match self.close(limit.clone(), Closing::Until(until)).await {
            Ok(_) => {
                tracing::info!(limit, %until, "the upstream allows no more requests until then")
            }
            Err(error) => tracing::warn!(limit, %error, "cannot close the limit in the ledger"),
        }
    }

    /// Returns the reports of limits that the refusal does not close. An entry for the missing units of a closed one would keep it
    /// full after it is opened by hand.
    pub fn of_open_limits(
        &self,
        failure: &Failure,
        reported: &[ReportedLimit],
    ) -> Vec<ReportedLimit> {
        let is_long = |pause: &Option<Duration>| pause.is_some_and(|pause| pause > LONGEST_PAUSE);
        let closed = match failure {
            Failure::Spent { limit, .. } => self.exhausted_limits(limit.as_deref()),
            Failure::SlowDown {
                retry_after, limit, ..
            }
            | Failure::Transient {
                retry_after, limit, ..
            } if is_long(retry_after) => self.exhausted_limits(limit.as_deref()),
            Failure::SlowDown { .. }
            | Failure::Transient { .. }
            | Failure::Unreachable(_)
            | Failure::NotSent(_)
            | Failure::TooLate
            | Failure::Denied(_)
            | Failure::Skip(_)
            | Failure::BadCursor(_)
            | Failure::OldCursor(_)
            | Failure::WrongShape(_)
            | Failure::Unreadable { .. } => Vec::new(),
        };
        let is_open = |one: &&ReportedLimit| !closed.contains(&one.limit);
        reported.iter().filter(is_open).cloned().collect()
    }

    /// Closes a limit in the ledger and for this run.
    async fn close(&self, limit: LimitName, closing: Closing) -> Result<StoppedBy, ClientError> {
        let now = self.context.clock.now();
        let account = self.account();
        self.context.ledger.close(account, &limit, closing).await?;
        let opens = self.opens(&limit, closing).await;
        let stop = self.stopped_by(limit, opens, opens.since(now));
        self.context.blocked.exhausted(stop.clone(), now);
        Ok(stop)
    }

    /// Returns when a limit that was just closed opens, if only for a probe. Only the ledger knows how many probes were
    /// declined, and so how long the interval to the next one is.
    async fn opens(&self, limit: &str, closing: Closing) -> Timestamp {
        let account = self.account();
        let stored = match closing {
            Closing::Until(_) => None,
            Closing::Probing | Closing::Copied { .. } => {
                self.context.ledger.usage_of(account, limit).await.ok()
            }
        };
        stored
            .flatten()
            .and_then(|usage| usage.closed_until)
            .unwrap_or_else(|| closing.over(None, self.context.clock.now()).until)
    }

    /// The limit that the refusal names, by the upstream's name or ours; otherwise every limit that the call charges.
    fn exhausted_limits(&self, named: Option<&str>) -> Vec<LimitName> {
        let charged: Vec<LimitName> = self.cost.limits().cloned().collect();
        let credential = &self.job.credential;
        let is_named = |limit: &&LimitName| {
            let name = credential.configured_name(limit);
            let configured = credential.limits.get(name);
            let upstream_name = configured.and_then(|limit| limit.upstream_name.as_deref());
            named.is_some() && (upstream_name == named || Some(name) == named)
        };
        match charged.iter().find(is_named) {
            Some(limit) => vec![limit.clone()],
            None => charged,
        }
    }
}

/// Returns when an exhausted limit has units again, as far as that is known: at its own reset, or before that where the
/// upstream says so and means more than a pause. A sliding window is empty after its whole length.
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
