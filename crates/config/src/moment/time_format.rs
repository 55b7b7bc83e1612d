//! Formats of strftime.

use std::borrow::Cow;
use std::fmt::{self, Write};

use chrono::format::{Item, Parsed, StrftimeItems, parse_and_remainder};
use chrono::{DateTime, FixedOffset, NaiveDate, NaiveDateTime, NaiveTime, TimeZone};

use super::Moment;
use super::number::Number;
use ingest_quota::Timestamp;

/// A format of strftime.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TimeFormat(Cow<'static, str>);

/// 1999-12-31T23:58:59Z: a format that can be read gives this day, or the first one of its month or year.
const SAMPLE: Timestamp = Timestamp::from_micros(946_684_739_000_000);

impl TimeFormat {
    /// A format that is one.
    pub const fn known(text: &'static str) -> Self {
        Self(Cow::Borrowed(text))
    }

    /// A format for writing; `None` if the text is not one.
    pub fn parse(text: &str) -> Option<Self> {
        let is_format =
            !text.is_empty() && StrftimeItems::new(text).all(|item| !matches!(item, Item::Error));
        is_format.then(|| Self(text.to_owned().into()))
    }

    /// Whether texts in this format can be read: they have at least the year, and no zone by its name.
    pub fn can_be_read(&self) -> bool {
        let text = Moment::at(SAMPLE).written(self);
        let read = Moment::by(self, &text).filter(|_| !self.0.contains("%Z"));
        read.is_some_and(|read| read.written(self) == text)
    }

    /// Returns the power of ten that a number of this format counts per second; `None` for a format of the calendar.
    pub fn unit(&self) -> Option<usize> {
        Some(self.number(0)?.unit)
    }

    /// Returns the form of the number that this format writes for a time with `nanos` nanoseconds; `None` for a format of the calendar.
    fn number(&self, nanos: u32) -> Option<Number> {
        let (unit, digits) = match self.0.strip_prefix("%s")? {
            "" => (0, 0),
            "%3f" => (3, 0),
            "%6f" => (6, 0),
            "%9f" => (9, 0),
            "%.3f" => (0, 3),
            "%.6f" => (0, 6),
            "%.9f" => (0, 9),
            "%.f" if nanos == 0 => (0, 0),
            "%.f" if nanos.is_multiple_of(1_000_000) => (0, 3),
            "%.f" if nanos.is_multiple_of(1_000) => (0, 6),
            "%.f" => (0, 9),
            _ => return None,
        };
        Some(Number { unit, digits })
    }

    /// Whether a fraction of a second can follow it.
    pub fn has_seconds(&self) -> bool {
        self.0.ends_with("%S")
    }

    /// Reads a text of the calendar, with its offset from UTC, and returns what follows it. What is left out of a date or a time is
    /// its beginning.
    pub fn read<'t>(&self, text: &'t str) -> Option<(NaiveDateTime, Option<FixedOffset>, &'t str)> {
        let mut parsed = Parsed::new();
        let tail = parse_and_remainder(&mut parsed, text, StrftimeItems::new(&self.0)).ok()?;
        let offset = parsed.to_fixed_offset().ok();
        let local = date(&mut parsed)?.and_time(time(&mut parsed));
        Some((local, offset, tail))
    }

    /// Writes an instant.
    pub fn write<Zone: TimeZone<Offset: fmt::Display>>(&self, at: &DateTime<Zone>) -> String {
        if let Some(number) = self.number(at.timestamp_subsec_nanos()) {
            return number.write(at);
        }
        let mut text = String::new();
        // Writing cannot fail: the format was checked when it was read.
        let _ = write!(text, "{}", at.format(&self.0));
        text
    }
}

fn date(parsed: &mut Parsed) -> Option<NaiveDate> {
    parsed.to_naive_date().ok().or_else(|| {
        // A month that is said stays.
        let _ = parsed.set_month(1);
        parsed.set_day(1).ok()?;
        parsed.to_naive_date().ok()
    })
}

fn time(parsed: &mut Parsed) -> NaiveTime {
    if parsed.minute().is_none() {
        let _ = parsed.set_minute(0);
    }
    parsed.to_naive_time().unwrap_or(NaiveTime::MIN)
}

impl fmt::Display for TimeFormat {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}
