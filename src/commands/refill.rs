//! The way to the ledger. A new ledger does not know what was charged before: its file is gone while the catalog is there, or
//! the configuration names it since today. It is charged that first, or a whole window would be granted again. Only this
//! module opens a ledger for charging, so that no command can charge one that was not refilled.

mod claimed;
mod restored;

use std::collections::HashSet;
use std::sync::Arc;
use std::time::Duration;

use super::Error;
use super::charging::Charging;
use super::environment::Environment;
use ingest_base::clock::{Clock, SystemClock};
use ingest_catalog::PassRecord;
use ingest_config::{Job, LedgerStore, Region};
use ingest_ledger as ledger;
use ingest_ledger::{LedgerClient, Mode, carried_over};
use ingest_quota::{Account, ChargeId, Cost, Entry, Origin, Timestamp};
use restored::LaterPasses;

/// Opens the ledger for charging.
pub async fn charging_ledger(environment: &Environment) -> Result<Arc<dyn LedgerClient>, Error> {
    // First: an account that is charged in another ledger must not be charged here.
    let claimed = claimed::claim(environment).await?;
    environment.compare_clocks().await;
    let (config, state_dir) = (&environment.config.ledger, &environment.state_dir);
    let ledger = ledger::open_seen(config, state_dir, &environment.witness, clock(environment))?;
    let is_empty = ledger.is_empty().await?;
    if !environment.config.ledger.store.is_file() {
        fill(environment, &*ledger, is_empty).await?;
        // After the charges of the file are in it: from here on, other machines charge the account there.
        claimed.finish(environment).await?;
        return Ok(ledger);
    }
    let charging = Charging::begin(&environment.state_dir).await?;
    // Only a ledger that is empty needs the other processes to be gone, and hardly any is.
    let is_empty = is_empty && charging.alone_while_empty(&*ledger).await?;
    fill(environment, &*ledger, is_empty).await?;
    // From here on others charge too. The share is kept, so that none of them fills the ledger meanwhile.
    charging.share().await?;
    environment.hold(charging);
    Ok(ledger)
}

/// Opens the ledger for reading, as the next charge will find it: with what that one adds first. Writes nothing.
pub async fn reading_ledger(environment: &Environment) -> Result<Arc<dyn LedgerClient>, Error> {
    let ledger = recorded_ledger(environment)?;
    let is_empty = ledger.is_empty().await?;
    let (mut charges, mut later) = (Vec::new(), LaterPasses::default());
    for account in environment.accounts() {
        let ledger = (&*ledger, Mode::ReadOnly);
        match Missing::find(environment, ledger, &account, is_empty, &mut later).await {
            Ok(missing) => charges.push((account, missing.all())),
            // A report shows what it can; a charge would fail here.
            Err(error) => tracing::warn!(
                account = account.name,
                "charges that the next run adds to the ledger are not shown: {error}"
            ),
        }
    }
    charges.retain(|(_, entries)| !entries.is_empty());
    if charges.is_empty() {
        return Ok(ledger);
    }
    let (config, state_dir) = (&environment.config.ledger, &environment.state_dir);
    let clock = clock(environment);
    Ok(ledger::open_with(&charges, config, state_dir, clock).await?)
}

/// Opens the ledger for reading, with what it has recorded and nothing else.
pub fn recorded_ledger(environment: &Environment) -> Result<Arc<dyn LedgerClient>, Error> {
    let (config, state_dir) = (&environment.config.ledger, &environment.state_dir);
    Ok(ledger::open(
        config,
        state_dir,
        Mode::ReadOnly,
        clock(environment),
    )?)
}

/// The clock of the ledger. A file always goes by this machine's: under another one, what it holds would return too early.
fn clock(environment: &Environment) -> Arc<dyn Clock> {
    match environment.config.ledger.store {
        LedgerStore::Sqlite => Arc::new(SystemClock),
        LedgerStore::Redis(_) => Arc::clone(&environment.clock),
    }
}

