use std::collections::HashSet;

use serde_json::Value;
use thiserror::Error;

use crate::config::{Pointer, Records};
use crate::record::Record;

/// What is not as it should be in an answer.
#[derive(Debug, PartialEq, Eq, Error)]
pub enum WrongShape {
    #[error("the response contains {found} instead of {expected} (at `{at}`)")]
    Value {
        at: String,
        found: &'static str,
        expected: &'static str,
    },
    #[error("none of the response's {count} records has an id at `{ids}`")]
    NoIds { count: u64, ids: String },
}

/// The records of a page.
#[derive(Debug)]
pub struct Found {
    pub records: Vec<Record>,
    /// Records without an id.
    pub skipped: u64,
    /// Records whose id an earlier one has.
    pub repeated: u64,
    /// How long the answer's list was, whatever of it was kept.
    pub listed: u64,
    /// Whether there was no list, which is as good as an empty one.
    pub lacks_list: bool,
}

/// Takes the records out of an answer: each id once, at its first place.
pub fn take(document: &mut Value, what: &Records) -> Result<Found, WrongShape> {
    let lacks_list = what.at.find(document).is_none();
    let list = list_at(document, what.at.tokens(), &what.at)?;
    let listed = count(&list);
    let mut seen = HashSet::new();
    let mut found = Found {
        records: Vec::new(),
        skipped: 0,
        repeated: 0,
        listed,
        lacks_list: lacks_list && listed == 0,
    };
    for body in list {
        match id_of(&body, &what.id) {
            None => found.skipped += 1,
            Some(id) if seen.insert(id.clone()) => found.records.push(Record { id, body }),
            Some(_) => found.repeated += 1,
        }
    }
    if listed > 0 && found.skipped == listed {
        return Err(WrongShape::NoIds {
            count: listed,
            ids: joined(&what.id),
        });
    }
    Ok(found)
}

/// Takes the list that `tokens` lead to out of its place; an object that lacks the next one holds an empty list.
fn list_at(value: &mut Value, tokens: &[String], at: &Pointer) -> Result<Vec<Value>, WrongShape> {
    let Some((token, rest)) = tokens.split_first() else {
        return match value {
            Value::Array(list) => Ok(std::mem::take(list)),
            other => Err(wrong(at, other, "a list")),
        };
    };
    match value {
        Value::Object(members) => members
            .get_mut(token)
            .map_or(Ok(Vec::new()), |inner| list_at(inner, rest, at)),
        Value::Array(elements) if token == "*" => {
            elements
                .iter_mut()
                .try_fold(Vec::new(), |mut lists, inner| {
                    lists.append(&mut list_at(inner, rest, at)?);
                    Ok(lists)
                })
        }
        Value::Array(elements) => match token.parse::<usize>() {
            Ok(index) => elements
                .get_mut(index)
                .map_or(Ok(Vec::new()), |inner| list_at(inner, rest, at)),
            Err(_) => Err(WrongShape::Value {
                at: at.to_string(),
                found: "an array",
                expected: "an object",
            }),
        },
        other => Err(wrong(at, other, "an object")),
    }
}

/// The id of a record; `None` where a part of it is missing, blank, or holds what no database keeps whole.
fn id_of(record: &Value, parts: &[Pointer]) -> Option<String> {
    let id = |part: &Pointer| {
        part.text_in(record)
            .filter(|id| is_id(id) && !part.find(record).is_some_and(is_inexact))
    };
    let parts: Option<Vec<String>> = parts.iter().map(id).collect();
    let (last, before) = parts.as_deref()?.split_last()?;
    // A slash in the last part is no question: it is left as it is.
    let before = before
        .iter()
        .map(|part| part.replace('%', "%25").replace('/', "%2F") + "/");
    Some(before.collect::<String>() + last)
}

fn is_id(text: &str) -> bool {
    !text.trim().is_empty() && !text.contains('\0')
}

/// Whether a value is a number that others may be taken for: it is no integer, or too large for all its digits to be kept.
pub fn is_inexact(value: &Value) -> bool {
    /// From here on not every integer is a floating-point number.
    const EXACT: f64 = 9_007_199_254_740_992.0;
    match value {
        Value::Number(number) if number.is_f64() => number
            .as_f64()
            .is_none_or(|number| number.fract() != 0.0 || number.abs() >= EXACT),
        _ => false,
    }
}

fn wrong(at: &Pointer, found: &Value, expected: &'static str) -> WrongShape {
    WrongShape::Value {
        at: at.to_string(),
        found: name_of(found),
        expected,
    }
}

pub const fn name_of(value: &Value) -> &'static str {
    match value {
        Value::Null => "null",
        Value::Bool(_) => "true or false",
        Value::Number(_) => "a number",
        Value::String(_) => "a string",
        Value::Array(_) => "an array",
        Value::Object(_) => "an object",
    }
}

fn joined(pointers: &[Pointer]) -> String {
    pointers
        .iter()
        .map(Pointer::as_str)
        .collect::<Vec<_>>()
        .join("`, `")
}

fn count(list: &[Value]) -> u64 {
    u64::try_from(list.len()).unwrap_or(u64::MAX)
}
