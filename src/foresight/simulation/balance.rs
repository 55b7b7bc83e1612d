//! Reads the balance of the real ledger, with which a simulation starts.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;
use std::time::Duration;

use super::ledger::Balance;
use ingest_ledger::{ClientError, LedgerClient, Spent};
use ingest_quota::{Account, Limit, LimitName, LimitUsage, Timestamp, Units};

/// Returns the balance of each account, without those whose ledger cannot be reached.
pub async fn balances(
    ledger: &dyn LedgerClient,
    accounts: &[Arc<Account>],
    now: Timestamp,
) -> HashMap<String, Balance> {
    let mut balances = HashMap::new();
    for account in accounts {
        if let Ok(balance) = balance(ledger, account, now).await {
            balances.insert(account.name.clone(), balance);
        }
    }
    balances
}

async fn balance(
    ledger: &dyn LedgerClient,
    account: &Account,
    now: Timestamp,
) -> Result<Balance, ClientError> {
    let usages = ledger.usage(account).await?;
    let spent = ledger
        .spent(account, now - account.longest_window())
        .await?
        .charges;
    let mut spent_of: HashMap<&LimitName, Vec<&Spent>> = HashMap::new();
    for spent in &spent {
        spent_of.entry(&spent.limit).or_default().push(spent);
    }
    let mut balance = Balance::default();
    for usage in &usages {
        let Some(limit) = account.limits.get(&usage.limit) else {
            continue;
        };
        let spent = spent_of.remove(&usage.limit).unwrap_or_default();
        let counted = counted(&spent, usage, limit, now);
        balance.charges.insert(usage.limit.clone(), counted);
    }
    balance.closed = usages
        .iter()
        .filter_map(|usage| Some((usage.limit.clone(), usage.closed_until?)))
        .collect::<BTreeMap<_, _>>();
    Ok(balance)
}

/// Returns the charges of a limit: the ledger's own where it lists them all, otherwise charges reconstructed from its returns.
fn counted(
    spent: &[&Spent],
    usage: &LimitUsage,
    limit: &Limit,
    now: Timestamp,
) -> Vec<(Timestamp, Units)> {
    let from = limit.window().counted_from(now);
    let own = spent.iter().filter(|spent| spent.at >= from);
    let own: Vec<(Timestamp, Units)> = own.map(|spent| (spent.at, spent.units)).collect();
    let total: Units = own.iter().map(|(_, units)| *units).sum();
    if total == usage.used {
        own
    } else {
        by_returns(usage, limit, now)
    }
}

/// Returns charges that leave the window when the ledger says. Units without a known return count as charged now.
fn by_returns(usage: &LimitUsage, limit: &Limit, now: Timestamp) -> Vec<(Timestamp, Units)> {
    // An instant earlier: what was charged at `counted_from` itself still counts.
    let charged = |at| limit.window().counted_from(at) - Duration::from_micros(1);
    let mut all: Vec<(Timestamp, Units)> = usage
        .returns
        .iter()
        .map(|back| (charged(back.at).min(now), back.units))
        .collect();
    let returning = all.iter().map(|(_, units)| *units).sum();
    all.push((now, usage.used.saturating_sub(returning)));
    all
}
