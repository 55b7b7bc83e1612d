//! The client of a ledger of this machine: a file is always there, and never loses anything.

use std::collections::HashMap;
use std::sync::Arc;

use async_trait::async_trait;
use rusqlite::{Connection, Row};

use super::charging::Charging;
use super::{Rows, SqliteLedger, afterwards};
use crate::client::{
    Acquired, ChargeRequest, ChargeSource, ClientError, Found, LedgerClient, Permit, Spending,
};
use crate::{Charge, Ledger, reported_of};
use ingest_base::clock::{Clock, Monotonic};
use ingest_quota::{
    Account, ChargeId, Closing, Cost, Decision, Entry, LimitUsage, Timestamp, Units,
};
use ingest_sqlite::Restored;

/// What a simulation sees of its ledger, and does in its place.
pub trait Watch: Send + Sync {
    /// Decides on a charge in the ledger's place; `None` where the ledger decides.
    fn decide(&self) -> Option<Decision> {
        None
    }

    /// Sees what was decided on a charge.
    fn decided(&self, _charge: Charge<'_>, _decision: &Decision, _now: Timestamp) {}

    /// Sees the true cost of a charge.
    fn settled(&self, _id: &ChargeId, _cost: &Cost) {}

    /// Changes what is reported of the limits.
    fn report(&self, _limits: &mut [LimitUsage]) {}
}

/// Nobody watches.
impl Watch for () {}

/// A ledger of this machine, and the clock that it goes by.
pub struct LocalClient {
    ledger: SqliteLedger,
    clock: Arc<dyn Clock>,
    watch: Arc<dyn Watch>,
    /// The lock that shows that this process charges; `None` where nothing is charged.
    _charging: Option<Charging>,
}

impl LocalClient {
    /// A client of `ledger` at the time of `clock`.
    #[must_use]
    pub fn new(ledger: SqliteLedger, clock: Arc<dyn Clock>) -> Self {
        Self {
            ledger,
            clock,
            watch: Arc::new(()),
            _charging: None,
        }
    }

    /// The same client, which keeps the lock of a process that charges for as long as it lives.
    #[must_use]
    pub fn holding(self, charging: Charging) -> Self {
        Self {
            _charging: Some(charging),
            ..self
        }
    }

    /// The same client, watched by a simulation.
    #[must_use]
    pub fn watched(self, watch: Arc<dyn Watch>) -> Self {
        Self { watch, ..self }
    }
}

#[async_trait]
impl LedgerClient for LocalClient {
    async fn charge(
        &self,
        request: ChargeRequest<'_>,
        given: ChargeId,
    ) -> Result<Option<Acquired>, ClientError> {
        let (mut id, mut taken_back) = (given.clone(), 0);
        loop {
            let requested_at = Monotonic::now();
            let (charge, now) = (Charge::new(&request, &id), self.clock.now());
            let decision = match self.watch.decide() {
                Some(decision) => decision,
                None => self.ledger.charge(charge, now).await?,
            };
            self.watch.decided(charge, &decision, now);
            let acquired = match decision {
                Decision::Granted(grant) => {
                    Acquired::Permitted(Permit::new(&request, id, grant, true, requested_at))
                }
                Decision::Rejected(rejection) => Acquired::Rejected(rejection),
                Decision::Never { limit, most } => Acquired::Never { limit, most },
                // The id names no charge any more: the next of its kind is charged (L12).
                Decision::TakenBack => {
                    taken_back += 1;
                    id = given.again(taken_back);
                    continue;
                }
            };
            return Ok(Some(acquired));
        }
    }

    async fn settle(
        &self,
        account: &Account,
        id: &ChargeId,
        cost: &Cost,
    ) -> Result<(), ClientError> {
        self.watch.settled(id, cost);
        let now = self.clock.now();
        Ok(self.ledger.settle(account, id, cost, now).await?)
    }

