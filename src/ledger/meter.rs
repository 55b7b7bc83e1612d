//! What stands between a run and the ledger: fresh ids, grants that go stale, and what happens when the ledger is silent.

mod spending;

use std::sync::Arc;

use thiserror::Error;
use uuid::Uuid;

use super::journal::{Journal, JournalError};
use super::journaled::{Journaled, Policy};
use super::local::Local;
use super::watching::Watching;
use super::{Ledger, LedgerError, Purpose, SharedLedger};
use crate::clock::{Clock, Deadline};
use crate::quota::{
    Account, ChargeId, Closing, Cost, Entry, Grant, LimitName, LimitUsage, Outage, Rejection, Units,
};

pub use spending::{Found, Spending, Teller};

/// So many grants in a row may come too late to be used.
const ATTEMPTS: u32 = 4;

/// One request's charge, as a run asks for it.
#[derive(Debug, Clone, Copy)]
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
    pub purpose: &'a Purpose,
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
    /// Until when the request may be sent: later the upstream would count it after the ledger has let it go.
    pub deadline: Deadline,
}

impl Permit {
    /// Whether it repeats a charge of an id that somebody chose, and who may have used it.
    const fn is_anothers(&self, ask: Ask<'_>) -> bool {
        ask.id.is_some() && self.grant.repeated
    }
}

