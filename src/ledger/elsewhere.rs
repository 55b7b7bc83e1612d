//! A configuration that names another ledger than yesterday: what this machine charged in the one that it left counts still.

use std::path::Path;

use super::open::{JOURNAL_FILE, LEDGER_FILE};
use super::{Journal, OpenLedgerError, SqliteLedger};
use crate::config::LedgerStore;
use crate::quota::{Account, Entry, Timestamp};

/// What this machine charged of an account, within its longest window, while the configuration named a ledger of the other
/// kind: by its file, or by its journal of a shared one.
///
/// # Errors
/// When that file is there and cannot be read.
pub async fn charged_elsewhere(
    store: &LedgerStore,
    state_dir: &Path,
    account: &Account,
    now: Timestamp,
) -> Result<Vec<Entry>, OpenLedgerError> {
    let file = |name: &str| Some(state_dir.join(name)).filter(|file| file.exists());
    let entries = match store {
        LedgerStore::Sqlite => match file(JOURNAL_FILE) {
            Some(journal) => Journal::open(&journal)?.charges(account, now).await?,
            None => Vec::new(),
        },
        LedgerStore::Redis(_) => match file(LEDGER_FILE) {
            Some(ledger) => SqliteLedger::open(&ledger)?.charges(account, now).await?,
            None => Vec::new(),
        },
    };
    Ok(entries.into_iter().filter(|entry| !entry.cost.is_none()).collect())
}
