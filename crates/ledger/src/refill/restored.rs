//! A state directory that was restored from a backup: its ledger lacks the charges made since.

use std::collections::HashMap;

use super::{Found, PassSpend, Passes, Refill};
use crate::{JOURNAL_FILE, LEDGER_FILE, LedgerClient};
use ingest_base::plain::instant;
use ingest_config::LedgerStore;
use ingest_quota::{Account, Entry, Timestamp};

impl PassSpend {
    /// Whether an account of its job has a charge since it began: the file is then no older than the pass, which can have spent nothing
    /// of the job's other accounts.
    fn is_charged(&self, newest: &HashMap<String, Timestamp>) -> bool {
        let of_job = self.accounts.iter().filter_map(|name| newest.get(name));
        of_job.max().is_some_and(|newest| *newest >= self.began)
    }
}

impl<P: Passes> Refill<'_, P> {
    /// Returns what passes spent that began after the newest charge of the ledger's file, `added` included: the newest of what it
    /// is charged before. Every pass is charged before it lands a page, so such a file is older than the catalog.
    pub(super) async fn spent_since_backup(
        &self,
        found: &Found<'_>,
        account: &Account,
        added: Option<Timestamp>,
    ) -> Result<Vec<Entry>, P::Error> {
        if !self.config.store.is_file() {
            return Ok(Vec::new());
        }
        let now = self.clock.now();
        let counted_from = now - account.longest_window();
        let passes = self.passes_since(found, account, added).await?;
        let entries = passes.iter().map(|pass| pass.entry(now));
        Ok(entries.filter(|entry| entry.at > counted_from).collect())
    }

    /// Returns the passes that began after the ledger's newest charge and spent units. Once they are found, the ledger is asked for
    /// the charges of their jobs: a job can have used another account meanwhile, and another process can have charged and landed
    /// them. A pass that begins after they are read is not missed: its charges are in the ledger before it lands a page.
    async fn passes_since(
        &self,
        found: &Found<'_>,
        account: &Account,
        added: Option<Timestamp>,
    ) -> Result<Vec<PassSpend>, P::Error> {
        let Some(newest) = found.newest.get(&account.name).copied().max(added) else {
            return Ok(Vec::new());
        };
        // The command that needs the catalog reports what is wrong with it.
        let mut passes = self.passes.spent(account, newest).await.unwrap_or_default();
        passes.retain(|pass| pass.began > newest && !pass.units.is_none());
        passes.retain(|pass| !pass.is_charged(&found.newest));
        if !passes.is_empty() {
            let charged = found.ledger.newest_of_jobs(newest).await?;
            passes.retain(|pass| charged.get(&pass.job).is_none_or(|at| *at < pass.began));
        }
        Ok(passes)
    }

    /// Returns the newest charge of each account that has one.
    pub(super) async fn newest(
        &self,
        ledger: &dyn LedgerClient,
    ) -> Result<HashMap<String, Timestamp>, P::Error> {
        let mut newest = HashMap::new();
        for account in &self.accounts {
            let of_account = ledger.newest_charge(account).await?;
            newest.extend(of_account.map(|at| (account.name.clone(), at)));
        }
        Ok(newest)
    }

    /// Reports a ledger, or a journal, that was restored from a backup, as long as what was charged since may still count
    /// upstream.
    pub(super) async fn warn_if_restored(&self, ledger: &dyn LedgerClient) {
        let Ok(Some(made_at)) = ledger.restored_from().await else {
            return;
        };
        let file = match self.config.store {
            LedgerStore::Sqlite => LEDGER_FILE,
            LedgerStore::Redis(_) => JOURNAL_FILE,
        };
        let windows = self.accounts.iter().map(|account| account.longest_window());
        let until = made_at + windows.max().unwrap_or_default();
        if self.clock.now() < until {
            tracing::warn!(
                "{}: restored from a backup of {}; charges made between the backup and the restore are missing, and their \
                units may be granted again until {}. Charge them with `ingest charge --times`, or wait until then",
                self.state_dir.join(file).display(),
                instant(made_at),
                instant(until)
            );
        }
    }
}
