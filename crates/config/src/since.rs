//! `since` of a job: the value of `{since}` in its first lists, and the place in its records of the value for the next ones.

use std::cmp::{Ordering, Reverse};
use std::collections::BTreeMap;
use std::time::Duration;

use chrono::NaiveDate;
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::json;

use super::Pointer;
use super::error::Refusal;
use super::moment::{Moment, TimeFormat, parts};
use super::values::{As, Either, Scalar, Text, described, leaf};
use ingest_quota::Timestamp;

/// The start of a job's lists that use `{since}`.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize)]
#[serde(try_from = "Either<FirstTime, SinceKeys>")]
pub struct Since {
    /// Where a record has the value that the next pass uses: the greatest of all. `None`: the next pass uses the time at
    /// which this one started.
    pub at: Option<Pointer>,
    /// The value before the first complete list; `None`: the Unix epoch.
    pub first: Option<SinceValue>,
    /// The format of the values; `None`: one of the forms that [`Moment::parse`] reads.
    pub format: Option<TimeFormat>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum SinceValue {
    /// A time, written as a template requests it.
    Time(Timestamp),
    /// A value of a record, or of the file. `{since}` is this text; with an offset or a format it is read as a time.
    Text(String),
    /// The same, in the job's own format.
    Formatted(String, TimeFormat),
}

impl SinceValue {
    /// Returns the text of a value that is one.
    pub fn text(&self) -> Option<&str> {
        match self {
            Self::Time(_) => None,
            Self::Text(text) | Self::Formatted(text, _) => Some(text),
        }
    }

    /// Returns the value as a time with its form; `None` for a text that cannot be read as one.
    pub fn moment(&self) -> Option<Moment> {
        match self {
            Self::Time(at) => Some(Moment::at(*at)),
            Self::Text(text) => Moment::parse(text),
            Self::Formatted(text, format) => Moment::by(format, text),
        }
    }

    /// Returns the value as a time; `None` for a text that cannot be read as one.
    pub fn time(&self) -> Option<Timestamp> {
        self.moment().map(|moment| moment.time())
    }

    /// Returns the greatest value in the form of this one that is not after `at`, to the second; `None` where this cannot be read as a
    /// time.
    pub fn moved_to(&self, at: Timestamp) -> Option<Self> {
        let moment = self.moment()?;
        let moved = |at: Timestamp| {
            let text = moment.clone().moved_to(at).text();
            match self {
                Self::Time(_) => Self::Time(at),
                Self::Text(_) => Self::Text(text),
                Self::Formatted(_, format) => Self::Formatted(text, format.clone()),
            }
        };
        // A fraction of a second stays as it is written, and can be later than that of `at`.
        let [same, before] = [at, at - Duration::from_secs(1)].map(moved);
        let is_after = same.time().is_some_and(|time| time > at);
        Some(if is_after { before } else { same })
    }

    /// Compares two values of records: as numbers, as times or as texts. A number is taken as a time where the other value is
    /// a time, and a time is greater than any other text.
    pub fn compare(&self, other: &Self) -> Ordering {
        let texts = || self.text().cmp(&other.text());
        if let (Self::Text(one), Self::Text(other)) = (self, other)
            && let (Some(one), Some(other)) = (decimal(one), decimal(other))
        {
            return one.cmp(&other).then_with(texts);
        }
        match (self.moment(), other.moment()) {
            (Some(one), Some(other)) => one.compare(&other).then_with(texts),
            (Some(one), None) if one.is_of_calendar() => Ordering::Greater,
            (None, Some(other)) if other.is_of_calendar() => Ordering::Less,
            _ => texts(),
        }
    }
}

impl Since {
    /// Returns a value of a record, or of the file.
    pub fn value_of(&self, text: String) -> SinceValue {
        let text = without_exponent(&text).unwrap_or(text);
        match &self.format {
            Some(format) => SinceValue::Formatted(text, format.clone()),
            None => SinceValue::Text(text),
        }
    }

