//! What stands between a run and the ledger: fresh ids, grants that go stale, and what happens when the ledger is silent.

mod local;
mod read_only;
mod shared;
mod spending;

use std::sync::Arc;

use thiserror::Error;
use uuid::Uuid;

use self::local::LocalClient;
use self::read_only::ReadOnlyClient;
use self::shared::SharedClient;
use crate::clock::{Clock, Deadline};
use crate::ledger::journal::{Journal, JournalError};
use crate::ledger::{Ledger, LedgerError, Purpose, SharedLedger};
use crate::quota::{
    Account, ChargeId, Closing, Cost, Entry, Grant, LimitName, LimitUsage, Outage, Rejection, Units,
};

pub use shared::Policy;
pub use spending::{ChargeSource, Found, Spending};

/// So many grants in a row may come too late to be used.
const ATTEMPTS: u32 = 4;

/// One request's charge, as a run asks for it.
#[derive(Debug, Clone, Copy)]
pub struct ChargeRequest<'a> {
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
    const fn is_anothers(&self, request: ChargeRequest<'_>) -> bool {
        request.id.is_some() && self.grant.repeated
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
pub enum Acquired {
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
pub enum Available {
    /// Of each limit, as the ledger says.
    Metered(Vec<LimitUsage>),
    /// The ledger is silent: of the units that may go ahead without it on this machine.
    Unmetered(Units),
}

/// Why no verdict could be had: nothing was sent.
#[derive(Debug, Clone, Error)]
pub enum ClientError {
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

impl ClientError {
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
pub struct LedgerClient(Way);

enum Way {
    /// A ledger of this machine: always there, and never loses anything.
    Local(LocalClient),
    /// A ledger elsewhere, with this machine's journal.
    Shared(Box<SharedClient>),
    /// A ledger elsewhere, looked at only.
    ReadOnly(ReadOnlyClient),
}

impl LedgerClient {
    /// A meter over a ledger of this machine.
    #[must_use]
    pub fn new(ledger: Arc<dyn Ledger>, clock: Arc<dyn Clock>) -> Self {
        Self(Way::Local(LocalClient::new(ledger, clock)))
    }

    /// A meter over a ledger that other machines share and that can be away, with the journal of this machine.
    #[must_use]
    pub fn with_journal(
        ledger: Arc<dyn SharedLedger>,
        journal: Journal,
        policy: Policy,
        clock: Arc<dyn Clock>,
    ) -> Self {
        Self(Way::Shared(Box::new(SharedClient::new(
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
        Self(Way::ReadOnly(ReadOnlyClient::new(ledger, journal, clock)))
    }

    /// Asks for leave to send one request. A grant that comes too late to be used is given back and asked for anew, a few
    /// times: with it the upstream would count the request later than the ledger does.
    ///
    /// # Errors
    /// When the ledger fails in a way that no outage policy covers, or the journal cannot be written.
    pub async fn acquire(&self, request: ChargeRequest<'_>) -> Result<Acquired, ClientError> {
        for _ in 0..ATTEMPTS {
            match self.acquire_once(request).await? {
                Acquired::Permitted(permit)
                    if permit.deadline.is_past() && !permit.is_anothers(request) =>
                {
                    self.release(request.account, &permit).await?;
                }
                verdict => return Ok(verdict),
            }
        }
        Ok(Acquired::Refused(too_slow(request.account, request.cost)))
    }

    async fn acquire_once(&self, request: ChargeRequest<'_>) -> Result<Acquired, ClientError> {
        match &self.0 {
            Way::Local(local) => local.acquire(request).await,
            Way::Shared(journaled) => journaled.acquire(&request).await,
            Way::ReadOnly(_) => Err(ClientError::ReadOnly),
        }
    }

    /// Gives back what a request was charged that provably never left.
    ///
    /// # Errors
    /// As [`Self::settle`].
    pub async fn release(&self, account: &Account, permit: &Permit) -> Result<(), ClientError> {
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
    ) -> Result<(), ClientError> {
        match &self.0 {
            Way::Local(local) => local.settle(account, id, cost).await,
            Way::Shared(journaled) => journaled.settle(account, id, cost).await,
            Way::ReadOnly(_) => Err(ClientError::ReadOnly),
        }
    }

    /// Adds what was charged elsewhere, each at its own time, once, even beyond the limit. Where the ledger is away it is
    /// written down and told at the next contact.
    ///
    /// # Errors
    /// As [`Self::settle`].
    pub async fn absorb(&self, account: &Account, entries: &[Entry]) -> Result<(), ClientError> {
        match &self.0 {
            Way::Local(local) => local.absorb(account, entries).await,
            Way::Shared(journaled) => journaled.absorb(account, entries).await,
            Way::ReadOnly(_) => Err(ClientError::ReadOnly),
        }
    }

    /// Whether this is a ledger of this machine that holds no charge of any account: it is new, or was deleted.
    ///
    /// # Errors
    /// When it cannot be asked.
    pub async fn is_empty(&self) -> Result<bool, ClientError> {
        match &self.0 {
            Way::Local(local) => local.is_empty().await,
            Way::Shared(_) | Way::ReadOnly(_) => Ok(false),
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
    ) -> Result<(), ClientError> {
        match &self.0 {
            Way::Local(local) => local.close(account, limit, closing).await,
            Way::Shared(journaled) => journaled.close(account, limit, closing).await,
            Way::ReadOnly(_) => Err(ClientError::ReadOnly),
        }
    }

    /// Takes a closing back.
    ///
    /// # Errors
    /// As [`Self::settle`].
    pub async fn reopen(&self, account: &Account, limit: &str) -> Result<(), ClientError> {
        match &self.0 {
            Way::Local(local) => local.reopen(account, limit).await,
            Way::Shared(journaled) => journaled.reopen(account, limit).await,
            Way::ReadOnly(_) => Err(ClientError::ReadOnly),
        }
    }

    /// What an account has left, with the ledger or without it.
    ///
    /// # Errors
    /// When the ledger fails in a way that no outage policy covers, or the journal cannot be read.
    pub async fn left(&self, account: &Account) -> Result<Available, ClientError> {
        match &self.0 {
            Way::Shared(journaled) => journaled.left(account).await,
            Way::Local(_) | Way::ReadOnly(_) => self.usage(account).await.map(Available::Metered),
        }
    }

    /// How the limits of an account stand.
    ///
    /// # Errors
    /// When the ledger cannot be asked.
    pub async fn usage(&self, account: &Account) -> Result<Vec<LimitUsage>, ClientError> {
        match &self.0 {
            Way::Local(local) => local.usage(account).await,
            Way::Shared(journaled) => journaled.usage(account).await,
            Way::ReadOnly(watching) => watching.usage(account).await,
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
