//! Statements in a PostgreSQL database.
//!
//! All statements are unnamed, since PgBouncer in transaction mode keeps none. What is sent together takes one round trip.

use std::borrow::Cow;
use std::cell::RefCell;
use std::error::Error;
use std::future::{Future, poll_fn};
use std::task::Poll;

use bytes::BytesMut;
use chrono::{DateTime, Utc};
use futures_util::future::maybe_done;
use tokio::runtime::Handle;
use tokio::sync::watch;
use tokio_postgres::types::{IsNull, ToSql, Type, to_sql_checked};

use super::value::Cells;
use super::{Asked, Dialect, Insert, Query, Row, StoreError, Value};
use crate::postgres::{Parameter, PostgresError, Session, Transaction, stored, time};
use crate::values::clamped;
use ingest_base::apart::CutOff;

/// A transaction of a database, for a thread that may wait.
pub struct ServerTx<'s> {
    transaction: Transaction<'s>,
    runtime: Handle,
    /// Ends when nobody waits for the result any more.
    wanted: watch::Receiver<()>,
    /// Statements that are not sent yet.
    waiting: RefCell<Vec<Statement>>,
}

/// A statement with its values.
struct Statement {
    sql: String,
    values: Vec<Box<dyn ToSql + Sync + Send>>,
    types: Vec<Type>,
}

impl Statement {
    fn new(sql: &str, values: Vec<Value<'_>>) -> Self {
        Self {
            sql: Dialect::Postgres.text(sql, ""),
            types: values.iter().map(Value::kind).collect(),
            values: values
                .into_iter()
                .map(|value| Box::new(value.into_owned()) as _)
                .collect(),
        }
    }

    fn parameters(&self) -> Vec<Parameter<'_>> {
        let values = self.values.iter().zip(&self.types);
        values
            .map(|(value, kind)| (&**value as _, kind.clone()))
            .collect()
    }
}

impl<'s> ServerTx<'s> {
    /// Begins a transaction that writes.
    pub fn begin_writing(
        session: &'s mut Session,
        wanted: watch::Receiver<()>,
    ) -> Result<Self, StoreError> {
        Self::begin(session.begin(), wanted)
    }

    /// Begins a transaction that reads one state of the catalog.
    pub fn begin_reading(
        session: &'s mut Session,
        wanted: watch::Receiver<()>,
    ) -> Result<Self, StoreError> {
        Self::begin(session.begin_reading(), wanted)
    }

    fn begin(
        begun: impl Future<Output = Result<Transaction<'s>, PostgresError>>,
        wanted: watch::Receiver<()>,
    ) -> Result<Self, StoreError> {
        let runtime = Handle::current();
        Ok(Self {
            transaction: runtime.block_on(begun)?,
            runtime,
            wanted,
            waiting: RefCell::default(),
        })
    }

    /// Waits for the server. The rest of a transaction that nobody wants any more is not waited for.
    pub fn wait<T, E: Into<StoreError>>(
        &self,
        work: impl Future<Output = Result<T, E>>,
    ) -> Result<T, StoreError> {
        let mut wanted = self.wanted.clone();
        self.runtime.block_on(async {
            tokio::select! {
                biased;
                done = work => done.map_err(Into::into),
                // The sender says nothing and is dropped.
                _ = wanted.changed() => Err(CutOff.into()),
            }
        })
    }

