use serde::Serialize;

/// A number of requests or units with its bounds.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize)]
pub struct Range {
    /// At least.
    pub min: u64,
    /// As expected.
    pub expected: u64,
    /// At most; `None` where nothing bounds it.
    pub max: Option<u64>,
}

impl Range {
    /// Returns a range of exactly one number.
    #[must_use]
    pub const fn exactly(count: u64) -> Self {
        Self {
            min: count,
            expected: count,
            max: Some(count),
        }
    }

    /// Returns the range with another expected number, the bounds extended to it.
    #[must_use]
    pub fn expecting(self, expected: u64) -> Self {
        Self {
            min: self.min.min(expected),
            expected,
            max: self.max.map(|max| max.max(expected)),
        }
    }

    /// Returns the range without a number of requests that are expected to cost nothing. The upper bound stays.
    #[must_use]
    pub fn sparing(self, unchanged: u64) -> Self {
        let spared = |count: u64| count.saturating_sub(unchanged);
        Self {
            min: spared(self.min),
            expected: spared(self.expected),
            max: self.max,
        }
    }

    /// Applies a function to each number.
    #[must_use]
    pub fn map(self, change: impl Fn(u64) -> u64) -> Self {
        Self {
            min: change(self.min),
            expected: change(self.expected),
            max: self.max.map(change),
        }
    }

    /// Returns the sum of two ranges.
    #[must_use]
    pub fn plus(self, other: Self) -> Self {
        Self {
            min: self.min.saturating_add(other.min),
            expected: self.expected.saturating_add(other.expected),
            max: self.max.zip(other.max).map(|(a, b)| a.saturating_add(b)),
        }
    }
}
