//! Where catalogs are: for the suite.

use std::sync::Arc;

use ingest::catalog::{LockFiles, SqliteCatalog};
use ingest::run::SimulatedCatalog;
use tempfile::TempDir;

use super::suite::{Handle, Place};

struct SqliteFile(TempDir);

pub(super) fn sqlite_file() -> Arc<dyn Place> {
    Arc::new(SqliteFile(TempDir::new().unwrap()))
}

impl Place for SqliteFile {
    fn open(&self) -> Handle {
        let path = self.0.path().join("catalog.db");
        Handle {
            store: Arc::new(SqliteCatalog::open(&path).unwrap()),
            leases: Arc::new(LockFiles::open(self.0.path()).unwrap()),
            archive: Some(Arc::new(SqliteCatalog::open_read_only(&path).unwrap())),
        }
    }
}

struct Simulated(Arc<SimulatedCatalog>);

pub(super) fn simulated() -> Arc<dyn Place> {
    Arc::new(Simulated(Arc::default()))
}

impl Place for Simulated {
    fn open(&self) -> Handle {
        Handle {
            store: self.0.clone(),
            leases: self.0.clone(),
            archive: None,
        }
    }
}
