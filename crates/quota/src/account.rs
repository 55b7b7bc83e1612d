use std::collections::BTreeMap;
use std::time::Duration;

use super::{Cost, Limit, LimitName, Timestamp, Units, Window};

/// The holder of a quota, with its limits. Two keys of one project are one account.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Account {
    /// Its name in the ledger.
    pub name: String,
    /// Its limits by name.
    pub limits: BTreeMap<LimitName, Limit>,
}

impl Account {
    /// Returns the account with one of its limits alone; with none where it lacks that limit.
    #[must_use]
    pub fn only(&self, limit: &str) -> Self {
        let limit = self.limits.get_key_value(limit);
        Self {
            name: self.name.clone(),
            limits: limit
                .map(|(name, limit)| (name.clone(), *limit))
                .into_iter()
                .collect(),
        }
    }

    /// Returns the limits that `cost` takes from. Limits that the account lacks are left out: the configuration rejects them.
    pub fn charged<'a>(
        &'a self,
        cost: &'a Cost,
    ) -> impl Iterator<Item = (&'a LimitName, &'a Limit)> {
        cost.limits()
            .filter_map(|name| self.limits.get_key_value(name))
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
        self.longest_limit().map(Limit::span).unwrap_or_default()
    }

    /// Returns the limit that counts a charge for the longest time; `None` for an account without limits.
    #[must_use]
    pub fn longest_limit(&self) -> Option<&Limit> {
        self.of_each_window().max_by_key(|limit| limit.span())
    }

    /// The limits, but of neighbours by name that have the same window only the first.
    // A limit by value has thousands of neighbours with its window.
    pub fn of_each_window(&self) -> impl Iterator<Item = &Limit> {
        let mut last = None;
        self.limits.values().filter(move |limit| {
            let window = Some(limit.window());
            std::mem::replace(&mut last, window) != window
        })
    }

    /// Returns the longest that the id of a charge is remembered: as long as a limit counts the charge by itself. Where all
    /// that still count it count in parts, for [`SHORTEST_MEMORY`], so that the charges of a part can be recorded as one.
    /// [`remembered_from`](super::admission::remembered_from) says it to the microsecond.
    #[must_use]
    pub fn id_memory(&self) -> Duration {
        let memory = |limit: &Limit| match limit.window().parts() {
            None => limit.span(),
            Some(_) => limit.memory_of_parts(),
        };
        self.of_each_window().map(memory).max().unwrap_or_default()
    }

    /// Whether charges are forgotten one by one while they count.
    #[must_use]
    pub fn forgets_ids(&self) -> bool {
        self.id_memory() < self.longest_window()
    }

    /// Whether two charges, both older than ids are remembered, may be recorded as one at the later instant: no limit that
    /// counts the later at `now` counts them in different parts, and both were made in one hour of UTC, by which reports tell
    /// them apart.
    #[must_use]
    pub fn merges(&self, earlier: Timestamp, later: Timestamp, now: Timestamp) -> bool {
        let hour = |at: Timestamp| at.micros().div_euclid(3_600_000_000);
        if hour(earlier) != hour(later) {
            return false;
        }
        let mut counting = self.windows();
        counting.retain(|(_, window)| window.expiry(later) > now);
        let mut counting = counting.into_iter();
        counting.all(|(_, window)| window.counts_as(earlier) == window.counts_as(later))
    }

    /// Returns the windows of the limits, each once, with the name of the first limit that has it.
    #[must_use]
    pub fn windows(&self) -> Vec<(&LimitName, &Window)> {
        let mut windows: Vec<(&LimitName, &Window)> = Vec::new();
        for (name, limit) in &self.limits {
            let window = limit.window();
            if windows.iter().all(|(_, other)| *other != window) {
                windows.push((name, window));
            }
        }
        windows
    }
}

/// How long ids are remembered at least, or for the longest window where that is shorter: much longer than any operation or
/// request takes, so that what comes twice or late is recognised.
pub const SHORTEST_MEMORY: Duration = Duration::from_secs(10 * 60);
