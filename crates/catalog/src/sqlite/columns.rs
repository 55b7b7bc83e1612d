//! How values are stored in columns: times as text that sorts, costs and lists as JSON.

use rusqlite::types::{Type, ValueRef};
use rusqlite::{Error, Row};
use serde::de::DeserializeOwned;

use crate::values;
use ingest_config::Slice;
use ingest_quota::{Cost, Timestamp};

/// Formats a time as RFC 3339 of a fixed width. A time whose year does not have four digits becomes the nearest one that
/// has.
pub fn time(at: Timestamp) -> String {
    values::clamped(at).to_string()
}

/// Reads a column that holds a time.
pub fn read_time(row: &Row<'_>, column: usize) -> rusqlite::Result<Timestamp> {
    let text = row.get_ref(column)?.as_str()?;
    Timestamp::parse(text).ok_or_else(|| {
        let why = format!("`{text}` is not RFC 3339");
        Error::FromSqlConversionFailure(column, Type::Text, why.into())
    })
}

/// Reads a column that holds a time or null.
pub fn read_optional_time(row: &Row<'_>, column: usize) -> rusqlite::Result<Option<Timestamp>> {
    match row.get_ref(column)? {
        ValueRef::Null => Ok(None),
        _ => read_time(row, column).map(Some),
    }
}

/// Reads two columns that hold the edges of a slice, or null.
pub fn read_slice(row: &Row<'_>, column: usize) -> rusqlite::Result<Option<Slice>> {
    let edges = (
        read_optional_time(row, column)?,
        read_optional_time(row, column + 1)?,
    );
    Ok(match edges {
        (Some(from), Some(to)) => Some(Slice { from, to }),
        _ => None,
    })
}

/// The edges of a slice as columns.
pub fn slice(slice: Option<Slice>) -> (Option<String>, Option<String>) {
    (
        slice.map(|slice| time(slice.from)),
        slice.map(|slice| time(slice.to)),
    )
}

/// Reads a column that holds JSON.
pub fn read_json<T: DeserializeOwned>(row: &Row<'_>, column: usize) -> rusqlite::Result<T> {
    serde_json::from_str(row.get_ref(column)?.as_str()?)
        .map_err(|error| Error::FromSqlConversionFailure(column, Type::Text, error.into()))
}

/// Reads a column that holds a cost.
pub fn read_cost(row: &Row<'_>, column: usize) -> rusqlite::Result<Cost> {
    values::cost(row.get_ref(column)?.as_str()?)
        .map_err(|error| Error::FromSqlConversionFailure(column, Type::Text, error.into()))
}
