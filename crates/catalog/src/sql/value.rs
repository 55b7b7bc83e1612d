//! Values of statements, and rows.

use std::borrow::Cow;
use std::sync::Arc;

use rusqlite::types::Value as Stored;
use serde::de::DeserializeOwned;

use super::StoreError;
use crate::postgres::restored;
use crate::values::{cost, doubts, integer};
use ingest_base::record::Doubted;
use ingest_config::Slice;
use ingest_quota::{Cost, Timestamp};

/// A value of a statement; `None` is null.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum Value<'v> {
    Integer(Option<i64>),
    Truth(Option<bool>),
    Text(Option<Cow<'v, str>>),
    Time(Option<Timestamp>),
    /// A list for `{any ?1}`.
    Integers(Vec<i64>),
    /// A list, or a path in JSON, for PostgreSQL alone.
    Texts(Vec<String>),
}

impl Value<'_> {
    /// The same value, which borrows nothing.
    pub fn into_owned(self) -> Value<'static> {
        match self {
            Self::Integer(value) => Value::Integer(value),
            Self::Truth(value) => Value::Truth(value),
            Self::Text(value) => Value::Text(value.map(|text| Cow::Owned(text.into_owned()))),
            Self::Time(value) => Value::Time(value),
            Self::Integers(values) => Value::Integers(values),
            Self::Texts(values) => Value::Texts(values),
        }
    }
}

macro_rules! value_from {
    ($($of:ty: $value:ident => $variant:expr;)*) => {
        $(
            impl<'v> From<$of> for Value<'v> {
                fn from($value: $of) -> Self {
                    $variant
                }
            }
        )*
    };
}

value_from! {
    i64: value => Self::Integer(Some(value));
    u64: value => Self::Integer(Some(integer(value)));
    usize: value => Self::Integer(Some(integer(value as u64)));
    Option<i64>: value => Self::Integer(value);
    bool: value => Self::Truth(Some(value));
    Option<bool>: value => Self::Truth(value);
    &'v str: value => Self::Text(Some(Cow::Borrowed(value)));
    &'v String: value => Self::Text(Some(Cow::Borrowed(value)));
    &'v &'v str: value => Self::Text(Some(Cow::Borrowed(value)));
    &'v Arc<str>: value => Self::Text(Some(Cow::Borrowed(value)));
    String: value => Self::Text(Some(Cow::Owned(value)));
    Option<&'v str>: value => Self::Text(value.map(Cow::Borrowed));
    Option<&'v String>: value => Self::Text(value.map(|text| Cow::Borrowed(text.as_str())));
    &'v Option<String>: value => Self::Text(value.as_deref().map(Cow::Borrowed));
    Timestamp: value => Self::Time(Some(value));
    Option<Timestamp>: value => Self::Time(value);
    Vec<i64>: value => Self::Integers(value);
}

/// The values of a statement, in its order.
macro_rules! values {
    ($($value:expr),* $(,)?) => {
        vec![$($crate::sql::Value::from($value)),*]
    };
}
pub(crate) use values;

/// A row.
pub struct Row {
    pub cells: Cells,
    /// The place of its key in a statement that is asked for each of several keys.
    pub place: usize,
}

/// The columns of a row, as its database stores them.
pub enum Cells {
    Sqlite(Vec<Stored>),
    Postgres(tokio_postgres::Row),
}

impl Row {
    pub fn integer(&self, column: usize) -> Result<i64, StoreError> {
        self.optional_integer(column)?
            .ok_or_else(|| unusable(column, "null"))
    }

    pub fn optional_integer(&self, column: usize) -> Result<Option<i64>, StoreError> {
        match &self.cells {
            Cells::Sqlite(cells) => match cells.get(column) {
                Some(Stored::Integer(number)) => Ok(Some(*number)),
                Some(Stored::Null) => Ok(None),
                _ => Err(unusable(column, "no number")),
            },
            Cells::Postgres(row) => of_server(row.try_get(column)),
        }
    }

