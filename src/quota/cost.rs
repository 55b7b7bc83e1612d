use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use super::{LimitName, Units};

/// Units by limit: what one request charges, or what a job leaves. A limit of zero units is not in it.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(from = "BTreeMap<LimitName, Units>")]
pub struct Cost(BTreeMap<LimitName, Units>);

impl Cost {
    /// Nothing of any limit.
    #[must_use]
    pub fn none() -> Self {
        Self::default()
    }

    /// What this takes of `limit`.
    #[must_use]
    pub fn of(&self, limit: &str) -> Units {
        self.0.get(limit).copied().unwrap_or(Units::ZERO)
    }

    /// The limits that this takes from, with what it takes, by name.
    pub fn iter(&self) -> impl Iterator<Item = (&LimitName, Units)> {
        self.0.iter().map(|(limit, units)| (limit, *units))
    }

    /// The names of the limits that this takes from.
    pub fn limits(&self) -> impl Iterator<Item = &LimitName> {
        self.0.keys()
    }

    /// The largest component: what decides whether a call is cheap.
    #[must_use]
    pub fn largest(&self) -> Units {
        self.0.values().copied().max().unwrap_or(Units::ZERO)
    }

    /// All components together: a measure of how much, not of what.
    #[must_use]
    pub fn total(&self) -> Units {
        self.0.values().copied().sum()
    }

    /// Whether this takes nothing.
    #[must_use]
    pub fn is_none(&self) -> bool {
        self.0.is_empty()
    }

    /// Makes one component so many units.
    pub fn set(&mut self, limit: &str, units: Units) {
        match units {
            Units::ZERO => self.0.remove(limit),
            units => self.0.insert(limit.to_owned(), units),
        };
    }

    /// This and `other` together.
    pub fn add(&mut self, other: &Self) {
        for (limit, units) in other.iter() {
            *self.0.entry(limit.clone()).or_default() += units;
        }
    }

    /// Takes `other` away from this.
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
