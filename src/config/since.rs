//! `since` of a job: the value of `{since}` in its first lists, and the place in its records of the value for the next ones.

use std::cmp::Ordering;

use chrono::NaiveDate;
use serde_json::json;

use super::Pointer;
use super::declare::{Optional, POINTER, Required, SCALAR, Shape, Table, Type, keys, table};
use super::item::Item;
use crate::quota::Timestamp;

/// The start of a job's lists that use `{since}`.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Since {
    /// Where a record has the value that the next pass uses: the greatest of all. `None`: the next pass uses the time at
    /// which this one started.
    pub at: Option<Pointer>,
    /// The value before the first complete list; `None`: the Unix epoch.
    pub first: Option<SinceValue>,
}

/// The value of `{since}`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum SinceValue {
    /// A time, written as a template requests it.
    Time(Timestamp),
    /// A value of a record, or of the file. `{since}` is this text; with a format it is read as a time.
    Text(String),
}

/// Numbers from here on are milliseconds, and smaller ones seconds: as seconds it is the year 5138.
const MILLISECONDS_FROM: i64 = 100_000_000_000;

impl SinceValue {
    /// Returns the value as a time: RFC 3339, a date, or seconds or milliseconds since 1970. `None` for another text.
    #[must_use]
    pub fn time(&self) -> Option<Timestamp> {
        match self {
            Self::Time(at) => Some(*at),
            Self::Text(text) => time_of(text),
        }
    }

    /// Compares two values of records: as numbers, as times or as texts. A number is a time beside one.
    #[must_use]
    pub fn compare(one: &str, other: &str) -> Ordering {
        if let (Some(one), Some(other)) = (decimal(one), decimal(other)) {
            return one.cmp(&other);
        }
        let times = time_of(one).zip(time_of(other));
        let by_time = times.map_or(Ordering::Equal, |(one, other)| one.cmp(&other));
        by_time.then_with(|| one.cmp(other))
    }
}

impl Since {
    /// Returns the greatest value as a pass stores it: with its place, since values of another place do not compare.
    #[must_use]
    pub fn stored(&self, greatest: &str) -> Option<String> {
        let at = self.at.as_ref()?;
        Some(json!([at.as_str(), greatest]).to_string())
    }

    /// Reads a stored value; `None` if it is of another place.
    #[must_use]
    pub fn read(&self, stored: &str) -> Option<String> {
        let (at, value): (String, String) = serde_json::from_str(stored).ok()?;
        (at == self.at.as_ref()?.as_str()).then_some(value)
    }

    /// Returns the value of `{since}` in a list of a region or of an id. `began`: when the pass of its last complete list started;
    /// `greatest`: the greatest value that this stored.
    #[must_use]
    pub fn value(&self, began: Option<Timestamp>, greatest: Option<&str>) -> Option<SinceValue> {
        let last = match self.at {
            Some(_) => greatest
                .and_then(|stored| self.read(stored))
                .map(SinceValue::Text),
            None => began.map(SinceValue::Time),
        };
        last.or_else(|| self.first.clone())
    }
}

/// The parts of a decimal number from zero, in the order of their weight, so that long ids compare exactly; `None` for
/// another text.
fn decimal(text: &str) -> Option<(usize, &str, &str)> {
    let (whole, fraction) = text.split_once('.').unwrap_or((text, ""));
    let is_number = |digits: &str| digits.bytes().all(|byte| byte.is_ascii_digit());
    if whole.is_empty() || !is_number(whole) || !is_number(fraction) {
        return None;
    }
    let whole = whole.trim_start_matches('0');
    Some((whole.len(), whole, fraction.trim_end_matches('0')))
}

fn time_of(text: &str) -> Option<Timestamp> {
    moment(text).or_else(|| epoch(text))
}

/// Reads a number of seconds or milliseconds since 1970, exact to the microsecond: a time that is rounded up would leave out what
/// has it.
fn epoch(text: &str) -> Option<Timestamp> {
    let (_, whole, fraction) = decimal(text)?;
    let whole: i64 = match whole {
        "" => 0,
        digits => digits.parse().ok()?,
    };
    let (unit, digits) = match whole >= MILLISECONDS_FROM {
        true => (1_000, 3),
        false => (1_000_000, 6),
    };
    let fraction: String = fraction
        .chars()
        .chain("000000".chars())
        .take(digits)
        .collect();
    let micros = whole
        .checked_mul(unit)?
        .checked_add(fraction.parse().ok()?)?;
    Some(Timestamp::from_micros(micros))
}

/// A time in RFC 3339, or the start of a date in UTC.
pub fn moment(text: &str) -> Option<Timestamp> {
    Timestamp::parse(text).or_else(|| {
        let date = NaiveDate::parse_from_str(text, "%Y-%m-%d").ok()?;
        Some(date.and_hms_opt(0, 0, 0)?.and_utc().into())
    })
}

keys! {
    struct SinceKeys {
        /// Where a record has the value. `{since}` is the greatest value that the last complete pass over the region saw, as the record has it;
        /// in a step of `ids`, the greatest value that the complete lists of the same id had.
        at: Pointer = Required(POINTER, "'/updated_at'"),
        /// The value before the first complete pass, and of an id that is new. If unset, `1970-01-01T00:00:00Z`.
        first: Option<String> = Optional(SCALAR, "'2024-01-01T00:00:00Z'"),
    }
}

const TABLE: Table<SinceKeys> = table();

/// A date or a time, or a table of [`SinceKeys`].
pub struct SinceType;

impl Type for SinceType {
    type Value = Since;

    fn read(&self, item: Item<'_>) -> Option<Since> {
        if item.is_table() {
            let keys = TABLE.read(item)?;
            return Some(Since {
                at: Some(keys.at),
                first: keys.first.map(SinceValue::Text),
            });
        }
        match moment(&item.as_text()?) {
            Some(at) => Some(Since {
                at: None,
                first: Some(SinceValue::Time(at)),
            }),
            None => item.refuse(
                "expected a date, or a time in RFC 3339",
                "write for example \"2024-01-01\", \"2024-01-01T00:00:00Z\" or { at = \"/updated_at\" }",
            ),
        }
    }

    fn shape(&self) -> Shape {
        let schema = json!({ "type": "string", "pattern": "^[0-9]{4}-[0-9]{2}-[0-9]{2}" });
        Shape::scalar("date or time", schema).or(TABLE.shape())
    }
}
