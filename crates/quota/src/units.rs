use std::fmt;
use std::iter::Sum;
use std::ops::{Add, AddAssign};

use serde::{Deserialize, Serialize};

/// What an upstream meters. Arithmetic saturates: no limit holds a sum that does not fit.
#[derive(
    Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize,
)]
#[serde(transparent)]
pub struct Units(u64);

impl Units {
    /// No units.
    pub const ZERO: Self = Self(0);

    /// The most that one charge takes of a limit, whatever it truly cost: every ledger counts it exactly.
    pub const MOST_COUNTED: Self = Self(1 << 52);

    /// This number of units.
    #[must_use]
    pub const fn new(units: u64) -> Self {
        Self(units)
    }

    /// The plain number.
    #[must_use]
    pub const fn get(self) -> u64 {
        self.0
    }

    /// Subtracts `other`; zero when it is larger.
    #[must_use]
    pub const fn saturating_sub(self, other: Self) -> Self {
        Self(self.0.saturating_sub(other.0))
    }

    /// These units, at most [`Self::MOST_COUNTED`].
    #[must_use]
    pub fn counted(self) -> Self {
        self.min(Self::MOST_COUNTED)
    }

    /// These units, `count` times.
    #[must_use]
    pub const fn times(self, count: u64) -> Self {
        Self(self.0.saturating_mul(count))
    }
}

impl From<u64> for Units {
    fn from(units: u64) -> Self {
        Self(units)
    }
}

impl Add for Units {
    type Output = Self;

    fn add(self, other: Self) -> Self {
        Self(self.0.saturating_add(other.0))
    }
}

impl AddAssign for Units {
    fn add_assign(&mut self, other: Self) {
        *self = *self + other;
    }
}

impl Sum for Units {
    fn sum<I: Iterator<Item = Self>>(units: I) -> Self {
        units.fold(Self::ZERO, Add::add)
    }
}

impl fmt::Display for Units {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(&self.0, f)
    }
}
