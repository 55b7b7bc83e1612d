//! A process's way to the ledger: one trait with three implementations. It adds to a store what a process needs: fresh ids,
//! deadlines of grants, and what happens while the ledger cannot be reached.

pub mod read_only;
pub mod shared;

use std::collections::HashMap;

use async_trait::async_trait;
use serde::Serialize;
use thiserror::Error;
use uuid::Uuid;

use super::journal::{Journal, JournalError};
use super::{LedgerError, Purpose, Spent};
use ingest_base::clock::{Deadline, Monotonic};
use ingest_quota::{
    Account, ChargeId, Closing, Cost, Entry, Grant, LimitName, LimitUsage, Outage, Rejection,
    Timestamp, Units,
};
use ingest_sqlite::Restored;

/// The number of grants in a row that may arrive too late to be used. A ledger that is always slower than the grace of a
/// short window then counts as away, and does not keep a run busy for ever.
const LATE_GRANTS: u32 = 4;

/// The number of void grants in a row after which the ledger counts as away.
const VOID_GRANTS: u32 = 5;

#[derive(Debug, Clone, Copy)]
pub struct ChargeRequest<'a> {
    /// The account, with its limits.
    pub account: &'a Account,
    /// The id to charge under; `None` for a fresh one.
    pub id: Option<&'a ChargeId>,
    /// The units to take of each limit.
    pub cost: &'a Cost,
    /// The units of each limit that must stay free beside them.
    pub leave: &'a Cost,
    /// Whether the request goes ahead while the ledger cannot be reached.
    pub outage: Outage,
    /// What the charge is for.
    pub purpose: &'a Purpose,
}

/// Leave to send one request before a deadline.
#[derive(Debug, Clone)]
pub struct Permit {
    pub id: ChargeId,
    /// What is left of each charged limit; empty when the request goes ahead unmetered.
    pub grant: Grant,
    /// Whether the ledger recorded the charge; otherwise only this machine's journal did.
    pub metered: bool,
    /// Until when the request may be sent. The upstream would count a later one after the ledger has let it go (L6).
    pub deadline: Deadline,
}

impl Permit {
    pub(crate) fn new(
        request: &ChargeRequest<'_>,
        id: ChargeId,
        grant: Grant,
        metered: bool,
        requested_at: Monotonic,
    ) -> Self {
        let lifetime = request.account.grant_lifetime(request.cost);
        Self {
            id,
            grant,
            metered,
            deadline: Deadline::new(requested_at, lifetime),
        }
    }

    /// Whether it repeats the charge of an id that the caller chose. Its first grant may have been used, so it is never
    /// released as unused.
    const fn repeats_chosen_id(&self, request: &ChargeRequest<'_>) -> bool {
        request.id.is_some() && self.grant.repeated
    }
}

/// The result of a charge request.
#[derive(Debug, Clone)]
pub enum Acquired {
    /// The request may be sent, before the permit's deadline.
    Permitted(Permit),
    /// The charge does not fit now.
    Rejected(Rejection),
    /// The charge can never fit.
    Never {
        /// The limit that cannot hold it.
        limit: LimitName,
        /// The most that one charge can take of that limit, in units.
        most: Units,
    },
    /// The ledger cannot be reached, and this call does not go ahead without it. Holds the reason and the remedy.
    Refused(String),
}

/// The units that an account has left.
#[derive(Debug, Clone)]
pub enum Available {
    /// Of each limit, as the ledger reports it.
    Metered(Vec<LimitUsage>),
    /// The ledger cannot be reached: the units that may still go ahead without it on this machine.
    Unmetered(Units),
}

/// Charges, and the record that they come from.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Spending {
    /// Oldest first.
    pub charges: Vec<Spent>,
    /// The record that lists them.
    pub source: ChargeSource,
}

/// The record that lists charges.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum ChargeSource {
    /// The ledger: the charges of every process.
    Ledger,
    /// This machine's journal: its own charges of two windows.
    Journal,
}

/// What became of the charge of an id that a caller chose.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Found {
    /// It counts, under this id.
    Counting(ChargeId),
    /// It was taken back.
    TakenBack,
    /// There is none.
    Unknown,
    /// This machine did not make it, and the ledger that may have it is away or lost its data.
    CannotTell,
}

