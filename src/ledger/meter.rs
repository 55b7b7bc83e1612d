//! What stands between a run and the ledger: fresh ids, grants that go stale, and what happens when the ledger is silent.

use std::sync::Arc;
use std::time::Duration;

use serde::Serialize;
use thiserror::Error;
use uuid::Uuid;

use super::journal::{Journal, JournalError};
use super::journaled::{Journaled, Policy};
use super::watching::Watching;
use super::{Charge, Known, Ledger, LedgerError, Purpose, SharedLedger, Spent};
use crate::clock::{Clock, Monotonic};
use crate::quota::{
    Account, ChargeId, Closing, Cost, Decision, Entry, Grant, LimitName, LimitUsage, Outage, Rejection, Timestamp,
    Units,
};

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
    pub(super) asked: Monotonic,
    pub(super) lifetime: Duration,
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
    #[error("the ledger was opened to look at only")]
    ReadOnly,
}

impl MeterError {
    /// Whether the ledger is silent: then the outage policy decides.
    pub(super) const fn is_outage(&self) -> bool {
        matches!(self, Self::Ledger(LedgerError::Unreachable(_) | LedgerError::Skewed { .. }))
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

/// A ledger of this machine.
struct Local {
    ledger: Arc<dyn Ledger>,
    clock: Arc<dyn Clock>,
}

impl Meter {
    /// A meter over a ledger of this machine.
    #[must_use]
    pub fn new(ledger: Arc<dyn Ledger>, clock: Arc<dyn Clock>) -> Self {
        Self(Way::Local(Local { ledger, clock }))
    }

    /// A meter over a ledger that other machines share and that can be away, with the journal of this machine.
    #[must_use]
    pub fn with_journal(
        ledger: Arc<dyn SharedLedger>,
        journal: Journal,
        policy: Policy,
        clock: Arc<dyn Clock>,
    ) -> Self {
        Self(Way::Journaled(Box::new(Journaled::new(ledger, journal, policy, clock))))
    }

    /// A meter that only tells usage, and writes nothing, over a ledger that other machines share.
    #[must_use]
    pub fn watching(ledger: Arc<dyn SharedLedger>, journal: Journal, clock: Arc<dyn Clock>) -> Self {
        Self(Way::Watching(Watching::new(ledger, journal, clock)))
    }

    /// Units that went ahead without the ledger since this meter was made; of a charge of several limits, its largest
    /// component.
    #[must_use]
    pub fn unmetered(&self) -> Units {
        match &self.0 {
            Way::Journaled(journaled) => journaled.unmetered(),
            Way::Local(_) | Way::Watching(_) => Units::ZERO,
        }
    }

    /// Asks for leave to send one request.
    ///
    /// # Errors
    /// When the ledger fails in a way that no outage policy covers, or the journal cannot be written.
    pub async fn ask(&self, ask: Ask<'_>) -> Result<Verdict, MeterError> {
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
    pub async fn settle(&self, account: &Account, id: &ChargeId, cost: &Cost) -> Result<(), MeterError> {
        match &self.0 {
            Way::Local(Local { ledger, clock }) => Ok(ledger.settle(account, id, cost, clock.now()).await?),
            Way::Journaled(journaled) => journaled.settle(account, id, cost).await,
            Way::Watching(_) => Err(MeterError::ReadOnly),
        }
    }

    /// Adds what was charged elsewhere, at its own time, once, even beyond the limit. Where the ledger is away it is
    /// written down and told at the next contact.
    ///
    /// # Errors
    /// As [`Self::settle`].
    pub async fn absorb(&self, account: &Account, entry: Entry) -> Result<(), MeterError> {
        match &self.0 {
            Way::Local(Local { ledger, clock }) => Ok(ledger.absorb(account, &[entry], &[], clock.now()).await?),
            Way::Journaled(journaled) => journaled.absorb(account, &entry).await,
            Way::Watching(_) => Err(MeterError::ReadOnly),
        }
    }

    /// Closes a limit that the upstream called spent.
    ///
    /// # Errors
    /// As [`Self::settle`].
    pub async fn close(&self, account: &Account, limit: &str, closing: Closing) -> Result<(), MeterError> {
        match &self.0 {
            Way::Local(Local { ledger, clock }) => Ok(ledger.close(account, limit, closing, clock.now()).await?),
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
            Way::Local(Local { ledger, clock }) => Ok(ledger.reopen(account, limit, clock.now()).await?),
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
            Way::Local(Local { ledger, clock }) => Ok(ledger.usage(account, clock.now()).await?),
            Way::Journaled(journaled) => journaled.usage(account).await,
            Way::Watching(watching) => watching.usage(account).await,
        }
    }
}

/// What was charged, and whose record tells it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Spending {
    /// Oldest first.
    pub charges: Vec<Spent>,
    /// Who tells.
    pub told_by: Teller,
}

/// Whose record tells what was charged.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Teller {
    /// The ledger: everybody's charges.
    Ledger,
    /// This machine's journal: its own charges of two windows.
    Journal,
}

/// What became of the charge of an id that somebody chose.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Found {
    /// It counts, under this id.
    Counting(ChargeId),
    /// It was taken back.
    TakenBack,
    /// There is none.
    Unknown,
    /// Not charged from here, and the ledger cannot look an id up.
    CannotTell,
}

