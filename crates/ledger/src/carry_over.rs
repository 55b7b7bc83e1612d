//! After the configuration names another kind of ledger: what this machine charged in the one before still counts. It is
//! absorbed under its own ids at every start while it is in the window, so it counts once however often that happens.

use std::path::Path;

use super::open::{JOURNAL_FILE, LEDGER_FILE, open_file, open_journal};
use super::{Mode, OpenLedgerError};
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
    let other = match store {
        LedgerStore::Sqlite => state_dir.join(JOURNAL_FILE),
        LedgerStore::Redis(_) => state_dir.join(LEDGER_FILE),
    };
    let mut carried = CarryOver::default();
    if !other.exists() {
        return Ok(carried);
    }
    if store.is_file() {
        let journal = open_journal(&other, mode)?;
        carried.charges = journal.charges(account, now).await?;
        // A new file is also charged with what the passes of the catalog spent, and these units must not count twice.
        carried.by_passes = journal.spent_by_passes(account, now).await?;
    } else {
        let ledger = open_file(&other, mode)?;
        carried.charges = ledger.entries(account, now).await?;
    }
    // What was taken back is not carried over: in a ledger that never had the charge, it has nothing to release.
    carried.charges.retain(|entry| !entry.cost.is_none());
    for entry in &mut carried.charges {
        if entry.origin == Origin::Charged {
            entry.origin = Origin::CarriedOver;
        }
    }
    Ok(carried)
}
