//! A time in the past or ahead, as people write it.

use std::str::FromStr;
use std::time::Duration;

use serde::Serializer;

use ingest_quota::Timestamp;

const DAY: Duration = Duration::from_secs(24 * 60 * 60);

/// Since when: `7d`, `2026-11-01`, `2026-11-01T12:00:00Z`, `today` or `yesterday`. Days are those of UTC.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Since {
    /// So long before now.
    Ago(Duration),
    /// Then.
    At(Timestamp),
    /// The beginning of the day this number of days ago.
    Day(u32),
}

impl Since {
    /// The time that is meant now.
    #[must_use]
    pub fn at(self, now: Timestamp) -> Timestamp {
        match self {
            Self::Ago(span) => now - span,
            Self::At(at) => at,
            Self::Day(days) => {
                let of_day = now.micros().rem_euclid(DAY.as_micros() as i64);
                now - Duration::from_micros(of_day.unsigned_abs()) - DAY * days
            }
        }
    }
}

impl FromStr for Since {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let named = match text {
            "today" => Some(Self::Day(0)),
            "yesterday" => Some(Self::Day(1)),
            time => instant(time).map(Self::At),
        };
        let span = || humantime::parse_duration(text).ok().map(Self::Ago);
        named.or_else(span).ok_or_else(|| {
            "expected a span such as 36h or 7d, a date such as 2026-11-01, today or yesterday"
                .to_owned()
        })
    }
}

/// Until when: `6h`, `2026-11-01`, `2026-11-01T12:00:00Z` or `tomorrow`. Days begin in UTC.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Until {
    /// So long after now.
    For(Duration),
    /// Then.
    At(Timestamp),
    /// The beginning of the next day.
    Tomorrow,
}

impl Until {
    /// The time that is meant now.
    #[must_use]
    pub fn at(self, now: Timestamp) -> Timestamp {
        match self {
            Self::For(span) => now + span,
            Self::At(at) => at,
            Self::Tomorrow => Since::Day(0).at(now) + DAY,
        }
    }
}

impl FromStr for Until {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let named = (text == "tomorrow").then_some(Self::Tomorrow);
        let span = || humantime::parse_duration(text).ok().map(Self::For);
        let at = || instant(text).map(Self::At);
        named.or_else(at).or_else(span).ok_or_else(|| {
            "expected a span such as 36h or 7d, a date such as 2026-11-01, an instant such as 2026-11-01T12:00:00Z, or \
             tomorrow"
                .to_owned()
        })
    }
}

/// Reads an instant, or a date as the beginning of its day in UTC; `None` for anything else.
fn instant(text: &str) -> Option<Timestamp> {
    match text.len() == "2026-11-01".len() {
        true => Timestamp::parse(&format!("{text}T00:00:00Z")),
        false => Timestamp::parse(text),
    }
}

/// Whole microseconds, written as seconds: `3.25`.
///
/// # Errors
/// When the serializer fails.
pub fn seconds<S: Serializer>(span: &Duration, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.serialize_f64(span.as_secs_f64())
}
