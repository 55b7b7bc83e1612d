use serde_json::{Map, Value, json};

use crate::config::read::scalars::{MOST_BYTES, MOST_COUNT, MOST_UNITS};

/// A table of these keys and no others.
pub fn object(keys: &[&str], required: &[&str], describe: impl Fn(&str) -> Value) -> Value {
    let properties: Map<String, Value> = keys
        .iter()
        .map(|key| ((*key).to_owned(), describe(key)))
        .collect();
    let table =
        json!({ "type": "object", "properties": properties, "additionalProperties": false });
    if required.is_empty() {
        table
    } else {
        with(table, "required", json!(required))
    }
}

/// A table of things with names that somebody chose.
pub fn names(of: Value) -> Value {
    json!({ "type": "object", "propertyNames": { "pattern": "^[^{}]{1,200}$" }, "additionalProperties": of })
}

pub fn described(as_what: &str, what: Value) -> Value {
    with(what, "description", as_what)
}

pub fn with(mut what: Value, key: &str, value: impl Into<Value>) -> Value {
    if let Some(members) = what.as_object_mut() {
        members.insert(key.to_owned(), value.into());
    }
    what
}

pub fn one_of(ways: impl IntoIterator<Item = Value>) -> Value {
    json!({ "anyOf": ways.into_iter().collect::<Vec<_>>() })
}

pub fn array(of: Value) -> Value {
    json!({ "type": "array", "items": of })
}

/// One value, or several in a list.
pub fn one_or_more(of: Value) -> Value {
    one_of([of.clone(), with(array(of), "minItems", 1)])
}

pub fn text() -> Value {
    json!({ "type": "string", "minLength": 1 })
}

pub fn pattern(pattern: &str) -> Value {
    json!({ "type": "string", "pattern": pattern })
}

pub fn template() -> Value {
    json!({ "type": ["string", "number", "boolean"] })
}

pub fn pointer() -> Value {
    pattern("^(/([^~]|~[01])*)?$")
}

pub fn duration() -> Value {
    with(pattern("^[0-9]"), "examples", json!(["24h", "7d", "250ms"]))
}

pub fn number(least: u64, most: u64) -> Value {
    json!({ "type": "integer", "minimum": least, "maximum": most })
}

pub fn count() -> Value {
    number(1, MOST_COUNT)
}

pub fn units(least: u64) -> Value {
    number(least, MOST_UNITS)
}

/// Units by limit; a plain number is units of `daily`.
pub fn units_by_limit(least: u64) -> Value {
    one_of([
        units(least),
        json!({ "type": "object", "additionalProperties": units(least) }),
    ])
}

pub fn bytes() -> Value {
    one_of([
        number(1, MOST_BYTES),
        with(
            pattern("^[0-9]+ *(B|[kKMG]B|[KMG]iB)?$"),
            "examples",
            json!(["32MiB"]),
        ),
    ])
}

pub fn word<T>(words: &[(&str, T)]) -> Value {
    json!({ "enum": words.iter().map(|(word, _)| word).collect::<Vec<_>>() })
}
