//! The ledger that simulations charge.

use std::sync::Arc;

use ingest_ledger::{Ledger, MemoryLedger};

use super::Store;

#[derive(Default)]
pub(crate) struct Memory(Arc<MemoryLedger>);

impl Memory {
    pub(crate) async fn open() -> Self {
        Self::default()
    }
}

impl Store for Memory {
    fn ledger(&self) -> Arc<dyn Ledger> {
        self.0.clone()
    }
}
