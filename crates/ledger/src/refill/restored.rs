//! A state directory that was restored from a backup: its ledger lacks the charges made since.

use std::collections::HashMap;

use super::{Found, PassSpend, Passes, Refill};
use crate::LedgerClient;
use crate::open::file_of;
use ingest_base::plain::instant;
use ingest_quota::{Account, Entry, Timestamp};
use ingest_sqlite::Restored;

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

    /// Says of a ledger, or a journal, that was restored from a backup, what it may lack, as long as what was charged before it was
    /// restored may still count upstream; `None` otherwise.
    pub async fn restored(&self, ledger: &dyn LedgerClient) -> Option<String> {
        let restored = ledger.restored().await.ok().flatten()?;
        let now = self.clock.now();
        // Only what charges can note that it found a restored file: until then, it can be restored as late as now.
        let used_from = restored.used_from.map_or(now, Timestamp::from_micros);
        let windows = self.accounts.iter().map(|account| account.longest_window());
        let until = used_from + windows.max().unwrap_or_default();
        (now < until).then(|| {
            format!(
                "restored from a backup of {}; charges made between the backup and the restore are missing, and their units may \
                be granted again until {}. Charge them with `ingest charge --times`, or wait until then",
                instant(Timestamp::from_micros(restored.made_at)),
                instant(until)
            )
        })
    }

    /// Notes since when a restored file is used, and reports it.
    pub(super) async fn note_and_warn_if_restored(
        &self,
        ledger: &dyn LedgerClient,
    ) -> Result<(), P::Error> {
        let is_new = |restored: Restored| restored.used_from.is_none();
        if ledger.restored().await?.is_some_and(is_new) {
            ledger.note_restored().await?;
        }
        if let Some(restored) = self.restored(ledger).await {
            let file = file_of(&self.config.store);
            tracing::warn!("{}: {restored}", self.state_dir.join(file).display());
        }
        Ok(())
    }
}
