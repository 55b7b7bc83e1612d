//! The calendar periods over which an upstream counts.

use std::time::Duration;
use std::{fmt, iter};

use chrono::{
    DateTime, Datelike, Days, Months, NaiveDate, NaiveDateTime, NaiveTime, Offset, TimeZone,
};
use chrono_tz::Tz;
use strum::VariantArray;

use super::{DAY, HOUR, Timestamp};

const MICROS_PER_SECOND: i64 = 1_000_000;
const MICROS_PER_HOUR: i64 = 3_600 * MICROS_PER_SECOND;
const SECONDS_PER_DAY: i64 = 24 * 3_600;

/// The most by which a zone has set its clocks back since 1970: Antarctica/Casey. Asia/Magadan did by two hours.
const LONGEST_SET_BACK: Duration = Duration::from_secs(3 * 3_600);

/// How long a calendar period is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, VariantArray)]
pub enum Period {
    /// From one full local hour to the next.
    Hour,
    /// From midnight to midnight.
    #[default]
    Day,
    /// From Monday to Monday, as ISO 8601 has it.
    Week,
    /// From the first of a month to the first of the next.
    Month,
}

impl Period {
    /// The usual length.
    #[must_use]
    pub const fn usual_length(self) -> Duration {
        match self {
            Self::Hour => HOUR,
            Self::Day => DAY,
            Self::Week => Duration::from_secs(7 * DAY.as_secs()),
            Self::Month => Duration::from_secs(31 * DAY.as_secs()),
        }
    }

    /// Returns longer than any period lasts: the time after which nothing that an upstream counted in a period matters.
    #[must_use]
    pub fn longest() -> Duration {
        let lengths = Self::VARIANTS.iter().map(|period| period.usual_length());
        lengths.max().unwrap_or_default() + DAY
    }
}

impl fmt::Display for Period {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Hour => "hour",
            Self::Day => "day",
            Self::Week => "week",
            Self::Month => "month",
        })
    }
}

/// An upstream's own calendar: periods that follow each other without a gap, in its time zone.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Calendar {
    zone: Tz,
    period: Period,
}

impl Calendar {
    /// A calendar of such periods in a time zone.
    #[must_use]
    pub const fn new(zone: Tz, period: Period) -> Self {
        Self { zone, period }
    }

    /// A calendar of days in a time zone.
    #[must_use]
    pub const fn days(zone: Tz) -> Self {
        Self::new(zone, Period::Day)
    }

    /// The time zone.
    #[must_use]
    pub const fn zone(&self) -> Tz {
        self.zone
    }

    /// How long its periods are.
    #[must_use]
    pub const fn period(&self) -> Period {
        self.period
    }

    /// The usual length of a period.
    #[must_use]
    pub const fn usual_length(&self) -> Duration {
        self.period.usual_length()
    }

    /// The longest that a period can be: clocks are set back within it.
    #[must_use]
    pub fn longest(&self) -> Duration {
        self.usual_length() + LONGEST_SET_BACK
    }

    /// The first instant of a period that is later than `at`.
    #[must_use]
    pub fn next_reset(&self, at: Timestamp) -> Timestamp {
        if let Some((_, end)) = self.usual_period(at) {
            return end;
        }
        self.starts_around(at)
            .into_iter()
            .filter(|start| *start > at)
            .min()
            .unwrap_or_else(|| at + self.usual_length())
    }

    /// The first instant of a period that is not later than `at`.
    #[must_use]
    pub fn last_reset(&self, at: Timestamp) -> Timestamp {
        if let Some((start, _)) = self.usual_period(at) {
            return start;
        }
        self.starts_around(at)
            .into_iter()
            .filter(|start| *start <= at)
            .max()
            .unwrap_or_else(|| at - self.usual_length())
    }

    /// The start of the period of dates that contains `at`, and that of the next, unless a change of clocks puts `at` outside them.
    fn usual_period(&self, at: Timestamp) -> Option<(Timestamp, Timestamp)> {
        if self.period == Period::Hour {
            return None;
        }
        let first = self.first_date(self.date(at));
        let (start, end) = (
            midnight(self.zone, first),
            midnight(self.zone, self.following(first)?),
        );
        (start <= at && at < end).then_some((start, end))
    }

