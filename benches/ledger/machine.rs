//! A machine that charges a shared ledger as a run does: by Redis' own clock, with what it has seen of the ledger, its newest charge
//! among it.

use std::time::Duration;

use async_trait::async_trait;
use ingest_ledger::redis::{RedisLedger, ServerTime};
use ingest_ledger::{Ack, Charge, ChargeReply, Ledger, LedgerError, Seen, SharedLedger, Update};
use ingest_quota::{
    Account, ChargeId, Closing, Cost, Decision, Entry, Floor, LimitUsage, Timestamp,
};
use parking_lot::Mutex;

use ingest_testing::redis_server::{RedisServer, ledger_config};

const TIMEOUT: Duration = Duration::from_secs(60);
const MAX_SKEW: Duration = Duration::from_secs(300);

/// The clock by which the ledger counts.
#[derive(Clone, Copy)]
pub(crate) enum Clock {
    /// That of Redis, as in production.
    Server,
    /// The caller's, which moves by days.
    Told,
}

pub(crate) struct Machine {
    ledger: RedisLedger,
    seen: Mutex<Seen>,
}

impl Machine {
    pub(crate) fn new(server: &RedisServer, clock: Clock) -> Self {
        let ledger = RedisLedger::new(&server.url(), &ledger_config(TIMEOUT, MAX_SKEW)).unwrap();
        let ledger = match clock {
            Clock::Server => ledger,
            Clock::Told => ledger.with_time(ServerTime::Callers),
        };
        Self {
            ledger,
            seen: Mutex::default(),
        }
    }
}

fn not_measured<T>() -> Result<T, LedgerError> {
    Err(LedgerError::Broken("it is not measured".to_owned()))
}

#[async_trait]
impl Ledger for Machine {
    async fn charge(&self, charge: Charge<'_>, now: Timestamp) -> Result<Decision, LedgerError> {
        let seen = self.seen.lock().clone();
        Ok(match self.ledger.charge(charge, Some(&seen), now).await? {
            ChargeReply::Granted(granted) => {
                *self.seen.lock() = Seen {
                    epoch: granted.position.epoch,
                    sequence: granted.position.sequence,
                    newest: Some(charge.id.clone()),
                };
                Decision::Granted(granted.grant)
            }
            ChargeReply::Rejected { rejection, .. } => Decision::Rejected(rejection),
            ChargeReply::Never { limit, most } => Decision::Never { limit, most },
            ChargeReply::TakenBack => Decision::TakenBack,
            ChargeReply::Lost => return not_measured(),
        })
    }

    async fn settle(
        &self,
        _: &Account,
        _: &ChargeId,
        _: &Cost,
        _: Timestamp,
    ) -> Result<(), LedgerError> {
        not_measured()
    }

    async fn absorb(
        &self,
        account: &Account,
        entries: &[Entry],
        _: &[Floor],
        now: Timestamp,
    ) -> Result<(), LedgerError> {
        let seen = self.seen.lock().clone();
        let update = Update::Absorb(entries);
        match self
            .ledger
            .update(account, update, Some(&seen), now)
            .await?
        {
            Ack::Recorded { position, .. } => {
                *self.seen.lock() = Seen {
                    epoch: position.epoch,
                    sequence: position.sequence,
                    newest: entries.last().map(|entry| entry.id.clone()),
                };
                Ok(())
            }
            Ack::Lost => not_measured(),
        }
    }

    async fn close(
        &self,
        _: &Account,
        _: &str,
        _: Closing,
        _: Timestamp,
    ) -> Result<(), LedgerError> {
        not_measured()
    }

    async fn reopen(&self, _: &Account, _: &str, _: Timestamp) -> Result<(), LedgerError> {
        not_measured()
    }

    async fn usage(
        &self,
        account: &Account,
        now: Timestamp,
    ) -> Result<Vec<LimitUsage>, LedgerError> {
        let reply = self.ledger.usage(account, None, &[], now).await?;
        Ok(reply.limits)
    }
}
