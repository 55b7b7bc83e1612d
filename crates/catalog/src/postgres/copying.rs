//! Rows of tables for a copy of the catalog.

use async_trait::async_trait;
use chrono::{DateTime, Utc};
use tokio_postgres::Row;
use tokio_postgres::types::{ToSql, Type};

use super::catalog::{PostgresCatalog, reading, writing};
use super::sql::{Columns, Parametric, Values, as_is, stored, time};
use super::{Parameter, PostgresError, Transaction};
use crate::CatalogError;
use crate::copy::{CopiedRow, CopyStore, Holds, Table, Value};

/// The next numbers follow those of the copied rows.
const NEXT: [&str; 3] = [
    "select setval('record_number_seq', greatest((select max(number) from record), 1))",
    "select setval('record_version_number_seq', greatest((select max(number) from record_version), 1))",
    "select setval('pass_id_seq', greatest((select max(id) from pass), 1))",
];

#[async_trait]
impl CopyStore for PostgresCatalog {
    async fn count(&self, table: &'static Table) -> Result<u64, CatalogError> {
        let sql = format!("select count(*) from {}", table.name);
        let rows = reading!(self, tx => tx.query(&sql, &[]))?;
        let count = rows.first().map_or(Ok(0), |row| row.count(0));
        self.done(count)
    }

    async fn rows_after(
        &self,
        table: &'static Table,
        key: Option<Vec<Value>>,
        most: usize,
    ) -> Result<Vec<CopiedRow>, CatalogError> {
        let keys = Table::names(table.key_columns(), "");
        let key = key.as_deref().map(|key| CopiedColumn::single(table, key));
        let key = key.unwrap_or_default();
        let behind = match key.is_empty() {
            true => String::new(),
            false => format!("where ({keys}) > ({})", places(key.len())),
        };
        let sql = format!(
            "select {} from {} {behind} order by {keys} limit {most}",
            Table::names(table.columns, ""),
            table.name
        );
        let parameters: Vec<Parameter<'_>> = key.iter().map(CopiedColumn::parameter).collect();
        let rows = reading!(self, tx => tx.query(&sql, &parameters))?;
        self.done(rows.iter().map(|row| copied(row, table)).collect())
    }

    async fn rows_with(
        &self,
        table: &'static Table,
        keys: Vec<Vec<Value>>,
    ) -> Result<Vec<CopiedRow>, CatalogError> {
        let columns = CopiedColumn::all(table.key_columns(), &keys);
        let sql = format!(
            "select {} from {}",
            Table::names(table.columns, "own."),
            stored_of(table, "*")
        );
        let parameters: Vec<Parameter<'_>> = columns.iter().map(CopiedColumn::parameter).collect();
        let rows = reading!(self, tx => tx.query(&sql, &parameters))?;
        self.done(rows.iter().map(|row| copied(row, table)).collect())
    }

    async fn replace(
        &self,
        table: &'static Table,
        rows: Vec<CopiedRow>,
    ) -> Result<(), CatalogError> {
        writing!(self, tx => replace(&tx, table, &rows))
    }

    async fn complete(&self) -> Result<(), CatalogError> {
        writing!(self, tx => async {
            for sql in NEXT {
                tx.query(sql, &[]).await?;
            }
            Ok::<_, PostgresError>(())
        })?;
        self.rebuild_text().await.map(drop)
    }
}

async fn replace(
    tx: &Transaction<'_>,
    table: &Table,
    rows: &[CopiedRow],
) -> Result<(), PostgresError> {
    let keys = CopiedColumn::all(table.key_columns(), rows);
    let keys: Vec<Parameter<'_>> = keys.iter().map(CopiedColumn::parameter).collect();
    let delete = format!(
        "delete from {} where ctid = any (array(select own.ctid from {}))",
        table.name,
        stored_of(table, "ctid")
    );
    tx.execute(&delete, &keys).await?;
    let columns = CopiedColumn::all(table.columns, rows);
    let columns: Vec<Parameter<'_>> = columns.iter().map(CopiedColumn::parameter).collect();
    let insert = format!(
        "insert into {} ({}) select * from unnest({})",
        table.name,
        Table::names(table.columns, ""),
        places(columns.len())
    );
    tx.execute(&insert, &columns).await
}

