//! What a ledger lacks. A new one does not know what was charged before: its file is gone while the catalog is there, or the
//! configuration names it since today. It is charged that first, or a whole window would be granted again. Only this module
//! opens a ledger for charging, so that no command can charge one that was not refilled.

mod restored;

use std::collections::HashMap;
use std::fmt::Display;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use super::carry_over::{carried_over, end_closings};
use super::open::{LEDGER_FILE, Mode, OpenLedgerError, open, open_with};
use super::sqlite::Charging;
use super::{ClientError, LedgerClient, LocalClient, SqliteLedger, Witness};
use ingest_base::clock::{Clock, SystemClock};
use ingest_config::{LedgerConfig, LedgerStore};
use ingest_quota::{Account, ChargeId, Closing, Cost, Entry, LimitName, Origin, Timestamp};

/// What one pass of the catalog spent. It is one charge under an id of its own, so that it is counted once.
#[derive(Debug, Clone)]
pub struct PassSpend {
    /// Names the pass among all of the catalog.
    pub name: String,
    /// The job that made it.
    pub job: String,
    /// When it began.
    pub began: Timestamp,
    /// When it ended; `None` while it goes on.
    pub ended: Option<Timestamp>,
    /// What its requests spent.
    pub units: Cost,
    /// The names of the accounts that its job charges. Which of them its requests were charged to is not known.
    pub accounts: Vec<String>,
}

impl PassSpend {
    /// When its requests were made is not known: at its end at the latest, which is now for one that goes on.
    fn entry(&self, now: Timestamp) -> Entry {
        Entry {
            origin: Origin::CarriedOver,
            id: ChargeId::own(format_args!("pass {}", self.name)),
            at: self.ended.unwrap_or(now),
            cost: self.units.clone(),
        }
    }
}

/// The passes of the catalog, which this crate cannot see.
pub trait Passes: Sync {
    /// Why they cannot be read, or the ledger cannot be charged.
    type Error: From<ClientError> + From<OpenLedgerError> + Display;

    /// Returns what passes spent that began at `since` or later, of jobs that charge the account; older ones can be among them.
    fn spent(
        &self,
        account: &Account,
        since: Timestamp,
    ) -> impl Future<Output = Result<Vec<PassSpend>, Self::Error>> + Send;

    /// Returns how long before its last request a pass can have begun.
    fn longest(&self) -> Duration;
}

/// The ledger that a configuration names, and what it may lack.
pub struct Refill<'a, P> {
    /// Which ledger.
    pub config: &'a LedgerConfig,
    /// The directory of its file, or of the journal.
    pub state_dir: &'a Path,
    /// All accounts of the configuration.
    pub accounts: Vec<Arc<Account>>,
    /// What the catalog has.
    pub passes: P,
    /// The clock of this process.
    pub clock: Arc<dyn Clock>,
}

