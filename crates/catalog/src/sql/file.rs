//! Statements in a SQLite file.

use std::borrow::Cow;

use rusqlite::types::{ToSql, ToSqlOutput};
use rusqlite::{CachedStatement, Connection, Rows, TransactionBehavior, params_from_iter};

use super::value::Cells;
use super::{Asked, Dialect, Insert, Query, Row, StoreError, Tx, Value};
use crate::values;

impl ToSql for Value<'_> {
    fn to_sql(&self) -> rusqlite::Result<ToSqlOutput<'_>> {
        match self {
            Self::Integer(value) => value.to_sql(),
            Self::Truth(value) => value.to_sql(),
            Self::Text(value) => match value {
                Some(text) => text.as_ref().to_sql(),
                None => rusqlite::types::Null.to_sql(),
            },
            // A fixed width, so that times sort as text.
            Self::Time(Some(at)) => Ok(ToSqlOutput::Owned(values::clamped(*at).to_string().into())),
            Self::Time(None) => rusqlite::types::Null.to_sql(),
            Self::Integers(list) => Ok(ToSqlOutput::Owned(
                serde_json::json!(list).to_string().into(),
            )),
            Self::Texts(list) => Ok(ToSqlOutput::Owned(
                serde_json::json!(list).to_string().into(),
            )),
        }
    }
}

/// Writes in one transaction.
pub fn in_transaction<T>(
    connection: &mut Connection,
    work: impl FnOnce(&Tx<'_>) -> Result<T, StoreError>,
) -> Result<T, StoreError> {
    // A transaction that reads first and writes then fails at once where another process wrote in between: SQLite does not
    // wait for a lock that would not help it.
    let tx = connection.transaction_with_behavior(TransactionBehavior::Immediate)?;
    let done = work(&Tx::File(&tx))?;
    tx.commit()?;
    Ok(done)
}

pub fn ask(connection: &Connection, query: &Query<'_>) -> Result<Vec<Row>, StoreError> {
    let mut rows = Vec::new();
    match &query.asked {
        Asked::Never => {}
        Asked::Once => {
            let mut statement = prepared(connection, query.sql, 0)?;
            read(&mut statement, &query.values, 0, &mut rows)?;
        }
        Asked::Each(keys) => {
            let place_of_key = query.values.len() + 1;
            let mut statement = prepared(connection, query.sql, place_of_key)?;
            for (value, place) in query.values.iter().zip(1_usize..) {
                statement.raw_bind_parameter(place, value)?;
            }
            // The other values stay bound.
            for (place, key) in keys.iter().enumerate() {
                statement.raw_bind_parameter(place_of_key, key)?;
                let width = statement.column_count();
                take(statement.raw_query(), width, place, &mut rows)?;
            }
        }
    }
    Ok(rows)
}

pub fn execute(
    connection: &Connection,
    sql: &str,
    values: &[Value<'_>],
) -> Result<u64, StoreError> {
    let mut statement = prepared(connection, sql, 0)?;
    Ok(statement.execute(params_from_iter(values))? as u64)
}

pub fn insert(
    connection: &Connection,
    insert: &Insert<'_>,
    rows: &[Vec<Value<'_>>],
) -> Result<Vec<Row>, StoreError> {
    let places: Vec<String> = (1..=insert.columns.len())
        .map(|place| format!("?{place}"))
        .collect();
    let sql = format!(
        "insert into {} ({}) values ({}) {}",
        insert.table,
        insert.columns.join(", "),
        places.join(", "),
        insert.tail
    );
    let mut statement = prepared(connection, &sql, 0)?;
    let mut returned = Vec::new();
    let mut before: &[Value<'_>] = &[];
    for (place, row) in rows.iter().enumerate() {
        // What is as in the row before stays bound.
        for (column, value) in row.iter().enumerate() {
            if before.get(column) != Some(value) {
                statement.raw_bind_parameter(column + 1, value)?;
            }
        }
        before = row;
        let width = statement.column_count();
        take(statement.raw_query(), width, place, &mut returned)?;
    }
    Ok(returned)
}

/// The statement; `key` is the number of the value that is its key.
fn prepared<'c>(
    connection: &'c Connection,
    sql: &str,
    key: usize,
) -> rusqlite::Result<CachedStatement<'c>> {
    let text: Cow<'_, str> = match sql.contains('{') {
        true => Dialect::Sqlite.text(sql, &format!("?{key}")).into(),
        false => sql.into(),
    };
    connection.prepare_cached(&text)
}

fn read<'v>(
    statement: &mut CachedStatement<'_>,
    values: impl IntoIterator<Item = &'v Value<'v>>,
    place: usize,
    into: &mut Vec<Row>,
) -> Result<(), StoreError> {
    let width = statement.column_count();
    take(
        statement.query(params_from_iter(values))?,
        width,
        place,
        into,
    )
}

fn take(
    mut rows: Rows<'_>,
    width: usize,
    place: usize,
    into: &mut Vec<Row>,
) -> Result<(), StoreError> {
    while let Some(row) = rows.next()? {
        let cells = (0..width).map(|column| row.get(column));
        into.push(Row {
            cells: Cells::Sqlite(cells.collect::<rusqlite::Result<_>>()?),
            place,
        });
    }
    Ok(())
}