    fn date(&self, at: Timestamp) -> NaiveDate {
        at.to_utc().with_timezone(&self.zone).date_naive()
    }

    /// The starts of the period that contains `at`, and of some before and after it, in no order.
    fn starts_around(&self, at: Timestamp) -> Vec<Timestamp> {
        match self.period {
            Period::Hour => self.hours_around(at),
            Period::Day | Period::Week | Period::Month => {
                let first = self.first_date(self.date(at));
                let before = iter::successors(Some(first), |first| {
                    first.pred_opt().map(|last| self.first_date(last))
                });
                let after = iter::successors(Some(first), |first| self.following(*first));
                before
                    .take(4)
                    .chain(after.skip(1).take(3))
                    .map(|date| midnight(self.zone, date))
                    .collect()
            }
        }
    }

    /// The first date of the period that contains a date.
    fn first_date(&self, date: NaiveDate) -> NaiveDate {
        let first = match self.period {
            Period::Hour | Period::Day => Some(date),
            Period::Week => {
                let weekday = date.weekday().num_days_from_monday();
                date.checked_sub_days(Days::new(u64::from(weekday)))
            }
            Period::Month => date.with_day(1),
        };
        first.unwrap_or(date)
    }

    /// The first date of the next period.
    fn following(&self, first: NaiveDate) -> Option<NaiveDate> {
        match self.period {
            Period::Hour | Period::Day => first.checked_add_days(Days::new(1)),
            Period::Week => first.checked_add_days(Days::new(7)),
            Period::Month => first.checked_add_months(Months::new(1)),
        }
    }

    /// Full local hours. Where clocks move by half an hour, an hour lasts half or one and a half.
    fn hours_around(&self, at: Timestamp) -> Vec<Timestamp> {
        let mut offsets = [at - HOUR - HOUR, at, at + HOUR + HOUR]
            .map(|near| self.offset_micros(near))
            .to_vec();
        // Nearly always all are the same.
        offsets.dedup();
        let mut starts = Vec::new();
        for offset in offsets {
            let local = at.micros().saturating_add(offset);
            let start = at
                .micros()
                .saturating_sub(local.rem_euclid(MICROS_PER_HOUR));
            let near = (-2..=2).map(|hours| start.saturating_add(hours * MICROS_PER_HOUR));
            let near = near.map(Timestamp::from_micros);
            starts.extend(near.filter(|start| self.offset_micros(*start) == offset));
        }
        starts
    }

    /// How far local time is ahead of UTC, in microseconds.
    fn offset_micros(&self, at: Timestamp) -> i64 {
        let local = at.to_utc().with_timezone(&self.zone);
        i64::from(local.offset().fix().local_minus_utc()) * MICROS_PER_SECOND
    }
}

/// The first instant of a local date. Where clocks skip midnight, the date starts where they land; where they skip the
/// whole date, with the next date that exists.
fn midnight(zone: Tz, date: NaiveDate) -> Timestamp {
    let local = date.and_time(NaiveTime::MIN);
    // Where clocks are set back over it, midnight comes twice: the date begins with the first.
    let first = zone.from_local_datetime(&local).earliest();
    first.map_or_else(
        || landing(zone, local),
        |first| Timestamp::from(first.to_utc()),
    )
}

/// The instant at which clocks skip a local time.
fn landing(zone: Tz, skipped: NaiveDateTime) -> Timestamp {
    // No zone is as far as a day from UTC, so the clocks there are before it now, and after it two days later.
    let middle = skipped.and_utc().timestamp();
    let (mut before, mut after) = (middle - SECONDS_PER_DAY, middle + SECONDS_PER_DAY);
    while before + 1 < after {
        let guess = before + (after - before) / 2;
        let is_before = DateTime::from_timestamp(guess, 0)
            .is_some_and(|guess| guess.with_timezone(&zone).naive_local() < skipped);
        (before, after) = if is_before {
            (guess, after)
        } else {
            (before, guess)
        };
    }
    Timestamp::from_micros(after.saturating_mul(MICROS_PER_SECOND))
}
