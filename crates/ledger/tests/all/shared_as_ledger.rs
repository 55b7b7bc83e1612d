//! A shared ledger as the suite and the benchmarks charge it: by a caller that has seen nothing of it.

use async_trait::async_trait;
use ingest_ledger::{Charge, ChargeReply, Ledger, LedgerError, SharedLedger, Update};
use ingest_quota::{
    Account, ChargeId, Closing, Cost, Decision, Entry, Floor, LimitUsage, Timestamp,
};

pub struct SharedAsLedger<L>(pub L);

impl<L: SharedLedger> SharedAsLedger<L> {
    async fn update(
        &self,
        account: &Account,
        update: Update<'_>,
        now: Timestamp,
    ) -> Result<(), LedgerError> {
        self.0.update(account, update, None, now).await.map(drop)
    }
}

#[async_trait]
impl<L: SharedLedger> Ledger for SharedAsLedger<L> {
    async fn charge(&self, charge: Charge<'_>, now: Timestamp) -> Result<Decision, LedgerError> {
        Ok(match self.0.charge(charge, None, now).await? {
            ChargeReply::Granted(granted) => Decision::Granted(granted.grant),
            ChargeReply::Rejected { rejection, .. } => Decision::Rejected(rejection),
            ChargeReply::Never { limit, most } => Decision::Never { limit, most },
            ChargeReply::TakenBack => Decision::TakenBack,
            ChargeReply::Lost => return Err(LedgerError::Broken("lost".to_owned())),
        })
    }

    async fn settle(
        &self,
        account: &Account,
        id: &ChargeId,
        cost: &Cost,
        now: Timestamp,
    ) -> Result<(), LedgerError> {
        self.update(account, Update::Settle { id, cost }, now).await
    }

    /// Floors are sent by a recovery alone; without anything seen it compares nothing.
    async fn absorb(
        &self,
        account: &Account,
        entries: &[Entry],
        floors: &[Floor],
        now: Timestamp,
    ) -> Result<(), LedgerError> {
        let update = if floors.is_empty() {
            Update::Absorb(entries)
        } else {
            Update::Recover(entries, floors)
        };
        self.update(account, update, now).await
    }

    async fn close(
        &self,
        account: &Account,
        limit: &str,
        closing: Closing,
        now: Timestamp,
    ) -> Result<(), LedgerError> {
        self.update(account, Update::Close { limit, closing }, now)
            .await
    }

    async fn reopen(
        &self,
        account: &Account,
        limit: &str,
        now: Timestamp,
    ) -> Result<(), LedgerError> {
        self.update(account, Update::Reopen { limit }, now).await
    }

    async fn usage(
        &self,
        account: &Account,
        now: Timestamp,
    ) -> Result<Vec<LimitUsage>, LedgerError> {
        let reply = self.0.usage(account, None, &[], now).await?;
        Ok(reply.limits)
    }
}