    /// Returns the values that the next pass uses, by list, as a pass stores them: with their place, since values of another place do
    /// not compare.
    pub fn stored(&self, values: &BTreeMap<String, SinceValue>) -> String {
        let at = self.at.as_ref().map(Pointer::as_str);
        let text = |value: &SinceValue| match value {
            SinceValue::Time(time) => time.to_string(),
            SinceValue::Text(text) | SinceValue::Formatted(text, _) => text.clone(),
        };
        let texts = values.iter().map(|(list, value)| (list, text(value)));
        json!([at, texts.collect::<BTreeMap<_, _>>()]).to_string()
    }

    /// Reads stored values, by list; without those of another place, or not of the format.
    pub fn read(&self, stored: &str) -> BTreeMap<String, SinceValue> {
        let stored: Result<(Option<String>, BTreeMap<String, String>), _> =
            serde_json::from_str(stored);
        let at = self.at.as_ref().map(Pointer::as_str);
        let of_place = stored.ok().filter(|(place, _)| place.as_deref() == at);
        let values = of_place.into_iter().flat_map(|(_, values)| values);
        let value = |(list, text): (String, String)| Some((list, self.read_one(text)?));
        values.filter_map(value).collect()
    }

    fn read_one(&self, text: String) -> Option<SinceValue> {
        if self.at.is_none() {
            return Timestamp::parse(&text).map(SinceValue::Time);
        }
        let value = Some(self.value_of(text));
        // A value of a former `format` starts the lists over, from the first value.
        value.filter(|value| self.format.is_none() || value.moment().is_some())
    }

    /// Returns the value of `{since}` in a list of a region or of an id. `began`: when the pass of its last complete list started;
    /// `last`: what this stored of the list, if it did: the greatest value, or when it started by the upstream's clock.
    pub fn value(&self, began: Option<Timestamp>, last: Option<SinceValue>) -> Option<SinceValue> {
        let began = began.filter(|_| self.at.is_none()).map(SinceValue::Time);
        last.or(began).or_else(|| self.first.clone())
    }
}

/// The digits of a number that JSON writes with an exponent: `1.7e+9`. `None` for another text.
fn without_exponent(text: &str) -> Option<String> {
    /// The most digits that are filled up with zeros, which no time has.
    const MOST: usize = 400;
    let (mantissa, exponent) = text.split_once('e')?;
    // JSON's own form always has the sign. A text such as `12e3` may be a code.
    let (is_small, exponent) = match exponent.strip_prefix('-') {
        Some(exponent) => (true, exponent),
        None => (false, exponent.strip_prefix('+')?),
    };
    let exponent: usize = exponent.parse().ok().filter(|places| *places <= MOST)?;
    let (is_negative, whole, fraction) = parts(mantissa)?;
    let sign = if is_negative { "-" } else { "" };
    let zeros = "0".repeat(exponent);
    let (digits, point) = match is_small {
        true => (format!("{zeros}{whole}{fraction}"), whole.len()),
        false => (
            format!("{whole}{fraction}{zeros}"),
            whole.len().saturating_add(exponent),
        ),
    };
    let (whole, fraction) = digits.split_at_checked(point)?;
    let (whole, fraction) = (
        whole.trim_start_matches('0'),
        fraction.trim_end_matches('0'),
    );
    let point = if fraction.is_empty() { "" } else { "." };
    let zero = if whole.is_empty() { "0" } else { "" };
    Some(format!("{sign}{zero}{whole}{point}{fraction}"))
}

/// A decimal number as something that compares exactly, however long it is: its digits in the order of their weight. `None` for
/// another text.
fn decimal(text: &str) -> Option<Decimal<'_>> {
    let (is_negative, whole, fraction) = parts(text)?;
    let whole = whole.trim_start_matches('0');
    let size = (whole.len(), whole, fraction.trim_end_matches('0'));
    Some(match is_negative {
        true => Decimal::Negative(Reverse(size)),
        false => Decimal::Positive(size),
    })
}