fn too_slow(account: &Account, cost: &Cost) -> String {
    let lifetime = humantime::format_duration(account.grant_lifetime(cost));
    format!(
        "the ledger responds too slowly: with a window this short, a grant expires {lifetime} \
        after the request for it, and {ATTEMPTS} grants arrived later; use a ledger with less \
        latency, or a longer window"
    )
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

/// What an account has left.
#[derive(Debug, Clone)]
pub enum Left {
    /// Of each limit, as the ledger says.
    Metered(Vec<LimitUsage>),
    /// The ledger is silent: of the units that may go ahead without it on this machine.
    Unmetered(Units),
}

/// Why no verdict could be had: nothing was sent.
#[derive(Debug, Clone, Error)]
pub enum MeterError {
    /// The ledger failed in a way that no outage policy covers.
    #[error(transparent)]
    Ledger(#[from] LedgerError),
    /// This machine's own record cannot be written or read.
    #[error(transparent)]
    Journal(#[from] JournalError),
    /// The ledger was opened to look at only.
    #[error("the ledger is open read-only")]
    ReadOnly,
}

impl MeterError {
    /// Whether the ledger is silent: then the outage policy decides.
    #[must_use]
    pub const fn is_outage(&self) -> bool {
        matches!(
            self,
            Self::Ledger(LedgerError::Unreachable(_) | LedgerError::Skewed { .. })
        )
    }
}

/// The way to the ledger, with this machine's policy for when there is none.
pub struct Meter(Way);

enum Way {
    /// A ledger of this machine: always there, and never loses anything.
    Local(Local),
    /// A ledger elsewhere, with this machine's journal.
    Journaled(Box<Journaled>),
    /// A ledger elsewhere, looked at only.
    Watching(Watching),
}

impl Meter {
    /// A meter over a ledger of this machine.
    #[must_use]
    pub fn new(ledger: Arc<dyn Ledger>, clock: Arc<dyn Clock>) -> Self {
        Self(Way::Local(Local::new(ledger, clock)))
    }

    /// A meter over a ledger that other machines share and that can be away, with the journal of this machine.
    #[must_use]
    pub fn with_journal(
        ledger: Arc<dyn SharedLedger>,
        journal: Journal,
        policy: Policy,
        clock: Arc<dyn Clock>,
    ) -> Self {
        Self(Way::Journaled(Box::new(Journaled::new(
            ledger, journal, policy, clock,
        ))))
    }

    /// A meter that only tells usage, and writes nothing, over a ledger that other machines share.
    #[must_use]
    pub fn watching(
        ledger: Arc<dyn SharedLedger>,
        journal: Journal,
        clock: Arc<dyn Clock>,
    ) -> Self {
        Self(Way::Watching(Watching::new(ledger, journal, clock)))
    }

    /// Asks for leave to send one request. A grant that comes too late to be used is given back and asked for anew, a few
    /// times: with it the upstream would count the request later than the ledger does.
    ///
    /// # Errors
    /// When the ledger fails in a way that no outage policy covers, or the journal cannot be written.
    pub async fn ask(&self, ask: Ask<'_>) -> Result<Verdict, MeterError> {
        for _ in 0..ATTEMPTS {
            match self.ask_once(ask).await? {
                Verdict::Permitted(permit)
                    if permit.deadline.is_past() && !permit.is_anothers(ask) =>
                {
                    self.release(ask.account, &permit).await?;
                }
                verdict => return Ok(verdict),
            }
        }
        Ok(Verdict::Refused(too_slow(ask.account, ask.cost)))
    }

    async fn ask_once(&self, ask: Ask<'_>) -> Result<Verdict, MeterError> {
        match &self.0 {
            Way::Local(local) => local.ask(ask).await,
            Way::Journaled(journaled) => journaled.ask(&ask).await,
            Way::Watching(_) => Err(MeterError::ReadOnly),
        }
    }

    /// Gives back what a request was charged that provably never left.
    ///
    /// # Errors
    /// As [`Self::settle`].
    pub async fn release(&self, account: &Account, permit: &Permit) -> Result<(), MeterError> {
        self.settle(account, &permit.id, &Cost::none()).await
    }

    /// Tells the true cost of a charge. Where the ledger is away it is written down and told at the next contact.
    ///
    /// # Errors
    /// When a ledger of this machine cannot be told, or the journal cannot be written.
    pub async fn settle(
        &self,
        account: &Account,
        id: &ChargeId,
        cost: &Cost,
    ) -> Result<(), MeterError> {
        match &self.0 {
            Way::Local(local) => local.settle(account, id, cost).await,
            Way::Journaled(journaled) => journaled.settle(account, id, cost).await,
            Way::Watching(_) => Err(MeterError::ReadOnly),
        }
    }

    /// Adds what was charged elsewhere, each at its own time, once, even beyond the limit. Where the ledger is away it is
    /// written down and told at the next contact.
    ///
    /// # Errors
    /// As [`Self::settle`].
    pub async fn absorb(&self, account: &Account, entries: &[Entry]) -> Result<(), MeterError> {
        match &self.0 {
            Way::Local(local) => local.absorb(account, entries).await,
            Way::Journaled(journaled) => journaled.absorb(account, entries).await,
            Way::Watching(_) => Err(MeterError::ReadOnly),
        }
    }

    /// Whether this is a ledger of this machine that holds no charge of any account: it is new, or was deleted.
    ///
    /// # Errors
    /// When it cannot be asked.
    pub async fn is_empty(&self) -> Result<bool, MeterError> {
        match &self.0 {
            Way::Local(local) => local.is_empty().await,
            Way::Journaled(_) | Way::Watching(_) => Ok(false),
        }
    }

    /// Closes a limit that the upstream called spent.
    ///
    /// # Errors
    /// As [`Self::settle`].
    pub async fn close(
        &self,
        account: &Account,
        limit: &str,
        closing: Closing,
    ) -> Result<(), MeterError> {
        match &self.0 {
            Way::Local(local) => local.close(account, limit, closing).await,
            Way::Journaled(journaled) => journaled.close(account, limit, closing).await,
            Way::Watching(_) => Err(MeterError::ReadOnly),
        }
    }

    /// Takes a closing back.
    ///
    /// # Errors
    /// As [`Self::settle`].
    pub async fn reopen(&self, account: &Account, limit: &str) -> Result<(), MeterError> {
        match &self.0 {
            Way::Local(local) => local.reopen(account, limit).await,
            Way::Journaled(journaled) => journaled.reopen(account, limit).await,
            Way::Watching(_) => Err(MeterError::ReadOnly),
        }
    }

    /// What an account has left, with the ledger or without it.
    ///
    /// # Errors
    /// When the ledger fails in a way that no outage policy covers, or the journal cannot be read.
    pub async fn left(&self, account: &Account) -> Result<Left, MeterError> {
        match &self.0 {
            Way::Journaled(journaled) => journaled.left(account).await,
            Way::Local(_) | Way::Watching(_) => self.usage(account).await.map(Left::Metered),
        }
    }

    /// How the limits of an account stand.
    ///
    /// # Errors
    /// When the ledger cannot be asked.
    pub async fn usage(&self, account: &Account) -> Result<Vec<LimitUsage>, MeterError> {
        match &self.0 {
            Way::Local(local) => local.usage(account).await,
            Way::Journaled(journaled) => journaled.usage(account).await,
            Way::Watching(watching) => watching.usage(account).await,
        }
    }
}

/// An id that no other charge has, of 22 characters: a ledger in memory holds many.
#[must_use]
pub fn fresh_id() -> ChargeId {
    const DIGITS: &[u8; 62] = b"0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz";
    let mut rest = Uuid::now_v7().as_u128();
    let mut id = String::with_capacity(22);
    while rest > 0 {
        let digit = usize::try_from(rest % 62).unwrap_or_default();
        id.push(DIGITS.get(digit).copied().map_or('0', char::from));
        rest /= 62;
    }
    ChargeId::new(id)
}
