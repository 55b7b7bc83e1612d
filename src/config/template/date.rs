//! `{date:-1d:%Y/%m/%d}`

use std::fmt::Write;
use std::time::Duration;

use chrono::format::{Item, StrftimeItems};

use crate::quota::Timestamp;

const DAY: &str = "%Y-%m-%d";
/// RFC 3339 to the second.
const SECOND: &str = "%Y-%m-%dT%H:%M:%SZ";

/// A date in UTC with an offset from now.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Date {
    offset: Offset,
    format: String,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Offset {
    Ahead(Duration),
    Back(Duration),
}

impl Default for Date {
    fn default() -> Self {
        Self {
            offset: Offset::Ahead(Duration::ZERO),
            format: DAY.to_owned(),
        }
    }
}

impl Date {
    /// A time, written to the second.
    pub fn of_moments() -> Self {
        Self {
            format: SECOND.to_owned(),
            ..Self::default()
        }
    }

    /// Reads `-1d:%Y/%m/%d`, or only one of the two; without a format it is written as a day.
    pub fn of_day(text: &str) -> Option<Self> {
        Self::parse(text, DAY)
    }

    /// The same; without a format it is written to the second.
    pub fn of_second(text: &str) -> Option<Self> {
        Self::parse(text, SECOND)
    }

    fn parse(text: &str, usual: &str) -> Option<Self> {
        let (offset, format) = match text.split_once(':') {
            Some((offset, format)) if !offset.contains('%') => (Offset::parse(offset)?, format),
            None if !text.contains('%') => (Offset::parse(text)?, usual),
            _ => (Offset::Ahead(Duration::ZERO), text),
        };
        let right = !format.is_empty()
            && StrftimeItems::new(format).all(|item| !matches!(item, Item::Error));
        right.then(|| Self {
            offset,
            format: format.to_owned(),
        })
    }

    /// The date as it is written at a time.
    pub fn at(&self, now: Timestamp) -> String {
        self.from(now, Timestamp::from_micros(i64::MIN))
    }

    /// The same, but not before `earliest`.
    pub fn from(&self, now: Timestamp, earliest: Timestamp) -> String {
        let at = match self.offset {
            Offset::Ahead(span) => now + span,
            Offset::Back(span) => now - span,
        };
        let mut text = String::new();
        // Writing cannot fail: the format was checked when it was read.
        let _ = write!(text, "{}", at.max(earliest).to_utc().format(&self.format));
        text
    }
}

impl Offset {
    /// Reads `-1d`, `+2h`, `30m`.
    fn parse(text: &str) -> Option<Self> {
        let unsigned = text.strip_prefix(['+', '-']).unwrap_or(text);
        let digits = unsigned.strip_suffix(['s', 'm', 'h', 'd', 'w'])?;
        let seconds: u64 = match unsigned.strip_prefix(digits)? {
            "s" => 1,
            "m" => 60,
            "h" => 60 * 60,
            "d" => 24 * 60 * 60,
            _ => 7 * 24 * 60 * 60,
        };
        let count = digits
            .bytes()
            .all(|digit| digit.is_ascii_digit())
            .then(|| digits.parse::<u64>().ok())??;
        let span = Duration::from_secs(count.checked_mul(seconds)?);
        Some(if text.starts_with('-') {
            Self::Back(span)
        } else {
            Self::Ahead(span)
        })
    }
}

/// RFC 3339 to the second, as APIs take it.
pub fn second(at: Timestamp) -> String {
    at.to_utc()
        .to_rfc3339_opts(chrono::SecondsFormat::Secs, true)
}
