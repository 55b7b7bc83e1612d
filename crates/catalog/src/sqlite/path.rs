//! JSON pointers as SQL expressions.

use crate::either::literal;
use crate::places::{self, is_index};
use ingest_config::Pointer;

/// Splits a pointer: a JSON path for SQL, and a pointer to apply to the value at that path.
pub fn split(pointer: &Pointer) -> (String, Option<Pointer>) {
    let (members, rest) = places::split(pointer);
    (path(members), rest)
}

/// An expression for the value of a pointer in the JSON `document`; for a pointer with a `*`, a JSON array of all values.
/// DuckDB evaluates the views with its own functions: its `json_extract` returns JSON, with quotes around text, and its names
/// of types are in capitals.
pub fn expression(document: &str, tokens: &[String]) -> String {
    let places: Vec<String> = tokens.split(|token| token == "*").map(path).collect();
    match places.as_slice() {
        [place] => format!("{document} ->> {}", literal(place)),
        [arrays @ .., last] => all_values(document, arrays, last),
        [] => "null".to_owned(),
    }
}

/// The same as JSON: a text with its quotes.
pub fn json(document: &str, tokens: &[String]) -> String {
    if tokens.iter().any(|token| token == "*") {
        return expression(document, tokens);
    }
    format!("{document} -> {}", literal(&path(tokens)))
}

/// Walks an array or an object for each `*`. SQLite's `json_each` fails on any other value.
fn all_values(document: &str, arrays: &[String], last: &str) -> String {
    let mut within = document.to_owned();
    let mut walks = Vec::new();
    let mut conditions = Vec::new();
    for (depth, array) in arrays.iter().enumerate() {
        walks.push(format!("json_each({within}, {}) e{depth}", literal(array)));
        conditions.push(format!(
            "lower(json_type({within}, {})) in ('array', 'object')",
            literal(array)
        ));
        within = format!(
            "case when lower(e{depth}.type) in ('array', 'object') then e{depth}.value end"
        );
    }
    let element = format!("e{}", arrays.len().saturating_sub(1));
    let value = if last == "$" {
        format!("case when {within} is null then {element}.value else json({within}) end")
    } else {
        conditions.push(format!(
            "json_type({within}, {}) is not null",
            literal(last)
        ));
        format!("json_extract({within}, {})", literal(last))
    };
    format!(
        "(select coalesce(json_group_array({value}), '[]') from {} where {})",
        walks.join(" cross join "),
        conditions.join(" and ")
    )
}

fn path(tokens: &[String]) -> String {
    tokens.iter().fold("$".to_owned(), |path, token| {
        if is_index(token) {
            format!("{path}[{token}]")
        } else {
            format!("{path}.{}", serde_json::Value::from(token.as_str()))
        }
    })
}
