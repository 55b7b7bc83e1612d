//! `{date:-1d:%Y/%m/%d}`

use crate::moment::{Moment, TimeFormat};
use ingest_quota::Timestamp;

const DAY: &str = "%Y-%m-%d";

/// A date in UTC with an offset from a time.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Date {
    /// In seconds.
    offset: i64,
    /// `None`: the time is written in the form that it has.
    format: Option<TimeFormat>,
}

impl Date {
    /// A time, written to the second.
    pub fn of_moments() -> Self {
        Self {
            offset: 0,
            format: None,
        }
    }

    /// A time, written as a day.
    pub fn of_days() -> Self {
        let format = TimeFormat::parse(DAY);
        Self { offset: 0, format }
    }

    /// Reads `-1d:%Y/%m/%d`, or only one of the two; without a format it is written as a day.
    pub fn of_day(text: &str) -> Option<Self> {
        let date = Self::of_second(text)?;
        let format = date.format.or(Self::of_days().format);
        Some(Self { format, ..date })
    }

    /// The same; without a format it is written in the form of the time: in RFC 3339 to the second, unless an upstream gave it.
    pub fn of_second(text: &str) -> Option<Self> {
        let (offset, format) = match text.split_once(':') {
            Some((offset, format)) if !offset.contains('%') => (offset_of(offset)?, Some(format)),
            None if !text.contains('%') => (offset_of(text)?, None),
            _ => (0, Some(text)),
        };
        let format = match format {
            Some(format) => Some(TimeFormat::parse(format)?),
            None => None,
        };
        Some(Self { offset, format })
    }

    /// The date as it is written at a time.
    pub fn at(&self, now: Timestamp) -> String {
        self.of(Moment::at(now))
    }

    /// The time with the offset, in the format.
    pub fn of(&self, moment: Moment) -> String {
        let moment = moment.shifted(self.offset);
        match &self.format {
            Some(format) => moment.written(format),
            None => moment.text(),
        }
    }

    /// The same, except that the start of 1970 stands for the beginning of everything: nothing is before it.
    pub fn since(&self, moment: Moment) -> String {
        let is_beginning = moment.time() == Timestamp::from_micros(0);
        let offset = match is_beginning {
            true => self.offset.max(0),
            false => self.offset,
        };
        let format = self.format.clone();
        Self { offset, format }.of(moment)
    }
}

/// Reads `-1d`, `+2h`, `30m`, in seconds; `None` for another text.
fn offset_of(text: &str) -> Option<i64> {
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
    let span = i64::try_from(count.checked_mul(seconds)?).unwrap_or(i64::MAX);
    Some(match text.starts_with('-') {
        true => -span,
        false => span,
    })
}
