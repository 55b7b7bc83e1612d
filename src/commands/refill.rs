//! The way to the ledger: what it lacks of what the catalog's passes spent is charged first (`ingest_ledger::refill`).

mod claimed;

use std::sync::Arc;
use std::time::Duration;

use tokio::sync::Mutex;

use super::Error;
use super::environment::Environment;
use ingest_catalog::PassRecord;
use ingest_config::Region;
use ingest_ledger::LedgerClient;
use ingest_ledger::refill::{PassSpend, Passes, Refill};
use ingest_quota::{Account, Timestamp};

pub use claimed::charged_elsewhere;

/// Opens the ledger for charging, in a state directory that need not be there yet.
pub async fn charging_ledger(environment: &Environment) -> Result<Arc<dyn LedgerClient>, Error> {
    environment.create_state_dir()?;
    // First: an account that is charged in another ledger must not be charged here.
    let claimed = claimed::claim(environment).await?;
    // A catalog that is away keeps nobody from charging; whatever dates a pass compares the clocks again.
    let _ = environment.compare_clocks().await;
    let refill = refill(environment);
    let ledger = refill.for_charging(&environment.witness).await?;
    // After the charges of this machine's file are in it: from here on, other machines charge the account there.
    claimed.finish(environment).await?;
    Ok(ledger)
}

/// Opens the ledger for reading, as the next charge will find it.
pub async fn reading_ledger(environment: &Environment) -> Result<Arc<dyn LedgerClient>, Error> {
    refill(environment).for_reading().await
}

/// Opens the ledger for reading, with what it has recorded and nothing else.
pub fn recorded_ledger(environment: &Environment) -> Result<Arc<dyn LedgerClient>, Error> {
    Ok(refill(environment).recorded()?)
}

/// Says of a ledger that was restored from a backup what it may lack; `None` where that is over, or it was not restored.
pub async fn restored(environment: &Environment, ledger: &dyn LedgerClient) -> Option<String> {
    refill(environment).restored(ledger).await
}

fn refill(environment: &Environment) -> Refill<'_, OfCatalog<'_>> {
    Refill {
        config: &environment.config.ledger,
        state_dir: &environment.state_dir,
        accounts: environment.accounts(),
        passes: OfCatalog {
            environment,
            read: Mutex::default(),
        },
        clock: Arc::clone(&environment.clock),
    }
}

/// The passes that the catalog has.
struct OfCatalog<'e> {
    environment: &'e Environment,
    /// Those that began after a time, read once for all accounts: most accounts ask for those after about the same time.
    read: Mutex<Option<(Timestamp, Vec<PassRecord>)>>,
}

impl Passes for OfCatalog<'_> {
    type Error = Error;

    async fn spent(&self, account: &Account, since: Timestamp) -> Result<Vec<PassSpend>, Error> {
        let mut read = self.read.lock().await;
        if read.as_ref().is_none_or(|(from, _)| *from > since) {
            // Before the catalog is asked: one that is away is not asked again for the next account.
            *read = Some((since, Vec::new()));
            *read = Some((since, self.history(since).await?));
        }
        let passes = read.iter().flat_map(|(_, passes)| passes);
        let spent = passes.map(|pass| spend(pass, self.accounts_of(&pass.job)));
        let of_account = |pass: &PassSpend| pass.accounts.contains(&account.name);
        Ok(spent.filter(of_account).collect())
    }

    fn longest(&self) -> Duration {
        let jobs = self.environment.config.jobs.iter();
        let longest = jobs.map(|job| job.resume_within).max();
        longest.unwrap_or_default()
    }
}

impl OfCatalog<'_> {
    async fn history(&self, since: Timestamp) -> Result<Vec<PassRecord>, Error> {
        Ok(self.environment.reader().await?.history(since).await?)
    }

    /// Returns the accounts that a job charges. Which credential a request of a pass used is not known, so each of them counts all of
    /// its passes.
    fn accounts_of(&self, job: &str) -> Vec<String> {
        let job = self.environment.config.job(job).into_iter();
        let credentials = job.flat_map(|job| job.credentials());
        credentials.map(|one| one.account.name.clone()).collect()
    }
}

fn spend(pass: &PassRecord, accounts: Vec<String>) -> PassSpend {
    let region = Region::key_of(&pass.region, pass.slice);
    PassSpend {
        name: format!("{} {region} {}", pass.job, pass.started_at),
        job: pass.job.clone(),
        began: pass.started_at,
        ended: pass.finished_at,
        units: pass.units.clone(),
        accounts,
    }
}
