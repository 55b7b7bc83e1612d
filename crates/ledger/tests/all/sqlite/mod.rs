//! What is SQLite's own: files, processes, and what each leaves behind.

mod damage;
mod files;
mod forgotten;
mod merged;
mod processes;
mod reading;

use std::path::{Path, PathBuf};
use std::sync::Arc;

use ingest_ledger::{Ledger, SqliteLedger};
use rusqlite::Connection;
use tempfile::TempDir;

use super::Store;

/// A ledger in a directory of its own.
pub(crate) struct File {
    directory: TempDir,
}

impl File {
    pub(crate) async fn fresh() -> Self {
        Self::new()
    }

    fn new() -> Self {
        Self {
            directory: TempDir::new().unwrap(),
        }
    }

    /// Below a directory that is not there yet.
    fn path(&self) -> PathBuf {
        self.directory.path().join("state").join("ledger.db")
    }

    /// The file as anybody may query it.
    fn query(&self) -> Connection {
        Connection::open(self.path()).unwrap()
    }
}

impl Store for File {
    fn ledger(&self) -> Arc<dyn Ledger> {
        Arc::new(open(&self.path()))
    }
}

fn open(path: &Path) -> SqliteLedger {
    SqliteLedger::open(path).unwrap()
}
