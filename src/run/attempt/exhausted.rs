//! Limits that the upstream reports exhausted although the ledger has units left, and that it serves again later.

use std::time::Duration;

use super::{Attempt, LONGEST_PAUSE};
use crate::run::blocked::Subject;
use crate::run::outcome::{ClosedBy, StoppedBy};
use crate::run::report::CLOSING;
use crate::run::stop_reason::{Refused, StopReason};
use ingest_base::plain::instant;
use ingest_config::CredentialLimit;
use ingest_ledger::{ClientError, Permit};
use ingest_quota::{Closing, Limit, LimitName, Timestamp};
use ingest_upstream::{Failure, ReportedLimit, Wait};

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
        wait: Option<Wait>,
        reported: &[ReportedLimit],
    ) -> StopReason {
        let now = self.context.clock.now();
        let mut stops = Vec::new();
        let meant = self.exhausted_limits(named);
        let exhausted = meant.join(" or ");
        for name in meant {
            let limit = self.account().limits.get(&name);
            let its_reset = || reported.iter().find(|one| one.limit == name)?.reset;
            let wait = wait.or_else(|| its_reset().map(|reset| Wait::Until(reset.since(now))));
            let reset = limit.and_then(|limit| self.reopens(limit, wait));
            let closing = reset.map_or(Closing::Probing, Closing::Until);
            let stop = match self.close(name, closing, ClosedBy::Report).await {
                Ok(stop) => stop,
                Err(error) => return error.into(),
            };
            tracing::warn!(target: CLOSING, account = stop.account, limit = stop.limit, until = %stop.retry_at,
                "upstream reports {exhausted} exhausted although the ledger has units left; another \
                client is using this quota");
            stops.push(stop);
        }
        let closed = closed_in_words(&stops);
        let why = format!("the upstream reported {exhausted} exhausted ({message}); {closed}");
        match stops.into_iter().max_by_key(|stop| stop.retry_at) {
            Some(stop) => StopReason::Stopped(stop.into(), Refused::Exhausted(why)),
            None => StopReason::Failed(message),
        }
    }

    /// Closes limits for as long as the upstream requests to wait. A call that charges no limit is not requested again by
    /// this run.
    pub async fn close_for(&self, pause: Wait, message: String, named: Option<&str>) -> StopReason {
        let now = self.context.clock.now();
        let mut first = None;
        for name in self.exhausted_limits(named) {
            let limit = self.account().limits.get(&name);
            let window = limit.map_or(Duration::ZERO, |limit| limit.window().longest());
            let until = now + pause.closes(window);
            let closing = Closing::Until(until);
            let stop = match self.close(name, closing, ClosedBy::Pause).await {
                Ok(stop) => stop,
                Err(error) => return error.into(),
            };
            tracing::warn!(target: CLOSING, account = stop.account, limit = stop.limit, %until, "the \
                upstream requests a pause: {message}");
            first.get_or_insert(stop);
        }
        match first {
            Some(stop) => StopReason::Stopped(stop.into(), Refused::Paused(message)),
            None => {
                let account = Subject::Account(self.account().name.clone());
                self.context.blocked.block(account, &message);
                StopReason::Failed(message)
            }
        }
    }

    /// Closes a limit of which a response reports until when no more requests may follow. The response is kept even if the
    /// ledger fails.
    pub async fn close_until(&self, limit: &LimitName, until: Timestamp) {
        let account = &self.account().name;
        let closing = Closing::Until(until);
        match self.close(limit.clone(), closing, ClosedBy::Pause).await {
            Ok(_) if until <= self.context.clock.now() + LONGEST_PAUSE => {
                tracing::info!(account, limit, %until, "the upstream allows no more requests until then");
            }
            Ok(_) => {
                tracing::warn!(target: CLOSING, account, limit, %until, "the upstream allows no more \
                    requests until then");
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
        let is_long =
            |pause: &Option<Wait>| pause.is_some_and(|pause| pause.length() > LONGEST_PAUSE);
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
            | Failure::Unsendable(_)
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

    /// Returns when an exhausted limit has units again, as far as that is known: when the upstream says so, or else at its own reset. A
    /// sliding window is empty after its whole length.
    ///
    /// The place that an error rule names has the limit's own reset; where that has just passed, the pause of the upstream is left
    /// at least. A `Retry-After` may only mean a pause, and is never longer than the window.
    fn reopens(&self, limit: &Limit, wait: Option<Wait>) -> Option<Timestamp> {
        let now = self.context.clock.now();
        let own = limit.closed_until(now);
        match wait {
            None => own,
            Some(Wait::Until(wait)) => Some(now + wait.max(self.job.credential.upstream.pause)),
            Some(Wait::RetryAfter(wait) | Wait::Pause(wait)) => {
                let latest = own.unwrap_or_else(|| now + limit.window().longest() + limit.grace());
                let is_a_pause = own.is_some() && wait < LONGEST_PAUSE;
                let until = (!is_a_pause).then(|| (now + wait).min(latest));
                until.or(own)
            }
        }
    }

    /// Closes a limit in the ledger and for this run.
    async fn close(
        &self,
        limit: LimitName,
        closing: Closing,
        closed_by: ClosedBy,
    ) -> Result<StoppedBy, ClientError> {
        let now = self.context.clock.now();
        let account = self.account();
        self.context.ledger.close(account, &limit, closing).await?;
        let opens = self.opens(&limit, closing).await;
        let stop = StoppedBy {
            closed_by,
            ..self.stopped_by(limit, opens, opens.since(now))
        };
        self.context.blocked.refuse(None, stop.clone(), now);
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

    /// Returns the limit that the refusal names, by the upstream's name or ours; otherwise those of the call that the upstream can
    /// mean: those that it has a name for, or else all but the user's own. The user's own if there is no other, since nothing else
    /// would keep later runs from requesting.
    fn exhausted_limits(&self, named: Option<&str>) -> Vec<LimitName> {
        let credential = &self.job.credential;
        let limits_where = |is_meant: &dyn Fn(&str, &CredentialLimit) -> bool| {
            let is_meant = |limit: &&LimitName| {
                let name = credential.configured_name(limit);
                let configured = credential.limits.get(name);
                configured.is_some_and(|limit| is_meant(name, limit))
            };
            self.cost.limits().filter(is_meant).cloned().collect()
        };
        let by_name: Vec<LimitName> = limits_where(&|name, limit| {
            named.is_some() && (limit.upstream_name.as_deref() == named || Some(name) == named)
        });
        if let Some(limit) = by_name.first() {
            return vec![limit.clone()];
        }
        let with_name = limits_where(&|_, limit| limit.upstream_name.is_some());
        let theirs = limits_where(&|_, limit| !limit.own);
        let all = self.cost.limits().cloned().collect();
        let found = [with_name, theirs]
            .into_iter()
            .find(|found| !found.is_empty());
        found.unwrap_or(all)
    }
}

/// The sentence about limits that were closed.
fn closed_in_words(stops: &[StoppedBy]) -> String {
    let sentence = |name: &str, stop: &StoppedBy| {
        format!(
            "{name} is closed for every run until {}",
            instant(stop.retry_at)
        )
    };
    match stops {
        [stop] => sentence("the limit", stop),
        stops => {
            let sentences = stops.iter().map(|stop| sentence(&stop.limit, stop));
            sentences.collect::<Vec<_>>().join(", ")
        }
    }
}
