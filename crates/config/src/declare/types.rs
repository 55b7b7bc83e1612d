//! The types of single values: durations, units, pointers, templates and the like.

use std::path::PathBuf;
use std::time::Duration;

use serde_json::json;

use super::{Leaf, Shape, Type};
use crate::item::{self, Item};
use crate::pointer::PointerError;
use crate::tree::Kind;
use crate::{Pointer, Template};
use ingest_quota::{Cost, Units};

pub const TEXT: Leaf<String> = Leaf {
    read: |item| item.filled_text(),
    shape: || Shape::scalar("string", json!({ "type": "string", "minLength": 1 })),
};
pub const FILE: Leaf<PathBuf> = Leaf {
    read: |item| item.filled_text().map(PathBuf::from),
    shape: || Shape::scalar("path", json!({ "type": "string", "minLength": 1 })),
};
pub const TRUTH: Leaf<bool> = Leaf {
    read: |item| item.truth(),
    shape: || Shape::scalar("true or false", json!({ "type": "boolean" })),
};
/// A string; a number or a boolean is the text that it is written as.
pub const SCALAR: Leaf<String> = Leaf {
    read: |item| item.as_text(),
    shape: || {
        let schema = json!({ "type": ["string", "number", "boolean"] });
        Shape::scalar("string, number or boolean", schema)
    },
};
/// A whole number from 1.
pub const COUNT: Leaf<u64> = whole::<_, 1, 1_000_000_000>();
/// A whole number from 0, for numbers of pages.
pub const PAGES: Leaf<u64> = whole::<_, 0, 1_000_000>();
pub const BYTES: Leaf<u64> = Leaf {
    read: bytes,
    shape: || {
        let text = json!({ "type": "string", "pattern": "^[0-9]+ *(B|[kKMG]B|[KMG]iB)?$" });
        let number = json!({ "type": "integer", "minimum": 1, "maximum": MOST_BYTES });
        Shape::scalar("size in bytes", json!({ "anyOf": [number, text] }))
    },
};
/// A span of time that is not zero.
pub const DURATION: Leaf<Duration> = Leaf {
    read: duration,
    shape: || span("duration"),
};
/// A span of time, zero included.
pub const DURATION_OR_ZERO: Leaf<Duration> = Leaf {
    read: any_duration,
    shape: || span("duration, zero included"),
};
/// Units, zero included.
pub const UNITS: Leaf<Units> = whole::<_, 0, MOST_UNITS>();
/// Units of a limit, at least 1.
pub const SOME_UNITS: Leaf<Units> = whole::<_, 1, MOST_UNITS>();
/// Units by limit; a plain number is units of the limit that is named `daily`.
pub const COST: Leaf<Cost> = Leaf {
    read: |item| units_by_limit(item, &SOME_UNITS),
    shape: || by_limit(&SOME_UNITS),
};
/// The same, zero included.
pub const LEAVE: Leaf<Cost> = Leaf {
    read: |item| units_by_limit(item, &UNITS),
    shape: || by_limit(&UNITS),
};
pub const POINTER: Leaf<Pointer> = Leaf {
    read: pointer,
    shape: || {
        let schema = json!({ "type": "string", "pattern": "^(/([^~]|~[01])*)?$" });
        Shape::scalar("JSON pointer", schema)
    },
};
/// A template; numbers and booleans are the text that they are written as.
pub const TEMPLATE: Leaf<Template> = Leaf {
    read: template,
    shape: || {
        let schema = json!({ "type": ["string", "number", "boolean"] });
        Shape::scalar("template", schema)
    },
};

/// A whole number from `LEAST` to `MOST`.
pub const fn whole<T: TryFrom<u64>, const LEAST: u64, const MOST: u64>() -> Leaf<T> {
    Leaf {
        read: |item| T::try_from(item.number(LEAST..=MOST)?).ok(),
        shape: || {
            let schema = json!({ "type": "integer", "minimum": LEAST, "maximum": MOST });
            Shape::scalar(&format!("integer from {LEAST}"), schema)
        },
    }
}

fn span(label: &str) -> Shape {
    Shape::scalar(label, json!({ "type": "string", "pattern": "^[0-9]" }))
}

fn by_limit(units: &Leaf<Units>) -> Shape {
    let units = units.shape().schema;
    let table = json!({ "type": "object", "additionalProperties": units });
    Shape::scalar(
        "integer (units of the limit `daily`), or table of units by limit",
        json!({ "anyOf": [units, table] }),
    )
}