    async fn correct(
        &self,
        account: &Account,
        id: &ChargeId,
        cost: &Cost,
    ) -> Result<Found, ClientError> {
        let (id, cost, now) = (id.clone(), cost.clone(), self.clock.now());
        let corrected = self
            .ledger
            .write_account(account, now, move |rows, account, moment| {
                afterwards::correct(rows, account, &id, &cost, moment.now)
            });
        Ok(corrected.await?)
    }

    async fn absorb(&self, account: &Account, entries: &[Entry]) -> Result<(), ClientError> {
        let now = self.clock.now();
        Ok(self.ledger.absorb(account, entries, &[], now).await?)
    }

    async fn close(
        &self,
        account: &Account,
        limit: &str,
        closing: Closing,
    ) -> Result<(), ClientError> {
        let now = self.clock.now();
        Ok(self.ledger.close(account, limit, closing, now).await?)
    }

    async fn reopen(&self, account: &Account, limit: &str) -> Result<(), ClientError> {
        Ok(self.ledger.reopen(account, limit, self.clock.now()).await?)
    }

    async fn reported(&self, account: &Account, limit: &str) -> Result<Vec<Entry>, ClientError> {
        let entries = self.ledger.entries(account, self.clock.now()).await?;
        Ok(reported_of(limit, entries))
    }

    async fn usage(&self, account: &Account) -> Result<Vec<LimitUsage>, ClientError> {
        let mut limits = self.ledger.usage(account, self.clock.now()).await?;
        self.watch.report(&mut limits);
        Ok(limits)
    }

    async fn usage_of(
        &self,
        account: &Account,
        limit: &str,
    ) -> Result<Option<LimitUsage>, ClientError> {
        Ok(self.usage(&account.only(limit)).await?.pop())
    }

    async fn falls_to(
        &self,
        account: &Account,
        limit: &str,
        most: Units,
    ) -> Result<Option<Timestamp>, ClientError> {
        let now = self.clock.now();
        Ok(self.ledger.falls_to(account, limit, most, now).await?)
    }

    async fn spent(&self, account: &Account, from: Timestamp) -> Result<Spending, ClientError> {
        Ok(Spending {
            charges: self.ledger.spent(account, from).await?,
            source: ChargeSource::Ledger,
        })
    }

    async fn find(&self, account: &Account, id: &ChargeId) -> Result<Found, ClientError> {
        let (id, now) = (id.clone(), self.clock.now());
        let found = self
            .ledger
            .read_account(account, now, move |rows, account, moment| {
                afterwards::find(rows, account, &id, moment.now)
            });
        Ok(found.await?)
    }

    async fn is_empty(&self) -> Result<bool, ClientError> {
        let none = "select not exists (select 1 from charge)";
        let read = |connection: &Connection| connection.query_row(none, [], |row| row.get(0));
        Ok(self.ledger.read_few(read).await?)
    }

    async fn newest_charge(&self, account: &Account) -> Result<Option<Timestamp>, ClientError> {
        let name = account.name.clone();
        let newest = move |connection: &Connection| Rows::new(connection, &name).newest();
        let newest = self.ledger.read_few(newest).await?;
        Ok(newest.charge.map(|charge| charge.at))
    }

    async fn newest_of_jobs(
        &self,
        from: Timestamp,
    ) -> Result<HashMap<String, Timestamp>, ClientError> {
        let newest =
            "select job, max(at) from charge where at >= ? and job is not null group by job";
        let read = move |connection: &Connection| {
            let mut statement = connection.prepare(newest)?;
            let of_job = |row: &Row<'_>| Ok((row.get(0)?, Timestamp::from_micros(row.get(1)?)));
            statement.query_map((from.micros(),), of_job)?.collect()
        };
        Ok(self.ledger.read(read).await?)
    }

    async fn restored(&self) -> Result<Option<Restored>, ClientError> {
        Ok(self.ledger.read_few(ingest_sqlite::restored).await?)
    }

    async fn note_restored(&self) -> Result<(), ClientError> {
        let now = self.clock.now().micros();
        let note = move |connection: &Connection| ingest_sqlite::note_restored(connection, now);
        Ok(self.ledger.write(note).await?)
    }
}
