//! Looking at a shared ledger without writing anything, neither there nor here: for a status and a preview.

use std::sync::Arc;

use super::ClientError;
use crate::clock::Clock;
use crate::ledger::journal::Journal;
use crate::ledger::{SharedLedger, UsageReply};
use crate::quota::{Account, ChargeId, Entry, LimitUsage, Return, Timestamp, Units};

/// A shared ledger and this machine's journal, looked at only.
pub struct ReadOnlyClient {
    ledger: Arc<dyn SharedLedger>,
    journal: Journal,
    clock: Arc<dyn Clock>,
}

impl ReadOnlyClient {
    pub fn new(ledger: Arc<dyn SharedLedger>, journal: Journal, clock: Arc<dyn Clock>) -> Self {
        Self {
            ledger,
            journal,
            clock,
        }
    }

    /// This machine's own record.
    pub const fn journal(&self) -> &Journal {
        &self.journal
    }

    /// When a limit's use falls to `most`; `None` where the ledger has yet to be told what this machine knows.
    pub async fn falls_to(
        &self,
        account: &Account,
        limit: &str,
        most: Units,
    ) -> Result<Option<Timestamp>, ClientError> {
        let now = self.clock.now();
        let (standing, lacking) = self.standing(account, now).await?;
        let is_behind = standing.lost || returns(account, limit, &lacking, now).next().is_some();
        Ok(if is_behind {
            None
        } else {
            self.ledger.falls_to(account, limit, most, now).await?
        })
    }

    /// What the ledger says, and what the next run will tell it first: charges that it has not heard of, and after a
    /// loss what this machine knows of.
    pub async fn usage(&self, account: &Account) -> Result<Vec<LimitUsage>, ClientError> {
        let now = self.clock.now();
        let (mut standing, lacking) = self.standing(account, now).await?;
        for usage in &mut standing.limits {
            let untold: Vec<Return> = returns(account, &usage.limit, &lacking, now).collect();
            let mut used = usage.used + untold.iter().map(|back| back.units).sum();
            if let Some(last) = untold.iter().map(|back| back.at).max() {
                let units = untold.iter().map(|back| back.units).sum();
                usage.returns.push(Return { at: last, units });
                usage.returns.sort_by_key(|back| back.at);
            }
            if standing.lost {
                used = used.max(self.journal.known_use(account, &usage.limit, now).await?);
            }
            raise(account, usage, used);
        }
        if let Some(until) = self.journal.waits_until(account, now).await? {
            standing
                .limits
                .iter_mut()
                .for_each(|usage| wait(usage, until));
        }
        Ok(standing.limits)
    }

    /// What the ledger says, and the charges of this machine that it lacks.
    async fn standing(
        &self,
        account: &Account,
        now: Timestamp,
    ) -> Result<(UsageReply, Vec<Entry>), ClientError> {
        let seen = self.journal.seen(account, now).await?;
        let mut untold = self.journal.untold(account).await?;
        let ids: Vec<ChargeId> = untold.iter().map(|entry| entry.id.clone()).collect();
        let standing = self
            .ledger
            .standing(account, Some(&seen), &ids, now)
            .await?;
        let mut recorded = standing.recorded.iter();
        untold.retain(|_| recorded.next() != Some(&true));
        Ok((standing, untold))
    }
}

/// What these charges take of a limit now, and when each of them returns.
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
        .filter_map(back)
        .filter(move |back| back.units > Units::ZERO && back.at > now)
}

/// A machine that waits after a loss (L42) is granted nothing, as if every limit were closed.
fn wait(usage: &mut LimitUsage, until: Timestamp) {
    usage.closed_until = usage.closed_until.max(Some(until));
    usage.remaining = Units::ZERO;
}

fn raise(account: &Account, usage: &mut LimitUsage, used: Units) {
    let enforced = account
        .limits
        .get(&usage.limit)
        .map_or(Units::ZERO, |limit| limit.enforced());
    usage.used = used;
    usage.remaining = usage.remaining.min(enforced.saturating_sub(used));
}
