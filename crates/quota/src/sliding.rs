//! Charges of one limit in memory, each under a running total: as many entries as charges, or one for each part of the
//! window where the limit counts in parts.

use std::collections::VecDeque;
use std::convert::Infallible;

use super::admission::{ClosingState, FloorTotal, History, Totals};
use super::{Limit, Timestamp, Units};

/// The charges of one limit that still count.
#[derive(Debug, Clone)]
pub struct SlidingLog {
    /// Oldest first: when the charge counts as made, and the running total up to and with it.
    entries: VecDeque<(Timestamp, Units)>,
    /// The running total of the charges that no longer count.
    dropped: Units,
    /// The latest time that was seen: a clock that was set back returns no unit.
    latest: Timestamp,
}

impl SlidingLog {
    /// A log without charges.
    #[must_use]
    pub const fn new() -> Self {
        Self {
            entries: VecDeque::new(),
            dropped: Units::ZERO,
            latest: Timestamp::from_micros(i64::MIN),
        }
    }

    /// Drops what no longer counts, and returns the time that the log goes by: `now`, or the latest that it has seen.
    pub fn advance(&mut self, limit: &Limit, now: Timestamp) -> Timestamp {
        self.latest = self.latest.max(now);
        let from = limit.window().counted_from(self.latest);
        while let Some((at, total)) = self.entries.front().copied()
            && at < from
        {
            self.dropped = total;
            self.entries.pop_front();
        }
        self.latest
    }

    /// Adds a charge at `now`, which is no earlier than the last one.
    pub fn add(&mut self, units: Units, limit: &Limit, now: Timestamp) {
        let (at, total) = (limit.window().counts_as(now), self.total() + units);
        match self.entries.back_mut() {
            // Charges of one instant, or of one part of the window, share an entry.
            Some(last) if last.0 >= at => last.1 = total,
            _ => self.entries.push_back((at, total)),
        }
    }

    /// Whether no charge counts.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    /// Returns when the oldest charge stops counting; `None` if none counts.
    #[must_use]
    pub fn first_return(&self, limit: &Limit) -> Option<Timestamp> {
        let (at, _) = self.entries.front()?;
        Some(limit.window().expiry(*at))
    }

    fn total(&self) -> Units {
        self.entries
            .back()
            .map_or(self.dropped, |(_, total)| *total)
    }
}

impl Default for SlidingLog {
    fn default() -> Self {
        Self::new()
    }
}

impl History for &SlidingLog {
    type Error = Infallible;

    fn totals(&self, from: Timestamp) -> Result<Totals, Infallible> {
        let first = self.entries.partition_point(|(at, _)| *at < from);
        let before = first.checked_sub(1).and_then(|last| self.entries.get(last));
        Ok(Totals {
            all: self.total(),
            before: before.map_or(self.dropped, |(_, total)| *total),
        })
    }

    fn reached(&self, total: Units, _: Timestamp) -> Result<Timestamp, Infallible> {
        let place = self
            .entries
            .partition_point(|(_, reached)| *reached < total);
        Ok(self.entries.get(place).map_or(self.latest, |(at, _)| *at))
    }

    fn floors(&self, _: Timestamp) -> Result<Vec<FloorTotal>, Infallible> {
        Ok(Vec::new())
    }

    fn closing(&self) -> Result<Option<ClosingState>, Infallible> {
        Ok(None)
    }
}
