//! Rows of tables for a copy of the catalog.

use async_trait::async_trait;
use rusqlite::types::{ToSql, ToSqlOutput, Value as Stored};
use rusqlite::{Connection, Row, TransactionBehavior, params_from_iter};

use super::{SqliteCatalog, views};
use crate::copy::{CopiedRow, CopyStore, Holds, Table, Value};
use crate::rows::Columns;
use crate::{CatalogError, values};
use ingest_quota::Timestamp;

#[async_trait]
impl CopyStore for SqliteCatalog {
    async fn count(&self, table: &'static Table) -> Result<u64, CatalogError> {
        let sql = format!("select count(*) from {}", table.name);
        let count: i64 = self
            .read(move |connection| connection.query_row(&sql, [], |row| row.get(0)))
            .await?;
        Ok(count.unsigned_abs())
    }

    async fn rows_after(
        &self,
        table: &'static Table,
        key: Option<Vec<Value>>,
        most: usize,
    ) -> Result<Vec<CopiedRow>, CatalogError> {
        self.read(move |connection| {
            let keys = Table::names(table.key_columns(), "");
            let (behind, key) = match &key {
                None => (String::new(), &[][..]),
                Some(key) => (
                    format!("where ({keys}) > ({})", places(key.len())),
                    &key[..],
                ),
            };
            let sql = format!("{} {behind} order by {keys} limit {most}", select(table));
            let mut statement = connection.prepare_cached(&sql)?;
            let rows = statement.query_map(params_from_iter(key), |row| copied(row, table))?;
            rows.collect()
        })
        .await
    }

    async fn rows_with(
        &self,
        table: &'static Table,
        keys: Vec<Vec<Value>>,
    ) -> Result<Vec<CopiedRow>, CatalogError> {
        self.read(move |connection| {
            let sql = format!("{} where {}", select(table), is_key(table));
            let mut statement = connection.prepare_cached(&sql)?;
            let mut found = Vec::new();
            for key in &keys {
                let rows = statement.query_map(params_from_iter(key), |row| copied(row, table))?;
                found.extend(rows.collect::<rusqlite::Result<Vec<_>>>()?);
            }
            Ok(found)
        })
        .await
    }

    async fn replace(
        &self,
        table: &'static Table,
        rows: Vec<CopiedRow>,
    ) -> Result<(), CatalogError> {
        self.write(move |tx| Ok(replace(tx, table, &rows)?)).await
    }

    async fn complete(&self) -> Result<(), CatalogError> {
        self.change(|connection| {
            let tx = connection.transaction_with_behavior(TransactionBehavior::Immediate)?;
            views::create_all(&tx)?;
            Ok(tx.commit()?)
        })
        .await?;
        self.rebuild_text().await.map(drop)
    }
}

fn replace(connection: &Connection, table: &Table, rows: &[CopiedRow]) -> rusqlite::Result<()> {
    let delete = format!("delete from {} where {}", table.name, is_key(table));
    let insert = format!(
        "insert into {} ({}) values ({})",
        table.name,
        Table::names(table.columns, ""),
        places(table.columns.len())
    );
    let (mut delete, mut insert) = (
        connection.prepare_cached(&delete)?,
        connection.prepare_cached(&insert)?,
    );
    for row in rows {
        delete.execute(params_from_iter(row.iter().take(table.key)))?;
    }
    for row in rows {
        insert.execute(params_from_iter(row))?;
    }
    Ok(())
}

fn select(table: &Table) -> String {
    let names = table.columns.iter().map(|(name, _)| *name);
    let names: Vec<&str> = names.collect();
    format!("select {} from {}", names.join(", "), table.name)
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

fn copied(row: &Row<'_>, table: &Table) -> rusqlite::Result<CopiedRow> {
    let columns = table.columns.iter().enumerate();
    columns
        .map(|(place, (_, holds))| {
            Ok(match (row.get::<_, Stored>(place)?, holds) {
                (Stored::Null, _) => Value::Null,
                (Stored::Integer(number), Holds::Truth) => Value::Truth(number != 0),
                (Stored::Integer(number), _) => Value::Integer(number),
                (Stored::Text(_), Holds::Time) => Value::Time(row.time(place)?),
                (Stored::Text(text), _) => Value::Text(text),
                (Stored::Real(_) | Stored::Blob(_), _) => Value::Null,
            })
        })
        .collect()
}

impl ToSql for Value {
    fn to_sql(&self) -> rusqlite::Result<ToSqlOutput<'_>> {
        let time = |at: Timestamp| values::clamped(at).to_string();
        Ok(ToSqlOutput::Owned(match self {
            Self::Null => Stored::Null,
            Self::Integer(number) => Stored::Integer(*number),
            Self::Text(text) => Stored::Text(text.clone()),
            Self::Time(at) => Stored::Text(time(*at)),
            Self::Truth(truth) => Stored::Integer((*truth).into()),
        }))
    }
}
