use std::time::Duration;

use thiserror::Error;

use super::{SHORTEST_MEMORY, Timestamp, Units, Window};

/// A named bucket of an account: `quota - headroom` units are let through in any window.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Limit {
    quota: Units,
    headroom: Units,
    window: Window,
}

/// Why a limit is invalid.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
pub enum LimitError {
    /// Nothing could ever be charged.
    #[error("a headroom of {headroom} leaves no units of a quota of {quota}")]
    NothingLeft {
        /// The units that the upstream grants.
        quota: Units,
        /// The units that are kept free.
        headroom: Units,
    },
}

impl Limit {
    /// A limit that can grant at least one unit.
    ///
    /// # Errors
    /// When the headroom takes all of the quota.
    pub fn new(quota: Units, headroom: Units, window: Window) -> Result<Self, LimitError> {
        if headroom >= quota {
            return Err(LimitError::NothingLeft { quota, headroom });
        }
        Ok(Self {
            quota,
            headroom,
            window,
        })
    }

    /// The units that the upstream grants in a window.
    #[must_use]
    pub const fn quota(&self) -> Units {
        self.quota
    }

    /// The units of the quota that are kept free.
    #[must_use]
    pub const fn headroom(&self) -> Units {
        self.headroom
    }

    /// The units that this program grants in a window: the quota less the headroom.
    #[must_use]
    pub const fn enforced(&self) -> Units {
        self.quota.saturating_sub(self.headroom)
    }

    /// The span over which the limit holds.
    #[must_use]
    pub const fn window(&self) -> &Window {
        &self.window
    }

    /// The grace: how much longer than its window a unit counts.
    #[must_use]
    pub fn grace(&self) -> Duration {
        self.window.grace()
    }

    /// Returns the longest that it counts a charge, with the grace at both ends.
    #[must_use]
    pub fn span(&self) -> Duration {
        let part = self.window.parts().map(|parts| parts.length());
        self.window.longest() + part.unwrap_or_default() + self.grace() * 2
    }

    /// Returns how long a limit that counts in parts remembers the id of a charge.
    #[must_use]
    pub fn memory_of_parts(&self) -> Duration {
        self.span().min(SHORTEST_MEMORY)
    }

    /// Whether `units` fit beside `used` while `leave` stays free.
    #[must_use]
    pub fn fits(&self, used: Units, units: Units, leave: Units) -> bool {
        used + units + leave <= self.enforced()
    }

    /// Returns until when a limit stays closed after the upstream reported it exhausted at `now`: a grace past its reset;
    /// `None` when the reset is unknown.
    #[must_use]
    pub fn closed_until(&self, now: Timestamp) -> Option<Timestamp> {
        Some(self.window.next_reset(now)? + self.grace())
    }
}
