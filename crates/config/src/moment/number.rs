//! Numbers of seconds, or of thousandths, millionths or billionths of one, since 1970.

use super::{Instant, power};

/// The form of a number.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Number {
    /// A second has `10^unit` of what is counted.
    unit: usize,
    /// The digits behind the decimal point.
    digits: usize,
}

/// From which number on a unit is meant, and the unit; smaller ones are seconds, until the year 5138.
const UNITS: [(u64, usize); 3] = [
    (100_000_000_000_000_000, 9),
    (100_000_000_000_000, 6),
    (100_000_000_000, 3),
];

/// The most digits before and behind the decimal point, so that all arithmetic is exact.
const MOST_DIGITS: usize = 18;
const MOST_BEFORE: usize = 19;

/// Reads a decimal number; without a unit its size tells that.
pub fn read(text: &str, unit: Option<usize>) -> Option<(Instant, Number)> {
    let positive = text.strip_prefix('-').unwrap_or(text);
    let (whole, fraction) = match positive.split_once('.') {
        Some((_, "")) => return None,
        Some(parts) => parts,
        None => (positive, ""),
    };
    let is_number = |digits: &str| digits.bytes().all(|byte| byte.is_ascii_digit());
    if whole.is_empty() || !is_number(whole) || !is_number(fraction) {
        return None;
    }
    let unit = unit.map_or_else(|| unit_of(whole.parse().ok()?), Some)?;
    let digits = fraction.len();
    if whole.len() > MOST_BEFORE || unit + digits > MOST_DIGITS {
        return None;
    }
    let parts: i128 = format!("{whole}{fraction}").parse().ok()?;
    let parts = match positive.len() == text.len() {
        true => parts,
        false => -parts,
    };
    let instant = Instant::new(parts, unit + digits);
    Some((instant, Number { unit, digits }))
}

fn unit_of(whole: u64) -> Option<usize> {
    let found = UNITS.iter().find(|(from, _)| whole >= *from);
    Some(found.map_or(0, |(_, unit)| *unit))
}

impl Number {
    pub const fn new(unit: usize, digits: usize) -> Self {
        Self { unit, digits }
    }

    pub const fn unit(self) -> usize {
        self.unit
    }

    /// The number, of which further digits are left out: it is not after the instant.
    pub fn write(self, instant: &Instant) -> String {
        let count = self.unit + self.digits;
        let fraction: i128 = instant.digits(count).parse().unwrap_or(0);
        let parts = i128::from(instant.seconds)
            .saturating_mul(power(count))
            .saturating_add(fraction);
        let least = self.digits + 1;
        let mut text = format!("{:0least$}", parts.unsigned_abs());
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
