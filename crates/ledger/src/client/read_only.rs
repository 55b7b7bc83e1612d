//! The client of a shared ledger for a status and a preview: it writes nothing, neither there nor on this machine.

use std::sync::Arc;

use async_trait::async_trait;

use super::{ClientError, Found, LedgerClient, Spending, spent_by_journal};
use crate::journal::Journal;
use crate::{SharedLedger, UsageReply, reported_of};
use ingest_base::clock::Clock;
use ingest_quota::{Account, ChargeId, Cost, Entry, LimitUsage, Return, Timestamp, Units};
use ingest_sqlite::Restored;

/// A shared ledger and this machine's journal, for reading.
pub struct ReadOnlyClient {
    ledger: Arc<dyn SharedLedger>,
    journal: Journal,
    clock: Arc<dyn Clock>,
}

impl ReadOnlyClient {
    /// A client of `ledger`, with this machine's journal.
    #[must_use]
    pub fn new(ledger: Arc<dyn SharedLedger>, journal: Journal, clock: Arc<dyn Clock>) -> Self {
        Self {
            ledger,
            journal,
            clock,
        }
    }

    /// Returns the ledger's usage, and the charges of this machine that it does not have. A charge whose reply was lost went
    /// ahead unmetered, but the ledger may have recorded it: it is looked up by its id, so that it counts once.
    async fn usage_and_unsynced(
        &self,
        account: &Account,
        now: Timestamp,
    ) -> Result<(UsageReply, Vec<Entry>), ClientError> {
        let seen = self.journal.seen(account, now).await?;
        let mut unsynced = self.journal.unsynced(account).await?;
        let ids: Vec<ChargeId> = unsynced.iter().map(|entry| entry.id.clone()).collect();
        let reply = self.ledger.usage(account, Some(&seen), &ids, now).await?;
        let mut recorded = reply.recorded.iter();
        // The reply tells of each id in the order in which they were sent.
        unsynced.retain(|_| recorded.next() != Some(&true));
        Ok((reply, unsynced))
    }

    /// Adds what the next run sends first: charges that the ledger does not have, and after a loss everything that this
    /// machine has recorded.
    fn add_unsynced(
        &self,
        account: &Account,
        usage: &mut LimitUsage,
        unsynced: &[Entry],
        recorded: &Cost,
    ) {
        let now = self.clock.now();
        let returns: Vec<Return> = returns(account, &usage.limit, unsynced, now).collect();
        let units: Units = returns.iter().map(|back| back.units).sum();
        if let Some(at) = returns.iter().map(|back| back.at).max() {
            usage.returns.push(Return { at, units });
            usage.returns.sort_by_key(|back| back.at);
        }
        let used = (usage.used + units).max(recorded.of(&usage.limit));
        let limit = account.limits.get(&usage.limit);
        let enforced = limit.map_or(Units::ZERO, |limit| limit.enforced());
        usage.used = used;
        usage.remaining = usage.remaining.min(enforced.saturating_sub(used));
    }
}

#[async_trait]
impl LedgerClient for ReadOnlyClient {
    async fn reported(&self, account: &Account, limit: &str) -> Result<Vec<Entry>, ClientError> {
        let entries = self.journal.charges(account, self.clock.now()).await?;
        Ok(reported_of(limit, entries))
    }

    async fn usage(&self, account: &Account) -> Result<Vec<LimitUsage>, ClientError> {
        let now = self.clock.now();
        let (reply, unsynced) = self.usage_and_unsynced(account, now).await?;
        let recorded = match reply.lost {
            true => self.journal.recorded_use(account, now).await?,
            false => Cost::none(),
        };
        let mut limits = reply.limits;
        for usage in &mut limits {
            self.add_unsynced(account, usage, &unsynced, &recorded);
        }
        // What the next run closes first.
        for pending in self.journal.pending_closings(account).await? {
            let until = pending.closed_until().filter(|until| *until > now);
            let usage = limits.iter_mut().find(|one| one.limit == pending.limit);
            if let Some((usage, until)) = usage.zip(until) {
                close(usage, until);
            }
        }
        if let Some(until) = self.journal.waits_until(account, now).await? {
            limits.iter_mut().for_each(|usage| close(usage, until));
        }
        Ok(limits)
    }

    /// `None` also when the ledger lacks what this machine knows.
    async fn falls_to(
        &self,
        account: &Account,
        limit: &str,
        most: Units,
    ) -> Result<Option<Timestamp>, ClientError> {
        let now = self.clock.now();
        let (reply, unsynced) = self.usage_and_unsynced(account, now).await?;
        if reply.lost || returns(account, limit, &unsynced, now).next().is_some() {
            return Ok(None);
        }
        Ok(self.ledger.falls_to(account, limit, most, now).await?)
    }

    async fn spent(&self, account: &Account, from: Timestamp) -> Result<Spending, ClientError> {
        spent_by_journal(&self.journal, account, from).await
    }

    async fn find(&self, account: &Account, id: &ChargeId) -> Result<Found, ClientError> {
        Ok(self.journal.find(account, id).await?)
    }

    async fn restored(&self) -> Result<Option<Restored>, ClientError> {
        Ok(self.journal.restored().await?)
    }

    fn journal(&self) -> Option<&Journal> {
        Some(&self.journal)
    }
}

/// Returns what these charges take of a limit now, and when each of them expires.
fn returns<'a>(
    account: &Account,
    name: &'a str,
    charges: &'a [Entry],
    now: Timestamp,
) -> impl Iterator<Item = Return> + 'a {
    let window = account.limits.get(name).map(|limit| *limit.window());
    let back = move |entry: &Entry| {
        Some(Return {
            at: window?.expiry(entry.at),
            units: entry.cost.of(name),
        })
    };
    charges
        .iter()
        .filter(move |entry| entry.cost.of(name) > Units::ZERO)
        .filter_map(back)
        .filter(move |back| back.at > now)
}

/// Closes a limit. A machine that waits after a loss (L42) is granted nothing, as if every limit were closed.
fn close(usage: &mut LimitUsage, until: Timestamp) {
    usage.closed_until = usage.closed_until.max(Some(until));
    usage.remaining = Units::ZERO;
}
