//! What stands between a run and the ledger: fresh ids, grants that go stale, and what happens when the ledger is silent.

use std::sync::Arc;
use std::time::Duration;

use thiserror::Error;

use super::{Charge, Ledger, LedgerError, Purpose};
use crate::clock::{Clock, Monotonic};
use crate::quota::{
    Account, ChargeId, Closing, Cost, Decision, Grant, LimitName, LimitUsage, Outage, Rejection, Units,
};

/// One request's charge, as a run asks for it.
#[derive(Debug, Clone)]
pub struct Ask<'a> {
    /// Whose quota, and its limits.
    pub account: &'a Account,
    /// The id to charge under; a fresh one when none is given.
    pub id: Option<&'a ChargeId>,
    /// What it takes.
    pub cost: &'a Cost,
    /// What it must leave free.
    pub leave: &'a Cost,
    /// Whether it goes ahead when the ledger cannot be reached.
    pub outage: Outage,
    /// What it is for.
    pub purpose: Purpose,
}

/// Leave to send one request, soon.
#[derive(Debug, Clone)]
pub struct Permit {
    /// The id of its charge.
    pub id: ChargeId,
    /// What is left of each charged limit; empty when it went ahead unmetered.
    pub grant: Grant,
    /// Whether the ledger recorded the charge; otherwise this machine's journal did.
    pub metered: bool,
    asked: Monotonic,
    lifetime: Duration,
}

impl Permit {
    /// Whether too long has passed since this was asked for (a suspended process): to be released and asked for anew.
    #[must_use]
    pub fn is_stale(&self) -> bool {
        self.asked.elapsed() >= self.lifetime
    }
}

/// What became of an ask.
#[derive(Debug, Clone)]
pub enum Verdict {
    /// The request may be sent, soon.
    Permitted(Permit),
    /// Not now.
    Rejected(Rejection),
    /// Not ever.
    Never {
        /// The limit that cannot hold it.
        limit: LimitName,
        /// The most that one charge can take of it, in units.
        most: Units,
    },
    /// The ledger cannot be reached, and this call does not go ahead without it.
    Refused(String),
}

/// Why no verdict could be had: nothing was sent.
#[derive(Debug, Clone, Error)]
pub enum MeterError {
    /// The ledger failed in a way that no outage policy covers.
    #[error(transparent)]
    Ledger(#[from] LedgerError),
}

/// The way to the ledger, with this machine's policy for when there is none.
pub struct Meter {
    ledger: Arc<dyn Ledger>,
    clock: Arc<dyn Clock>,
}

impl Meter {
    /// A meter over a ledger of this machine.
    #[must_use]
    pub fn new(ledger: Arc<dyn Ledger>, clock: Arc<dyn Clock>) -> Self {
        Self { ledger, clock }
    }

    /// Asks for leave to send one request.
    ///
    /// # Errors
    /// When the ledger fails in a way that no outage policy covers.
    pub async fn ask(&self, ask: Ask<'_>) -> Result<Verdict, MeterError> {
        let id = ask.id.cloned().unwrap_or_else(ChargeId::fresh);
        let asked = Monotonic::now();
        let charge = Charge {
            account: ask.account,
            id: &id,
            cost: ask.cost,
            leave: ask.leave,
            purpose: &ask.purpose,
            seen: None,
        };
        match self.ledger.charge(charge, self.clock.now()).await? {
            Decision::Granted(grant) => Ok(Verdict::Permitted(Permit {
                id,
                grant,
                metered: true,
                asked,
                lifetime: ask.account.grant_lifetime(ask.cost),
            })),
            Decision::Rejected(rejection) => Ok(Verdict::Rejected(rejection)),
            Decision::Never { limit, most } => Ok(Verdict::Never { limit, most }),
            Decision::Lost => {
                Err(LedgerError::Broken("the ledger of this machine says that it lost data".to_owned()).into())
            }
        }
    }

    /// Gives back what a request was charged that provably never left.
    ///
    /// # Errors
    /// When the ledger cannot be told.
    pub async fn release(&self, account: &Account, permit: &Permit) -> Result<(), MeterError> {
        self.settle(account, &permit.id, &Cost::none()).await
    }

    /// Tells the true cost of a charge.
    ///
    /// # Errors
    /// When the ledger cannot be told.
    pub async fn settle(&self, account: &Account, id: &ChargeId, cost: &Cost) -> Result<(), MeterError> {
        Ok(self.ledger.settle(account, id, cost, self.clock.now()).await?)
    }

    /// Closes a limit that the upstream called spent.
    ///
    /// # Errors
    /// When the ledger cannot be told.
    pub async fn close(&self, account: &Account, limit: &str, closing: Closing) -> Result<(), MeterError> {
        Ok(self.ledger.close(account, limit, closing, self.clock.now()).await?)
    }

    /// Takes a closing back.
    ///
    /// # Errors
    /// When the ledger cannot be told.
    pub async fn reopen(&self, account: &Account, limit: &str) -> Result<(), MeterError> {
        Ok(self.ledger.reopen(account, limit, self.clock.now()).await?)
    }

    /// How the limits of an account stand.
    ///
    /// # Errors
    /// When the ledger cannot be asked.
    pub async fn usage(&self, account: &Account) -> Result<Vec<LimitUsage>, MeterError> {
        Ok(self.ledger.usage(account, self.clock.now()).await?)
    }
}
