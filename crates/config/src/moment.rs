//! Times as upstreams write them: one is read with its form, shifted, and written in the same form.

mod calendar;
mod number;
mod time_format;

use chrono::{DateTime, TimeZone, Utc};

use self::calendar::Calendar;
use self::number::Number;
pub use self::time_format::TimeFormat;
use ingest_quota::Timestamp;

/// A time, exact to any fraction of a second, and how it was written.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Moment {
    instant: Instant,
    form: Form,
}

/// Whole seconds since 1970, and the digits of the fraction that follows them: that of -1.25 is 75, after -2 seconds.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Instant {
    seconds: i64,
    fraction: String,
}

#[derive(Debug, Clone, PartialEq, Eq)]
enum Form {
    Number(Number),
    Calendar(Calendar),
    /// By a format, with the offset from UTC in seconds; `None`: without an offset, which is UTC.
    Format(TimeFormat, Option<i32>),
}

/// About 200,000 years, in seconds.
const LAST_OF_CALENDARS: i64 = 200_000 * 365 * 86_400;

/// No form of a time is longer.
const LONGEST: usize = 64;

impl Moment {
    /// Reads a date or a time of the calendar, or a number of seconds or parts of a second since 1970; `None` for another text.
    #[must_use]
    pub fn parse(text: &str) -> Option<Self> {
        if text.len() > LONGEST {
            return None;
        }
        let calendar = || {
            let (instant, form) = calendar::read(text)?;
            Some((instant, Form::Calendar(form)))
        };
        match calendar() {
            Some((instant, form)) => Some(Self { instant, form }),
            None => Self::of_number(text),
        }
    }

    /// Reads a number of seconds or parts of a second since 1970, which is no date even if it has eight digits.
    #[must_use]
    pub fn of_number(text: &str) -> Option<Self> {
        let (instant, form) = number::read(text, None)?;
        let form = Form::Number(form);
        Some(Self { instant, form })
    }

    /// Reads a text of this format; `None` if it is of another form.
    #[must_use]
    pub fn by(format: &TimeFormat, text: &str) -> Option<Self> {
        if let Some(unit) = format.number_unit() {
            let (instant, form) = number::read(text, Some(unit))?;
            let form = Form::Number(form);
            return Some(Self { instant, form });
        }
        let (instant, offset) = format.read(text)?;
        let form = Form::Format(format.clone(), offset);
        Some(Self { instant, form })
    }

    /// The time that a program knows: in RFC 3339, to the second.
    #[must_use]
    pub fn of(at: Timestamp) -> Self {
        Self {
            instant: Instant::new(i128::from(at.micros()), 6),
            form: Form::Calendar(Calendar::rfc_3339()),
        }
    }

    /// The same time, as a format writes it.
    #[must_use]
    pub fn in_format(self, format: &TimeFormat) -> Self {
        let form = Form::Format(format.clone(), None);
        Self { form, ..self }
    }

    /// Whether it is of the calendar, and no number.
    #[must_use]
    pub const fn is_of_calendar(&self) -> bool {
        !matches!(self.form, Form::Number(_))
    }

    /// The time so many seconds later.
    #[must_use]
    pub fn shifted(mut self, seconds: i64) -> Self {
        self.instant.seconds = self.instant.seconds.saturating_add(seconds);
        self
    }

    /// The microsecond in which it is.
    #[must_use]
    pub fn time(&self) -> Timestamp {
        let seconds = i128::from(self.instant.seconds) * 1_000_000;
        let micros = seconds + i128::from(self.instant.nanos() / 1_000);
        let end = match micros < 0 {
            true => i64::MIN,
            false => i64::MAX,
        };
        Timestamp::from_micros(i64::try_from(micros).unwrap_or(end))
    }

    /// Something that compares as the times do.
    #[must_use]
    pub fn order(&self) -> (i64, &str) {
        let fraction = self.instant.fraction.trim_end_matches('0');
        (self.instant.seconds, fraction)
    }

    /// The text, in the form in which it was read.
    #[must_use]
    pub fn text(&self) -> String {
        match &self.form {
            Form::Number(number) => number.write(&self.instant),
            Form::Calendar(calendar) => calendar.write(&self.instant),
            Form::Format(format, offset) => format.write_at(&self.instant, offset.unwrap_or(0)),
        }
    }

    /// The text of another format, in UTC.
    #[must_use]
    pub fn written(&self, format: &TimeFormat) -> String {
        format.write_at(&self.instant, 0)
    }

    /// How it was read, in words.
    #[must_use]
    pub fn form(&self) -> String {
        match &self.form {
            Form::Number(number) => number.words().to_owned(),
            Form::Calendar(calendar) => calendar.words(),
            Form::Format(format, Some(_)) => format!("a time of the format `{format}`"),
            Form::Format(format, None) => {
                format!("a time of the format `{format}` without a zone, taken as UTC")
            }
        }
    }
}

impl Instant {
    /// The instant this many parts of a second after 1970, each `10^-digits` of it.
    fn new(parts: i128, digits: usize) -> Self {
        let second = power(digits);
        let seconds = parts.div_euclid(second);
        let fraction = match digits {
            0 => String::new(),
            _ => format!("{:0digits$}", parts.rem_euclid(second)),
        };
        Self {
            seconds: i64::try_from(seconds).unwrap_or(i64::MAX),
            fraction,
        }
    }

    fn of<Zone: TimeZone>(at: &DateTime<Zone>) -> Self {
        let nanos = i128::from(at.timestamp()) * 1_000_000_000;
        Self::new(nanos + i128::from(at.timestamp_subsec_nanos()), 9)
    }

    /// The fraction in so many digits; further ones are left out.
    fn digits(&self, count: usize) -> String {
        let digits = self.fraction.chars().chain(std::iter::repeat('0'));
        digits.take(count).collect()
    }

    fn nanos(&self) -> u32 {
        self.digits(9).parse().unwrap_or(0)
    }

    /// A calendar has an end, and what is behind that becomes it.
    fn utc(&self) -> DateTime<Utc> {
        let seconds = self.seconds.clamp(-LAST_OF_CALENDARS, LAST_OF_CALENDARS);
        DateTime::from_timestamp(seconds, self.nanos()).unwrap_or_default()
    }
}

/// `10^digits`; saturates.
fn power(digits: usize) -> i128 {
    let digits = u32::try_from(digits).unwrap_or(u32::MAX);
    10_i128.saturating_pow(digits)
}
