//! Records that a response arranges in columns or in rows, as objects.

use std::collections::HashSet;

use serde_json::{Map, Value};

use super::repeated::{Repeated, TooMuchRepeated, size};

/// The member for a value that is not an object: records by name are made of the name and the value.
pub const SCALAR: &str = "value";

/// Why lists are no records.
#[derive(Debug, PartialEq, Eq)]
pub enum NoRecords {
    /// The response has this instead.
    Found(&'static str),
    /// Two fields have this name.
    Twice(String),
    /// The records would repeat too much.
    Repeat(TooMuchRepeated),
}

impl From<TooMuchRepeated> for NoRecords {
    fn from(error: TooMuchRepeated) -> Self {
        Self::Repeat(error)
    }
}

/// One object for each index of the lists that are the members. A member that is no list is in each object.
///
/// # Errors
/// Says what is wrong with the lists.
pub fn from_columns(
    members: Map<String, Value>,
    repeated: &mut Repeated,
) -> Result<Vec<Value>, NoRecords> {
    let mut lengths = members.values().filter_map(Value::as_array).map(Vec::len);
    let Some(length) = lengths.next() else {
        return match members.is_empty() {
            true => Ok(Vec::new()),
            false => Err(NoRecords::Found("an object without lists")),
        };
    };
    if lengths.any(|other| other != length) {
        return Err(NoRecords::Found("lists of different lengths"));
    }
    for (name, member) in &members {
        let shared = if member.is_array() { 0 } else { size(member) };
        repeated.add(name.len().saturating_add(shared), length)?;
    }
    let mut records = vec![Map::new(); length];
    for (name, member) in members {
        match member {
            Value::Array(values) => {
                for (record, value) in records.iter_mut().zip(values) {
                    record.insert(name.clone(), value);
                }
            }
            shared => {
                for record in &mut records {
                    record.insert(name.clone(), shared.clone());
                }
            }
        }
    }
    Ok(records.into_iter().map(Value::Object).collect())
}

/// One object for each list. `fields` names the members; if it is empty, the first list does, and is no record. A list may lack
/// values at its end.
///
/// # Errors
/// Says what is wrong with the lists.
pub fn from_rows(
    rows: Vec<Value>,
    fields: &[String],
    repeated: &mut Repeated,
) -> Result<Vec<Value>, NoRecords> {
    let mut rows = rows.into_iter();
    let names = match fields {
        [] => match rows.next() {
            Some(first) => {
                names_in(&first).ok_or(NoRecords::Found("a first row that is no list of names"))?
            }
            None => return Ok(Vec::new()),
        },
        configured => configured.to_vec(),
    };
    let mut seen = HashSet::new();
    if let Some(name) = names.iter().find(|name| !seen.insert(*name)) {
        return Err(NoRecords::Twice(name.clone()));
    }
    let record = |row: Value| match row {
        Value::Array(values) if values.len() <= names.len() => {
            let used = names.iter().take(values.len());
            repeated.add(used.map(String::len).sum(), 1)?;
            Ok(names.iter().cloned().zip(values).collect())
        }
        Value::Array(_) => Err(NoRecords::Found(
            "a row with more values than there are names",
        )),
        _ => Err(NoRecords::Found("a row that is no list")),
    };
    rows.map(record).collect()
}

fn names_in(row: &Value) -> Option<Vec<String>> {
    let text = |name: &Value| name.as_str().map(str::to_owned);
    row.as_array()?.iter().map(text).collect()
}