    /// Reads a number that is not negative.
    pub fn count(&self, column: usize) -> Result<u64, StoreError> {
        Ok(u64::try_from(self.integer(column)?).unwrap_or(0))
    }

    /// Reads the index of a step.
    pub fn step(&self, column: usize) -> Result<usize, StoreError> {
        Ok(usize::try_from(self.count(column)?).unwrap_or(usize::MAX))
    }

    pub fn truth(&self, column: usize) -> Result<bool, StoreError> {
        Ok(self.optional_truth(column)?.unwrap_or(false))
    }

    pub fn optional_truth(&self, column: usize) -> Result<Option<bool>, StoreError> {
        match &self.cells {
            Cells::Sqlite(_) => Ok(self.optional_integer(column)?.map(|number| number != 0)),
            Cells::Postgres(row) => of_server(row.try_get(column)),
        }
    }

    /// Reads a text as it was before it was stored.
    pub fn text(&self, column: usize) -> Result<String, StoreError> {
        self.optional_text(column)?
            .ok_or_else(|| unusable(column, "null"))
    }

    pub fn optional_text(&self, column: usize) -> Result<Option<String>, StoreError> {
        Ok(match &self.cells {
            Cells::Sqlite(_) => self.optional_str(column)?.map(str::to_owned),
            Cells::Postgres(_) => self.optional_str(column)?.map(restored),
        })
    }

    /// Reads a text that both databases store as it is, such as JSON.
    pub fn verbatim(&self, column: usize) -> Result<&str, StoreError> {
        self.optional_str(column)?
            .ok_or_else(|| unusable(column, "null"))
    }

    fn optional_str(&self, column: usize) -> Result<Option<&str>, StoreError> {
        match &self.cells {
            Cells::Sqlite(cells) => match cells.get(column) {
                Some(Stored::Text(text)) => Ok(Some(text)),
                Some(Stored::Null) => Ok(None),
                _ => Err(unusable(column, "no text")),
            },
            Cells::Postgres(row) => of_server(row.try_get(column)),
        }
    }

    pub fn time(&self, column: usize) -> Result<Timestamp, StoreError> {
        self.optional_time(column)?
            .ok_or_else(|| unusable(column, "null"))
    }

    pub fn optional_time(&self, column: usize) -> Result<Option<Timestamp>, StoreError> {
        match &self.cells {
            Cells::Sqlite(_) => {
                let parse = |text: &str| {
                    Timestamp::parse(text)
                        .ok_or_else(|| unusable(column, &format!("`{text}` is not RFC 3339")))
                };
                self.optional_str(column)?.map(parse).transpose()
            }
            Cells::Postgres(row) => {
                let at: Option<chrono::DateTime<chrono::Utc>> = of_server(row.try_get(column))?;
                Ok(at.map(Into::into))
            }
        }
    }

    pub fn json<T: DeserializeOwned>(&self, column: usize) -> Result<T, StoreError> {
        serde_json::from_str(self.verbatim(column)?)
            .map_err(|error| unusable(column, &error.to_string()))
    }

    pub fn cost(&self, column: usize) -> Result<Cost, StoreError> {
        cost(self.verbatim(column)?).map_err(|error| unusable(column, &error.to_string()))
    }

    /// Reads doubts, or null.
    pub fn doubts(&self, column: usize) -> Result<Vec<Doubted>, StoreError> {
        Ok(doubts(self.optional_text(column)?.as_deref()))
    }

    /// Reads two columns that hold the edges of a slice, or null.
    pub fn slice(&self, column: usize) -> Result<Option<Slice>, StoreError> {
        let edges = self.optional_time(column)?;
        let edges = edges.zip(self.optional_time(column + 1)?);
        Ok(edges.map(|(from, to)| Slice { from, to }))
    }
}

fn of_server<T>(read: Result<T, tokio_postgres::Error>) -> Result<T, StoreError> {
    read.map_err(|error| StoreError::Postgres(error.into()))
}

fn unusable(column: usize, why: &str) -> StoreError {
    StoreError::Unusable(format!("column {column} of a row cannot be used: {why}"))
}