impl<P: Passes> Refill<'_, P> {
    /// Opens the ledger for charging. One in a file is locked against filling for as long as it is open.
    ///
    /// # Errors
    /// When it cannot be opened or charged what it lacks, or `witness` has seen what it does not hold.
    pub async fn for_charging(&self, witness: &Witness) -> Result<Arc<dyn LedgerClient>, P::Error> {
        if !self.config.store.is_file() {
            let ledger = self.opened(Mode::ReadWrite)?;
            self.fill(&*ledger, false).await?;
            return Ok(ledger);
        }
        let file = SqliteLedger::open_seen(&self.state_dir.join(LEDGER_FILE), witness)?;
        let ledger = LocalClient::new(file, self.ledger_clock());
        let is_empty = ledger.is_empty().await?;
        let charging = Charging::begin(self.state_dir).await?;
        // Only a ledger that is empty needs the other processes to be gone, and hardly any is.
        let is_empty = is_empty && charging.alone_while_empty(&ledger).await?;
        self.fill(&ledger, is_empty).await?;
        // From here on others charge too. The share is kept, so that none of them fills the ledger meanwhile.
        charging.share().await?;
        Ok(Arc::new(ledger.holding(charging)))
    }

    /// Opens the ledger for reading, as the next charge will find it: with what that one adds first. Writes nothing.
    ///
    /// # Errors
    /// When it cannot be opened.
    pub async fn for_reading(&self) -> Result<Arc<dyn LedgerClient>, P::Error> {
        let ledger = self.recorded()?;
        let found = self.found(&*ledger, Mode::ReadOnly).await?;
        let mut lacking = Vec::new();
        for account in &self.accounts {
            match self.missing(&found, account).await {
                Ok(missing) => lacking.push((Arc::clone(account), missing)),
                // A report shows what it can; a charge would fail here.
                Err(error) => tracing::warn!(
                    account = account.name,
                    "charges that the next run adds to the ledger are not shown: {error}"
                ),
            }
        }
        lacking.retain(|(_, missing)| !missing.is_nothing());
        if lacking.is_empty() {
            return Ok(ledger);
        }
        let clock = self.ledger_clock();
        Ok(open_with(&lacking, self.config, self.state_dir, clock).await?)
    }

    /// Opens the ledger for reading, with what it has recorded and nothing else.
    ///
    /// # Errors
    /// When it cannot be opened.
    pub fn recorded(&self) -> Result<Arc<dyn LedgerClient>, OpenLedgerError> {
        self.opened(Mode::ReadOnly)
    }

    fn opened(&self, mode: Mode) -> Result<Arc<dyn LedgerClient>, OpenLedgerError> {
        open(self.config, self.state_dir, mode, self.ledger_clock())
    }

    /// A file always goes by this machine's clock: under another one, what it holds would return too early.
    fn ledger_clock(&self) -> Arc<dyn Clock> {
        match self.config.store {
            LedgerStore::Sqlite => Arc::new(SystemClock),
            LedgerStore::Redis(_) => Arc::clone(&self.clock),
        }
    }

    /// Charges the ledger what it does not know of.
    async fn fill(&self, ledger: &dyn LedgerClient, is_empty: bool) -> Result<(), P::Error> {
        let found = Found {
            is_empty,
            ..self.found(ledger, Mode::ReadWrite).await?
        };
        let mut lacking = Vec::new();
        for account in &self.accounts {
            let missing = self.missing(&found, account).await?;
            missing.warn(account);
            lacking.push((account, missing));
        }
        // Behind all questions: what is charged here is no charge of a pass.
        for (account, missing) in lacking {
            let entries = missing.charges();
            if !entries.is_empty() {
                ledger.absorb(account, &entries).await?;
            }
            if missing.closings.is_empty() {
                continue;
            }
            for (limit, closing) in &missing.closings {
                ledger.close(account, limit, *closing).await?;
            }
            // Only now: what a crash lets be closed twice is closed once.
            let (store, now) = (&self.config.store, self.clock.now());
            end_closings(store, self.state_dir, account, &missing.closings, now).await?;
        }
        self.note_and_warn_if_restored(ledger).await
    }

    /// Returns what an opened ledger has before it is charged anything.
    async fn found<'l>(
        &self,
        ledger: &'l dyn LedgerClient,
        mode: Mode,
    ) -> Result<Found<'l>, P::Error> {
        Ok(Found {
            ledger,
            mode,
            is_empty: ledger.is_empty().await?,
            newest: self.newest(ledger).await?,
        })
    }

    /// Returns the charges of an account that the ledger lacks.
    async fn missing(&self, found: &Found<'_>, account: &Account) -> Result<Missing, P::Error> {
        let now = self.clock.now();
        let store = &self.config.store;
        let elsewhere = carried_over(store, self.state_dir, account, now, found.mode).await?;
        let refilled = match found.is_empty {
            true => self.spent_before(account, elsewhere.by_passes).await?,
            false => Vec::new(),
        };
        let added = refilled.iter().chain(&elsewhere.charges);
        let added = added.map(|entry| entry.at).max();
        Ok(Missing {
            since: self.spent_since_backup(found, account, added).await?,
            refilled,
            elsewhere: elsewhere.charges,
            closings: elsewhere.closings,
        })
    }

    /// Returns what passes spent, less what is charged in another way.
    async fn spent_before(
        &self,
        account: &Account,
        mut charged: Cost,
    ) -> Result<Vec<Entry>, P::Error> {
        let now = self.clock.now();
        let counted_from = now - account.longest_window();
        let since = counted_from - self.passes.longest();
        let passes = self.passes.spent(account, since).await?;
        let entries = passes.iter().map(|pass| pass.entry(now));
        let mut entries: Vec<Entry> = entries.filter(|entry| entry.at > counted_from).collect();
        for entry in &mut entries {
            // A unit that was charged in another way is taken off one pass alone.
            let spent = entry.cost.clone();
            entry.cost.take(&charged);
            charged.take(&spent);
        }
        entries.retain(|entry| !entry.cost.is_none());
        Ok(entries)
    }
}

/// A ledger before it is charged what it lacks.
struct Found<'l> {
    ledger: &'l dyn LedgerClient,
    mode: Mode,
    is_empty: bool,
    /// The newest charge of each account that has one; empty where the ledger is no file.
    newest: HashMap<String, Timestamp>,
}

/// Charges and closings of one account that the ledger lacks.
pub struct Missing {
    /// What the catalog's passes spent, where the ledger is new.
    refilled: Vec<Entry>,
    /// What was charged in the ledger that the configuration named before; the ledger may have it already.
    elsewhere: Vec<Entry>,
    /// What passes spent that began after the newest charge.
    since: Vec<Entry>,
    /// The limits that were closed in the ledger that the configuration named before.
    pub(super) closings: Vec<(LimitName, Closing)>,
}

impl Missing {
    pub(super) fn charges(&self) -> Vec<Entry> {
        [&self.refilled[..], &self.elsewhere, &self.since].concat()
    }

    fn is_nothing(&self) -> bool {
        self.charges().is_empty() && self.closings.is_empty()
    }

    fn warn(&self, account: &Account) {
        if !self.refilled.is_empty() {
            tracing::warn!(
                account = account.name,
                passes = self.refilled.len(),
                "the ledger is new, but the catalog contains passes; charging the ledger with what \
                they spent within the window"
            );
        }
        if !self.since.is_empty() {
            tracing::warn!(
                account = account.name,
                passes = self.since.len(),
                "ledger.db is older than the catalog, as after a restore of one file; charging it \
                with what later passes spent; restore both files together, and charge any other \
                spend with `ingest charge`"
            );
        }
    }
}