/// Why a client could not do what was requested. No request may be sent.
#[derive(Debug, Clone, Error)]
pub enum ClientError {
    /// The ledger failed in a way that no outage policy covers.
    #[error(transparent)]
    Ledger(#[from] LedgerError),
    /// This machine's journal cannot be written or read.
    #[error(transparent)]
    Journal(#[from] JournalError),
    /// The ledger was opened for reading only.
    #[error("the ledger is open read-only")]
    ReadOnly,
}

impl ClientError {
    /// Whether the ledger cannot be reached: then the outage policy decides.
    #[must_use]
    pub const fn is_outage(&self) -> bool {
        matches!(
            self,
            Self::Ledger(LedgerError::Unreachable(_) | LedgerError::Skewed { .. })
        )
    }
}

/// A process's way to the ledger. Every method fails when the store fails in a way that no outage policy covers, or when
/// this machine's journal cannot be used. What would write fails in a client that only reads.
#[async_trait]
pub trait LedgerClient: Send + Sync {
    /// Charges once, under `id` or one made from it. Returns `None` when the grant is void (L21): charge again under a
    /// fresh id.
    async fn charge(
        &self,
        _request: ChargeRequest<'_>,
        _id: ChargeId,
    ) -> Result<Option<Acquired>, ClientError> {
        Err(ClientError::ReadOnly)
    }

    /// Sets the true cost of a charge. While the ledger cannot be reached, the journal keeps it for the next contact.
    async fn settle(
        &self,
        _account: &Account,
        _id: &ChargeId,
        _cost: &Cost,
    ) -> Result<(), ClientError> {
        Err(ClientError::ReadOnly)
    }

    /// Sets the true cost of a charge that a caller names, and returns what had become of it: one that was taken back stays so.
    /// A charge of another machine is corrected unseen.
    async fn correct(
        &self,
        _account: &Account,
        _id: &ChargeId,
        _cost: &Cost,
    ) -> Result<Found, ClientError> {
        Err(ClientError::ReadOnly)
    }

    /// Adds charges made elsewhere, each at its own time, once, even beyond the limit. While the ledger cannot be reached,
    /// the journal keeps them for the next contact.
    async fn absorb(&self, _account: &Account, _entries: &[Entry]) -> Result<(), ClientError> {
        Err(ClientError::ReadOnly)
    }

    /// Closes a limit that the upstream reported exhausted.
    async fn close(
        &self,
        _account: &Account,
        _limit: &str,
        _closing: Closing,
    ) -> Result<(), ClientError> {
        Err(ClientError::ReadOnly)
    }

    /// Ends the closing of a limit.
    async fn reopen(&self, _account: &Account, _limit: &str) -> Result<(), ClientError> {
        Err(ClientError::ReadOnly)
    }

    /// Returns the entries of a limit for units that responses reported as used by others. Of a shared ledger, those that this
    /// machine added.
    async fn reported(&self, account: &Account, limit: &str) -> Result<Vec<Entry>, ClientError>;

    /// Removes these entries, and returns their units: what a response reports next counts again.
    async fn forget_reported(&self, account: &Account, limit: &str) -> Result<Units, ClientError> {
        let mut units = Units::ZERO;
        for entry in self.reported(account, limit).await? {
            self.settle(account, &entry.id, &Cost::none()).await?;
            units += entry.cost.of(limit);
        }
        Ok(units)
    }

    /// Returns the usage of the account's limits, by name.
    async fn usage(&self, account: &Account) -> Result<Vec<LimitUsage>, ClientError>;

    /// Returns the usage of one limit, without reading the others where that saves time; `None` for a limit that the account
    /// lacks.
    async fn usage_of(
        &self,
        account: &Account,
        limit: &str,
    ) -> Result<Option<LimitUsage>, ClientError> {
        let usages = self.usage(account).await?;
        Ok(usages.into_iter().find(|usage| usage.limit == limit))
    }

    /// Returns the first instant, now or later, at which no more than `most` units of a limit count if nothing is charged;
    /// `None` when that is unknown.
    async fn falls_to(
        &self,
        account: &Account,
        limit: &str,
        most: Units,
    ) -> Result<Option<Timestamp>, ClientError>;

    /// Returns the charges of an account since `from`, and what each was for.
    async fn spent(&self, account: &Account, from: Timestamp) -> Result<Spending, ClientError>;

    /// Returns what became of a charge made under this id, or under one made from it.
    async fn find(&self, account: &Account, id: &ChargeId) -> Result<Found, ClientError>;

    /// Whether this is a ledger of this machine without a charge of any account: it is new, or was deleted.
    async fn is_empty(&self) -> Result<bool, ClientError> {
        // Machines add what they charged to a shared ledger that lost its data: it is never refilled.
        Ok(false)
    }

    /// Returns when the newest charge of an account was made; `None` when there is none, or the ledger is no file of this machine.
    async fn newest_charge(&self, _account: &Account) -> Result<Option<Timestamp>, ClientError> {
        Ok(None)
    }

    /// Returns when the newest charge of each job was made, in any account, of those with one since `from`; empty when the ledger is
    /// no file of this machine.
    async fn newest_of_jobs(
        &self,
        _from: Timestamp,
    ) -> Result<HashMap<String, Timestamp>, ClientError> {
        Ok(HashMap::new())
    }

    /// Returns the backup that the ledger's file on this machine, or the journal, was restored from; `None` for one that was not
    /// restored.
    async fn restored(&self) -> Result<Option<Restored>, ClientError>;

    /// Notes in the restored file that it is used from now on.
    async fn note_restored(&self) -> Result<(), ClientError> {
        Err(ClientError::ReadOnly)
    }

    /// The journal of this machine; `None` when the ledger itself is on this machine.
    fn journal(&self) -> Option<&Journal> {
        None
    }

    /// Charges one request. A grant that arrives after its deadline is released and requested again a few times: the
    /// upstream would count the request later than the ledger does. The deadline of each grant counts from its own request.
    async fn acquire(&self, request: ChargeRequest<'_>) -> Result<Acquired, ClientError> {
        let (mut late, mut void) = (0, 0);
        while late < LATE_GRANTS {
            let id = request.id.cloned().unwrap_or_else(fresh_id);
            match self.charge(request, id).await? {
                None => void += 1,
                Some(Acquired::Permitted(permit))
                    if permit.deadline.is_past() && !permit.repeats_chosen_id(&request) =>
                {
                    self.release(request.account, &permit).await?;
                    // A grant that arrived, though late, shows that the ledger keeps its data.
                    (late, void) = (late + 1, 0);
                }
                Some(acquired) => return Ok(acquired),
            }
            if void == VOID_GRANTS {
                return Ok(Acquired::Refused(
                    "the ledger lost its data several times during one charge".to_owned(),
                ));
            }
        }
        Ok(Acquired::Refused(too_slow(&request)))
    }

    /// Releases the charge of a request that provably never left.
    async fn release(&self, account: &Account, permit: &Permit) -> Result<(), ClientError> {
        self.settle(account, &permit.id, &Cost::none()).await
    }

    /// Returns the units that an account has left, with the ledger or without it.
    async fn available(&self, account: &Account) -> Result<Available, ClientError> {
        self.usage(account).await.map(Available::Metered)
    }

    /// Returns the units that went ahead unmetered on this machine and that the ledger does not have yet.
    async fn unrepaid(&self, account: &Account) -> Result<Cost, ClientError> {
        match self.journal() {
            Some(journal) => Ok(journal.unrepaid(account).await?),
            None => Ok(Cost::none()),
        }
    }

    /// Returns until when this machine charges nothing after a loss (L42); `None` when it does not wait.
    async fn waits_until(
        &self,
        account: &Account,
        now: Timestamp,
    ) -> Result<Option<Timestamp>, ClientError> {
        match self.journal() {
            Some(journal) => Ok(journal.waits_until(account, now).await?),
            None => Ok(None),
        }
    }
}

fn too_slow(request: &ChargeRequest<'_>) -> String {
    let lifetime = request.account.grant_lifetime(request.cost);
    let lifetime = humantime::format_duration(lifetime);
    format!(
        "the ledger responds too slowly: with a window this short, a grant expires {lifetime} \
        after the request for it, and {LATE_GRANTS} grants arrived later; use a ledger with less \
        latency, or a longer window"
    )
}

/// Returns the charges that the journal lists.
async fn spent_by_journal(
    journal: &Journal,
    account: &Account,
    from: Timestamp,
) -> Result<Spending, ClientError> {
    Ok(Spending {
        charges: journal.spent(account, from).await?,
        source: ChargeSource::Journal,
    })
}

/// Returns an id that no other charge of its account has: 71 bits of a UUID. In Redis each charge has its id twice, and 12 bytes
/// are as many as take no more memory than 8.
#[must_use]
pub fn fresh_id() -> ChargeId {
    random_id(12)
}

/// Returns a random id of `length` letters and digits. With 6, one in 57,000 equals one of a million others.
#[must_use]
pub fn random_id(length: usize) -> ChargeId {
    const DIGITS: &[u8; 62] = b"0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz";
    // Digits are taken from its low end, which is random. It begins with the time.
    let mut rest = Uuid::now_v7().as_u128();
    let mut id = String::with_capacity(length);
    for _ in 0..length {
        let digit = usize::try_from(rest % 62).unwrap_or_default();
        id.push(DIGITS.get(digit).copied().map_or('0', char::from));
        rest /= 62;
    }
    ChargeId::new(id)
}
