//! The select statement of a kind's view.

use std::collections::BTreeMap;

use super::stored::stored;
use crate::either::{first_of, literal, view_of};
use ingest_config::{Column, ColumnType};

/// The longest name of PostgreSQL, in bytes.
const LONGEST_NAME: usize = 63;

/// The name of a kind's view.
pub fn view(upstream: &str, kind: &str) -> String {
    fitted(&format!("{upstream}_{kind}"))
}

/// The definition of a kind's view; `None` for a kind without columns.
pub fn definition(
    upstream: &str,
    kind: &str,
    columns: &BTreeMap<String, Vec<Column>>,
) -> Option<String> {
    if columns.is_empty() {
        return None;
    }
    let own = columns.iter();
    let own: Vec<_> = own
        .map(|(column, places)| (fitted(column), value_of(places)))
        .collect();
    Some(view_of(&stored(upstream), &stored(kind), &own))
}

/// A name that PostgreSQL does not cut: a long one ends in its hash.
fn fitted(name: &str) -> String {
    let name = name.replace('\0', "\u{FFFD}");
    if name.len() <= LONGEST_NAME {
        return name;
    }
    let hash = format!("_{:016x}", ingest_base::fnv::fnv(&name));
    let kept = (0..=LONGEST_NAME - hash.len())
        .rev()
        .find_map(|end| name.get(..end));
    format!("{}{hash}", kept.unwrap_or_default())
}

/// The first place that has a value. Places of different types are text.
fn value_of(places: &[Column]) -> String {
    let kinds: Vec<Option<ColumnType>> = places.iter().map(|column| column.kind).collect();
    let is_one_type = kinds.windows(2).all(|pair| pair.first() == pair.last());
    first_of(places.iter().map(|column| match is_one_type {
        true => typed(column),
        false => format!("({})::text", typed(column)),
    }))
}

fn typed(column: &Column) -> String {
    let tokens = column.at.tokens();
    match column.kind {
        None | Some(ColumnType::Text) => text(tokens),
        Some(ColumnType::Json) => json(tokens),
        Some(ColumnType::Integer) => format!("as_integer({})", text(tokens)),
        Some(ColumnType::Real) => format!("as_real({})", text(tokens)),
        Some(ColumnType::Boolean) => format!("as_boolean({})", text(tokens)),
        Some(ColumnType::Timestamp) => format!("as_time({})", text(tokens)),
    }
}

/// The value of a pointer as text; for a pointer with a `*`, a JSON array of all values.
fn text(tokens: &[String]) -> String {
    let places: Vec<&[String]> = tokens.split(|token| token == "*").collect();
    match places.as_slice() {
        [arrays @ .., last] if !arrays.is_empty() => all_values(arrays, last),
        _ => format!("json_of(record.body) #>> {}", path(tokens)),
    }
}

fn json(tokens: &[String]) -> String {
    match tokens.iter().any(|token| token == "*") {
        true => format!("{}::json", text(tokens)),
        false => format!("json_of(record.body) #> {}", path(tokens)),
    }
}

/// Walks the members of an array or an object for each `*`.
fn all_values(arrays: &[&[String]], last: &[String]) -> String {
    let mut within = "json_of(record.body)".to_owned();
    let (mut walks, mut order) = (Vec::new(), Vec::new());
    for (depth, array) in arrays.iter().enumerate() {
        walks.push(format!(
            "members_of({within} #> {}) with ordinality e{depth} (value, place)",
            path(array)
        ));
        order.push(format!("e{depth}.place"));
        within = format!("e{depth}.value");
    }
    let value = match last.is_empty() {
        true => within,
        false => format!("{within} #> {}", path(last)),
    };
    format!(
        "(select '[' || coalesce(string_agg(({value})::text, ',' order by {}), '') || ']' from {})",
        order.join(", "),
        walks.join(" cross join lateral ")
    )
}

fn path(tokens: &[String]) -> String {
    let tokens: Vec<String> = tokens.iter().map(|token| literal(token)).collect();
    format!("array[{}]::text[]", tokens.join(", "))
}