/// More than any quota, and few enough that every ledger can count them exactly.
const MOST_UNITS: u64 = 1_000_000_000_000_000;
const LONGEST: Duration = Duration::from_secs(100 * 366 * 24 * 60 * 60);
const MOST_BYTES: u64 = 1 << 40;

/// Checks a name that the file chooses: it becomes part of the ledger's keys and of messages.
pub fn name(item: &Item<'_>) -> Option<()> {
    let name = item.name();
    // Braces in a name would end the hash tag that keeps the keys of an account in one slot of a Redis cluster.
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
fn duration(item: Item<'_>) -> Option<Duration> {
    match any_duration(item.clone())? {
        Duration::ZERO => item.refuse(
            "expected a duration longer than zero",
            "write for example \"24h\" or \"250ms\"",
        ),
        duration => Some(duration),
    }
}

/// A span of time, zero included.
fn any_duration(item: Item<'_>) -> Option<Duration> {
    let example = "write for example \"24h\", \"7d\" or \"250ms\"";
    let Kind::Text(text) = item.kind() else {
        return item.refuse("expected a duration", example);
    };
    match humantime::parse_duration(text) {
        Ok(duration) if duration > LONGEST => {
            item.refuse("expected a duration of at most 100 years", example)
        }
        // Every ledger counts in microseconds (L2).
        Ok(duration) if duration.subsec_nanos() % 1000 != 0 => {
            item.refuse("expected a duration in whole microseconds", example)
        }
        Ok(duration) => Some(duration),
        Err(_) => item.refuse("expected a duration", example),
    }
}

/// A number of bytes: `"32MiB"`, or a plain number.
fn bytes(item: Item<'_>) -> Option<u64> {
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

fn units_by_limit(item: Item<'_>, units: &Leaf<Units>) -> Option<Cost> {
    if item.is_number() {
        let units = units.read(item);
        return units.map(|units| Cost::from_iter([("daily".to_owned(), units)]));
    }
    if !item.is_table() {
        return item.refuse(
            "expected units for each limit",
            "write for example { daily = 1 }",
        );
    }
    let component = |entry: Item<'_>| Some((entry.name().to_owned(), units.read(entry)?));
    let components: Option<Vec<_>> = item::all(item.entries()?.into_iter().map(component));
    components.map(Cost::from_iter)
}

fn pointer(item: Item<'_>) -> Option<Pointer> {
    let text = item.text()?;
    match Pointer::parse(text) {
        Ok(pointer) => Some(pointer),
        Err(PointerError::NoSlash) => {
            let expected = "expected a JSON pointer: empty, or starting with `/`";
            item.refuse(expected, meant(text))
        }
        Err(error) => item.refuse(error, format!("write {:?}", escaped(text))),
    }
}

/// The pointer that a text without a slash means. A dot leads to a member in a JSONPath such as `$.page.next`, and is a part of
/// the name in an annotation such as `@odata.nextLink` or in quotes.
fn meant(text: &str) -> String {
    let is_path = text.starts_with('$');
    let parts = text.trim_start_matches(['$', '.', '/']).split(['[', ']']);
    let names: Vec<String> = parts.flat_map(members).collect();
    let pointer = escaped(&names.join("/"));
    if is_path || names.len() < 2 || text.contains(['@', '[']) {
        return format!("write \"/{pointer}\"");
    }
    format!(
        "write \"/{pointer}\", or \"/{}\" if that is the name of one member",
        escaped(text)
    )
}

/// The names in a part of a path that has no brackets.
fn members(part: &str) -> Vec<String> {
    let name = part.trim_matches(['\'', '"']);
    if name != part {
        return vec![name.to_owned()];
    }
    let (before, annotation) = part.split_at(part.find('@').unwrap_or(part.len()));
    let mut names: Vec<String> = before.split('.').map(str::to_owned).collect();
    if let Some(last) = names.last_mut() {
        last.push_str(annotation);
    }
    names.retain(|name| !name.is_empty());
    names
}

/// The pointer in which every `~` that escapes nothing is escaped itself.
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

/// A template; numbers and booleans are the text that they are written as.
pub fn template(item: Item<'_>) -> Option<Template> {
    match Template::parse(&item.as_text()?) {
        Ok(template) => Some(template),
        Err(error) => item.refuse(error, "write for example \"{region}\""),
    }
}
