use std::time::Duration;

use thiserror::Error;

use super::{Calendar, Counting, DAY, HOUR, Parts, Timestamp};

/// The spans for which `status` reports what returns: an hour, six, a day.
const REPORTED: [Duration; 3] = [HOUR, Duration::from_secs(6 * 60 * 60), DAY];
const SHORTEST_GRACE: Duration = Duration::from_millis(100);

/// The span over which a limit holds: any `sliding` span, a period of the upstream's own calendar, or both.
///
/// A unit counts a little longer than that, the *grace*: an upstream counts a request somewhat after the ledger granted it,
/// by a clock of its own. A charge at `at` may be counted upstream anywhere in `[at, at + grace]`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Window {
    sliding: Option<Duration>,
    resets: Option<Calendar>,
    counting: Counting,
}

/// Why a window is invalid.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
pub enum WindowError {
    /// Neither a sliding span nor a calendar.
    #[error("a limit needs `window`, `resets`, or both")]
    Missing,
    /// A sliding span of no length would count nothing.
    #[error("a window must be longer than zero")]
    Zero,
    /// The parts of a window and the periods of a calendar begin at different instants.
    #[error("a limit that resets counts exactly")]
    BucketsOfCalendar,
}

impl Window {
    /// A window that slides, follows a calendar, or does both.
    ///
    /// # Errors
    /// When neither is given, or the sliding span is zero.
    pub fn new(sliding: Option<Duration>, resets: Option<Calendar>) -> Result<Self, WindowError> {
        match (sliding, resets) {
            (None, None) => Err(WindowError::Missing),
            (Some(span), _) if span < Duration::from_micros(1) => Err(WindowError::Zero),
            _ => Ok(Self {
                sliding,
                resets,
                counting: Counting::Exact,
            }),
        }
    }

    /// The same window with another counting.
    ///
    /// # Errors
    /// When a window that follows a calendar would count in buckets.
    pub fn counted(self, counting: Counting) -> Result<Self, WindowError> {
        match (counting, self.resets) {
            (Counting::Buckets(_), Some(_)) => Err(WindowError::BucketsOfCalendar),
            (Counting::Buckets(_), None) | (Counting::Exact, _) => Ok(Self { counting, ..self }),
        }
    }

    /// How its charges are remembered.
    #[must_use]
    pub const fn counting(&self) -> Counting {
        self.counting
    }

    /// The parts whose charges count together; `None` where each charge counts by itself.
    #[must_use]
    pub fn parts(&self) -> Option<Parts> {
        self.counting.parts(self.sliding?)
    }

    /// Returns the instant from which the window of a charge at `at` is counted: the last instant of its part; `at` itself where
    /// each charge counts by itself.
    #[must_use]
    pub fn counts_as(&self, at: Timestamp) -> Timestamp {
        self.parts().map_or(at, |parts| parts.end(at))
    }

    /// The sliding span, if the window slides.
    #[must_use]
    pub const fn sliding(&self) -> Option<Duration> {
        self.sliding
    }

    /// The calendar whose periods reset the limit; `None` for a window that only slides.
    #[must_use]
    pub const fn resets(&self) -> Option<Calendar> {
        self.resets
    }

    /// The longest span of the window, without the grace.
    #[must_use]
    pub fn longest(&self) -> Duration {
        let period = self.resets.map(|calendar| calendar.longest());
        self.sliding.max(period).unwrap_or(DAY)
    }

    /// How much longer than its window a unit counts: a thousandth of it, at least 100 ms (L1).
    ///
    /// Of a calendar, at most a thousandth of a day: how long a request is under way does not depend on the period.
    #[must_use]
    pub fn grace(&self) -> Duration {
        let period = self
            .resets
            .map_or(DAY, |calendar| calendar.usual_length().min(DAY));
        (self.sliding.unwrap_or(period) / 1000).max(SHORTEST_GRACE)
    }

    /// Returns the first instant at which a unit charged at `at` no longer counts (L2). Never decreases as `at` grows.
    ///
    /// On a calendar the unit belongs to the period in which the upstream may have counted it last, that of `at + grace`,
    /// and counts until that period has been over for the grace.
    #[must_use]
    pub fn expiry(&self, at: Timestamp) -> Timestamp {
        let (at, grace) = (self.counts_as(at), self.grace());
        let slid = self.sliding.map(|span| at + span + grace);
        let reset = self
            .resets
            .map(|calendar| calendar.next_reset(at + grace) + grace);
        slid.max(reset).unwrap_or(at)
    }

    /// Returns the earliest charge that still counts at `now`: the least `at` with `expiry(at) > now`.
    #[must_use]
    pub fn counted_from(&self, now: Timestamp) -> Timestamp {
        let grace = self.grace();
        let slid = self
            .sliding
            // A unit no longer counts at the instant of its expiry itself.
            .map(|span| now - span - grace + Duration::from_micros(1));
        let reset = self
            .resets
            .map(|calendar| calendar.last_reset(now - grace) - grace);
        // A window that does both counts a charge for as long as either of them does.
        let from = match (slid, reset) {
            (Some(slid), Some(reset)) => slid.min(reset),
            (slid, reset) => slid.or(reset).unwrap_or(now),
        };
        // Whatever is charged in a part counts until its end does, so all of the part is read.
        self.parts().map_or(from, |parts| parts.start(from))
    }

    /// Returns the ends of the slices in which returns from `now` on are reported: a few dozen instants up to the one at which
    /// all is back, among them an hour, six hours and a day. Few enough to show, and each is one that a charge can wait for.
    #[must_use]
    pub fn slices(&self, now: Timestamp) -> Vec<Timestamp> {
        let period = self.resets.map(|calendar| calendar.usual_length());
        let span = self.sliding.or(period).unwrap_or(DAY).as_micros();
        let end = self.expiry(now);
        let even = (1..=26).map(|slice| u64::try_from(span * slice / 24).unwrap_or(u64::MAX));
        let even = even.map(|later| now + Duration::from_micros(later));
        let mut slices: Vec<Timestamp> = even.chain(REPORTED.map(|span| now + span)).collect();
        slices.retain(|at| *at < end);
        slices.push(end);
        slices.sort_unstable();
        slices.dedup();
        slices
    }

    /// Returns when the calendar period that contains `now` began; `None` for a window that only slides.
    #[must_use]
    pub fn last_reset(&self, now: Timestamp) -> Option<Timestamp> {
        self.resets.map(|calendar| calendar.last_reset(now))
    }

    /// Returns when the calendar period that contains `now` ends; `None` for a window that only slides.
    #[must_use]
    pub fn next_reset(&self, now: Timestamp) -> Option<Timestamp> {
        self.resets.map(|calendar| calendar.next_reset(now))
    }
}
