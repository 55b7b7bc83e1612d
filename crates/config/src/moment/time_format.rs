//! Formats of strftime.

use std::fmt::{self, Write};

use chrono::format::{Fixed, Item, Parsed, StrftimeItems};
use chrono::{DateTime, FixedOffset, NaiveDateTime, TimeZone, Utc};

use super::number::Number;
use super::{Instant, Moment};
use ingest_quota::Timestamp;

/// A format of strftime.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TimeFormat(String);

/// 1999-12-31T23:58:59Z: a format that can be read gives this day, or the first one of its month or year.
const SAMPLE: Timestamp = Timestamp::from_micros(946_684_739_000_000);

impl TimeFormat {
    /// A format to write by; `None` if it is none.
    #[must_use]
    pub fn parse(text: &str) -> Option<Self> {
        let is_format =
            !text.is_empty() && StrftimeItems::new(text).all(|item| !matches!(item, Item::Error));
        is_format.then(|| Self(text.to_owned()))
    }

    /// Whether texts of it can be read: they say at least the year, and no zone by its name.
    #[must_use]
    pub fn can_be_read(&self) -> bool {
        let names_zone = self
            .items()
            .any(|item| matches!(item, Item::Fixed(Fixed::TimezoneName)));
        let text = Moment::of(SAMPLE).written(self);
        !names_zone && Moment::by(self, &text).is_some_and(|read| read.written(self) == text)
    }

    fn items(&self) -> StrftimeItems<'_> {
        StrftimeItems::new(&self.0)
    }

    /// The form of a number, for a format that writes nothing else.
    fn number(&self, instant: &Instant) -> Option<Number> {
        let shortest = || {
            let has = |digits: &usize| instant.fraction.trim_end_matches('0').len() <= *digits;
            [0, 3, 6].into_iter().find(has).unwrap_or(9)
        };
        let (unit, digits) = match self.0.strip_prefix("%s")? {
            "" => (0, 0),
            "%3f" => (3, 0),
            "%6f" => (6, 0),
            "%9f" => (9, 0),
            "%.3f" => (0, 3),
            "%.6f" => (0, 6),
            "%.9f" => (0, 9),
            "%.f" => (0, shortest()),
            _ => return None,
        };
        Some(Number::new(unit, digits))
    }

    /// What a number of this format counts: `10^unit` of it are a second. `None` for a format of the calendar.
    pub fn number_unit(&self) -> Option<usize> {
        Some(self.number(&Instant::new(0, 0))?.unit())
    }

    /// Reads a text of the calendar, with its offset from UTC in seconds; a time without one is in UTC, and what is left out of a
    /// date or a time is its beginning.
    pub fn read(&self, text: &str) -> Option<(Instant, Option<i32>)> {
        let mut parsed = Parsed::new();
        chrono::format::parse(&mut parsed, text, self.items()).ok()?;
        fill(&mut parsed);
        let offset = parsed.offset();
        let local: NaiveDateTime = parsed
            .to_naive_datetime_with_offset(offset.unwrap_or(0))
            .ok()?;
        let offset_of = FixedOffset::east_opt(offset.unwrap_or(0))?;
        let at = offset_of.from_local_datetime(&local).single()?;
        Some((Instant::of(&at), offset))
    }

    /// Writes an instant, at this offset from UTC in seconds.
    pub fn write_at(&self, instant: &Instant, offset: i32) -> String {
        if let Some(number) = self.number(instant) {
            return number.write(instant);
        }
        let at: DateTime<Utc> = instant.utc();
        let offset = FixedOffset::east_opt(offset);
        let mut text = String::new();
        // Writing cannot fail: the format was checked when it was read.
        let _ = match offset.filter(|offset| offset.local_minus_utc() != 0) {
            Some(offset) => write!(text, "{}", at.with_timezone(&offset).format(&self.0)),
            None => write!(text, "{}", at.format(&self.0)),
        };
        text
    }
}

/// Adds the beginning of what a date or a time leaves out.
fn fill(parsed: &mut Parsed) {
    if parsed.timestamp().is_some() {
        return;
    }
    let says_day = parsed.day().is_some()
        || parsed.ordinal().is_some()
        || parsed.isoweek().is_some()
        || parsed.week_from_mon().is_some()
        || parsed.week_from_sun().is_some();
    // What is set already stays, and what then does not fit makes the date unreadable.
    let _ = match (says_day, parsed.month()) {
        (true, _) => Ok(()),
        (false, None) => parsed.set_ordinal(1),
        (false, Some(_)) => parsed.set_day(1),
    };
    if parsed.hour_mod_12().is_none() && parsed.minute().is_none() {
        let _ = parsed.set_hour(0);
    }
    if parsed.minute().is_none() && parsed.second().is_none() {
        let _ = parsed.set_minute(0);
    }
}

impl fmt::Display for TimeFormat {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}