impl Meter {
    /// What was charged to an account at `from` or later, and for what.
    ///
    /// # Errors
    /// When the record cannot be read.
    pub async fn spent(&self, account: &Account, from: Timestamp) -> Result<Spending, MeterError> {
        let told_by = match &self.0 {
            Way::Local(_) => Teller::Ledger,
            Way::Journaled(_) | Way::Watching(_) => Teller::Journal,
        };
        let charges = match (&self.0, self.journal()) {
            (_, Some(journal)) => journal.spent(account, from).await?,
            (Way::Local(Local { ledger, .. }), None) => ledger.spent(account, from).await?.unwrap_or_default(),
            _ => Vec::new(),
        };
        Ok(Spending { charges, told_by })
    }

    /// What went ahead without the ledger on this machine, and the ledger has yet to be told.
    ///
    /// # Errors
    /// When the journal cannot be read.
    pub async fn unrepaid(&self, account: &Account) -> Result<Cost, MeterError> {
        match self.journal() {
            Some(journal) => Ok(journal.unrepaid(account).await?),
            None => Ok(Cost::none()),
        }
    }

    /// The first instant, now or later, at which no more than `most` units of a limit count, if nobody charges; `None`
    /// where the ledger does not tell.
    ///
    /// # Errors
    /// When the ledger cannot be asked.
    pub async fn falls_to(&self, account: &Account, limit: &str, most: Units) -> Result<Option<Timestamp>, MeterError> {
        match &self.0 {
            Way::Watching(watching) => watching.falls_to(account, limit, most).await,
            Way::Local(_) | Way::Journaled(_) => Ok(None),
        }
    }

    /// What became of a charge that was made under this id, or under one made from it.
    ///
    /// # Errors
    /// When the record cannot be read.
    pub async fn find(&self, account: &Account, id: &ChargeId) -> Result<Found, MeterError> {
        match (&self.0, self.journal()) {
            (_, Some(journal)) => match journal.counting(account, id).await? {
                Some(id) => Ok(Found::Counting(id)),
                None if journal.remembers(account, id).await? => Ok(Found::TakenBack),
                None => Ok(Found::CannotTell),
            },
            (Way::Local(local), None) => local.find(account, id).await,
            _ => Ok(Found::CannotTell),
        }
    }

    fn journal(&self) -> Option<&Journal> {
        match &self.0 {
            Way::Local(_) => None,
            Way::Journaled(journaled) => Some(journaled.journal()),
            Way::Watching(watching) => Some(watching.journal()),
        }
    }
}

impl Local {
    async fn ask(&self, ask: Ask<'_>) -> Result<Verdict, MeterError> {
        let Ask { account, cost, leave, purpose, .. } = ask;
        let id = match ask.id {
            Some(id) => self.valid_id(account, id).await?,
            None => fresh_id(),
        };
        let asked = Monotonic::now();
        let charge = Charge { account, id: &id, cost, leave, purpose, seen: None };
        match self.ledger.charge(charge, self.clock.now()).await? {
            Decision::Granted(grant) => {
                let lifetime = account.grant_lifetime(cost);
                Ok(Verdict::Permitted(Permit { id, grant, metered: true, asked, lifetime }))
            }
            Decision::Rejected(rejection) => Ok(Verdict::Rejected(rejection)),
            Decision::Never { limit, most } => Ok(Verdict::Never { limit, most }),
            Decision::Lost => {
                Err(LedgerError::Broken("the ledger of this machine says that it lost data".to_owned()).into())
            }
        }
    }
}

impl Local {
    /// The id under which a charge can be made: one that was taken back would go through for nothing, so that its next
    /// use takes the next of its kind.
    async fn valid_id(&self, account: &Account, id: &ChargeId) -> Result<ChargeId, LedgerError> {
        let mut candidate = id.clone();
        for attempt in 1.. {
            if self.ledger.look_up(account, &candidate, self.clock.now()).await? != Some(Known::TakenBack) {
                break;
            }
            candidate = id.again(attempt);
        }
        Ok(candidate)
    }

    async fn find(&self, account: &Account, id: &ChargeId) -> Result<Found, MeterError> {
        let valid = self.valid_id(account, id).await?;
        Ok(match self.ledger.look_up(account, &valid, self.clock.now()).await? {
            Some(Known::Counts) => Found::Counting(valid),
            Some(_) if valid != *id => Found::TakenBack,
            Some(_) => Found::Unknown,
            None => Found::CannotTell,
        })
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
