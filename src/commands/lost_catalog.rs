//! A catalog that is gone, or empty, beside a ledger that jobs charged: what they ingested is not there any more.

use std::fs;
use std::io::ErrorKind;

use super::environment::{CATALOG_FILE, Environment};
use ingest_ledger::LedgerClient;
use ingest_sqlite::beside;

/// Says that the catalog was lost, and what to do; `None` where it is there, where it is a database, and where nothing shows
/// that there was one.
pub async fn lost_catalog(environment: &Environment, ledger: &dyn LedgerClient) -> Option<String> {
    if environment.database().is_some() {
        return None;
    }
    let path = environment.state_dir.join(CATALOG_FILE);
    let (how, by_jobs_alone) = match fs::metadata(&path) {
        // Charges by hand need no catalog.
        Err(error) if error.kind() == ErrorKind::NotFound => ("is missing", true),
        // A run that creates it now has a log beside it.
        Ok(found) if found.is_file() && found.len() == 0 && !beside(&path, "-wal").exists() => {
            ("is empty", false)
        }
        Ok(_) | Err(_) => return None,
    };
    let now = environment.clock.now();
    for account in environment.accounts() {
        let spending = ledger.spent(&account, now - account.longest_window()).await;
        let charges = spending
            .map(|spending| spending.charges)
            .unwrap_or_default();
        let was_ingested = |of: &ingest_ledger::Spent| of.purpose.job.is_some() || !by_jobs_alone;
        if charges.iter().any(was_ingested) {
            return Some(format!(
                "{CATALOG_FILE} {how}, although the ledger has charges: what was ingested is not in the state directory any \
                 more. Restore it from a backup; without one, the next run creates it and requests everything again."
            ));
        }
    }
    None
}
