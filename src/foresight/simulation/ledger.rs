//! The ledger of a simulation: it starts with the balance of the real one, and records its decisions.

use std::sync::Arc;
use std::time::Instant;

use parking_lot::{Mutex, MutexGuard};

use crate::run::{Signal, StopSender};
use ingest_base::clock::Clock;
use ingest_config::Credential;
use ingest_ledger::{Charge, Ledger, LedgerError, LocalClient, Purpose, SqliteLedger, Watch};
use ingest_quota::{
    Account, ChargeId, Cost, Decision, Grant, LimitName, LimitUsage, Rejection, Timestamp, Units,
};

/// A charge that was granted in a simulation.
#[derive(Debug, Clone)]
pub struct Granted {
    /// When.
    pub at: Timestamp,
    pub account: String,
    pub cost: Cost,
    /// What was used of each limit that it charges, with it.
    pub used: Vec<(LimitName, Units)>,
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

    /// A client that charges it, at the time of `clock`.
    pub fn client(self: &Arc<Self>, clock: Arc<dyn Clock>) -> LocalClient {
        let watch = Arc::clone(self) as Arc<dyn Watch>;
        LocalClient::new(self.ledger.clone(), clock).watched(watch)
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

    fn grant(&mut self, charge: Charge<'_>, grant: &Grant, now: Timestamp) {
        let used = grant.remaining.iter().filter_map(|(name, remaining)| {
            let limit = charge.account.limits.get(name)?;
            Some((name.clone(), limit.enforced().saturating_sub(*remaining)))
        });
        self.granted.push(Granted {
            used: used.collect(),
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

impl Watch for SimulatedLedger {
    fn decide(&self) -> Option<Decision> {
        let is_over = |until| Instant::now() >= until || self.decisions().are_many();
        if self.until.is_some_and(is_over) {
            self.run.send(Signal::Terminate);
        }
        // What no limit bounds need not be counted.
        (self.bounds == Bounds::Lifted).then(|| Decision::Granted(Grant::default()))
    }

    fn decided(&self, charge: Charge<'_>, decision: &Decision, now: Timestamp) {
        match decision {
            Decision::Granted(grant) if !grant.repeated => {
                self.decisions().grant(charge, grant, now)
            }
            Decision::Rejected(rejection) if !self.is_waited_for(charge.account, rejection) => {
                self.decisions().refuse(charge, rejection, now);
                if self.bounds == Bounds::Decisive {
                    self.run.send(Signal::Terminate);
                }
            }
            // A grant that is repeated charges nothing, and what a run waits for is not refused.
            _ => {}
        }
    }

    fn settled(&self, id: &ChargeId, cost: &Cost) {
        self.decisions().settle(id, cost);
    }

    fn report(&self, limits: &mut [LimitUsage]) {
        // The run admits regions by what remains.
        if self.bounds == Bounds::Lifted {
            for limit in limits {
                limit.remaining = Units::new(u64::MAX);
            }
        }
    }
}
