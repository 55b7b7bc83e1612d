use std::time::Duration;

use thiserror::Error;

use super::{Timestamp, Units, Window};

/// A named bucket of an account: `quota - headroom` units are let through in any window.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Limit {
    quota: Units,
    headroom: Units,
    window: Window,
}

/// Why a limit makes no sense.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
pub enum LimitError {
    /// Nothing could ever be charged.
    #[error("a headroom of {headroom} leaves no units of a quota of {quota}")]
    NothingLeft {
        /// What the upstream grants.
        quota: Units,
        /// What is kept free of it.
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

    /// What the upstream grants, in units a window.
    #[must_use]
    pub const fn quota(&self) -> Units {
        self.quota
    }

    /// What is kept free of the quota, in units.
    #[must_use]
    pub const fn headroom(&self) -> Units {
        self.headroom
    }

    /// What we let through, in units a window: the quota less the headroom.
    #[must_use]
    pub const fn enforced(&self) -> Units {
        self.quota.saturating_sub(self.headroom)
    }

    /// The span over which the limit holds.
    #[must_use]
    pub const fn window(&self) -> &Window {
        &self.window
    }

    /// How much longer than its window a unit counts.
    #[must_use]
    pub fn grace(&self) -> Duration {
        self.window.grace()
    }

    /// Whether `units` fit beside what is used while `leave` stays free.
    #[must_use]
    pub fn fits(&self, used: Units, units: Units, leave: Units) -> bool {
        used + units + leave <= self.enforced()
    }

    /// Until when a limit stays closed that the upstream called spent at `now`: a grace past its reset, or `None` where
    /// the reset is unknown.
    #[must_use]
    pub fn closed_until(&self, now: Timestamp) -> Option<Timestamp> {
        Some(self.window.next_reset(now)? + self.grace())
    }
}
