//! Reads the balances of the real ledger, with which simulations start.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;
use std::time::Duration;

use ingest_ledger::{ClientError, Ledger, LedgerClient, LedgerError, Spent, SqliteLedger};
use ingest_quota::{Account, Closing, Limit, LimitName, LimitUsage, Timestamp, Units};

/// What was charged to each limit, and when.
type Charges = Vec<(LimitName, Vec<(Timestamp, Units)>)>;

/// What accounts have left at the start of a simulation.
#[derive(Debug)]
pub struct Balances {
    /// A ledger in memory that counts and closes what the real one does; each simulation charges a copy.
    ledger: SqliteLedger,
    /// Until when each limit is closed; without the accounts whose ledger cannot be reached.
    closed: HashMap<String, BTreeMap<LimitName, Timestamp>>,
}

impl Balances {
    /// Reads the balance of each account, without those whose ledger cannot be reached.
    ///
    /// # Errors
    /// When the ledger in memory fails.
    pub async fn read(
        ledger: &dyn LedgerClient,
        accounts: &[Arc<Account>],
        now: Timestamp,
    ) -> Result<Self, LedgerError> {
        let mut balances = Self {
            ledger: SqliteLedger::empty()?,
            closed: HashMap::new(),
        };
        for account in accounts {
            if let Ok((usages, charges)) = balance(ledger, account, now).await {
                balances.add(account, &usages, charges, now).await?;
            }
        }
        Ok(balances)
    }

    /// The number of accounts whose ledger could be reached.
    pub fn len(&self) -> usize {
        self.closed.len()
    }

    /// Returns until when limits of an account are closed, by name.
    pub fn closed(&self, account: &str) -> impl Iterator<Item = (&LimitName, Timestamp)> {
        let closed = self.closed.get(account).into_iter().flatten();
        closed.map(|(limit, until)| (limit, *until))
    }

    /// Opens every limit.
    ///
    /// # Errors
    /// When the ledger in memory fails.
    pub async fn open_all(
        &mut self,
        accounts: &[Arc<Account>],
        now: Timestamp,
    ) -> Result<(), LedgerError> {
        for account in accounts {
            for limit in self.closed.entry(account.name.clone()).or_default().keys() {
                self.ledger.reopen(account, limit, now).await?;
            }
        }
        self.closed.values_mut().for_each(BTreeMap::clear);
        Ok(())
    }

    /// Returns a ledger in memory with these balances.
    ///
    /// # Errors
    /// When SQLite has no memory for it.
    pub async fn ledger(&self) -> Result<SqliteLedger, LedgerError> {
        self.ledger.in_memory().await
    }

    async fn add(
        &mut self,
        account: &Account,
        usages: &[LimitUsage],
        charges: Charges,
        now: Timestamp,
    ) -> Result<(), LedgerError> {
        for (limit, charges) in charges {
            self.ledger.fill(account, &limit, charges).await?;
        }
        let closed = self.closed.entry(account.name.clone()).or_default();
        for usage in usages {
            if let Some(until) = usage.closed_until {
                let closing = Closing::Until(until);
                self.ledger
                    .close(account, &usage.limit, closing, now)
                    .await?;
                closed.insert(usage.limit.clone(), until);
            }
        }
        Ok(())
    }
}

/// Returns what the real ledger says of each limit, and the charges that count.
async fn balance(
    ledger: &dyn LedgerClient,
    account: &Account,
    now: Timestamp,
) -> Result<(Vec<LimitUsage>, Charges), ClientError> {
    let usages = ledger.usage(account).await?;
    let spent = ledger
        .spent(account, now - account.longest_window())
        .await?
        .charges;
    let mut spent_of: HashMap<&LimitName, Vec<&Spent>> = HashMap::new();
    for spent in &spent {
        spent_of.entry(&spent.limit).or_default().push(spent);
    }
    let counted = |usage: &LimitUsage| {
        let limit = account.limits.get(&usage.limit)?;
        let spent = spent_of.remove(&usage.limit).unwrap_or_default();
        let counted = counted(&spent, usage, limit, now);
        Some((usage.limit.clone(), counted))
    };
    let charges = usages.iter().filter_map(counted).collect();
    Ok((usages, charges))
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
    let own = own.map(|spent| (spent.at.min(now), spent.units));
    let own: Vec<(Timestamp, Units)> = own.collect();
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
