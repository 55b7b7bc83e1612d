//! A copy of a catalog: it leaves no column behind.

use std::collections::BTreeSet;

use ingest_catalog::{PostgresCatalog, SqliteCatalog, TABLES};
use ingest_testing::postgres::PostgresServer;
use rusqlite::Connection;
use tempfile::TempDir;
use tokio::task::block_in_place;

use super::places::database;

/// What a copy makes anew or does not need, as `table` or `table.column`.
const NOT_COPIED: &[&str] = &[
    "account_ledger",
    "checkpoint.landing",
    "lease",
    "record.text_hash",
    "record_text",
    "schema_version",
    "text_change",
];

/// Asserts that a catalog has the columns that are copied, and those that are not.
fn all_are_named(found: BTreeSet<(String, String)>) {
    let copied: BTreeSet<(String, String)> = TABLES
        .iter()
        .flat_map(|table| {
            table
                .columns
                .iter()
                .map(|(column, _)| (table.name, *column))
        })
        .map(|(table, column)| (table.to_owned(), column.to_owned()))
        .collect();
    let is_left_out = |table: &str, column: &str| {
        let whole = format!("{table}.{column}");
        NOT_COPIED.iter().any(|one| *one == table || *one == whole)
    };
    let forgotten = found.difference(&copied);
    let forgotten: Vec<_> = forgotten
        .filter(|(table, column)| !is_left_out(table, column))
        .collect();
    assert!(
        forgotten.is_empty(),
        "neither in TABLES of copy.rs nor left out: {forgotten:?}"
    );
    let missing: Vec<_> = copied.difference(&found).collect();
    assert!(
        missing.is_empty(),
        "in TABLES of copy.rs, and not there: {missing:?}"
    );
}

#[tokio::test]
async fn a_copy_names_every_column_of_a_file() {
    let dir = TempDir::new().unwrap();
    let path = dir.path().join("catalog.db");
    drop(SqliteCatalog::open(&path).unwrap());
    let file = Connection::open(&path).unwrap();
    let sql = "select tables.name, columns.name from sqlite_master tables, pragma_table_info(tables.name) columns
        where tables.type = 'table'";
    let mut statement = file.prepare(sql).unwrap();
    let found = statement.query_map([], |row| Ok((row.get(0)?, row.get(1)?)));
    all_are_named(found.unwrap().collect::<Result<_, _>>().unwrap());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_copy_names_every_column_of_a_schema_of_postgres() {
    let schema = block_in_place(|| PostgresServer::shared().schema());
    PostgresCatalog::open(database(&schema)).await.unwrap();
    let sql = format!(
        "select table_name::text, column_name::text from information_schema.columns
        join information_schema.tables using (table_schema, table_name)
        where table_schema = '{}' and table_type = 'BASE TABLE'",
        schema.name
    );
    let found = block_in_place(|| schema.rows(&sql));
    all_are_named(found.iter().map(|row| (row.get(0), row.get(1))).collect());
}
