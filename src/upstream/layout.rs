//! Records that a response arranges in columns or in rows, as objects.

use serde_json::{Map, Value};

/// One object for each index of the lists that are the members. A member that is no list is in each object.
///
/// # Errors
/// Says what is wrong with the lists.
pub fn from_columns(members: Map<String, Value>) -> Result<Vec<Value>, &'static str> {
    let mut lengths = members.values().filter_map(Value::as_array).map(Vec::len);
    let Some(length) = lengths.next() else {
        return match members.is_empty() {
            true => Ok(Vec::new()),
            false => Err("an object without lists"),
        };
    };
    if lengths.any(|other| other != length) {
        return Err("lists of different lengths");
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

/// One object for each list but the first one, which names the members. A list may lack values at its end.
///
/// # Errors
/// Says what is wrong with the lists.
pub fn from_rows(rows: Vec<Value>) -> Result<Vec<Value>, &'static str> {
    let mut rows = rows.into_iter();
    let Some(first) = rows.next() else {
        return Ok(Vec::new());
    };
    let names: Option<Vec<String>> = first.as_array().and_then(|names| {
        let text = |name: &Value| name.as_str().map(str::to_owned);
        names.iter().map(text).collect()
    });
    let names = names.ok_or("a first row that is no list of names")?;
    let record = |row: Value| match row {
        Value::Array(values) if values.len() <= names.len() => {
            Ok(names.iter().cloned().zip(values).collect())
        }
        Value::Array(_) => Err("a row with more values than there are names"),
        _ => Err("a row that is no list"),
    };
    rows.map(record).collect()
}
