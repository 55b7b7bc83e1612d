use serde::Serialize;

use super::{LimitName, Timestamp, Units};

/// How a limit stands.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LimitUsage {
    /// The limit's name.
    pub limit: LimitName,
    /// What counts against it now, in units, floors included.
    pub used: Units,
    /// What it would still grant, in units; zero while it is closed.
    pub remaining: Units,
    /// Until when the upstream's "spent" closes it.
    pub closed_until: Option<Timestamp>,
    /// What was charged since the upstream's own day began, in units; `None` for a limit that only slides.
    pub since_reset: Option<Units>,
    /// When units return, soonest first, at most a few dozen: gathered by the slices of the window, each told at the
    /// instant at which the last of it is back, so that no unit is promised early.
    pub returns: Vec<Return>,
}

/// Units that come back.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Return {
    /// The first instant at which they are all back.
    pub at: Timestamp,
    /// How many.
    pub units: Units,
}
