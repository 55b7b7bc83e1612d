use std::time::Duration;

use chrono::{DateTime, Days, NaiveDate, TimeZone};
use chrono_tz::Tz;
use thiserror::Error;

use super::Timestamp;

const DAY: Duration = Duration::from_secs(24 * 60 * 60);
/// The spans for which `status` reports what returns: an hour, six, a day.
const REPORTED: [Duration; 3] = [HOUR, Duration::from_secs(6 * 60 * 60), DAY];
const HOUR: Duration = Duration::from_secs(60 * 60);
const SHORTEST_GRACE: Duration = Duration::from_millis(100);

/// The span over which a limit holds: any `sliding` span, the upstream's own calendar day, or both.
///
/// A unit stays counted a little longer than that, the *grace*: an upstream counts a request somewhat after the
/// ledger granted it, and its clock is not ours. So a charge at `at` may be counted upstream anywhere in
/// `[at, at + grace]`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Window {
    sliding: Option<Duration>,
    resets: Option<Tz>,
}

/// Why a window is invalid.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
pub enum WindowError {
    /// Neither a sliding span nor a calendar day.
    #[error("a limit needs `window`, `resets`, or both")]
    Missing,
    /// A sliding span of no length would count nothing.
    #[error("a window must be longer than zero")]
    Zero,
}

impl Window {
    /// A window that slides, follows the calendar day of a time zone, or both.
    ///
    /// # Errors
    /// When neither is given, or the sliding span is zero.
    pub fn new(sliding: Option<Duration>, resets: Option<Tz>) -> Result<Self, WindowError> {
        match (sliding, resets) {
            (None, None) => Err(WindowError::Missing),
            (Some(span), _) if span < Duration::from_micros(1) => Err(WindowError::Zero),
            _ => Ok(Self { sliding, resets }),
        }
    }

    /// The sliding span, if the window slides.
    #[must_use]
    pub const fn sliding(&self) -> Option<Duration> {
        self.sliding
    }

    /// The zone whose midnight resets the limit, if one does.
    #[must_use]
    pub const fn resets(&self) -> Option<Tz> {
        self.resets
    }

    /// The longest that a unit can count, without the grace: what a key or a row must outlive.
    #[must_use]
    pub fn longest(&self) -> Duration {
        let day = self.resets.map(|_| DAY + Duration::from_secs(60 * 60));
        self.sliding.max(day).unwrap_or(DAY)
    }

    /// How much longer than its window a unit counts: a thousandth of it, at least 100 ms (L1).
    #[must_use]
    pub fn grace(&self) -> Duration {
        (self.sliding.unwrap_or(DAY) / 1000).max(SHORTEST_GRACE)
    }

    /// Returns the first instant at which a unit charged at `at` no longer counts (L2). Never decreases as `at` grows.
    ///
    /// On a calendar the unit belongs to the day in which the upstream may have counted it last, `at + grace`, and
    /// counts until that day has been over for the grace.
    #[must_use]
    pub fn expiry(&self, at: Timestamp) -> Timestamp {
        let grace = self.grace();
        let slid = self.sliding.map(|span| at + span + grace);
        let reset = self
            .resets
            .map(|zone| next_midnight(zone, at + grace) + grace);
        slid.max(reset).unwrap_or(at)
    }

    /// Returns the earliest charge that still counts at `now`: the least `at` with `expiry(at) > now`.
    #[must_use]
    pub fn counted_from(&self, now: Timestamp) -> Timestamp {
        let grace = self.grace();
        let slid = self
            .sliding
            .map(|span| now - span - grace + Duration::from_micros(1));
        let reset = self
            .resets
            .map(|zone| last_midnight(zone, now - grace) - grace);
        match (slid, reset) {
            (Some(slid), Some(reset)) => slid.min(reset),
            (slid, reset) => slid.or(reset).unwrap_or(now),
        }
    }

    /// Returns the ends of the slices in which returns from `now` on are reported: a few dozen instants up to the one at which
    /// all is back, among them an hour, six hours and a day.
    #[must_use]
    pub fn slices(&self, now: Timestamp) -> Vec<Timestamp> {
        let (end, span) = (self.expiry(now), self.sliding.unwrap_or(DAY).as_micros());
        let even = (1..=26).map(|slice| u64::try_from(span * slice / 24).unwrap_or(u64::MAX));
        let even = even.map(|later| now + Duration::from_micros(later));
        let mut slices: Vec<Timestamp> = even.chain(REPORTED.map(|span| now + span)).collect();
        slices.retain(|at| *at < end);
        slices.push(end);
        slices.sort_unstable();
        slices.dedup();
        slices
    }

    /// Returns when the upstream's calendar day of `now` began; `None` for a window that only slides.
    #[must_use]
    pub fn last_reset(&self, now: Timestamp) -> Option<Timestamp> {
        self.resets.map(|zone| last_midnight(zone, now))
    }

    /// Returns when the upstream's calendar day of `now` ends; `None` for a window that only slides.
    #[must_use]
    pub fn next_reset(&self, now: Timestamp) -> Option<Timestamp> {
        self.resets.map(|zone| next_midnight(zone, now))
    }
}

/// The first instant of a local day that is later than `at`.
fn next_midnight(zone: Tz, at: Timestamp) -> Timestamp {
    let today = local_date(zone, at);
    (0..=3)
        .filter_map(|ahead| today.checked_add_days(Days::new(ahead)))
        .map(|date| midnight(zone, date))
        .find(|start| *start > at)
        .unwrap_or_else(|| at + DAY)
}

/// The first instant of a local day that is not later than `at`.
fn last_midnight(zone: Tz, at: Timestamp) -> Timestamp {
    let today = local_date(zone, at);
    (0..=3)
        .filter_map(|back| today.checked_sub_days(Days::new(back)))
        .map(|date| midnight(zone, date))
        .find(|start| *start <= at)
        .unwrap_or_else(|| at - DAY)
}

fn local_date(zone: Tz, at: Timestamp) -> NaiveDate {
    at.to_utc().with_timezone(&zone).date_naive()
}

/// The first instant of a local date. Where clocks skip midnight, the day starts where they land.
fn midnight(zone: Tz, date: NaiveDate) -> Timestamp {
    let hours = (0..24).filter_map(|hour| date.and_hms_opt(hour, 0, 0));
    let first: Option<DateTime<Tz>> = hours
        .filter_map(|local| zone.from_local_datetime(&local).earliest())
        .next();
    let start = first.map_or_else(
        || date.and_hms_opt(0, 0, 0).unwrap_or_default().and_utc(),
        |local| local.to_utc(),
    );
    Timestamp::from(start)
}
