//! Where catalogs are: for the suite.

use std::sync::Arc;

use std::time::Duration;

use ingest_catalog::{Catalog, CatalogReader, LockFiles, Postgres, RowLeases};
use ingest_config::PostgresUrl;
use rusqlite::Connection;
use tempfile::TempDir;
use tokio::runtime;
use tokio::task::block_in_place;

use super::fixture::text_rows;
use super::suite::{Handle, Place};
use ingest_testing::postgres::{PostgresServer, Schema, connections};

struct SqliteFile(TempDir);

pub(super) fn sqlite_file() -> Arc<dyn Place> {
    Arc::new(SqliteFile(TempDir::new().unwrap()))
}

impl Place for SqliteFile {
    fn open(&self) -> Handle {
        let path = self.0.path().join("catalog.db");
        Handle {
            store: Arc::new(Catalog::open(&path).unwrap()),
            leases: Arc::new(LockFiles::open(self.0.path()).unwrap()),
            archive: Arc::new(CatalogReader::open(&path).unwrap()),
        }
    }

    fn rows(&self, sql: &str) -> Vec<String> {
        text_rows(
            &Connection::open(self.0.path().join("catalog.db")).unwrap(),
            sql,
        )
    }

    fn views(&self) -> &'static str {
        "select name from sqlite_master where type = 'view'"
    }
}

struct PostgresSchema(Schema);

pub(super) fn postgres_schema() -> Arc<dyn Place> {
    let server = block_in_place(PostgresServer::shared);
    Arc::new(PostgresSchema(server.schema()))
}

/// A schema as a process has it open.
pub(super) fn database(schema: &Schema) -> Postgres {
    with_connections(schema, connections())
}

/// Returns a catalog over `schema` with a pool of `connections`.
pub(crate) fn with_connections(schema: &Schema, connections: u32) -> Postgres {
    let url = PostgresUrl::parse(&schema.url).unwrap();
    Postgres::new(&url, None, &schema.name, connections)
}

impl Place for PostgresSchema {
    fn open(&self) -> Handle {
        let database = database(&self.0);
        let open = Catalog::connect(database.clone());
        let catalog = block_in_place(|| runtime::Handle::current().block_on(open)).unwrap();
        let catalog = Arc::new(catalog);
        Handle {
            store: catalog.clone(),
            leases: Arc::new(RowLeases::new(&database, Duration::from_secs(60))),
            archive: Arc::clone(catalog.reader()),
        }
    }

    fn rows(&self, sql: &str) -> Vec<String> {
        let sql = format!(
            "select array_to_string(array(select value from json_each_text(row_to_json(found))), ' ', '-') from ({sql}) found"
        );
        let rows = block_in_place(|| self.0.rows(&sql));
        rows.iter().map(|row| row.get(0)).collect()
    }

    fn views(&self) -> &'static str {
        "select relname from pg_class where relkind = 'v' and relnamespace = current_schema()::regnamespace"
    }
}