/// A negative number is less than a positive one, and the less, the greater its size.
#[derive(PartialEq, Eq, PartialOrd, Ord)]
enum Decimal<'t> {
    Negative(Reverse<(usize, &'t str, &'t str)>),
    Positive((usize, &'t str, &'t str)),
}

/// A time in RFC 3339, or the start of a date in UTC.
pub fn moment(text: &str) -> Option<Timestamp> {
    Timestamp::parse(text).or_else(|| {
        let date = NaiveDate::parse_from_str(text, "%Y-%m-%d").ok()?;
        Some(date.and_hms_opt(0, 0, 0)?.and_utc().into())
    })
}

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct SinceKeys {
    /// Where a record has the value. `{since}` is the greatest that the list had in the last complete pass over the region, as the record has it;
    /// in a step of `ids`, that of the complete lists of the same id. A time is never after the start of that pass. Example: `at = "/updated_at"`.
    pub at: Pointer,
    /// The value before the first complete pass, and of a new id, sent as it is written here unless there is a `format`. If unset,
    /// `1970-01-01T00:00:00Z`. With another value the lists begin anew. Example: `first = "2024-01-01T00:00:00Z"`.
    #[serde(default, with = "As::<Option<Scalar>>")]
    pub first: Option<String>,
    /// The format of strftime of the values, for a form that `usage.md` does not list. A time without an offset (`%z`) is in UTC; `%s`
    /// and `%s%3f` are seconds and milliseconds. `{since}` without a format of its own is written in it, and so is `first`. Example: `format = "%d.%m.%Y"`.
    #[serde(default, with = "As::<Option<ReadFormat>>")]
    pub format: Option<TimeFormat>,
}

// A date or a time, before the first complete pass.
leaf!(
    FirstTime,
    Scalar,
    Timestamp,
    |text| moment(&text),
    "expected a date, or a time in RFC 3339",
    "write for example \"2024-01-01\", \"2024-01-01T00:00:00Z\" or { at = \"/updated_at\" }",
    json!({ "title": "date or time", "type": "string", "pattern": "^[0-9]{4}-[0-9]{2}-[0-9]{2}" }),
);

described!(Since: Either<FirstTime, SinceKeys>);

impl TryFrom<Either<FirstTime, SinceKeys>> for Since {
    type Error = Refusal;

    fn try_from(keys: Either<FirstTime, SinceKeys>) -> Result<Self, Refusal> {
        let keys = match keys {
            Either::Text(at) => {
                let first = Some(SinceValue::Time(at));
                return Ok(Self {
                    first,
                    ..Self::default()
                });
            }
            Either::Table(keys) => keys,
        };
        let first = match (keys.first, &keys.format) {
            (first, None) => first.map(SinceValue::Text),
            (first, Some(format)) => Some(first_of(first.as_deref(), format)?),
        };
        Ok(Self {
            at: Some(keys.at),
            first,
            format: keys.format,
        })
    }
}

fn first_of(first: Option<&str>, format: &TimeFormat) -> Result<SinceValue, Refusal> {
    let moment = match first {
        None => Some(Moment::at(Timestamp::from_micros(0))),
        Some(first) => Moment::by(format, first).or_else(|| moment(first).map(Moment::at)),
    };
    match moment {
        Some(at) => Ok(SinceValue::Formatted(at.written(format), format.clone())),
        None => {
            let refusal = Refusal::new(
                "expected a date, a time in RFC 3339, or one in `format`",
                "write for example \"2024-01-01\"",
            );
            Err(refusal.below("first"))
        }
    }
}

leaf!(
    ReadFormat,
    Text,
    TimeFormat,
    |text| TimeFormat::parse(&text).filter(TimeFormat::can_be_read),
    "expected a format of strftime by which a time can be read: with the year, %p beside %I, and without %Z",
    "write for example \"%d.%m.%Y\" or \"%d.%m.%Y %H:%M:%S %z\"",
    json!({ "title": "format of strftime", "type": "string", "pattern": "%" }),
);
