use serde::Serialize;

use super::{LimitName, Timestamp, Units};

/// The usage of a limit.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LimitUsage {
    /// The limit's name.
    pub limit: LimitName,
    /// The units that count now, floors included.
    pub used: Units,
    /// The units that it would still grant; zero while it is closed.
    pub remaining: Units,
    /// Until when it is closed; `None` when it is open.
    pub closed_until: Option<Timestamp>,
    /// The units charged since the upstream's calendar day began; `None` for a limit that only slides.
    pub since_reset: Option<Units>,
    /// When units return, soonest first, at most a few dozen: one for each slice of the window, at the instant at which the
    /// last unit of the slice is back, so that no unit is promised early.
    pub returns: Vec<Return>,
}

impl LimitUsage {
    /// Finds the usage of one limit in a report, which lists them by name.
    #[must_use]
    pub fn find<'a>(report: &'a [Self], limit: &str) -> Option<&'a Self> {
        let found = report.binary_search_by(|usage| usage.limit.as_str().cmp(limit));
        found.ok().and_then(|place| report.get(place))
    }
}

/// Units that return.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Return {
    /// The first instant at which they all have returned.
    pub at: Timestamp,
    /// The units.
    pub units: Units,
}
