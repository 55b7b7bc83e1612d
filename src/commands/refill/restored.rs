//! A state directory that was restored from a backup: its ledger lacks the charges made since.

use super::super::Error;
use super::super::environment::Environment;
use super::super::table::instant;
use super::{entry, jobs_on};
use ingest_catalog::PassRecord;
use ingest_config::LedgerStore;
use ingest_ledger::{JOURNAL_FILE, LEDGER_FILE, LedgerClient};
use ingest_quota::{Account, Entry, Timestamp};

/// What passes spent that began after the newest charge of the ledger's file, `added` included: the newest of what it is
/// charged before. Every pass is charged before it lands a page, so such a file is older than the catalog.
pub async fn charged_since(
    environment: &Environment,
    ledger: &dyn LedgerClient,
    account: &Account,
    added: Option<Timestamp>,
    later: &mut LaterPasses,
) -> Result<Vec<Entry>, Error> {
    if !environment.config.ledger.store.is_file() {
        return Ok(Vec::new());
    }
    let now = environment.clock.now();
    let counted_from = now - account.longest_window();
    let passes = passes_since(environment, ledger, account, added, later).await?;
    let entries = passes.iter().map(|pass| entry(pass, now));
    Ok(entries.filter(|entry| entry.at > counted_from).collect())
}

/// The passes that began after the ledger's newest charge and spent units. The ledger is queried again once they are
/// found: another process may have charged and landed them meanwhile.
async fn passes_since(
    environment: &Environment,
    ledger: &dyn LedgerClient,
    account: &Account,
    added: Option<Timestamp>,
    later: &mut LaterPasses,
) -> Result<Vec<PassRecord>, Error> {
    let Some(newest) = ledger.newest_charge(account).await?.max(added) else {
        return Ok(Vec::new());
    };
    let jobs = jobs_on(environment, account);
    let passes = later.since(environment, newest).await.iter();
    let spent = passes.filter(|pass| pass.started_at > newest && !pass.units.is_none());
    let mut passes: Vec<PassRecord> = spent
        .filter(|pass| jobs.contains(&*pass.job))
        .cloned()
        .collect();
    if passes.is_empty() {
        return Ok(passes);
    }
    let again = ledger.newest_charge(account).await?;
    let newest = again.unwrap_or(newest).max(newest);
    passes.retain(|pass| pass.started_at > newest);
    Ok(passes)
}

/// The passes that began after a time, read once for all accounts: most accounts ask for those after about the same time.
#[derive(Default)]
pub struct LaterPasses {
    read: Option<(Timestamp, Vec<PassRecord>)>,
}

impl LaterPasses {
    /// Returns the passes that began after `time`, among older ones. A pass that begins after the read is not missed: its charges
    /// are in the ledger before it lands a page.
    async fn since(&mut self, environment: &Environment, time: Timestamp) -> &[PassRecord] {
        let read = self.read.take().filter(|(since, _)| *since <= time);
        let read = match read {
            Some(read) => read,
            None => match environment.archive().await {
                Ok(catalog) => (time, catalog.history(time).await.unwrap_or_default()),
                // The command that needs the catalog reports what is wrong with it.
                Err(_) => (time, Vec::new()),
            },
        };
        &self.read.insert(read).1
    }
}

/// Reports a ledger, or a journal, that was restored from a backup, as long as what was charged since may still count
/// upstream.
pub async fn warn(environment: &Environment, ledger: &dyn LedgerClient) {
    let Ok(Some(made_at)) = ledger.restored_from().await else {
        return;
    };
    let file = match environment.config.ledger.store {
        LedgerStore::Sqlite => LEDGER_FILE,
        LedgerStore::Redis(_) => JOURNAL_FILE,
    };
    let path = environment.state_dir.join(file);
    let windows = environment.accounts();
    let longest = windows.iter().map(|account| account.longest_window()).max();
    let until = made_at + longest.unwrap_or_default();
    if environment.clock.now() < until {
        tracing::warn!(
            "{}: restored from a backup of {}; charges made between the backup and the restore are missing, and their units \
            may be granted again until {}. Charge them with `ingest charge --times`, or wait until then",
            path.display(),
            instant(made_at),
            instant(until)
        );
    }
}
