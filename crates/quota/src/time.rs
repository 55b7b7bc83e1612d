use std::fmt;
use std::ops::{Add, AddAssign, Sub};
use std::time::Duration;

use chrono::{DateTime, SecondsFormat, Utc};
use serde::de::Error;
use serde::{Deserialize, Deserializer, Serialize, Serializer};

/// An instant: microseconds since the Unix epoch. Written as RFC 3339 in UTC.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Timestamp(i64);

/// About 200,000 years before and after 1970.
const LAST_OF_CALENDARS: i64 = 200_000 * 365 * 86_400 * 1_000_000;
const FIRST_OF_CALENDARS: i64 = -LAST_OF_CALENDARS;

impl Timestamp {
    /// The instant this many microseconds after the Unix epoch.
    #[must_use]
    pub const fn from_micros(micros: i64) -> Self {
        Self(micros)
    }

    /// Microseconds since the Unix epoch.
    #[must_use]
    pub const fn micros(self) -> i64 {
        self.0
    }

    /// Returns how long after `earlier` this is; zero when it is before.
    #[must_use]
    pub fn since(self, earlier: Self) -> Duration {
        Duration::from_micros(u64::try_from(self.0.saturating_sub(earlier.0)).unwrap_or(0))
    }

    /// Converts to a calendar. An instant beyond the years that every time zone can represent becomes the nearest that it
    /// can.
    #[must_use]
    pub fn to_utc(self) -> DateTime<Utc> {
        let micros = self.0.clamp(FIRST_OF_CALENDARS, LAST_OF_CALENDARS);
        DateTime::from_timestamp_micros(micros).unwrap_or_default()
    }

    /// Parses RFC 3339; `None` when the text is something else.
    #[must_use]
    pub fn parse(text: &str) -> Option<Self> {
        DateTime::parse_from_rfc3339(text)
            .ok()
            .map(|at| Self(at.timestamp_micros()))
    }
}

/// This instant, `span` later. Saturates at the end of time.
impl Add<Duration> for Timestamp {
    type Output = Self;

    fn add(self, span: Duration) -> Self {
        Self(self.0.saturating_add(micros(span)))
    }
}

impl AddAssign<Duration> for Timestamp {
    fn add_assign(&mut self, span: Duration) {
        *self = *self + span;
    }
}

/// This instant, `span` earlier. Saturates at the beginning of time.
impl Sub<Duration> for Timestamp {
    type Output = Self;

    fn sub(self, span: Duration) -> Self {
        Self(self.0.saturating_sub(micros(span)))
    }
}

impl From<DateTime<Utc>> for Timestamp {
    fn from(at: DateTime<Utc>) -> Self {
        Self(at.timestamp_micros())
    }
}

impl fmt::Display for Timestamp {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.to_utc().to_rfc3339_opts(SecondsFormat::Micros, true))
    }
}

impl Serialize for Timestamp {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for Timestamp {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = String::deserialize(deserializer)?;
        Self::parse(&text).ok_or_else(|| D::Error::custom("not a time as RFC 3339 writes it"))
    }
}

fn micros(span: Duration) -> i64 {
    i64::try_from(span.as_micros()).unwrap_or(i64::MAX)
}
