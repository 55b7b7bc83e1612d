//! A ledger that does not know what was charged before it: a file that is gone while the catalog is there, or one that the
//! configuration names since today. It is charged that first, or a whole window would be granted again.

use std::sync::Arc;
use std::time::Duration;

use super::Error;
use super::environment::Environment;
use crate::catalog::PassRecord;
use crate::ledger::{Meter, Mode, charged_elsewhere};
use crate::quota::{Account, ChargeId, Entry, Timestamp};

/// The way to the ledger, to charge.
pub(super) async fn charging_meter(environment: &Environment) -> Result<Arc<Meter>, Error> {
    let meter = environment.meter(Mode::ReadWrite)?;
    if meter.is_empty().await? {
        refill(environment, &meter).await?;
    }
    carry_over(environment, &meter).await?;
    Ok(meter)
}

/// Charges what the ledger of the other kind holds, which the configuration named before.
async fn carry_over(environment: &Environment, meter: &Meter) -> Result<(), Error> {
    let (store, now) = (&environment.config.ledger.store, environment.clock.now());
    for account in environment.accounts() {
        let entries = charged_elsewhere(store, &environment.state_dir, &account, now).await?;
        if !entries.is_empty() {
            meter.absorb(&account, &entries).await?;
        }
    }
    Ok(())
}

/// Charges what passes spent. Each pass is one charge under an id of its own, so that it is counted once.
async fn refill(environment: &Environment, meter: &Meter) -> Result<(), Error> {
    let now = environment.clock.now();
    let catalog = environment.catalog_to_read()?;
    for account in environment.accounts() {
        let counted_from = now.before(account.longest_window());
        let passes = catalog.history(counted_from.before(longest_pass(environment))).await?;
        let entries = passes.iter().filter(|pass| draws_on(environment, pass, &account)).map(|pass| entry(pass, now));
        let entries: Vec<Entry> = entries.filter(|entry| entry.at > counted_from && !entry.cost.is_none()).collect();
        if !entries.is_empty() {
            meter.absorb(&account, &entries).await?;
            tracing::warn!(
                account = account.name,
                passes = entries.len(),
                "the ledger is new, but the catalog tells of passes: what they spent within the window is charged to it"
            );
        }
    }
    Ok(())
}

/// A pass can have begun this long before its last request.
fn longest_pass(environment: &Environment) -> Duration {
    environment.config.jobs.iter().map(|job| job.resume_within).max().unwrap_or_default()
}

fn draws_on(environment: &Environment, pass: &PassRecord, account: &Account) -> bool {
    environment.config.jobs.iter().any(|job| job.name == pass.job && job.credential.account.name == account.name)
}

/// When its requests were made is not known: at its end at the latest, which is now for one that goes on.
fn entry(pass: &PassRecord, now: Timestamp) -> Entry {
    let PassRecord { job, region, started_at, finished_at, units, .. } = pass;
    let id = ChargeId::new(format!("pass {job} {region} {started_at}"));
    Entry { id, at: finished_at.unwrap_or(now), cost: units.clone() }
}
