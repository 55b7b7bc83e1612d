//! After the configuration names another kind of ledger: what this machine charged in the one before still counts. It is
//! absorbed under its own ids at every start while it is in the window, so it counts once however often that happens. A limit
//! that was closed there is closed here, and no longer there: it is closed once, and a `reopen` here is not undone.

use std::path::{Path, PathBuf};

use super::open::{JOURNAL_FILE, LEDGER_FILE, open_file, open_journal};
use super::{Ledger, Mode, OpenLedgerError};
use ingest_config::LedgerStore;
use ingest_quota::{Account, Closing, Cost, Entry, LimitName, Origin, Timestamp};

/// What this machine charged to an account within its longest window, in the ledger before.
#[derive(Debug, Default)]
pub struct CarryOver {
    /// Each charge.
    pub charges: Vec<Entry>,
    /// The units of them that passes of the catalog record too.
    pub by_passes: Cost,
    /// The limits that are closed there.
    pub closings: Vec<(LimitName, Closing)>,
}

/// The file of the kind of ledger that `store` is not.
fn file_of_other(store: &LedgerStore, state_dir: &Path) -> PathBuf {
    state_dir.join(match store {
        LedgerStore::Sqlite => JOURNAL_FILE,
        LedgerStore::Redis(_) => LEDGER_FILE,
    })
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
    let other = file_of_other(store, state_dir);
    let mut carried = CarryOver::default();
    if !other.exists() {
        return Ok(carried);
    }
    if store.is_file() {
        let journal = open_journal(&other, mode)?;
        carried.charges = journal.charges(account, now).await?;
        // A new file is also charged with what the passes of the catalog spent, and these units must not count twice.
        carried.by_passes = journal.spent_by_passes(account, now).await?;
        carried.closings = journal.closings(account, now).await?;
    } else {
        let ledger = open_file(&other, mode)?;
        carried.charges = ledger.entries(account, now).await?;
        carried.closings = ledger.closings(account, now).await?;
    }
    // What was taken back is not carried over: in a ledger that never had the charge, it has nothing to release.
    carried.charges.retain(|entry| !entry.cost.is_none());
    for entry in &mut carried.charges {
        if entry.origin == Origin::Charged {
            entry.origin = Origin::CarriedOver;
        }
    }
    let is_limit = |(limit, _): &(LimitName, Closing)| account.limits.contains_key(limit);
    carried.closings.retain(is_limit);
    Ok(carried)
}

/// Ends closings where they were carried over from.
///
/// # Errors
/// When that file cannot be written.
pub async fn end_closings(
    store: &LedgerStore,
    state_dir: &Path,
    account: &Account,
    closings: &[(LimitName, Closing)],
    now: Timestamp,
) -> Result<(), OpenLedgerError> {
    let other = file_of_other(store, state_dir);
    if store.is_file() {
        let journal = open_journal(&other, Mode::ReadWrite)?;
        for (limit, _) in closings {
            journal.forget_closing(account, limit).await?;
        }
    } else {
        let ledger = open_file(&other, Mode::ReadWrite)?;
        for (limit, _) in closings {
            ledger.reopen(account, limit, now).await?;
        }
    }
    Ok(())
}