    pub fn ask(&self, queries: &[Query<'_>]) -> Result<Vec<Vec<Row>>, StoreError> {
        let asked: Vec<Option<Statement>> = queries.iter().map(statement).collect();
        let found = self.wait(async {
            let asked = asked.iter().map(|statement| async move {
                match statement {
                    Some(statement) => self.rows(statement).await,
                    None => Ok(Vec::new()),
                }
            });
            // Those of `asked` behind those that wait.
            let (sent, found) = tokio::join!(biased; self.send(), in_order(asked.collect()));
            sent?;
            found.into_iter().collect::<Result<Vec<_>, _>>()
        })?;
        let with_places = queries.iter().zip(found).map(|(query, rows)| {
            let is_each = matches!(query.asked, Asked::Each(_));
            rows.into_iter().map(|row| placed(row, is_each)).collect()
        });
        with_places.collect()
    }

    pub fn execute(&self, sql: &str, values: &[Value<'_>]) -> Result<u64, StoreError> {
        let statement = Statement::new(sql, values.to_vec());
        self.wait(async {
            let (sent, done) = tokio::join!(biased; self.send(), async {
                self.transaction.execute(&statement.sql, &statement.parameters()).await
            });
            sent?;
            done
        })
    }

    pub fn later(&self, sql: &str, values: Vec<Value<'_>>) {
        self.waiting.borrow_mut().push(Statement::new(sql, values));
    }

    /// The same of a statement in PostgreSQL's own words.
    pub fn later_with(&self, sql: &str, values: Vec<(Box<dyn ToSql + Sync + Send>, Type)>) {
        let (values, types) = values.into_iter().unzip();
        let sql = sql.to_owned();
        self.waiting
            .borrow_mut()
            .push(Statement { sql, values, types });
    }

    pub fn insert(
        &self,
        insert: &Insert<'_>,
        rows: &[Vec<Value<'_>>],
    ) -> Result<Vec<Row>, StoreError> {
        let Some(statement) = inserting(insert, rows) else {
            return Ok(Vec::new());
        };
        let rows = self.wait(async {
            let (sent, rows) = tokio::join!(biased; self.send(), self.rows(&statement));
            sent?;
            rows
        })?;
        rows.into_iter().map(|row| placed(row, false)).collect()
    }

    pub fn insert_later(&self, insert: &Insert<'_>, rows: &[Vec<Value<'_>>]) {
        let statement = inserting(insert, rows);
        self.waiting.borrow_mut().extend(statement);
    }

    pub fn batch(&self, sql: &str) -> Result<(), StoreError> {
        self.wait(async {
            self.send().await?;
            self.transaction.batch(sql).await
        })
    }

    /// Commits, in one round trip with the statements that wait.
    pub fn commit(&self) -> Result<(), StoreError> {
        self.wait(self.transaction.commit_after(self.send()))
    }

    /// Sends the statements that wait, and waits for their answers.
    async fn send(&self) -> Result<(), PostgresError> {
        let waiting = self.waiting.take();
        let all = in_order(waiting.iter().map(|one| self.run(one)).collect()).await;
        // The first failure is the cause of those behind it.
        all.into_iter().collect::<Result<Vec<()>, _>>().map(drop)
    }

    async fn run(&self, statement: &Statement) -> Result<(), PostgresError> {
        let parameters = statement.parameters();
        let done = self.transaction.execute(&statement.sql, &parameters).await;
        done.map(drop)
    }

    async fn rows(&self, statement: &Statement) -> Result<Vec<tokio_postgres::Row>, PostgresError> {
        let parameters = statement.parameters();
        self.transaction.query(&statement.sql, &parameters).await
    }
}

/// Awaits futures together. The first poll polls each of them, in their order, so that all are sent before what is sent next;
/// `join_all` leaves some of many for later. The server answers in the same order.
async fn in_order<F: Future>(futures: Vec<F>) -> Vec<F::Output> {
    let all = futures.into_iter().map(|one| Box::pin(maybe_done(one)));
    let mut all: Vec<_> = all.collect();
    poll_fn(|context| {
        for one in &mut all {
            let _ = one.as_mut().poll(context);
        }
        Poll::Ready(())
    })
    .await;
    let mut outputs = Vec::with_capacity(all.len());
    for mut one in all {
        one.as_mut().await;
        outputs.extend(one.as_mut().take_output());
    }
    outputs
}

fn statement(query: &Query<'_>) -> Option<Statement> {
    let values = || query.values.clone();
    match &query.asked {
        Asked::Never => None,
        Asked::Once => Some(Statement::new(query.sql, values())),
        Asked::Each(keys) => {
            let keys = Array::new(keys)?;
            let sql = Dialect::Postgres.text(query.sql, "keys.key");
            let own = Statement::new("", values());
            let place = own.values.len() + 1;
            // `offset 0` keeps the lookup of each key apart: the planner would read all of a table for many keys.
            let sql = format!(
                "select found.*, keys.place from unnest(${place}) with ordinality keys (key, place)
                cross join lateral ({sql} offset 0) found order by keys.place"
            );
            Some(own.and(sql, [keys]))
        }
    }
}

impl Statement {
    fn and(mut self, sql: String, arrays: impl IntoIterator<Item = Array>) -> Self {
        self.sql = sql;
        for array in arrays {
            self.types.push(array.kind());
            self.values.push(Box::new(array));
        }
        self
    }
}

/// A row; of a statement with keys its last column is the place of the key, from 1.
fn placed(row: tokio_postgres::Row, has_key: bool) -> Result<Row, StoreError> {
    let place = match has_key {
        true => {
            let place: i64 = row.try_get(row.len() - 1).map_err(PostgresError::from)?;
            usize::try_from(place - 1).unwrap_or_default()
        }
        false => 0,
    };
    Ok(Row {
        cells: Cells::Postgres(row),
        place,
    })
}

/// One statement that inserts all rows; `None` for none.
fn inserting(insert: &Insert<'_>, rows: &[Vec<Value<'_>>]) -> Option<Statement> {
    let columns = 0..insert.columns.len();
    let columns = columns.map(|column| Array::new(rows.iter().filter_map(|row| row.get(column))));
    let columns: Vec<Array> = columns.collect::<Option<_>>()?;
    let places: Vec<String> = (1..=columns.len())
        .map(|place| format!("${place}"))
        .collect();
    let sql = format!(
        "insert into {} ({}) select * from unnest({}) {}",
        insert.table,
        insert.columns.join(", "),
        places.join(", "),
        Dialect::Postgres.text(insert.tail, "")
    );
    Some(Statement::new("", Vec::new()).and(sql, columns))
}

/// The values of a column.
#[derive(Debug)]
enum Array {
    Integers(Vec<Option<i64>>),
    Truths(Vec<Option<bool>>),
    Texts(Vec<Option<String>>),
    Times(Vec<Option<DateTime<Utc>>>),
}

impl Array {
    /// `None` for no value.
    fn new<'v>(values: impl IntoIterator<Item = &'v Value<'v>>) -> Option<Self> {
        let mut values = values.into_iter();
        let mut array = match values.next()? {
            Value::Integer(value) => Self::Integers(vec![*value]),
            Value::Truth(value) => Self::Truths(vec![*value]),
            Value::Text(value) => Self::Texts(vec![owned(value.as_deref())]),
            Value::Time(value) => Self::Times(vec![value.map(time)]),
            Value::Integers(_) | Value::Texts(_) => return None,
        };
        for value in values {
            match (&mut array, value) {
                (Self::Integers(all), Value::Integer(value)) => all.push(*value),
                (Self::Truths(all), Value::Truth(value)) => all.push(*value),
                (Self::Texts(all), Value::Text(value)) => all.push(owned(value.as_deref())),
                (Self::Times(all), Value::Time(value)) => all.push(value.map(time)),
                // The values of a column are of one kind.
                _ => return None,
            }
        }
        Some(array)
    }

