//! Why a stand-in says no. How it says so is each stand-in's own.

use super::count::Exhausted;

/// A refusal that every upstream knows.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Refusal {
    /// The secret is missing, or no good.
    Denied,
    /// A budget is spent.
    Spent(Exhausted, UpstreamName),
    /// Too fast.
    SlowDown(Exhausted, UpstreamName),
    /// The cursor is none of this list.
    BadCursor,
    /// The upstream's own fault, with this status.
    Backend(u16),
}

/// What the upstream calls the limit that ran out, where the configuration says.
pub type UpstreamName = Option<String>;
