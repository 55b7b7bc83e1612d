//! Times as upstreams write them: one is read with its form, shifted, and written in the same form.

mod number;
mod time_format;

use std::cmp::Ordering;

use chrono::format::{Parsed, StrftimeItems, parse};
use chrono::{DateTime, FixedOffset, NaiveDateTime, TimeDelta, Utc};

use self::number::Number;
pub use self::number::parts;
pub use self::time_format::TimeFormat;
use ingest_quota::Timestamp;

/// A time, exact to the nanosecond, and how it was written.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Moment {
    at: DateTime<FixedOffset>,
    form: Form,
}

#[derive(Debug, Clone, PartialEq, Eq)]
enum Form {
    Number(Number),
    Calendar {
        format: TimeFormat,
        /// What follows it, which no shift changes: a fraction of a second, and a zone.
        tail: String,
        has_zone: bool,
    },
}

const RFC_3339: &str = "%Y-%m-%dT%H:%M:%S";
/// Formats that are read without being named. A fraction of a second and a zone may follow.
const KNOWN: [&str; 15] = [
    RFC_3339,
    "%Y-%m-%d %H:%M:%S",
    "%Y-%m-%dt%H:%M:%S",
    "%Y-%m-%dT%H:%M",
    "%Y-%m-%d %H:%M",
    "%Y-%m-%d",
    "%Y%m%dT%H%M%S",
    "%Y%m%d%H%M%S",
    "%Y%m%d",
    "%Y/%m/%d %H:%M:%S",
    "%Y/%m/%d",
    "%a, %d %b %Y %H:%M:%S",
    "%a, %-d %b %Y %H:%M:%S",
    "%d %b %Y %H:%M:%S",
    "%-d %b %Y %H:%M:%S",
];

impl Moment {
    /// Reads a date or a time of the calendar, or a number of seconds or parts of a second since 1970; `None` for another text, and
    /// for one that would be written otherwise than it was read.
    pub fn parse(text: &str) -> Option<Self> {
        let of_calendar = KNOWN
            .into_iter()
            .filter_map(|format| Self::with_tail(format, text));
        // The calendar first: eight digits are a day and no number of seconds.
        let mut read = of_calendar.chain(Self::of_number(text));
        read.find(|moment| moment.text() == text)
    }

    /// Reads a number of seconds or parts of a second since 1970, which is no date even if it has eight digits.
    pub fn of_number(text: &str) -> Option<Self> {
        let (at, number) = number::read(text, None)?;
        let form = Form::Number(number);
        Some(Self { at, form })
    }

    /// Reads a text of this format; `None` if it is of another form.
    pub fn by(format: &TimeFormat, text: &str) -> Option<Self> {
        if let Some(unit) = format.unit() {
            let (at, number) = number::read(text, Some(unit))?;
            let form = Form::Number(number);
            return Some(Self { at, form });
        }
        let (local, offset, tail) = format.read(text)?;
        match tail {
            "" => Self::new(local, offset, format.clone(), tail),
            _ => None,
        }
    }

    /// Reads a text that has a fraction of a second and a zone behind what the format says.
    fn with_tail(format: &'static str, text: &str) -> Option<Self> {
        let format = TimeFormat::known(format);
        let (local, _, tail) = format.read(text)?;
        let fraction = tail.strip_prefix(['.', ',']);
        let rest = fraction.unwrap_or(tail);
        let zone =
            rest.trim_start_matches(|letter: char| fraction.is_some() && letter.is_ascii_digit());
        let digits = rest.strip_suffix(zone)?;
        if fraction.is_some() && (digits.is_empty() || !format.has_seconds()) {
            return None;
        }
        let nanos: i64 = format!("{digits:0<9.9}").parse().ok()?;
        let offset = match zone.trim_start() {
            "" => None,
            zone => Some(offset(zone)?),
        };
        let local = local.checked_add_signed(TimeDelta::nanoseconds(nanos))?;
        Self::new(local, offset, format, tail)
    }

    fn new(
        local: NaiveDateTime,
        offset: Option<FixedOffset>,
        format: TimeFormat,
        tail: &str,
    ) -> Option<Self> {
        let zone = offset.or(FixedOffset::east_opt(0))?;
        let form = Form::Calendar {
            format,
            tail: tail.to_owned(),
            has_zone: offset.is_some(),
        };
        let at = local.and_local_timezone(zone).single()?;
        Some(Self { at, form })
    }

    /// The time that a program knows: in RFC 3339, to the second.
    pub fn at(at: Timestamp) -> Self {
        let form = Form::Calendar {
            format: TimeFormat::known(RFC_3339),
            tail: "Z".to_owned(),
            has_zone: true,
        };
        let at = at.to_utc().fixed_offset();
        Self { at, form }
    }

    /// Compares the times, whatever their forms.
    pub fn compare(&self, other: &Self) -> Ordering {
        self.at.cmp(&other.at)
    }

    /// Whether it is of the calendar, and no number.
    pub const fn is_of_calendar(&self) -> bool {
        matches!(self.form, Form::Calendar { .. })
    }

    /// Returns the time `seconds` later, or the first or last possible time where that would be beyond it.
    #[must_use]
    pub fn shifted(mut self, seconds: i64) -> Self {
        let end = match seconds < 0 {
            true => DateTime::<Utc>::MIN_UTC,
            false => DateTime::<Utc>::MAX_UTC,
        };
        let shifted = TimeDelta::try_seconds(seconds).and_then(|by| self.at.checked_add_signed(by));
        self.at = shifted.unwrap_or_else(|| end.fixed_offset());
        self
    }

    /// Returns another time in the same form.
    #[must_use]
    pub fn moved_to(mut self, at: Timestamp) -> Self {
        self.at = at.to_utc().with_timezone(self.at.offset());
        self
    }

    /// Whether it says in which zone it is.
    pub const fn has_zone(&self) -> bool {
        match &self.form {
            Form::Number(_) => true,
            Form::Calendar { has_zone, .. } => *has_zone,
        }
    }

    /// The microsecond in which it is.
    pub fn time(&self) -> Timestamp {
        self.at.to_utc().into()
    }

    /// The text, in the form in which it was read.
    pub fn text(&self) -> String {
        match &self.form {
            Form::Number(number) => number.write(&self.at),
            Form::Calendar { format, tail, .. } => format.write(&self.at) + tail,
        }
    }

    /// The text of another format, in UTC.
    pub fn written(&self, format: &TimeFormat) -> String {
        format.write(&self.at.to_utc())
    }

    /// How it was read, in words.
    pub const fn form(&self) -> &'static str {
        match &self.form {
            Form::Number(number) => number.words(),
            Form::Calendar { has_zone: true, .. } => "a time with a zone",
            Form::Calendar { .. } => "a date or a time without a zone, taken as UTC",
        }
    }
}

/// Reads the zone behind a time.
fn offset(zone: &str) -> Option<FixedOffset> {
    let zone = match zone {
        "UTC" | "GMT" | "UT" => "Z",
        zone => zone,
    };
    let mut parsed = Parsed::new();
    parse(&mut parsed, zone, StrftimeItems::new("%#z")).ok()?;
    parsed.to_fixed_offset().ok()
}