/// Charges the ledger what it does not know of.
async fn fill(
    environment: &Environment,
    ledger: &dyn LedgerClient,
    is_empty: bool,
) -> Result<(), Error> {
    let mut later = LaterPasses::default();
    for account in environment.accounts() {
        let mode = Mode::ReadWrite;
        let missing =
            Missing::find(environment, (ledger, mode), &account, is_empty, &mut later).await?;
        missing.warn(&account);
        let entries = missing.all();
        if !entries.is_empty() {
            ledger.absorb(&account, &entries).await?;
        }
    }
    restored::warn(environment, ledger).await;
    Ok(())
}

/// Charges of one account that the ledger lacks.
struct Missing {
    /// What the catalog's passes spent, where the ledger is new.
    refilled: Vec<Entry>,
    /// What was charged in the ledger that the configuration named before; the ledger may have it already.
    elsewhere: Vec<Entry>,
    /// What passes spent that began after the newest charge.
    since: Vec<Entry>,
}

impl Missing {
    async fn find(
        environment: &Environment,
        (ledger, mode): (&dyn LedgerClient, Mode),
        account: &Account,
        is_empty: bool,
        later: &mut LaterPasses,
    ) -> Result<Self, Error> {
        let (store, now) = (&environment.config.ledger.store, environment.clock.now());
        let elsewhere = carried_over(store, &environment.state_dir, account, now, mode).await?;
        let refilled = match is_empty {
            true => refill(environment, account, elsewhere.by_passes).await?,
            false => Vec::new(),
        };
        let added = refilled.iter().chain(&elsewhere.charges);
        let added = added.map(|entry| entry.at).max();
        Ok(Self {
            since: restored::charged_since(environment, ledger, account, added, later).await?,
            refilled,
            elsewhere: elsewhere.charges,
        })
    }

    fn all(self) -> Vec<Entry> {
        [self.refilled, self.elsewhere, self.since].concat()
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

/// What passes spent, less what is charged in another way. Each pass is one charge under an id of its own, so that it is
/// counted once.
async fn refill(
    environment: &Environment,
    account: &Account,
    mut charged: Cost,
) -> Result<Vec<Entry>, Error> {
    let now = environment.clock.now();
    let counted_from = now - account.longest_window();
    let passes = environment
        .archive()
        .await?
        .history(counted_from - longest_pass(environment))
        .await?;
    let jobs = jobs_on(environment, account);
    let mut entries: Vec<Entry> = passes
        .iter()
        .filter(|pass| jobs.contains(&*pass.job))
        .map(|pass| entry(pass, now))
        .collect();
    entries.retain(|entry| entry.at > counted_from);
    for entry in &mut entries {
        // A unit that was charged in another way is taken off one pass alone.
        let spent = entry.cost.clone();
        entry.cost.take(&charged);
        charged.take(&spent);
    }
    entries.retain(|entry| !entry.cost.is_none());
    Ok(entries)
}

/// A pass can have begun this long before its last request.
fn longest_pass(environment: &Environment) -> Duration {
    environment
        .config
        .jobs
        .iter()
        .map(|job| job.resume_within)
        .max()
        .unwrap_or_default()
}

/// Returns the names of the jobs that charge an account. Which credential a request of a pass used is not known, so each account of
/// a job counts all of them.
fn jobs_on<'e>(environment: &'e Environment, account: &Account) -> HashSet<&'e str> {
    let charges = |job: &&Arc<Job>| {
        let mut accounts = job.credentials().map(|one| &one.account.name);
        accounts.any(|name| *name == account.name)
    };
    let jobs = environment.config.jobs.iter().filter(charges);
    jobs.map(|job| &*job.name).collect()
}

/// When its requests were made is not known: at its end at the latest, which is now for one that goes on.
fn entry(pass: &PassRecord, now: Timestamp) -> Entry {
    let PassRecord {
        job,
        region,
        slice,
        started_at,
        finished_at,
        units,
        ..
    } = pass;
    let region = Region::key_of(region, *slice);
    let id = ChargeId::own(format_args!("pass {job} {region} {started_at}"));
    Entry {
        origin: Origin::CarriedOver,
        id,
        at: finished_at.unwrap_or(now),
        cost: units.clone(),
    }
}
