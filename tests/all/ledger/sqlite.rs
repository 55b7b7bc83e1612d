//! What is SQLite's own: files, processes, and what each leaves behind.

use std::path::PathBuf;
use std::sync::Arc;

use ingest::ledger::{Ledger, SqliteLedger};
use tempfile::TempDir;

use super::Store;

/// A ledger in a directory of its own.
pub(crate) struct File {
    directory: TempDir,
}

impl File {
    pub(crate) async fn fresh() -> Self {
        Self { directory: TempDir::new().unwrap() }
    }

    fn path(&self) -> PathBuf {
        self.directory.path().join("ledger.db")
    }
}

impl Store for File {
    fn ledger(&self) -> Arc<dyn Ledger> {
        Arc::new(SqliteLedger::open(&self.path()).unwrap())
    }
}
