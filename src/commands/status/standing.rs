//! How each region stands, worst first, and all of it in one line: the same for the terminal and the page.

use super::super::output::Colour;
use super::super::table::{count, counted};
use super::{LimitStatus, RegionStatus, Status, Walking};
use ingest_quota::{Timestamp, Units};

/// How a region stands, worst first.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Standing {
    Failed,
    Doubtful,
    Refused,
    Unfinished,
    Due,
    Walked,
    Fresh,
}

impl Standing {
    const ALL: [Self; 7] = [
        Self::Failed,
        Self::Doubtful,
        Self::Refused,
        Self::Unfinished,
        Self::Due,
        Self::Walked,
        Self::Fresh,
    ];

    /// Returns how a region stands. A region whose last pass failed does so even while its last complete one is not old.
    pub fn of(status: &Status, region: &RegionStatus, now: Timestamp) -> Self {
        let waits = region.due_at.is_some_and(|due| due > now);
        match region {
            one if walker(status, one).is_some() => Self::Walked,
            one if one.failed.is_some() => Self::Failed,
            one if one.doubtful_at.is_some() => Self::Doubtful,
            one if one.refused_at.is_some() => Self::Refused,
            one if one.unfinished => Self::Unfinished,
            one if waits || is_ended(one) => Self::Fresh,
            _ => Self::Due,
        }
    }

    pub const fn word(self) -> &'static str {
        match self {
            Self::Failed => "failed",
            Self::Doubtful => "doubtful",
            Self::Refused => "refused",
            Self::Unfinished => "unfinished",
            Self::Due => "due",
            Self::Walked => "being walked",
            Self::Fresh => "fresh",
        }
    }

    pub const fn colour(self) -> Colour {
        match self {
            Self::Failed | Self::Doubtful | Self::Refused => Colour::Red,
            Self::Unfinished | Self::Due => Colour::Yellow,
            Self::Walked | Self::Fresh => Colour::Green,
        }
    }
}

/// Whether a region is a backfill that has everything.
pub fn is_ended(region: &RegionStatus) -> bool {
    let slices = region.slices.as_ref();
    slices.is_some_and(|slices| slices.complete >= slices.of)
}

/// Returns the run that walks a region, or a slice of it; `None` if no run does.
pub fn walker<'s>(status: &'s Status, region: &RegionStatus) -> Option<&'s Walking> {
    let is_slice = |name: &str| {
        // A backfill is one row for a region, and its runs take leases of slices: the region, a space, the slice.
        let of_region = name.strip_prefix(&*region.region);
        region.slices.is_some() && of_region.is_some_and(|rest| rest.starts_with(' '))
    };
    let its = |one: &&Walking| {
        one.job == region.job && (one.region == region.region || is_slice(&one.region))
    };
    status.walking.iter().find(its)
}

/// Whether no run has done anything yet.
pub fn is_new(status: &Status) -> bool {
    let is_untouched = |one: &RegionStatus| {
        let ends = [one.last_complete, one.refused_at, one.doubtful_at];
        ends.iter().all(Option::is_none) && one.failed.is_none() && !one.unfinished
    };
    status.batches.is_empty() && status.regions.iter().all(is_untouched)
}

/// Returns the state of everything in parts, worst first: `1 failed`, `1 limit closed`, `180 due`, `314 fresh`. The region of
/// batches, `*`, counts where its last pass failed or is doubtful.
pub fn summary(status: &Status, now: Timestamp) -> Vec<(String, Colour)> {
    let regions = status.regions.iter();
    let batches = status.batches.iter();
    let mut standings: Vec<Standing> = regions.map(|one| Standing::of(status, one, now)).collect();
    standings.extend(batches.filter_map(|one| match one {
        one if one.failed.is_some() => Some(Standing::Failed),
        one if one.doubtful_at.is_some() => Some(Standing::Doubtful),
        _ => None,
    }));
    let of_regions = Standing::ALL.map(|standing| {
        let number = standings.iter().filter(|one| **one == standing).count() as u64;
        let text = format!("{} {}", count(number), standing.word());
        (number, text, standing.colour())
    });
    // The limits stand behind the regions that need a look, and before those that only wait.
    let (bad, others) = of_regions.split_at(3);
    let limits = of_limits(&status.limits);
    let rejected = status.held_back.len() as u64;
    let rejected = (
        rejected,
        format!("{} rejected", counted(rejected, "credential")),
        Colour::Red,
    );
    let parts = bad.iter().chain([&rejected]).chain(&limits).chain(others);
    let some = parts.filter(|(number, ..)| *number > 0);
    some.map(|(_, text, colour)| (text.clone(), *colour))
        .collect()
}

/// Returns the numbers of limits that are closed, full, and unknown.
fn of_limits(limits: &[LimitStatus]) -> [(u64, String, Colour); 3] {
    let is_closed = |one: &LimitStatus| one.report.closed_until.is_some();
    let is_full = |one: &LimitStatus| !is_closed(one) && one.report.remaining == Some(Units::ZERO);
    let closed = limits.iter().filter(|one| is_closed(one)).count();
    let full = limits.iter().filter(|one| is_full(one)).count();
    let unknown = limits
        .iter()
        .filter(|one| one.report.used.is_none())
        .count();
    let kinds = [(closed, "closed"), (full, "full"), (unknown, "unknown")];
    kinds.map(|(number, how)| {
        let text = format!("{} {how}", counted(number as u64, "limit"));
        (number as u64, text, Colour::Red)
    })
}
