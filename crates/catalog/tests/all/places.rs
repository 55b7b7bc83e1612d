//! Where catalogs are: for the suite.

use std::sync::Arc;

use std::time::Duration;

use ingest_catalog::{Catalog, CatalogReader, LockFiles, Postgres, RowLeases};
use ingest_config::PostgresUrl;
use tempfile::TempDir;
use tokio::runtime;
use tokio::task::block_in_place;

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
}
