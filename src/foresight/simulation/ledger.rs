//! The ledger of a simulation: it starts with the balance of the real one, and records its decisions.

use std::sync::Arc;
use std::time::Instant;

use async_trait::async_trait;
use parking_lot::{Mutex, MutexGuard};

use crate::run::{Signal, StopSender};
use ingest_config::Credential;
use ingest_ledger::{
    Charge, ChargeStatus, Ledger, LedgerError, LocalLedger, Purpose, Spent, SqliteLedger,
};
use ingest_quota::{
    Account, ChargeId, Closing, Cost, Decision, Entry, Floor, Grant, LimitName, LimitUsage,
    Rejection, Timestamp, Units,
};

/// A charge that was granted in a simulation.
#[derive(Debug, Clone)]
pub struct Granted {
    /// When.
    pub at: Timestamp,
    pub account: String,
    pub cost: Cost,
    pub purpose: Purpose,
    id: ChargeId,
}

/// A charge that did not fit in a simulation.
#[derive(Debug, Clone)]
pub struct Refused {
    /// When.
    pub at: Timestamp,
    pub account: String,
    /// The limit that fits last.
    pub limit: LimitName,
    pub purpose: Purpose,
    /// When it would fit.
    pub retry_at: Timestamp,
    pub cost: Cost,
    /// The job's `leave`.
    pub leave: Cost,
}

/// When a rejected charge fits one of its limits, after everything that the simulation granted.
#[derive(Debug, Clone)]
pub struct LimitFit {
    pub limit: LimitName,
    /// When it fits by the charges in the simulation.
    pub fits_at: Timestamp,
    /// Until when the limit is closed, if it is.
    pub closed_until: Option<Timestamp>,
    /// The units of the starting balance that may still count for it to fit; `None` where what the simulation granted leaves no
    /// room for it by itself.
    pub balance_left: Option<Units>,
}

/// Whether the limits hold in a simulation.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Bounds {
    /// They hold.
    Enforced,
    /// They hold, and the first charge that is refused stops the run, of which nothing else is of interest then.
    Decisive,
    /// Every charge fits, so that all requests of the run are seen.
    Lifted,
}

/// Charges a ledger in memory, and records what it decided.
#[derive(Debug)]
pub struct SimulatedLedger {
    bounds: Bounds,
    /// Whose limits a run waits for.
    credentials: Vec<Arc<Credential>>,
    ledger: SqliteLedger,
    decisions: Mutex<Decisions>,
    run: StopSender,
    /// When the run must end, or as soon as it holds too much; `None`: when it is complete.
    until: Option<Instant>,
}

#[derive(Debug, Default)]
struct Decisions {
    granted: Vec<Granted>,
    refused: Vec<Refused>,
}

impl SimulatedLedger {
    pub fn new(
        ledger: SqliteLedger,
        bounds: Bounds,
        credentials: Vec<Arc<Credential>>,
        (run, until): (StopSender, Option<Instant>),
    ) -> Self {
        Self {
            bounds,
            credentials,
            ledger,
            decisions: Mutex::default(),
            run,
            until,
        }
    }

    pub fn granted(&self) -> Vec<Granted> {
        self.decisions().granted.clone()
    }

    pub fn refused(&self) -> Vec<Refused> {
        self.decisions().refused.clone()
    }

    pub fn has_refused(&self) -> bool {
        !self.decisions().refused.is_empty()
    }

    /// Returns when a rejected charge fits each of its limits.
    ///
    /// # Errors
    /// When the ledger in memory fails.
    pub async fn limit_fits(
        &self,
        account: &Account,
        refused: &Refused,
    ) -> Result<Vec<LimitFit>, LedgerError> {
        let mut limit_fits = Vec::new();
        for (name, limit) in account.charged(&refused.cost) {
            let claim = refused.cost.of(name) + refused.leave.of(name);
            let most = limit.enforced().saturating_sub(claim);
            let falls = self
                .ledger
                .falls_to(account, name, most, refused.at)
                .await?
                .unwrap_or(refused.retry_at);
            let closed_until = self.closed_until(account, name, refused.at).await?;
            let taken = claim + self.decisions().granted_of(&account.name, name);
            limit_fits.push(LimitFit {
                limit: name.clone(),
                fits_at: closed_until.map_or(falls, |until| until.max(falls)),
                closed_until,
                balance_left: (limit.enforced() >= taken)
                    .then(|| limit.enforced().saturating_sub(taken)),
            });
        }
        Ok(limit_fits)
    }

    /// Returns the units of each limit of an account that count at `at`, or after the last charge.
    ///
    /// # Errors
    /// When the ledger in memory fails.
    pub async fn used(
        &self,
        account: &Account,
        at: Timestamp,
    ) -> Result<Vec<(LimitName, Units)>, LedgerError> {
        let usage = self.ledger.usage(account, at).await?.into_iter();
        Ok(usage.map(|usage| (usage.limit, usage.used)).collect())
    }

    /// Whether a run waits until a rejected charge fits, so that nothing is refused.
    fn is_waited_for(&self, account: &Account, rejection: &Rejection) -> bool {
        let mut credentials = self.credentials.iter();
        credentials.any(|credential| {
            credential.account.name == account.name
                && rejection.retry_after <= credential.wait(&rejection.limit)
        })
    }

    fn decisions(&self) -> MutexGuard<'_, Decisions> {
        self.decisions.lock()
    }

    async fn closed_until(
        &self,
        account: &Account,
        limit: &str,
        now: Timestamp,
    ) -> Result<Option<Timestamp>, LedgerError> {
        let usage = self.ledger.usage(account, now).await?;
        let of_limit = usage.into_iter().find(|usage| usage.limit == limit);
        Ok(of_limit.and_then(|usage| usage.closed_until))
    }
}

