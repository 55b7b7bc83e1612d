//! Parameters and columns of statements.
//!
//! PostgreSQL's `text` cannot contain U+0000, which ids, cursors and names can. It is stored as U+001A and `0`, and U+001A
//! itself as U+001A and `1`. Bodies need none of that, since JSON escapes both.

use std::borrow::Cow;

use chrono::{DateTime, Utc};
use tokio_postgres::Row;
use tokio_postgres::types::{FromSql, ToSql, Type};
use uuid::Uuid;

use super::{Parameter, PostgresError};
use crate::values::clamped;
use ingest_quota::Timestamp;

const ESCAPE: char = '\u{1A}';

/// A value with the type under which it is sent. Text is a `Cow`: see [`stored`].
pub trait Parametric: ToSql + Sync + Sized {
    const TYPE: Type;

    fn parameter(&self) -> Parameter<'_> {
        (self, Self::TYPE)
    }
}

/// A value that an array can hold.
pub trait Element: ToSql + Sync {
    const ARRAY: Type;
}

macro_rules! parametric {
    ($($rust:ty: $type:ident $array:ident),*) => {
        $(
            impl Parametric for $rust {
                const TYPE: Type = Type::$type;
            }
            impl Element for $rust {
                const ARRAY: Type = Type::$array;
            }
            impl Element for Option<$rust> {
                const ARRAY: Type = Type::$array;
            }
        )*
    };
}

parametric! {
    i64: INT8 INT8_ARRAY,
    bool: BOOL BOOL_ARRAY,
    Cow<'_, str>: TEXT TEXT_ARRAY,
    DateTime<Utc>: TIMESTAMPTZ TIMESTAMPTZ_ARRAY,
    Uuid: UUID UUID_ARRAY
}

impl<T: Parametric> Parametric for Option<T> {
    const TYPE: Type = T::TYPE;
}

impl<T: Element> Parametric for Vec<T> {
    const TYPE: Type = T::ARRAY;
}

/// The parameters of a statement, in its order.
macro_rules! parameters {
    ($($value:expr),* $(,)?) => {
        &[$($crate::postgres::sql::Parametric::parameter(&$value)),*]
    };
}
pub(super) use parameters;

/// A text as it is stored.
pub fn stored(text: &str) -> Cow<'_, str> {
    if !text.contains(['\0', ESCAPE]) {
        return Cow::Borrowed(text);
    }
    Cow::Owned(text.replace(ESCAPE, "\u{1A}1").replace('\0', "\u{1A}0"))
}

/// The bytes of the longest id that is stored. An entry of an index has 2,704 at most, and one of `listing` has three ids.
const LONGEST_ID: usize = 800;

/// Whether an id fits in the indexes.
pub fn takes_id(id: &str) -> bool {
    stored(id).len() <= LONGEST_ID
}

/// Text that can contain no U+0000, such as JSON.
pub fn as_is(text: &str) -> Cow<'_, str> {
    Cow::Borrowed(text)
}

/// A time as it is stored.
pub fn time(at: Timestamp) -> DateTime<Utc> {
    clamped(at).to_utc()
}

/// A stored text as it was.
pub fn restored(text: &str) -> String {
    if !text.contains(ESCAPE) {
        return text.to_owned();
    }
    text.replace("\u{1A}0", "\0").replace("\u{1A}1", "\u{1A}")
}

/// Reads values of the server's own types.
pub trait Values {
    /// Reads a column of any type, null if its type says so.
    fn value<'r, T: FromSql<'r>>(&'r self, column: usize) -> Result<T, PostgresError>;
}

impl Values for Row {
    fn value<'r, T: FromSql<'r>>(&'r self, column: usize) -> Result<T, PostgresError> {
        Ok(self.try_get(column)?)
    }
}
