//! A state directory that was restored from an earlier time: its ledger lacks charges that were made since.

use super::super::Error;
use super::super::environment::Environment;
use super::{draws_on, entry};
use crate::catalog::PassRecord;
use crate::config::LedgerStore;
use crate::ledger::{JOURNAL_FILE, LEDGER_FILE, Meter, OpenLedgerError, SqliteLedger};
use crate::quota::{Account, Entry, Timestamp};
use crate::sqlite;

/// Charges what passes spent that began after the newest charge of the ledger's file. Every pass is charged before it
/// lands a page, so such a file is older than the catalog.
pub async fn charge_passes_since(
    environment: &Environment,
    meter: &Meter,
    account: &Account,
) -> Result<(), Error> {
    let now = environment.clock.now();
    let counted_from = now.before(account.longest_window());
    let entries: Vec<Entry> = passes_since(environment, account)
        .await?
        .iter()
        .map(|pass| entry(pass, now))
        .filter(|entry| entry.at > counted_from)
        .collect();
    if !entries.is_empty() {
        meter.absorb(account, &entries).await?;
        tracing::warn!(
            account = account.name,
            passes = entries.len(),
            "ledger.db is older than the catalog, as after a restore of one file; charging it \
            with what later passes spent; restore both files together, and charge any other \
            spend with `ingest charge`"
        );
    }
    Ok(())
}

/// The passes that began after the ledger's newest charge and spent units. The ledger is asked again once they are known:
/// another process may have charged and landed them meanwhile.
async fn passes_since(
    environment: &Environment,
    account: &Account,
) -> Result<Vec<PassRecord>, Error> {
    let Some(newest) = newest_charge(environment, account).await? else {
        return Ok(Vec::new());
    };
    let mut passes = match environment.catalog_to_read() {
        Ok(catalog) => catalog.history(newest).await.unwrap_or_default(),
        // Whoever needs the catalog reports what is wrong with it.
        Err(_) => Vec::new(),
    };
    passes.retain(|pass| draws_on(environment, pass, account) && !pass.units.is_none());
    if passes.is_empty() {
        return Ok(passes);
    }
    let newest = newest_charge(environment, account).await?.unwrap_or(newest);
    passes.retain(|pass| pass.started_at > newest);
    Ok(passes)
}

/// `None` where the ledger is not in a file, or holds no charge of the account.
async fn newest_charge(
    environment: &Environment,
    account: &Account,
) -> Result<Option<Timestamp>, Error> {
    match environment.config.ledger.store {
        LedgerStore::Redis(_) => Ok(None),
        LedgerStore::Sqlite => {
            let ledger = SqliteLedger::open(&environment.state_dir.join(LEDGER_FILE))
                .map_err(OpenLedgerError::from)?;
            Ok(ledger
                .newest_charge(account)
                .await
                .map_err(OpenLedgerError::from)?)
        }
    }
}

/// Reports a ledger, or a journal, that was restored from a backup, as long as what was charged since may still count
/// upstream.
pub fn warn(environment: &Environment) {
    let file = match environment.config.ledger.store {
        LedgerStore::Sqlite => LEDGER_FILE,
        LedgerStore::Redis(_) => JOURNAL_FILE,
    };
    let path = environment.state_dir.join(file);
    let Ok(Some(made_at)) = sqlite::restored_from(&path) else {
        return;
    };
    let made_at = Timestamp::from_micros(made_at);
    let windows = environment.accounts();
    let longest = windows.iter().map(|account| account.longest_window()).max();
    let until = made_at.after(longest.unwrap_or_default());
    if environment.clock.now() < until {
        tracing::warn!(
            "{}: restored from a backup of {made_at}; charges made between the backup and the \
            restore are missing, and their units may be granted again until {until}. Charge them \
            with `ingest charge --times`, or wait until then",
            path.display()
        );
    }
}
