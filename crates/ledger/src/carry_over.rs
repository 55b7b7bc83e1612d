//! After the configuration names another kind of ledger: what this machine charged in the one before still counts. It is
//! absorbed under its own ids at every start while it is in the window, so it counts once however often that happens.

use std::path::Path;

use super::open::{JOURNAL_FILE, LEDGER_FILE};
use super::{Journal, Mode, OpenLedgerError, SqliteLedger};
use ingest_config::LedgerStore;
use ingest_quota::{Account, Cost, Entry, Origin, Timestamp};

/// What this machine charged to an account within its longest window, in the ledger before.
#[derive(Debug, Default)]
pub struct CarryOver {
    /// Each charge.
    pub charges: Vec<Entry>,
    /// The units of them that passes of the catalog record too.
    pub by_passes: Cost,
}

/// Returns what this machine charged while the configuration named a ledger of the other kind: from its file, or from the
/// journal of a shared one.
///
/// # Errors
/// When that file exists and cannot be read.
pub async fn carried_over(
    store: &LedgerStore,
    state_dir: &Path,
    account: &Account,
    now: Timestamp,
    mode: Mode,
) -> Result<CarryOver, OpenLedgerError> {
    let file = |name: &str| Some(state_dir.join(name)).filter(|file| file.exists());
    let mut carried = match store {
        LedgerStore::Sqlite => match file(JOURNAL_FILE) {
            Some(journal) => {
                let journal = match mode {
                    Mode::ReadWrite => Journal::open(&journal)?,
                    Mode::ReadOnly => Journal::open_read_only(&journal)?,
                };
                // A new file is also charged with what the passes of the catalog spent, and these units must not count
                // twice.
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
    // What was taken back is not carried over: in a ledger that never had the charge, it has nothing to release.
    carried.charges.retain(|entry| !entry.cost.is_none());
    for entry in &mut carried.charges {
        entry.origin = match entry.origin {
            Origin::Charged | Origin::CarriedOver => Origin::CarriedOver,
            Origin::Reported => Origin::Reported,
        };
    }
    Ok(carried)
}
