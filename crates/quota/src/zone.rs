//! The time zones of the tz database, as `chrono` reads them. Their rules are plain numbers, which a process that needs none of them
//! does not load.

use std::fmt;
use std::str::FromStr;

use chrono::{FixedOffset, LocalResult, NaiveDate, NaiveDateTime, NaiveTime, Offset, TimeZone};
use thiserror::Error;
use tz::TimeZoneRef;

const SECONDS_PER_DAY: i64 = 24 * 3_600;

/// A time zone, by its name in the tz database.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct Zone {
    name: &'static str,
    rules: TimeZoneRef<'static>,
}

/// There is no time zone of this name. Names are written in the case of the tz database.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
#[error("unknown time zone")]
pub struct UnknownZone;

/// How far a zone is ahead of UTC at some time.
#[derive(Debug, Clone, Copy)]
pub struct ZoneOffset {
    zone: Zone,
    fixed: FixedOffset,
}

impl Zone {
    /// The zone that needs no rules.
    pub const UTC: Self = Self {
        name: "UTC",
        rules: TimeZoneRef::utc(),
    };

    /// The names of all zones.
    pub fn names() -> impl Iterator<Item = &'static str> {
        tzdb_data::TZ_NAMES.iter().copied()
    }

    /// How far it is ahead of UTC, in seconds, at a time in seconds since the Unix epoch.
    fn ahead(&self, at: i64) -> i64 {
        let found = self.rules.find_local_time_type(at);
        found.map_or(0, |found| found.ut_offset().into())
    }

    fn offset(&self, ahead: i64) -> ZoneOffset {
        let ahead = i32::try_from(ahead).ok().and_then(FixedOffset::east_opt);
        ZoneOffset {
            zone: *self,
            fixed: ahead.unwrap_or_else(|| chrono::Utc.fix()),
        }
    }

    /// The offsets at which clocks showed a local time, in seconds since the Unix epoch of that time itself, the first one first. None
    /// where they skipped it.
    fn offsets_of_local(&self, local: i64) -> Vec<i64> {
        // No zone is as far as a day from UTC.
        let (before, after) = (
            self.ahead(local - SECONDS_PER_DAY),
            self.ahead(local + SECONDS_PER_DAY),
        );
        let shows = |ahead: &i64| self.ahead(local - ahead) == *ahead;
        if before == after && shows(&before) {
            return vec![before];
        }
        // No offset lasts for less than half a day.
        let around = (-2..=2).map(|halves| self.ahead(local + halves * SECONDS_PER_DAY / 2));
        let mut offsets: Vec<i64> = around.filter(shows).collect();
        // What is furthest ahead of UTC is the earliest.
        offsets.sort_unstable_by_key(|ahead| -ahead);
        offsets.dedup();
        offsets
    }
}

impl FromStr for Zone {
    type Err = UnknownZone;

    fn from_str(name: &str) -> Result<Self, UnknownZone> {
        let known = Self::names().find(|known| *known == name);
        let zone = known.and_then(|name| {
            let rules = tzdb_data::find_tz(name.as_bytes())?;
            Some(Self {
                name,
                rules: *rules,
            })
        });
        zone.ok_or(UnknownZone)
    }
}

impl fmt::Display for Zone {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name)
    }
}

impl fmt::Debug for Zone {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name)
    }
}

impl fmt::Display for ZoneOffset {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.fixed.fmt(f)
    }
}

impl Offset for ZoneOffset {
    fn fix(&self) -> FixedOffset {
        self.fixed
    }
}

impl TimeZone for Zone {
    type Offset = ZoneOffset;

    fn from_offset(offset: &ZoneOffset) -> Self {
        offset.zone
    }

    fn offset_from_local_date(&self, local: &NaiveDate) -> LocalResult<ZoneOffset> {
        self.offset_from_local_datetime(&local.and_time(NaiveTime::MIN))
    }

    fn offset_from_local_datetime(&self, local: &NaiveDateTime) -> LocalResult<ZoneOffset> {
        let offsets = self.offsets_of_local(local.and_utc().timestamp());
        match *offsets.as_slice() {
            [] => LocalResult::None,
            [only] => LocalResult::Single(self.offset(only)),
            [first, .., last] => LocalResult::Ambiguous(self.offset(first), self.offset(last)),
        }
    }

    fn offset_from_utc_date(&self, utc: &NaiveDate) -> ZoneOffset {
        self.offset_from_utc_datetime(&utc.and_time(NaiveTime::MIN))
    }

    fn offset_from_utc_datetime(&self, utc: &NaiveDateTime) -> ZoneOffset {
        self.offset(self.ahead(utc.and_utc().timestamp()))
    }
}
