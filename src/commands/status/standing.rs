//! How each region stands, worst first, and all of it in one line: the same for the terminal and the page.

use super::super::figures::{count, counted};
use super::{BatchStatus, LimitStatus, RegionStatus, Status, Walking};
use crate::doc::{Phrase, Tone};
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
    /// Those that need a look, and the others.
    const ALL: [&[Self]; 2] = [
        &[Self::Failed, Self::Doubtful, Self::Refused],
        &[Self::Unfinished, Self::Due, Self::Walked, Self::Fresh],
    ];

    /// Returns how a region stands. A region whose last pass failed does so even while its last complete one is not old.
    pub fn of(status: &Status, region: &RegionStatus, now: Timestamp) -> Self {
        let waits = region.due_at.is_some_and(|due| due > now);
        match region {
            one if walker(status, one).is_some() => Self::Walked,
            one if one.last.failed.is_some() => Self::Failed,
            one if one.last.doubtful_at.is_some() => Self::Doubtful,
            one if one.refused_at.is_some() => Self::Refused,
            one if one.unfinished => Self::Unfinished,
            one if waits || is_ended(one) => Self::Fresh,
            _ => Self::Due,
        }
    }

    /// Returns how the batches of a job stand; `None` where they need no look.
    fn of_batches(batches: &BatchStatus) -> Option<Self> {
        match &batches.last {
            last if last.failed.is_some() => Some(Self::Failed),
            last if last.doubtful_at.is_some() => Some(Self::Doubtful),
            _ => None,
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

    pub const fn tone(self) -> Tone {
        match self {
            Self::Failed | Self::Doubtful | Self::Refused => Tone::Bad,
            Self::Unfinished | Self::Due => Tone::Warn,
            Self::Walked | Self::Fresh => Tone::Good,
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
        let ends = [one.last_complete, one.refused_at, one.last.doubtful_at];
        ends.iter().all(Option::is_none) && one.last.failed.is_none() && !one.unfinished
    };
    status.batches.is_empty() && status.regions.iter().all(is_untouched)
}

/// Returns the state of everything in parts, worst first: `1 failed`, `1 limit closed`, `180 due`, `314 fresh`. The region of
/// batches, `*`, counts where its last pass failed or is doubtful.
pub fn summary(status: &Status, now: Timestamp) -> Vec<Phrase> {
    let regions = status.regions.iter();
    let mut standings: Vec<Standing> = regions.map(|one| Standing::of(status, one, now)).collect();
    standings.extend(status.batches.iter().filter_map(Standing::of_batches));
    let number = |standing| of(&standings, standing);
    let text = |standing: Standing| format!("{} {}", count(number(standing)), standing.word());
    let [bad, others] = Standing::ALL.map(|some| {
        let some = some.iter().filter(|one| number(**one) > 0);
        some.map(|one| Phrase::toned(text(*one), one.tone()))
            .collect::<Vec<_>>()
    });
    [bad, of_credentials_and_limits(status), others].concat()
}

/// The same for a page, which says of each number what it counts, and counts batches apart from regions.
#[cfg(feature = "serve")]
pub fn summary_in_full(status: &Status, now: Timestamp) -> Vec<Phrase> {
    let regions = status.regions.iter();
    let regions: Vec<Standing> = regions.map(|one| Standing::of(status, one, now)).collect();
    let batches = status.batches.iter().filter_map(Standing::of_batches);
    let batches: Vec<Standing> = batches.collect();
    let of_standing = |standing: &Standing| {
        let (word, tone) = (standing.word(), standing.tone());
        let kinds = [
            (of(&regions, *standing), "region"),
            (of(&batches, *standing), "job"),
        ];
        let some = kinds.into_iter().filter(|(number, _)| *number > 0);
        let some = some.map(|(number, what)| match what {
            "job" => format!("batches of {} {word}", counted(number, what)),
            _ => format!("{} {word}", counted(number, what)),
        });
        some.map(|text| Phrase::toned(text, tone))
            .collect::<Vec<_>>()
    };
    let [bad, others] = Standing::ALL.map(|some| some.iter().flat_map(of_standing).collect());
    [bad, of_credentials_and_limits(status), others].concat()
}

fn of(standings: &[Standing], standing: Standing) -> u64 {
    standings.iter().filter(|one| **one == standing).count() as u64
}

/// They stand behind the regions that need a look, and before those that only wait.
fn of_credentials_and_limits(status: &Status) -> Vec<Phrase> {
    let rejected = counted(status.held_back.len() as u64, "credential");
    let rejected = (status.held_back.len(), format!("{rejected} rejected"));
    let parts = [rejected].into_iter().chain(of_limits(&status.limits));
    let some = parts.filter(|(number, _)| *number > 0);
    some.map(|(_, text)| Phrase::toned(text, Tone::Bad))
        .collect()
}

/// Returns the numbers of limits that are closed, full, and unknown.
fn of_limits(limits: &[LimitStatus]) -> [(usize, String); 3] {
    let is_closed = |one: &LimitStatus| one.report.closed_until.is_some();
    let is_full = |one: &LimitStatus| !is_closed(one) && one.report.remaining == Some(Units::ZERO);
    let is_unknown = |one: &LimitStatus| one.report.used.is_none();
    let number = |is: &dyn Fn(&LimitStatus) -> bool| limits.iter().filter(|one| is(one)).count();
    let kinds = [
        (number(&is_closed), "closed"),
        (number(&is_full), "full"),
        (number(&is_unknown), "unknown"),
    ];
    kinds.map(|(number, how)| (number, format!("{} {how}", counted(number as u64, "limit"))))
}