/// The rows of given keys. `offset 0` keeps the lookup of each row by its key apart. Without it, and without statistics of the
/// table, the planner reads all of the table for each portion of a copy.
fn stored_of(table: &Table, columns: &str) -> String {
    let keys = Table::names(table.key_columns(), "");
    let places = places(table.key);
    let is_wanted = table.key_columns().iter();
    let is_wanted: Vec<String> = is_wanted
        .map(|(name, _)| format!("stored.{name} = wanted.{name}"))
        .collect();
    format!(
        "unnest({places}) wanted ({keys}) cross join lateral
        (select {columns} from {} stored where {} offset 0) own",
        table.name,
        is_wanted.join(" and ")
    )
}

fn places(count: usize) -> String {
    let places: Vec<String> = (1..=count).map(|place| format!("${place}")).collect();
    places.join(", ")
}

fn copied(row: &Row, table: &Table) -> Result<CopiedRow, PostgresError> {
    let columns = table.columns.iter().enumerate();
    columns
        .map(|(place, (_, holds))| {
            let value = match holds {
                Holds::Integer => row.value::<Option<i64>>(place)?.map(Value::Integer),
                Holds::Text => row.optional_text(place)?.map(Value::Text),
                Holds::Json => row.value::<Option<String>>(place)?.map(Value::Text),
                Holds::Time => row.optional_time(place)?.map(Value::Time),
                Holds::Truth => row.value::<Option<bool>>(place)?.map(Value::Truth),
            };
            Ok(value.unwrap_or(Value::Null))
        })
        .collect()
}

/// The values of a column, or one of them, as a parameter.
struct CopiedColumn<'r> {
    values: Box<dyn ToSql + Sync + Send + 'r>,
    kind: Type,
}

impl<'r> CopiedColumn<'r> {
    /// The values of each column, one for each row.
    fn all(columns: &[(&str, Holds)], rows: &'r [CopiedRow]) -> Vec<Self> {
        let columns = columns.iter().enumerate();
        columns
            .map(|(place, (_, holds))| {
                let values = rows
                    .iter()
                    .map(move |row| row.get(place).unwrap_or(&Value::Null));
                Self::filled(*holds, values)
            })
            .collect()
    }

    fn filled(holds: Holds, values: impl Iterator<Item = &'r Value>) -> Self {
        match holds {
            Holds::Integer => Self::new(values.map(integer).collect::<Vec<_>>()),
            Holds::Text => Self::new(
                values
                    .map(|value| text(value).map(stored))
                    .collect::<Vec<_>>(),
            ),
            Holds::Json => Self::new(
                values
                    .map(|value| text(value).map(as_is))
                    .collect::<Vec<_>>(),
            ),
            Holds::Time => Self::new(values.map(instant).collect::<Vec<_>>()),
            Holds::Truth => Self::new(values.map(truth).collect::<Vec<_>>()),
        }
    }

    fn single(table: &Table, key: &'r [Value]) -> Vec<Self> {
        let columns = table.key_columns().iter().zip(key);
        columns
            .map(|((_, holds), value)| match holds {
                Holds::Integer => Self::new(integer(value)),
                Holds::Text => Self::new(text(value).map(stored)),
                Holds::Json => Self::new(text(value).map(as_is)),
                Holds::Time => Self::new(instant(value)),
                Holds::Truth => Self::new(truth(value)),
            })
            .collect()
    }

    fn new<T: Parametric + Send + 'r>(values: T) -> Self {
        Self {
            values: Box::new(values),
            kind: T::TYPE,
        }
    }

    fn parameter(&self) -> Parameter<'_> {
        (&*self.values, self.kind.clone())
    }
}

fn integer(value: &Value) -> Option<i64> {
    match value {
        Value::Integer(number) => Some(*number),
        Value::Null | Value::Text(_) | Value::Time(_) | Value::Truth(_) => None,
    }
}

fn text(value: &Value) -> Option<&str> {
    match value {
        Value::Text(text) => Some(text),
        Value::Null | Value::Integer(_) | Value::Time(_) | Value::Truth(_) => None,
    }
}

fn instant(value: &Value) -> Option<DateTime<Utc>> {
    match value {
        Value::Time(at) => Some(time(*at)),
        Value::Null | Value::Integer(_) | Value::Text(_) | Value::Truth(_) => None,
    }
}

fn truth(value: &Value) -> Option<bool> {
    match value {
        Value::Truth(truth) => Some(*truth),
        Value::Null | Value::Integer(_) | Value::Text(_) | Value::Time(_) => None,
    }
}
