//! A ledger of this machine: always there, and never loses anything.

use std::sync::Arc;

use super::{Acquired, ChargeRequest, ClientError, Found, Permit, fresh_id};
use crate::clock::{Clock, Deadline, Monotonic};
use crate::ledger::{Charge, ChargeStatus, Ledger, LedgerError, Spent};
use crate::quota::{
    Account, ChargeId, Closing, Cost, Decision, Entry, LimitUsage, Timestamp, Units,
};

/// The ledger and the clock that is told to it.
pub struct LocalClient {
    ledger: Arc<dyn Ledger>,
    clock: Arc<dyn Clock>,
}

impl LocalClient {
    pub fn new(ledger: Arc<dyn Ledger>, clock: Arc<dyn Clock>) -> Self {
        Self { ledger, clock }
    }

    pub async fn acquire(&self, request: ChargeRequest<'_>) -> Result<Acquired, ClientError> {
        let ChargeRequest { account, cost, .. } = request;
        let (id, asked, decision) = self.charge(&request).await?;
        match decision {
            Decision::Granted(grant) => {
                let deadline = Deadline::new(asked, account.grant_lifetime(cost));
                Ok(Acquired::Permitted(Permit {
                    id,
                    grant,
                    metered: true,
                    deadline,
                }))
            }
            Decision::Rejected(rejection) => Ok(Acquired::Rejected(rejection)),
            Decision::Never { limit, most } => Ok(Acquired::Never { limit, most }),
            Decision::TakenBack | Decision::Lost => Err(LedgerError::Broken(
                "the ledger of this machine reports a loss of data".to_owned(),
            )
            .into()),
        }
    }

    /// Charges under the id that was asked for. One that was taken back names no charge any more: the next of its kind
    /// is taken.
    async fn charge(
        &self,
        request: &ChargeRequest<'_>,
    ) -> Result<(ChargeId, Monotonic, Decision), LedgerError> {
        let ChargeRequest {
            account,
            cost,
            leave,
            purpose,
            ..
        } = *request;
        let given = request.id.cloned().unwrap_or_else(fresh_id);
        let (mut id, mut taken_back) = (given.clone(), 0);
        loop {
            let asked = Monotonic::now();
            let charge = Charge {
                account,
                id: &id,
                cost,
                leave,
                purpose,
                seen: None,
            };
            match self.ledger.charge(charge, self.clock.now()).await? {
                Decision::TakenBack => taken_back += 1,
                decision => return Ok((id, asked, decision)),
            }
            id = given.again(taken_back);
        }
    }

    pub async fn settle(
        &self,
        account: &Account,
        id: &ChargeId,
        cost: &Cost,
    ) -> Result<(), ClientError> {
        Ok(self
            .ledger
            .settle(account, id, cost, self.clock.now())
            .await?)
    }

    pub async fn absorb(&self, account: &Account, entries: &[Entry]) -> Result<(), ClientError> {
        Ok(self
            .ledger
            .absorb(account, entries, &[], self.clock.now())
            .await?)
    }

    pub async fn is_empty(&self) -> Result<bool, ClientError> {
        Ok(self.ledger.is_empty().await?)
    }

    pub async fn close(
        &self,
        account: &Account,
        limit: &str,
        closing: Closing,
    ) -> Result<(), ClientError> {
        Ok(self
            .ledger
            .close(account, limit, closing, self.clock.now())
            .await?)
    }

    pub async fn reopen(&self, account: &Account, limit: &str) -> Result<(), ClientError> {
        Ok(self.ledger.reopen(account, limit, self.clock.now()).await?)
    }

    pub async fn usage(&self, account: &Account) -> Result<Vec<LimitUsage>, ClientError> {
        Ok(self.ledger.usage(account, self.clock.now()).await?)
    }

    pub async fn falls_to(
        &self,
        account: &Account,
        limit: &str,
        most: Units,
    ) -> Result<Option<Timestamp>, ClientError> {
        Ok(self
            .ledger
            .falls_to(account, limit, most, self.clock.now())
            .await?)
    }

    pub async fn spent(
        &self,
        account: &Account,
        from: Timestamp,
    ) -> Result<Vec<Spent>, ClientError> {
        Ok(self.ledger.spent(account, from).await?.unwrap_or_default())
    }

    /// The id under which a charge of this one is known, or would be made: one that was taken back names none any more.
    async fn valid_id(&self, account: &Account, id: &ChargeId) -> Result<ChargeId, LedgerError> {
        let mut candidate = id.clone();
        for attempt in 1.. {
            if self
                .ledger
                .look_up(account, &candidate, self.clock.now())
                .await?
                != Some(ChargeStatus::TakenBack)
            {
                break;
            }
            candidate = id.again(attempt);
        }
        Ok(candidate)
    }

    pub async fn find(&self, account: &Account, id: &ChargeId) -> Result<Found, ClientError> {
        let valid = self.valid_id(account, id).await?;
        Ok(
            match self
                .ledger
                .look_up(account, &valid, self.clock.now())
                .await?
            {
                Some(ChargeStatus::Counts) => Found::Counting(valid),
                Some(_) if valid != *id => Found::TakenBack,
                Some(_) => Found::Unknown,
                None => Found::CannotTell,
            },
        )
    }
}
