//! How values are stored in columns: times as text that sorts, costs and lists as JSON.

use rusqlite::types::{Type, ValueRef};
use rusqlite::{Error, Row};

use crate::rows::Columns;
use crate::values;
use ingest_config::Slice;
use ingest_quota::Timestamp;

/// Formats a time as RFC 3339 of a fixed width. A time whose year does not have four digits becomes the nearest one that
/// has.
pub fn time(at: Timestamp) -> String {
    values::clamped(at).to_string()
}

/// The edges of a slice as columns.
pub fn slice(slice: Option<Slice>) -> (Option<String>, Option<String>) {
    (
        slice.map(|slice| time(slice.from)),
        slice.map(|slice| time(slice.to)),
    )
}

impl Columns for Row<'_> {
    type Error = Error;

    fn integer(&self, column: usize) -> rusqlite::Result<i64> {
        self.get(column)
    }

    fn truth(&self, column: usize) -> rusqlite::Result<bool> {
        self.get(column)
    }

    fn text(&self, column: usize) -> rusqlite::Result<String> {
        self.get(column)
    }

    fn optional_text(&self, column: usize) -> rusqlite::Result<Option<String>> {
        self.get(column)
    }

    fn verbatim(&self, column: usize) -> rusqlite::Result<&str> {
        Ok(self.get_ref(column)?.as_str()?)
    }

    fn time(&self, column: usize) -> rusqlite::Result<Timestamp> {
        let text = self.verbatim(column)?;
        Timestamp::parse(text).ok_or_else(|| {
            let why = format!("`{text}` is not RFC 3339");
            Error::FromSqlConversionFailure(column, Type::Text, why.into())
        })
    }

    fn optional_time(&self, column: usize) -> rusqlite::Result<Option<Timestamp>> {
        match self.get_ref(column)? {
            ValueRef::Null => Ok(None),
            _ => self.time(column).map(Some),
        }
    }

    fn unusable(column: usize, _: &str, error: serde_json::Error) -> Error {
        Error::FromSqlConversionFailure(column, Type::Text, error.into())
    }
}
