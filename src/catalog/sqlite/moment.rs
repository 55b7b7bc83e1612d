//! Times as text that sorts.

use rusqlite::types::Type;

use crate::quota::Timestamp;

/// 0000-01-01T00:00:00Z, and the last microsecond of 9999: outside these RFC 3339 has no text.
const FIRST: i64 = -62_167_219_200_000_000;
const LAST: i64 = 253_402_300_799_999_999;

/// RFC 3339 of a fixed width. What a four-digit year does not hold becomes the nearest that it does.
pub fn write(at: Timestamp) -> String {
    Timestamp::from_micros(at.micros().clamp(FIRST, LAST)).to_string()
}

/// Reads a column that holds a time.
pub fn read(row: &rusqlite::Row<'_>, column: usize) -> rusqlite::Result<Timestamp> {
    let text: String = row.get(column)?;
    Timestamp::parse(&text).ok_or_else(|| {
        rusqlite::Error::FromSqlConversionFailure(
            column,
            Type::Text,
            format!("`{text}` is not RFC 3339").into(),
        )
    })
}
