//! Numbers of seconds, or of thousandths, millionths or billionths of one, since 1970.

use chrono::{DateTime, FixedOffset, TimeZone};

/// The form of a time written as a number.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Number {
    /// The power of ten that the number counts per second: 0 for seconds, 3 for milliseconds.
    pub unit: usize,
    /// Digits behind the decimal point.
    pub digits: usize,
}

/// Digits of a nanosecond.
const MOST: usize = 9;
const SECOND: i128 = 1_000_000_000;

/// Whether a decimal number is negative, and its digits before and behind the point; `None` for another text.
pub fn parts(text: &str) -> Option<(bool, &str, &str)> {
    let positive = text.strip_prefix('-').unwrap_or(text);
    let (whole, fraction) = positive.split_once('.').unwrap_or((positive, ""));
    let is_number = |digits: &str| digits.bytes().all(|digit| digit.is_ascii_digit());
    let is_decimal = !whole.is_empty() && is_number(whole) && is_number(fraction);
    is_decimal.then_some((positive.len() < text.len(), whole, fraction))
}

/// Reads a decimal number, exact to the nanosecond; without a unit its size tells that: seconds until the year 5138.
pub fn read(text: &str, unit: Option<usize>) -> Option<(DateTime<FixedOffset>, Number)> {
    let (is_negative, whole, fraction) = parts(text)?;
    let unit = match (unit, whole.parse::<u128>().ok()?) {
        (Some(unit), _) => unit,
        (None, ..100_000_000_000) => 0,
        (None, ..100_000_000_000_000) => 3,
        (None, ..100_000_000_000_000_000) => 6,
        (None, _) => MOST,
    };
    let most = MOST.checked_sub(unit)?;
    let nanos: i128 = format!("{whole}{fraction:0<most$.most$}").parse().ok()?;
    let nanos = match is_negative {
        true => -nanos,
        false => nanos,
    };
    let seconds = i64::try_from(nanos.div_euclid(SECOND)).ok()?;
    let at = DateTime::from_timestamp(seconds, u32::try_from(nanos.rem_euclid(SECOND)).ok()?)?;
    let digits = fraction.len().min(most);
    Some((at.fixed_offset(), Number { unit, digits }))
}

impl Number {
    /// The number, of which further digits are left out: it is not after the instant.
    pub fn write<Zone: TimeZone>(self, at: &DateTime<Zone>) -> String {
        let nanos = i128::from(at.timestamp()) * SECOND + i128::from(at.timestamp_subsec_nanos());
        let left_out = MOST.saturating_sub(self.unit + self.digits);
        let parts = nanos.div_euclid((0..left_out).fold(1, |power, _| power * 10));
        let mut text = format!("{:0least$}", parts.unsigned_abs(), least = self.digits + 1);
        if self.digits > 0 {
            text.insert(text.len() - self.digits, '.');
        }
        match parts < 0 {
            true => format!("-{text}"),
            false => text,
        }
    }

    pub const fn words(self) -> &'static str {
        match self.unit {
            0 => "seconds since 1970",
            3 => "milliseconds since 1970",
            6 => "microseconds since 1970",
            _ => "nanoseconds since 1970",
        }
    }
}
