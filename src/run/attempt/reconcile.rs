//! Brings what a response reports of the quota to the ledger: the true cost of its request, and limits with fewer units left
//! than the ledger has.

use super::Attempt;
use crate::run::learned_cost::truth;
use ingest_catalog::Estimate;
use ingest_ledger::{Permit, reported_id};
use ingest_quota::{Cost, Entry, Limit, LimitName, LimitUsage, Origin, Timestamp, Units};
use ingest_upstream::{ReportedCost, ReportedLimit};

impl Attempt<'_> {
    /// Corrects the charge to what a page truly cost, beyond the limit too, and learns from it. The page is paid for: it is
    /// landed even if the ledger fails.
    pub async fn settle(&mut self, permit: &Permit, reported: &ReportedCost) {
        let truth = truth(&self.cost, &reported.cost);
        self.correct(permit, &reported.free.rest_of(&truth)).await;
        if reported.cost.is_empty() {
            return;
        }
        let (upstream, call) = (&self.job.credential.upstream.name, &self.call);
        let credential = &self.job.credential;
        let configured = |(limit, units): (&LimitName, Units)| {
            (credential.configured_name(limit).to_owned(), units)
        };
        let truth: Cost = truth.iter().map(configured).collect();
        let learned = self.context.learned_costs.learn(self.job, call, &truth);
        if learned == call.cost {
            return;
        }
        let estimate = Estimate {
            upstream: upstream.clone(),
            call: call.name.clone(),
            cost: learned,
        };
        if let Err(error) = self.context.catalog.learn(estimate).await {
            tracing::warn!(call = call.name, %error, "cannot store the learned cost of a call");
        }
    }

    /// Corrects a charge to what its request truly cost.
    pub async fn correct(&mut self, permit: &Permit, truth: &Cost) {
        if *truth == self.cost {
            return;
        }
        self.stats.settle(&self.cost, truth, permit.metered);
        let ledger = &self.context.ledger;
        if let Err(error) = ledger.settle(self.account(), &permit.id, truth).await {
            tracing::warn!(call = self.call.name, %error, "cannot record the reported cost of a \
                request in the ledger");
        }
    }

    /// Lowers each limit of which a page or a refusal reports fewer units left than the grant did. Closes one of which it reports
    /// only a reset.
    pub async fn reconcile(&self, permit: &Permit, reported: &[ReportedLimit]) {
        for reported in reported {
            let Some(limit) = self.account().limits.get(&reported.limit) else {
                continue;
            };
            let now = self.context.clock.now();
            match (reported.remaining, reported.reset) {
                // Its units have just returned: it counts them no longer, and there is nothing to wait for.
                (_, Some(reset)) if reset <= now => {}
                (Some(remaining), reset) => {
                    let left = remaining.saturating_sub(limit.headroom());
                    let granted_left = permit.grant.remaining.get(&reported.limit);
                    let is_beyond = |reset: &Timestamp| *reset > limit.window().expiry(now);
                    match reset.filter(is_beyond) {
                        // By then the ledger has forgotten all that it holds now.
                        Some(reset) if left == Units::ZERO => {
                            self.close_until(&reported.limit, reset).await;
                        }
                        _ if granted_left.is_some_and(|granted| *granted > left) => {
                            self.lower(&reported.limit, (left, reset), limit).await;
                        }
                        _ => {}
                    }
                }
                (None, Some(until)) => self.close_until(&reported.limit, until).await,
                (None, None) => {}
            }
        }
    }

    /// Adds an entry for the missing units to the ledger, so that it leaves the window at the reported reset. `left`: the units that
    /// the limit has left upstream.
    async fn lower(
        &self,
        name: &LimitName,
        (left, reset): (Units, Option<Timestamp>),
        limit: &Limit,
    ) {
        let account = self.account();
        // Two responses that miss the same units would otherwise both read the usage first, and both add them.
        let _alone = self.context.in_flight.lowering.lock().await;
        let usage = match self.context.ledger.usage_of(account, name).await {
            Ok(usage) => usage,
            Err(error) => {
                return tracing::warn!(limit = name, %error, "cannot read ledger usage");
            }
        };
        let Some(missing) = usage.and_then(|usage| self.missing(&usage, left, limit)) else {
            return;
        };
        // The charges in the ledger leave it one by one, and the upstream grants nothing before its reset.
        if let Some(reset) = reset.filter(|_| left == Units::ZERO) {
            return self.close_until(name, reset).await;
        }
        let at = counts_until(limit, reset, self.context.clock.now());
        let entry = Entry {
            origin: Origin::Reported,
            id: reported_id(name, at),
            at,
            cost: Cost::from_iter([(name.clone(), missing)]),
        };
        match self.context.ledger.absorb(account, &[entry]).await {
            Ok(()) => {
                tracing::info!(account = account.name, limit = name, %missing, %left,
                "upstream reports fewer units remaining than the ledger; another client is using \
                this quota")
            }
            Err(error) => {
                tracing::warn!(limit = name, %error, "cannot record the reported \
                    remaining units in the ledger")
            }
        }
    }

    /// Returns how many units the ledger has too many; `None` where it has no more than `left`, which the upstream reports.
    ///
    /// Where units are missing, the other requests in flight are taken for ones that the upstream has not counted yet, so
    /// that they are subtracted too. Where none are, their charges in the ledger are enough. A closed limit grants nothing
    /// anyway, and its usage cannot be compared.
    fn missing(&self, usage: &LimitUsage, left: Units, limit: &Limit) -> Option<Units> {
        let ledger_left = limit.enforced().saturating_sub(usage.used);
        if usage.closed_until.is_some() || ledger_left <= left {
            return None;
        }
        let in_flight = &self.context.in_flight;
        let others = in_flight
            .charged(&self.account().name, &usage.limit)
            .saturating_sub(self.cost.of(&usage.limit));
        Some(ledger_left.saturating_sub(left.saturating_sub(others)))
    }
}

/// Returns the time of a charge that leaves the window at `reset`: now, where the reset is unknown or the limit follows the
/// calendar.
fn counts_until(limit: &Limit, reset: Option<Timestamp>, now: Timestamp) -> Timestamp {
    match (limit.window().sliding(), limit.window().resets(), reset) {
        (Some(span), None, Some(reset)) => (reset - span).min(now),
        _ => now,
    }
}
