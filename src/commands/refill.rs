//! A ledger that does not know what was charged before it: a file that is gone while the catalog is there, or one that the
//! configuration names since today. It is charged that first, or a whole window would be granted again.

mod restored;

use std::sync::Arc;
use std::time::Duration;

use super::Error;
use super::charging::Charging;
use super::environment::Environment;
use crate::catalog::PassRecord;
use crate::config::LedgerStore;
use crate::ledger::{Meter, Mode, charged_elsewhere};
use crate::quota::{Account, ChargeId, Cost, Entry, Timestamp};

/// The way to the ledger, to charge.
pub async fn charging_meter(environment: &Environment) -> Result<Arc<Meter>, Error> {
    let meter = environment.meter(Mode::ReadWrite)?;
    let is_empty = meter.is_empty().await?;
    if environment.config.ledger.store != LedgerStore::Sqlite {
        fill(environment, &meter, is_empty).await?;
        return Ok(meter);
    }
    let charging = Charging::begin(&environment.state_dir).await?;
    let is_empty = is_empty && charging.alone_while_empty(&meter).await?;
    fill(environment, &meter, is_empty).await?;
    charging.share().await?;
    environment.hold(charging);
    Ok(meter)
}

/// Charges the ledger what it does not know of.
async fn fill(environment: &Environment, meter: &Meter, is_empty: bool) -> Result<(), Error> {
    let (store, now) = (&environment.config.ledger.store, environment.clock.now());
    for account in environment.accounts() {
        let elsewhere = charged_elsewhere(store, &environment.state_dir, &account, now).await?;
        if is_empty {
            refill(environment, meter, &account, elsewhere.by_passes).await?;
        }
        if !elsewhere.charges.is_empty() {
            meter.absorb(&account, &elsewhere.charges).await?;
        }
        restored::charge_passes_since(environment, meter, &account).await?;
    }
    restored::warn(environment);
    Ok(())
}

/// Charges what passes spent, less what is charged in another way. Each pass is one charge under an id of its own, so that
/// it is counted once.
async fn refill(
    environment: &Environment,
    meter: &Meter,
    account: &Account,
    mut charged: Cost,
) -> Result<(), Error> {
    let now = environment.clock.now();
    let counted_from = now.before(account.longest_window());
    let passes = environment
        .catalog_to_read()?
        .history(counted_from.before(longest_pass(environment)))
        .await?;
    let mut entries: Vec<Entry> = passes
        .iter()
        .filter(|pass| draws_on(environment, pass, account))
        .map(|pass| entry(pass, now))
        .collect();
    entries.retain(|entry| entry.at > counted_from);
    for entry in &mut entries {
        let spent = entry.cost.clone();
        entry.cost.take(&charged);
        charged.take(&spent);
    }
    entries.retain(|entry| !entry.cost.is_none());
    if !entries.is_empty() {
        meter.absorb(account, &entries).await?;
        tracing::warn!(
            account = account.name,
            passes = entries.len(),
            "the ledger is new, but the catalog contains passes; charging the ledger with what \
            they spent within the window"
        );
    }
    Ok(())
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

fn draws_on(environment: &Environment, pass: &PassRecord, account: &Account) -> bool {
    environment
        .config
        .jobs
        .iter()
        .any(|job| job.name == pass.job && job.credential.account.name == account.name)
}

/// When its requests were made is not known: at its end at the latest, which is now for one that goes on.
fn entry(pass: &PassRecord, now: Timestamp) -> Entry {
    let PassRecord {
        job,
        region,
        started_at,
        finished_at,
        units,
        ..
    } = pass;
    let id = ChargeId::new(format!("pass {job} {region} {started_at}"));
    Entry {
        id,
        at: finished_at.unwrap_or(now),
        cost: units.clone(),
    }
}
