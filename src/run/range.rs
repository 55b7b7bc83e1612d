use serde::Serialize;

/// Requests or units: at least, as expected, and at most; `None` where nothing bounds them.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize)]
pub struct Range {
    /// At least.
    pub min: u64,
    /// As expected.
    pub expected: u64,
    /// At most.
    pub max: Option<u64>,
}

impl Range {
    /// Exactly this.
    #[must_use]
    pub const fn exactly(count: u64) -> Self {
        Self {
            min: count,
            expected: count,
            max: Some(count),
        }
    }

    /// The same, but so many are expected; the bounds give way.
    #[must_use]
    pub fn expecting(self, expected: u64) -> Self {
        Self {
            min: self.min.min(expected),
            expected,
            max: self.max.map(|max| max.max(expected)),
        }
    }

    /// The same without so many that are expected to cost nothing; at most, they all cost.
    #[must_use]
    pub fn sparing(self, unchanged: u64) -> Self {
        let spared = |count: u64| count.saturating_sub(unchanged);
        Self {
            min: spared(self.min),
            expected: spared(self.expected),
            max: self.max,
        }
    }

    /// Each bound changed alike.
    #[must_use]
    pub fn map(self, change: impl Fn(u64) -> u64) -> Self {
        Self {
            min: change(self.min),
            expected: change(self.expected),
            max: self.max.map(change),
        }
    }

    /// This and another together.
    #[must_use]
    pub fn plus(self, other: Self) -> Self {
        Self {
            min: self.min.saturating_add(other.min),
            expected: self.expected.saturating_add(other.expected),
            max: self.max.zip(other.max).map(|(a, b)| a.saturating_add(b)),
        }
    }
}
