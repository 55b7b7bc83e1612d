//! A catalog that is gone, or empty, beside a ledger that jobs charged: what they ingested is not there any more.

use std::fs;
use std::io::ErrorKind;

use super::environment::{CATALOG_FILE, Environment};
use ingest_config::LedgerStore;
use ingest_ledger::{LedgerClient, Spent};
use ingest_quota::Timestamp;
use ingest_sqlite::beside;

/// A catalog file that holds nothing.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum NoCatalog {
    /// There is none.
    Missing,
    /// It has no bytes, and nobody writes it.
    Empty,
}

impl NoCatalog {
    /// Looks at the file; `None` where it holds something, and where the catalog is a database.
    pub fn find(environment: &Environment) -> Option<Self> {
        if environment.database().is_some() {
            return None;
        }
        let path = environment.state_dir.join(CATALOG_FILE);
        match fs::metadata(&path) {
            // Others, with catalogs of their own, may have charged a shared ledger.
            Err(error) if error.kind() == ErrorKind::NotFound => {
                (environment.config.ledger.store == LedgerStore::Sqlite).then_some(Self::Missing)
            }
            // A run that creates it now has a log beside it.
            Ok(found) if found.is_file() && found.len() == 0 && !beside(&path, "-wal").exists() => {
                Some(Self::Empty)
            }
            Ok(_) | Err(_) => None,
        }
    }

    /// Says that the catalog was lost, and what to do; `None` where no charge shows that there was one.
    pub async fn lost(
        self,
        environment: &Environment,
        ledger: &dyn LedgerClient,
    ) -> Option<String> {
        // Charges by hand need no catalog.
        let was_ingested = |of: &Spent| of.purpose.job.is_some() || self == Self::Empty;
        let how = match self {
            Self::Missing => "is missing",
            Self::Empty => "is empty",
        };
        if is_begun(environment).await {
            return None;
        }
        let now = environment.clock.now();
        for account in environment.accounts() {
            let spending = ledger.spent(&account, now - account.longest_window()).await;
            if spending.is_ok_and(|spending| spending.charges.iter().any(was_ingested)) {
                return Some(format!(
                    "{CATALOG_FILE} {how}, although the ledger has charges: what was ingested is not in the state directory \
                     any more. Restore it from a backup; without one, a run creates it and requests everything again."
                ));
            }
        }
        None
    }
}

/// Whether another run began the catalog since it was looked for: the charges are of that run.
async fn is_begun(environment: &Environment) -> bool {
    let held = environment.held_leases().await;
    if held.is_ok_and(|held| !held.is_empty()) {
        return true;
    }
    let Ok(catalog) = environment.reader().await else {
        return false;
    };
    let passes = catalog.history(Timestamp::from_micros(0)).await;
    passes.is_ok_and(|passes| !passes.is_empty())
}

/// Says that the catalog is lost, and what to do; `None` where it is there, and where nothing shows that there was one.
pub async fn lost_catalog(environment: &Environment, ledger: &dyn LedgerClient) -> Option<String> {
    NoCatalog::find(environment)?
        .lost(environment, ledger)
        .await
}
