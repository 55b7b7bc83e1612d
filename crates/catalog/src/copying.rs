//! Rows of tables for a copy of the catalog.

use async_trait::async_trait;

use super::catalog::Store;
use super::copy::{CopiedRow, CopyStore, Value};
use super::sql::{Insert, Row, StoreError, Tx, Value as Sent, values};
use super::tables::{COPIED, Holds, Table};
use super::{Catalog, CatalogError, sqlite};

/// The next numbers of PostgreSQL follow those of the copied rows; in a file they do by themselves.
const NEXT: [&str; 3] = [
    "select setval('record_number_seq', greatest((select max(number) from record), 1))",
    "select setval('record_version_number_seq', greatest((select max(number) from record_version), 1))",
    "select setval('pass_id_seq', greatest((select max(id) from pass), 1))",
];

#[async_trait]
impl CopyStore for Catalog {
    async fn count(&self, table: &'static Table) -> Result<u64, CatalogError> {
        let sql = format!("select count(*) from {}", table.name);
        self.read(move |tx| {
            let count = tx.first(&sql, values![])?;
            count.map_or(Ok(0), |row| row.count(0))
        })
        .await
    }

    async fn rows_after(
        &self,
        table: &'static Table,
        key: Option<Vec<Value>>,
        most: usize,
    ) -> Result<Vec<CopiedRow>, CatalogError> {
        let keys = Table::names(table.key_columns(), "");
        let behind = match &key {
            None => String::new(),
            Some(key) => format!("where ({keys}) > ({})", places(key.len())),
        };
        let sql = format!("{} {behind} order by {keys} limit {most}", select(table));
        self.read(move |tx| {
            let key = key.iter().flatten().zip(table.key_columns());
            let key = key.map(|(value, (_, holds))| sent(value, *holds));
            let rows = tx.query(&sql, key.collect())?;
            rows.iter().map(|row| copied(row, table)).collect()
        })
        .await
    }

    async fn rows_with(
        &self,
        table: &'static Table,
        keys: Vec<Vec<Value>>,
    ) -> Result<Vec<CopiedRow>, CatalogError> {
        let sql = format!("{} where {}", select(table), is_key(table));
        self.read(move |tx| {
            let queries = keys
                .iter()
                .map(|key| super::sql::Query::new(&sql, sent_key(table, key)));
            let found = tx.ask_all(&queries.collect::<Vec<_>>())?;
            let rows = found.iter().flatten();
            rows.map(|row| copied(row, table)).collect()
        })
        .await
    }

    async fn replace(
        &self,
        table: &'static Table,
        rows: Vec<CopiedRow>,
    ) -> Result<(), CatalogError> {
        let delete = format!("delete from {} where {}", table.name, is_key(table));
        self.write(move |tx| {
            for row in &rows {
                tx.later(&delete, sent_key(table, row))?;
            }
            put(tx, table, &rows)
        })
        .await
    }

    async fn complete(&self) -> Result<(), CatalogError> {
        self.write(|tx| match tx {
            Tx::File(connection) => Ok(sqlite::create_views(connection)?),
            Tx::Server(_) => {
                for sql in NEXT {
                    tx.query(sql, values![])?;
                }
                Ok(())
            }
        })
        .await?;
        if let Store::Server(server) = &self.store {
            super::postgres::refresh_views(server).await;
        }
        self.rebuild_text().await.map(drop)
    }
}

/// The rows of a table that a condition finds for each of these keys.
pub fn rows_of(
    tx: &Tx<'_>,
    table: &str,
    which: &str,
    keys: &[i64],
) -> Result<(&'static Table, Vec<CopiedRow>), StoreError> {
    let table = COPIED.iter().find(|one| one.name == table);
    let table = table.ok_or_else(|| StoreError::Unusable("no such table".to_owned()))?;
    let sql = format!("{} where {which}", select(table));
    let rows = tx.each(&sql, values![], keys.iter().copied())?;
    let rows = rows.iter().map(|row| copied(row, table));
    Ok((table, rows.collect::<Result<_, _>>()?))
}

/// Adds rows to a table.
pub fn put(tx: &Tx<'_>, table: &Table, rows: &[CopiedRow]) -> Result<(), StoreError> {
    let columns: Vec<&str> = table.columns.iter().map(|(name, _)| *name).collect();
    let insert = Insert {
        table: table.name,
        columns: &columns,
        tail: "",
    };
    let rows = rows.iter().map(|row| {
        let row = row.iter().zip(&table.columns);
        row.map(|(value, (_, holds))| sent(value, *holds)).collect()
    });
    tx.insert_later(&insert, rows.collect())
}

fn select(table: &Table) -> String {
    let names = Table::names(&table.columns, "");
    format!("select {names} from {}", table.name)
}

fn is_key(table: &Table) -> String {
    let columns = table.key_columns().iter().zip(1..);
    let columns = columns.map(|((name, _), place)| format!("{name} = ?{place}"));
    columns.collect::<Vec<_>>().join(" and ")
}

fn places(count: usize) -> String {
    let places: Vec<String> = (1..=count).map(|place| format!("?{place}")).collect();
    places.join(", ")
}

/// The key of a row as it is sent.
fn sent_key<'v>(table: &Table, row: &'v [Value]) -> Vec<Sent<'v>> {
    let key = row.iter().zip(table.key_columns());
    key.map(|(value, (_, holds))| sent(value, *holds)).collect()
}

/// A value as it is sent; null as the column holds it.
fn sent(value: &Value, holds: Holds) -> Sent<'_> {
    match (value, holds) {
        (Value::Integer(number), _) => Sent::Integer(Some(*number)),
        (Value::Text(text), _) => Sent::from(text),
        (Value::Time(at), _) => Sent::Time(Some(*at)),
        (Value::Truth(truth), _) => Sent::Truth(Some(*truth)),
        (Value::Null, Holds::Integer) => Sent::Integer(None),
        (Value::Null, Holds::Text | Holds::Json) => Sent::Text(None),
        (Value::Null, Holds::Time) => Sent::Time(None),
        (Value::Null, Holds::Truth) => Sent::Truth(None),
    }
}

fn copied(row: &Row, table: &Table) -> Result<CopiedRow, StoreError> {
    let columns = table.columns.iter().enumerate();
    let value = |(place, (_, holds)): (usize, &(&str, Holds))| {
        let value = match holds {
            Holds::Integer => row.optional_integer(place)?.map(Value::Integer),
            Holds::Text | Holds::Json => row.optional_text(place)?.map(Value::Text),
            Holds::Time => row.optional_time(place)?.map(Value::Time),
            Holds::Truth => row.optional_truth(place)?.map(Value::Truth),
        };
        Ok(value.unwrap_or(Value::Null))
    };
    columns.map(value).collect()
}
