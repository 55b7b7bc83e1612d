use std::collections::BTreeMap;
use std::time::Duration;

use super::{Cost, Limit, LimitName, Units};

/// Whose quota a credential draws on, and the limits of it. Two keys of one project are one account.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Account {
    /// Its name, by which the ledger knows it.
    pub name: String,
    /// Its limits by name.
    pub limits: BTreeMap<LimitName, Limit>,
}

impl Account {
    /// The limits that `cost` takes from. Limits that the account lacks are left out: the configuration refuses them.
    pub fn charged<'a>(
        &'a self,
        cost: &'a Cost,
    ) -> impl Iterator<Item = (&'a LimitName, &'a Limit)> {
        self.limits
            .iter()
            .filter(|(name, _)| cost.limits().any(|charged| charged == *name))
    }

    /// What `cost` takes of the account's limits.
    #[must_use]
    pub fn taken(&self, cost: &Cost) -> Cost {
        self.charged(cost)
            .map(|(name, _)| (name.clone(), cost.of(name)))
            .collect()
    }

    /// The first limit by name that can never hold `cost` while `leave` stays free, and the most that one charge can take
    /// of it.
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

    /// How long after it was asked for a grant of `cost` may still be sent: the shortest grace of its limits.
    #[must_use]
    pub fn grant_lifetime(&self, cost: &Cost) -> Duration {
        self.charged(cost)
            .map(|(_, limit)| limit.grace())
            .min()
            .unwrap_or(Duration::MAX)
    }

    /// The longest that anything charged to this account can count, its grace included.
    #[must_use]
    pub fn longest_window(&self) -> Duration {
        let spans = self
            .limits
            .values()
            .map(|limit| limit.window().longest() + limit.grace() * 2);
        spans.max().unwrap_or_default()
    }
}
