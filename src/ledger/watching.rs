//! Looking at a shared ledger without writing anything, neither there nor here: for a status and a preview.

use std::sync::Arc;

use super::SharedLedger;
use super::journal::Journal;
use super::meter::MeterError;
use crate::clock::Clock;
use crate::quota::{Account, LimitUsage, Timestamp, Units};

/// A shared ledger and this machine's journal, looked at only.
pub struct Watching {
    ledger: Arc<dyn SharedLedger>,
    journal: Journal,
    clock: Arc<dyn Clock>,
}

impl Watching {
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
    ) -> Result<Option<Timestamp>, MeterError> {
        let now = self.clock.now();
        let seen = self.journal.seen(account, now).await?;
        let is_behind = self.ledger.standing(account, Some(&seen), now).await?.lost
            || self.journal.untold(account).await?.of(limit) > Units::ZERO;
        Ok(if is_behind {
            None
        } else {
            self.ledger.falls_to(account, limit, most, now).await?
        })
    }

    /// What the ledger says, and what the next run will tell it first: charges that it has not heard of, and after a
    /// loss what this machine knows of.
    pub async fn usage(&self, account: &Account) -> Result<Vec<LimitUsage>, MeterError> {
        let now = self.clock.now();
        let seen = self.journal.seen(account, now).await?;
        let mut standing = self.ledger.standing(account, Some(&seen), now).await?;
        let untold = self.journal.untold(account).await?;
        for usage in &mut standing.limits {
            let mut used = usage.used + untold.of(&usage.limit);
            if standing.lost {
                used = used.max(self.journal.known_use(account, &usage.limit, now).await?);
            }
            raise(account, usage, used);
        }
        Ok(standing.limits)
    }
}

fn raise(account: &Account, usage: &mut LimitUsage, used: Units) {
    let enforced = account
        .limits
        .get(&usage.limit)
        .map_or(Units::ZERO, |limit| limit.enforced());
    usage.used = used;
    usage.remaining = usage.remaining.min(enforced.less(used));
}
