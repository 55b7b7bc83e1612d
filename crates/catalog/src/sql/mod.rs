//! One way to ask both databases. What a catalog does is written once, over a [`Tx`]; a statement is one text for both.
//!
//! `?1` is the first value of a statement. In braces stands what the databases say in different words:
//!
//! | in a statement | SQLite | PostgreSQL |
//! | --- | --- | --- |
//! | `{key}` | the key of [`Query::each`] | the same |
//! | `{any ?1}` | one of a list of numbers | the same |
//! | `{lock}` | nothing: only one transaction writes | ` for update` |
//! | `{unlocked}` | nothing | ` for update skip locked` |
//! | `{join}` | `cross join`, which keeps the order of the tables | `join` |
//! | `{by INDEX}` | `indexed by INDEX` | nothing |
//! | `{hash X}` | `X` | the hash of `X`, which is what the index holds of a text without a limit |
//!
//! Null-safe equality is `is not distinct from`, the literals of truth are `true` and `false`, and a conflict names its key.
//! PostgreSQL plans without statistics, as a new catalog is: rows that others lead to are looked up by `{key}` or by a scalar
//! subquery, since it reads all of a table for a join.

mod error;
mod file;
mod server;
mod value;

use std::mem::replace;

use rusqlite::Connection;

pub use error::StoreError;
pub use file::in_transaction;
pub use server::ServerTx;
pub(crate) use value::values;
pub use value::{Row, Value};

/// A transaction of a catalog. It runs on a thread where it may wait.
pub enum Tx<'c> {
    /// In a SQLite file.
    File(&'c Connection),
    /// In a PostgreSQL database.
    Server(&'c ServerTx<'c>),
}

/// A statement that returns rows.
#[derive(Clone)]
pub struct Query<'q> {
    sql: &'q str,
    values: Vec<Value<'q>>,
    asked: Asked<'q>,
}

/// How often a statement is asked.
#[derive(Clone)]
enum Asked<'q> {
    Once,
    Never,
    /// Once for each key.
    Each(Vec<Value<'q>>),
}

impl<'q> Query<'q> {
    pub const fn new(sql: &'q str, values: Vec<Value<'q>>) -> Self {
        Self {
            sql,
            values,
            asked: Asked::Once,
        }
    }

    /// A statement that is asked for each of these keys, which it names `{key}`. Each row has the place of its key.
    pub fn each<K: Into<Value<'q>>>(
        sql: &'q str,
        values: Vec<Value<'q>>,
        keys: impl IntoIterator<Item = K>,
    ) -> Self {
        Self {
            sql,
            values,
            asked: Asked::Each(keys.into_iter().map(Into::into).collect()),
        }
    }

    /// No statement: it is not asked, and has no rows.
    pub const fn never() -> Self {
        Self {
            sql: "",
            values: Vec::new(),
            asked: Asked::Never,
        }
    }

    /// The statement, which is not asked unless `is_needed`: it then has no rows.
    pub fn when(self, is_needed: bool) -> Self {
        match is_needed {
            true => self,
            false => Self {
                asked: Asked::Never,
                ..self
            },
        }
    }
}

/// A statement that inserts rows.
pub struct Insert<'i> {
    pub table: &'i str,
    pub columns: &'i [&'i str],
    /// What follows the rows: what to do with a conflict, and what to return.
    pub tail: &'i str,
}

