use std::collections::BTreeMap;
use std::time::Duration;

use super::{Cost, Limit, LimitName, Units};

/// The holder of a quota, with its limits. Two keys of one project are one account.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Account {
    /// Its name in the ledger.
    pub name: String,
    /// Its limits by name.
    pub limits: BTreeMap<LimitName, Limit>,
}

impl Account {
    /// Returns the limits that `cost` takes from. Limits that the account lacks are left out: the configuration rejects them.
    pub fn charged<'a>(
        &'a self,
        cost: &'a Cost,
    ) -> impl Iterator<Item = (&'a LimitName, &'a Limit)> {
        self.limits
            .iter()
            .filter(|(name, _)| cost.limits().any(|charged| charged == *name))
    }

    /// Returns the part of `cost` that the account's limits have.
    #[must_use]
    pub fn taken(&self, cost: &Cost) -> Cost {
        self.charged(cost)
            .map(|(name, _)| (name.clone(), cost.of(name)))
            .collect()
    }

    /// Returns the first limit by name that can never hold `cost` while `leave` stays free, and the most units that one
    /// charge can take of it; `None` when all can.
    #[must_use]
    pub fn never_holds(&self, cost: &Cost, leave: &Cost) -> Option<(LimitName, Units)> {
        let too_small = |(name, limit): &(&LimitName, &Limit)| {
            !limit.fits(Units::ZERO, cost.of(name), leave.of(name))
        };
        let (name, limit) = self.charged(cost).find(too_small)?;
        Some((
            name.clone(),
            limit.enforced().saturating_sub(leave.of(name)),
        ))
    }

    /// Returns how long after its request a grant of `cost` may still be used (L6): the shortest grace of its limits.
    #[must_use]
    pub fn grant_lifetime(&self, cost: &Cost) -> Duration {
        self.charged(cost)
            .map(|(_, limit)| limit.grace())
            .min()
            .unwrap_or(Duration::MAX)
    }

    /// Returns the longest that a charge of this account can count, with the grace at both ends.
    #[must_use]
    pub fn longest_window(&self) -> Duration {
        let spans = self
            .limits
            .values()
            .map(|limit| limit.window().longest() + limit.grace() * 2);
        spans.max().unwrap_or_default()
    }
}