    const fn kind(&self) -> Type {
        match self {
            Self::Integers(_) => Type::INT8_ARRAY,
            Self::Truths(_) => Type::BOOL_ARRAY,
            Self::Texts(_) => Type::TEXT_ARRAY,
            Self::Times(_) => Type::TIMESTAMPTZ_ARRAY,
        }
    }
}

fn owned(text: Option<&str>) -> Option<String> {
    text.map(|text| stored(text).into_owned())
}

impl ToSql for Array {
    fn to_sql(
        &self,
        kind: &Type,
        out: &mut BytesMut,
    ) -> Result<IsNull, Box<dyn Error + Sync + Send>> {
        match self {
            Self::Integers(values) => values.to_sql(kind, out),
            Self::Truths(values) => values.to_sql(kind, out),
            Self::Texts(values) => values.to_sql(kind, out),
            Self::Times(values) => values.to_sql(kind, out),
        }
    }

    fn accepts(_: &Type) -> bool {
        true
    }

    to_sql_checked!();
}

impl Value<'_> {
    const fn kind(&self) -> Type {
        match self {
            Self::Integer(_) => Type::INT8,
            Self::Truth(_) => Type::BOOL,
            Self::Text(_) => Type::TEXT,
            Self::Time(_) => Type::TIMESTAMPTZ,
            Self::Integers(_) => Type::INT8_ARRAY,
            Self::Texts(_) => Type::TEXT_ARRAY,
        }
    }
}

impl ToSql for Value<'_> {
    fn to_sql(
        &self,
        kind: &Type,
        out: &mut BytesMut,
    ) -> Result<IsNull, Box<dyn Error + Sync + Send>> {
        match self {
            Self::Integer(value) => value.to_sql(kind, out),
            Self::Truth(value) => value.to_sql(kind, out),
            Self::Text(value) => value.as_deref().map(stored).to_sql(kind, out),
            Self::Time(value) => value.map(|at| clamped(at).to_utc()).to_sql(kind, out),
            Self::Integers(values) => values.to_sql(kind, out),
            Self::Texts(values) => {
                let texts: Vec<Cow<'_, str>> = values.iter().map(|text| stored(text)).collect();
                texts.to_sql(kind, out)
            }
        }
    }

    fn accepts(_: &Type) -> bool {
        true
    }

    to_sql_checked!();
}
