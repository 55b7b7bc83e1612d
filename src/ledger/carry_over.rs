//! A configuration that names another ledger than yesterday: what this machine charged in the one that it left counts still.

use std::path::Path;

use super::open::{JOURNAL_FILE, LEDGER_FILE};
use super::{Journal, Mode, OpenLedgerError, SqliteLedger};
use crate::config::LedgerStore;
use crate::quota::{Account, Cost, Entry, Timestamp};

/// What this machine charged of an account within its longest window.
#[derive(Debug, Default)]
pub struct CarryOver {
    /// Each charge.
    pub charges: Vec<Entry>,
    /// What of them passes of the catalog tell too.
    pub by_passes: Cost,
}

/// What this machine charged while the configuration named a ledger of the other kind: by its file, or by its journal of a
/// shared one.
///
/// # Errors
/// When that file is there and cannot be read.
pub async fn carried_over(
    store: &LedgerStore,
    state_dir: &Path,
    account: &Account,
    now: Timestamp,
    mode: Mode,
) -> Result<CarryOver, OpenLedgerError> {
    let file = |name: &str| Some(state_dir.join(name)).filter(|file| file.exists());
    let mut elsewhere = match store {
        LedgerStore::Sqlite => match file(JOURNAL_FILE) {
            Some(journal) => {
                let journal = match mode {
                    Mode::ReadWrite => Journal::open(&journal)?,
                    Mode::ReadOnly => Journal::open_read_only(&journal)?,
                };
                let by_passes = journal.spent_by_passes(account, now).await?;
                CarryOver {
                    charges: journal.charges(account, now).await?,
                    by_passes,
                }
            }
            None => CarryOver::default(),
        },
        LedgerStore::Redis(_) => match file(LEDGER_FILE) {
            Some(ledger) => {
                let ledger = match mode {
                    Mode::ReadWrite => SqliteLedger::open(&ledger)?,
                    Mode::ReadOnly => SqliteLedger::open_read_only(&ledger)?,
                };
                let charges = ledger.charges(account, now).await?;
                CarryOver {
                    charges,
                    ..CarryOver::default()
                }
            }
            None => CarryOver::default(),
        },
    };
    elsewhere.charges.retain(|entry| !entry.cost.is_none());
    Ok(elsewhere)
}
