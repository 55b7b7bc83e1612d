//! Opens the ledger that the configuration names.

use std::path::Path;
use std::sync::Arc;

use super::{LedgerError, Meter, SqliteLedger};
use crate::clock::Clock;
use crate::config::{LedgerConfig, LedgerStore};

/// What a command does with the ledger.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Access {
    /// Charges.
    ReadWrite,
    /// Looks, and writes nothing anywhere.
    ReadOnly,
}

/// The way to the ledger.
///
/// # Errors
/// When a file of it in the state directory cannot be used. A ledger out of reach is no error here.
pub fn open(
    config: &LedgerConfig,
    state_dir: &Path,
    access: Access,
    clock: Arc<dyn Clock>,
) -> Result<Meter, LedgerError> {
    let path = state_dir.join("ledger.db");
    let ledger = match (&config.store, access) {
        (LedgerStore::Sqlite, Access::ReadWrite) => SqliteLedger::open(&path),
        (LedgerStore::Sqlite, Access::ReadOnly) => SqliteLedger::open_read_only(&path),
        (LedgerStore::Redis(_), _) => return Err(LedgerError::Broken("redis is not merged yet".to_owned())),
    };
    let ledger = ledger.map_err(|error| LedgerError::Broken(error.to_string()))?;
    Ok(Meter::new(Arc::new(ledger), clock))
}

/// What is dangerous about the ledger's settings, if it can be asked.
pub async fn inspect(_config: &LedgerConfig) -> Vec<String> {
    Vec::new()
}
