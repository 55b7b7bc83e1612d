use std::time::Duration;

use super::Timestamp;

/// How the charges of a sliding window are remembered.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Counting {
    /// Each by itself.
    #[default]
    Exact,
    /// In this number of parts of the window. The charges of a part count as if all were made at its end: never more than the
    /// limit is granted, and up to one part too little.
    Buckets(u32),
}

impl Counting {
    /// Returns the parts of a window of this length; `None` where each charge counts by itself.
    #[must_use]
    pub fn parts(self, window: Duration) -> Option<Parts> {
        match self {
            Self::Exact => None,
            Self::Buckets(number) => {
                let micros = window.as_micros() / u128::from(number.max(1));
                Some(Parts(i64::try_from(micros).unwrap_or(i64::MAX).max(1)))
            }
        }
    }
}

/// Time, divided into parts of one length in microseconds. One begins at the Unix epoch, so all machines agree on them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Parts(i64);

impl Parts {
    /// The length of a part.
    #[must_use]
    pub const fn length(self) -> Duration {
        Duration::from_micros(self.0.unsigned_abs())
    }

    /// The first instant of the part that contains `at`.
    #[must_use]
    pub fn start(self, at: Timestamp) -> Timestamp {
        Timestamp::from_micros(at.micros().saturating_sub(at.micros().rem_euclid(self.0)))
    }

    /// The last instant of the part that contains `at`.
    #[must_use]
    pub fn end(self, at: Timestamp) -> Timestamp {
        Timestamp::from_micros(self.start(at).micros().saturating_add(self.0 - 1))
    }
}