/// The most charges of a simulation that must end in time: each holds about 1 KiB, with its page and its pass.
const MOST: usize = 30_000;

impl Decisions {
    fn are_many(&self) -> bool {
        self.granted.len() + self.refused.len() >= MOST
    }

    fn grant(&mut self, charge: Charge<'_>, now: Timestamp) {
        self.granted.push(Granted {
            at: now,
            account: charge.account.name.clone(),
            cost: charge.cost.clone(),
            purpose: charge.purpose.clone(),
            id: charge.id.clone(),
        });
    }

    fn refuse(&mut self, charge: Charge<'_>, rejection: &Rejection, now: Timestamp) {
        self.refused.push(Refused {
            at: now,
            account: charge.account.name.clone(),
            limit: rejection.limit.clone(),
            purpose: charge.purpose.clone(),
            retry_at: rejection.retry_at,
            cost: charge.cost.clone(),
            leave: charge.leave.clone(),
        });
    }

    /// What was granted of a limit since the simulation began, in units.
    fn granted_of(&self, account: &str, limit: &str) -> Units {
        self.granted
            .iter()
            .filter(|granted| granted.account == account)
            .map(|granted| granted.cost.of(limit))
            .sum()
    }

    fn settle(&mut self, id: &ChargeId, cost: &Cost) {
        // From the end: what is settled was charged a moment ago, and a forecast grants very many.
        let Some(index) = self.granted.iter().rposition(|granted| granted.id == *id) else {
            return;
        };
        if cost.is_none() {
            self.granted.remove(index);
        } else if let Some(granted) = self.granted.get_mut(index) {
            granted.cost = cost.clone();
        }
    }
}

#[async_trait]
impl Ledger for SimulatedLedger {
    async fn charge(&self, charge: Charge<'_>, now: Timestamp) -> Result<Decision, LedgerError> {
        let is_over = |until| Instant::now() >= until || self.decisions().are_many();
        if self.until.is_some_and(is_over) {
            self.run.send(Signal::Terminate);
        }
        let decision = match self.bounds {
            Bounds::Enforced | Bounds::Decisive => self.ledger.charge(charge, now).await?,
            // What no limit bounds need not be counted.
            Bounds::Lifted => Decision::Granted(Grant::default()),
        };
        match &decision {
            Decision::Granted(grant) if !grant.repeated => self.decisions().grant(charge, now),
            Decision::Rejected(rejection) if !self.is_waited_for(charge.account, rejection) => {
                self.decisions().refuse(charge, rejection, now);
                if self.bounds == Bounds::Decisive {
                    self.run.send(Signal::Terminate);
                }
            }
            // A grant that is repeated charges nothing, and what a run waits for is not refused.
            _ => {}
        }
        Ok(decision)
    }

    async fn settle(
        &self,
        account: &Account,
        id: &ChargeId,
        cost: &Cost,
        now: Timestamp,
    ) -> Result<(), LedgerError> {
        self.decisions().settle(id, cost);
        self.ledger.settle(account, id, cost, now).await
    }

    async fn absorb(
        &self,
        account: &Account,
        entries: &[Entry],
        floors: &[Floor],
        now: Timestamp,
    ) -> Result<(), LedgerError> {
        self.ledger.absorb(account, entries, floors, now).await
    }

    async fn close(
        &self,
        account: &Account,
        limit: &str,
        closing: Closing,
        now: Timestamp,
    ) -> Result<(), LedgerError> {
        self.ledger.close(account, limit, closing, now).await
    }

    async fn reopen(
        &self,
        account: &Account,
        limit: &str,
        now: Timestamp,
    ) -> Result<(), LedgerError> {
        self.ledger.reopen(account, limit, now).await
    }

    async fn usage(
        &self,
        account: &Account,
        now: Timestamp,
    ) -> Result<Vec<LimitUsage>, LedgerError> {
        let mut usage = self.ledger.usage(account, now).await?;
        // The run admits regions by what remains.
        if self.bounds == Bounds::Lifted {
            for limit in &mut usage {
                limit.remaining = Units::new(u64::MAX);
            }
        }
        Ok(usage)
    }
}

#[async_trait]
impl LocalLedger for SimulatedLedger {
    async fn falls_to(
        &self,
        account: &Account,
        limit: &str,
        most: Units,
        now: Timestamp,
    ) -> Result<Option<Timestamp>, LedgerError> {
        self.ledger.falls_to(account, limit, most, now).await
    }

    async fn spent(&self, account: &Account, from: Timestamp) -> Result<Vec<Spent>, LedgerError> {
        self.ledger.spent(account, from).await
    }

    async fn is_empty(&self) -> Result<bool, LedgerError> {
        self.ledger.is_empty().await
    }

    async fn entries(&self, account: &Account, now: Timestamp) -> Result<Vec<Entry>, LedgerError> {
        self.ledger.entries(account, now).await
    }

    async fn newest_charge(&self, account: &Account) -> Result<Option<Timestamp>, LedgerError> {
        self.ledger.newest_charge(account).await
    }

    async fn restored_from(&self) -> Result<Option<Timestamp>, LedgerError> {
        self.ledger.restored_from().await
    }

    async fn correct(
        &self,
        account: &Account,
        id: &ChargeId,
        cost: &Cost,
        now: Timestamp,
    ) -> Result<ChargeStatus, LedgerError> {
        self.ledger.correct(account, id, cost, now).await
    }

    async fn look_up(
        &self,
        account: &Account,
        id: &ChargeId,
        now: Timestamp,
    ) -> Result<ChargeStatus, LedgerError> {
        self.ledger.look_up(account, id, now).await
    }
}
