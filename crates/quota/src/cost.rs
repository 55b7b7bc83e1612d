use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use super::{LimitName, Units};

/// Units by limit: what one request charges, or what a job leaves. A component of zero is not stored.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(from = "BTreeMap<LimitName, Units>")]
pub struct Cost(BTreeMap<LimitName, Units>);

impl Cost {
    /// Nothing of any limit.
    #[must_use]
    pub fn none() -> Self {
        Self::default()
    }

    /// The units that this takes of `limit`.
    #[must_use]
    pub fn of(&self, limit: &str) -> Units {
        self.0.get(limit).copied().unwrap_or(Units::ZERO)
    }

    /// The components, by name of the limit.
    pub fn iter(&self) -> impl Iterator<Item = (&LimitName, Units)> {
        self.0.iter().map(|(limit, units)| (limit, *units))
    }

    /// The names of the limits that this takes from.
    pub fn limits(&self) -> impl Iterator<Item = &LimitName> {
        self.0.keys()
    }

    /// The largest component: it decides whether a call is cheap (L29).
    #[must_use]
    pub fn largest(&self) -> Units {
        self.0.values().copied().max().unwrap_or(Units::ZERO)
    }

    /// Whether this takes nothing.
    #[must_use]
    pub fn is_none(&self) -> bool {
        self.0.is_empty()
    }

    /// Sets one component.
    pub fn set(&mut self, limit: &str, units: Units) {
        match units {
            // Costs that take the same are equal, however they were made.
            Units::ZERO => self.0.remove(limit),
            units => self.0.insert(limit.to_owned(), units),
        };
    }

    /// These units, of each limit as many as a ledger counts.
    #[must_use]
    pub fn counted(&self) -> Self {
        self.iter()
            .map(|(limit, units)| (limit.clone(), units.counted()))
            .collect()
    }

    /// Adds `other`.
    pub fn add(&mut self, other: &Self) {
        for (limit, units) in other.iter() {
            *self.0.entry(limit.clone()).or_default() += units;
        }
    }

    /// Subtracts `other`, each component to zero at the least.
    pub fn take(&mut self, other: &Self) {
        *self = self
            .iter()
            .map(|(limit, units)| (limit.clone(), units.saturating_sub(other.of(limit))))
            .collect();
    }

    /// This, `count` times.
    #[must_use]
    pub fn times(&self, count: u64) -> Self {
        self.iter()
            .map(|(limit, units)| (limit.clone(), units.times(count)))
            .collect()
    }
}

impl From<BTreeMap<LimitName, Units>> for Cost {
    fn from(components: BTreeMap<LimitName, Units>) -> Self {
        components.into_iter().collect()
    }
}

impl FromIterator<(LimitName, Units)> for Cost {
    fn from_iter<I: IntoIterator<Item = (LimitName, Units)>>(components: I) -> Self {
        Self(
            components
                .into_iter()
                .filter(|(_, units)| *units > Units::ZERO)
                .collect(),
        )
    }
}