impl Tx<'_> {
    /// Asks several statements, in PostgreSQL in one round trip. Returns the rows of each.
    pub fn ask<const N: usize>(
        &self,
        queries: [Query<'_>; N],
    ) -> Result<[Vec<Row>; N], StoreError> {
        let mut all = self.ask_all(&queries)?.into_iter();
        Ok(std::array::from_fn(|_| all.next().unwrap_or_default()))
    }

    /// The same of any number of statements.
    pub fn ask_all(&self, queries: &[Query<'_>]) -> Result<Vec<Vec<Row>>, StoreError> {
        match self {
            Self::File(connection) => queries
                .iter()
                .map(|query| file::ask(connection, query))
                .collect(),
            Self::Server(server) => server.ask(queries),
        }
    }

    pub fn query(&self, sql: &str, values: Vec<Value<'_>>) -> Result<Vec<Row>, StoreError> {
        let [rows] = self.ask([Query::new(sql, values)])?;
        Ok(rows)
    }

    /// Returns the first row of a statement.
    pub fn first(&self, sql: &str, values: Vec<Value<'_>>) -> Result<Option<Row>, StoreError> {
        Ok(self.query(sql, values)?.into_iter().next())
    }

    /// Reads the first column of the first row of a statement; the default without a row.
    pub fn one<T: Default>(
        &self,
        sql: &str,
        values: Vec<Value<'_>>,
        read: impl Fn(&Row, usize) -> Result<T, StoreError>,
    ) -> Result<T, StoreError> {
        let first = self.first(sql, values)?;
        first.map_or(Ok(T::default()), |row| read(&row, 0))
    }

    /// Asks a statement for each of these keys, which it names `{key}`. Each row has the place of its key.
    pub fn each<'q, K: Into<Value<'q>>>(
        &self,
        sql: &'q str,
        values: Vec<Value<'q>>,
        keys: impl IntoIterator<Item = K>,
    ) -> Result<Vec<Row>, StoreError> {
        let [rows] = self.ask([Query::each(sql, values, keys)])?;
        Ok(rows)
    }

    /// Runs a statement. Returns the number of rows that it changed.
    pub fn execute(&self, sql: &str, values: Vec<Value<'_>>) -> Result<u64, StoreError> {
        match self {
            Self::File(connection) => file::execute(connection, sql, &values),
            Self::Server(server) => server.execute(sql, &values),
        }
    }

    /// Runs a statement whose result decides nothing: in PostgreSQL it is sent with the next one that is waited for, or with the
    /// commit, and an error shows there.
    pub fn later(&self, sql: &str, values: Vec<Value<'_>>) -> Result<(), StoreError> {
        match self {
            Self::File(connection) => file::execute(connection, sql, &values).map(drop),
            Self::Server(server) => {
                server.later(sql, values);
                Ok(())
            }
        }
    }

    /// Inserts rows. Returns what the statement returns.
    pub fn insert(
        &self,
        insert: &Insert<'_>,
        rows: Vec<Vec<Value<'_>>>,
    ) -> Result<Vec<Row>, StoreError> {
        match self {
            _ if rows.is_empty() => Ok(Vec::new()),
            Self::File(connection) => file::insert(connection, insert, &rows),
            Self::Server(server) => server.insert(insert, &rows),
        }
    }

    /// Inserts rows where nothing is returned, as [`Self::later`] does.
    pub fn insert_later(
        &self,
        insert: &Insert<'_>,
        rows: Vec<Vec<Value<'_>>>,
    ) -> Result<(), StoreError> {
        match self {
            _ if rows.is_empty() => Ok(()),
            Self::File(connection) => file::insert(connection, insert, &rows).map(drop),
            Self::Server(server) => {
                server.insert_later(insert, &rows);
                Ok(())
            }
        }
    }

    /// Runs statements without values.
    pub fn batch(&self, sql: &str) -> Result<(), StoreError> {
        match self {
            Self::File(connection) => Ok(connection.execute_batch(sql)?),
            Self::Server(server) => server.batch(sql),
        }
    }

    /// Whether the indexes have room for an id.
    pub fn takes_id(&self, id: &str) -> bool {
        match self {
            Self::File(_) => true,
            Self::Server(_) => crate::postgres::takes_id(id),
        }
    }
}

/// Which database a statement is for.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Dialect {
    Sqlite,
    Postgres,
}

impl Dialect {
    /// The text of a statement for this database; `key` is what stands for `{key}`.
    pub fn text(self, sql: &str, key: &str) -> String {
        let mut text = String::with_capacity(sql.len() + 64);
        let mut in_braces = false;
        for part in sql.split_inclusive(['{', '}']) {
            let word = part.trim_end_matches(['{', '}']);
            match replace(&mut in_braces, part.ends_with('{')) {
                true => text += &self.word(word, key),
                false => text += word,
            }
        }
        match self {
            Self::Sqlite => text,
            Self::Postgres => text.replace('?', "$"),
        }
    }

    fn word(self, word: &str, key: &str) -> String {
        let (name, of) = word.split_once(' ').unwrap_or((word, ""));
        let said = match (name, self) {
            ("key", _) => key,
            ("lock" | "unlocked", Self::Sqlite) => "",
            ("by", Self::Postgres) if of != "key" => "",
            ("lock", Self::Postgres) => " for update",
            ("unlocked", Self::Postgres) => " for update skip locked",
            ("join", Self::Sqlite) => "cross join",
            ("join", Self::Postgres) => "join",
            ("by", Self::Sqlite) if of != "key" => return format!("indexed by {of}"),
            ("hash", Self::Postgres) => return format!("hashtextextended({of}, 0)"),
            ("hash", Self::Sqlite) => of,
            ("any", Self::Sqlite) => return format!("in (select value from json_each({of}))"),
            ("any", Self::Postgres) => return format!("= any({of})"),
            _ => return self.of_tables(word),
        };
        said.to_owned()
    }

    /// What stands in braces where tables are created.
    fn of_tables(self, word: &str) -> String {
        let said = match (word, self) {
            ("id", Self::Sqlite) => "integer primary key",
            ("id", Self::Postgres) => "bigint generated by default as identity primary key",
            ("integer" | "own integer" | "truth", Self::Sqlite) => "integer",
            ("integer" | "own integer", Self::Postgres) => "bigint",
            ("truth", Self::Postgres) => "boolean",
            ("text" | "own text" | "json" | "time", Self::Sqlite) => "text",
            ("text" | "own text", Self::Postgres) => "text collate \"C\"",
            ("json", Self::Postgres) => "text",
            ("time", Self::Postgres) => "timestamptz",
            ("object", _) => "{}",
            ("table", Self::Sqlite) => " strict",
            ("by key", Self::Sqlite) => " strict, without rowid",
            ("table" | "by key", Self::Postgres) => "",
            // Of a word that is not known the statement fails, in each test that runs it.
            _ => word,
        };
        said.to_owned()
    }
}

/// The statements of a module as SQLite reads them.
pub fn as_sqlite(statements: &[&str]) -> Vec<String> {
    let statements = statements.iter();
    statements
        .map(|sql| Dialect::Sqlite.text(sql, "?9"))
        .collect()
}
