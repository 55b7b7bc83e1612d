//! Single values: what is written as text or as a number and means more.

use std::time::Duration;

use crate::config::item::Item;
use crate::config::names::choice;
use crate::config::pointer::PointerError;
use crate::config::tree::Kind;
use crate::config::{Pointer, Template};
use crate::quota::{Cost, Units};

/// More than any quota, and few enough that every ledger counts them exactly.
pub const MOST_UNITS: u64 = 1_000_000_000_000_000;
const LONGEST: Duration = Duration::from_secs(100 * 366 * 24 * 60 * 60);
pub const MOST_BYTES: u64 = 1 << 40;
pub const MOST_COUNT: u64 = 1_000_000_000;

/// Checks a key that somebody chose: it becomes part of the ledger's keys and of messages.
pub fn name(item: &Item<'_>) -> Option<()> {
    let name = item.name();
    if name.is_empty()
        || name.len() > 200
        || name
            .chars()
            .any(|letter| letter.is_control() || "{}".contains(letter))
    {
        return item.refuse(
            "expected a name of 1 to 200 bytes without braces and control characters",
            "write another name",
        );
    }
    Some(())
}

/// A span of time that is not zero.
pub fn duration(item: Item<'_>) -> Option<Duration> {
    match any_duration(item.clone())? {
        Duration::ZERO => item.refuse(
            "expected a duration longer than zero",
            "write for example \"24h\" or \"250ms\"",
        ),
        duration => Some(duration),
    }
}

/// A span of time, zero included.
pub fn any_duration(item: Item<'_>) -> Option<Duration> {
    let example = "write for example \"24h\", \"7d\" or \"250ms\"";
    let Kind::Text(text) = item.kind() else {
        return item.refuse("expected a duration", example);
    };
    match humantime::parse_duration(text) {
        Ok(duration) if duration > LONGEST => {
            item.refuse("expected a duration of at most 100 years", example)
        }
        Ok(duration) if duration.subsec_nanos() % 1000 != 0 => {
            item.refuse("expected a duration in whole microseconds", example)
        }
        Ok(duration) => Some(duration),
        Err(_) => item.refuse("expected a duration", example),
    }
}

/// A whole number from 1.
pub fn count(item: Item<'_>) -> Option<u64> {
    item.number(1..=MOST_COUNT)
}

/// A number of bytes: `"32MiB"`, or a plain number.
pub fn bytes(item: Item<'_>) -> Option<u64> {
    if item.is_number() {
        return item.number(1..=MOST_BYTES);
    }
    let text = item.text()?;
    let digits = text.len()
        - text
            .trim_start_matches(|letter: char| letter.is_ascii_digit())
            .len();
    let (number, unit) = text.split_at(digits);
    let factor = match unit.trim() {
        "" | "B" => Some(1),
        "kB" | "KB" => Some(1000),
        "MB" => Some(1_000_000),
        "GB" => Some(1_000_000_000),
        "KiB" => Some(1 << 10),
        "MiB" => Some(1 << 20),
        "GiB" => Some(1_u64 << 30),
        _ => None,
    };
    let bytes = number
        .parse::<u64>()
        .ok()
        .zip(factor)
        .and_then(|(number, factor)| number.checked_mul(factor));
    let bytes = bytes.filter(|bytes| (1..=MOST_BYTES).contains(bytes));
    bytes.or_else(|| {
        item.refuse(
            "expected a number of bytes from 1 to 1024GiB",
            "write for example \"32MiB\"",
        )
    })
}

/// Units, zero included.
pub fn units(item: Item<'_>) -> Option<Units> {
    item.number(0..=MOST_UNITS).map(Units::new)
}

/// Units of a limit, at least 1.
pub fn some_units(item: Item<'_>) -> Option<Units> {
    item.number(1..=MOST_UNITS).map(Units::new)
}

/// Units by limit; a plain number is units of the limit that is named `daily`.
pub fn cost(item: Item<'_>) -> Option<Cost> {
    units_by_limit(item, some_units)
}

/// Units by limit, of which some may be zero; a plain number is units of the limit that is named `daily`.
pub fn leave(item: Item<'_>) -> Option<Cost> {
    units_by_limit(item, units)
}

fn units_by_limit(item: Item<'_>, units: fn(Item<'_>) -> Option<Units>) -> Option<Cost> {
    if item.is_number() {
        return units(item).map(|units| Cost::from_iter([("daily".to_owned(), units)]));
    }
    if !item.is_table() {
        return item.refuse(
            "expected units for each limit",
            "write for example { daily = 1 }",
        );
    }
    let component = |entry: Item<'_>| Some((entry.name().to_owned(), units(entry)?));
    let components: Option<Vec<_>> =
        crate::config::item::all(item.entries()?.into_iter().map(component));
    components.map(Cost::from_iter)
}

pub fn pointer(item: Item<'_>) -> Option<Pointer> {
    let text = item.text()?;
    match Pointer::parse(text) {
        Ok(pointer) => Some(pointer),
        Err(PointerError::NoSlash) => {
            let meant = text.trim_start_matches(['$', '.', '/']).replace('.', "/");
            item.refuse(
                "expected a JSON pointer: empty, or starting with `/`",
                format!("write \"/{meant}\""),
            )
        }
        Err(error) => item.refuse(error, format!("write {:?}", escaped(text))),
    }
}

/// The pointer in which every `~` that is no escape is a `~`.
fn escaped(text: &str) -> String {
    let mut parts = text.split('~');
    let first = parts.next().unwrap_or_default().to_owned();
    parts.fold(first, |done, part| {
        done + if part.starts_with(['0', '1']) {
            "~"
        } else {
            "~0"
        } + part
    })
}

pub fn pointers(item: Item<'_>) -> Option<Vec<Pointer>> {
    crate::config::item::all(item.one_or_more()?.into_iter().map(pointer))
}

/// A template; numbers and booleans are the text that they are written as.
pub fn template(item: Item<'_>) -> Option<Template> {
    match Template::parse(&item.as_text()?) {
        Ok(template) => Some(template),
        Err(error) => item.refuse(error, "write for example \"{region}\""),
    }
}

/// One of some words.
pub fn word<T: Copy>(item: &Item<'_>, words: &[(&str, T)]) -> Option<T> {
    let text = item.text()?;
    let known: Vec<&str> = words.iter().map(|(word, _)| *word).collect();
    let found = words
        .iter()
        .find(|(word, _)| *word == text)
        .map(|(_, meaning)| *meaning);
    found.or_else(|| {
        item.refuse(
            format!("expected {}", choice(&known)),
            crate::config::names::advice(text, known),
        )
    })
}
