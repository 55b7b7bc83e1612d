//! Where charges are recorded: one trait, and whoever implements it passes the one suite of behaviours in the tests.

mod carry_over;
mod client;
mod journal;
mod memory;
mod open;
pub mod redis;
mod shared;
mod sqlite;

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use thiserror::Error;

use crate::quota::{
    Account, ChargeId, Closing, Cost, Decision, Entry, Floor, LimitName, LimitUsage, Timestamp,
    Units,
};

pub use carry_over::{CarryOver, carried_over};
pub use client::Policy;
pub use client::{
    Acquired, Available, ChargeRequest, ChargeSource, ClientError, Found, LedgerClient, Permit,
    Spending, fresh_id,
};
pub use journal::{Journal, JournalError};
pub use memory::MemoryLedger;
pub use open::{JOURNAL_FILE, LEDGER_FILE, Mode, OpenLedgerError, open, open_with};
pub use shared::{Ack, Answer, LedgerPosition, Report, SharedLedger, Update, UsageReply};
pub use sqlite::SqliteLedger;

/// One charge as it is put to a ledger.
#[derive(Debug, Clone, Copy)]
pub struct Charge<'a> {
    /// Whose quota, and its limits.
    pub account: &'a Account,
    /// By which the charge is safe to repeat.
    pub id: &'a ChargeId,
    /// What it takes.
    pub cost: &'a Cost,
    /// What it must leave free; counts as used.
    pub leave: &'a Cost,
    /// What it is for, kept for reports.
    pub purpose: &'a Purpose,
    /// What this machine has seen of the ledger, where ledgers can lose data.
    pub seen: Option<&'a Seen>,
}

/// What a charge is for.
#[derive(Debug, Clone, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Purpose {
    /// The job, if a job asked.
    pub job: Option<String>,
    /// The region, if a job asked.
    pub region: Option<String>,
    /// The call.
    pub call: String,
}

/// What a machine has seen of a shared ledger: a ledger that knows less has lost data.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Seen {
    /// The ledger's epoch; empty before the first contact.
    pub epoch: String,
    /// Its highest sequence number seen.
    pub sequence: u64,
    /// This machine's newest charge in it.
    pub newest: Option<ChargeId>,
}

/// What a charge took of one limit, as a ledger remembers it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Spent {
    /// When it was charged.
    pub at: Timestamp,
    /// Of which limit.
    pub limit: LimitName,
    /// How much, in units; never zero.
    pub units: Units,
    /// What for; empty where the ledger was not told.
    pub purpose: Arc<Purpose>,
}

/// What became of a charge.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ChargeStatus {
    /// It counts.
    Counts,
    /// It was settled to nothing: its id names no charge any more, and a repeat would go through for nothing.
    TakenBack,
    /// There is none of that id, or it is so old that it is forgotten.
    Unknown,
}

/// Why a ledger did not answer.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum LedgerError {
    /// It cannot be reached, or cannot do its work for now: the outage policy decides.
    #[error("the ledger cannot be reached: {0}")]
    Unreachable(String),
    /// Its clock and ours are too far apart for either to be believed: treated as an outage.
    #[error(
        "the ledger's clock and this machine's differ by {skew:?}, more than ledger.max_skew; \
        synchronize the clocks (chrony, systemd-timesyncd)"
    )]
    Skewed {
        /// How far.
        skew: Duration,
    },
    /// It answered what it never should: a bug or a damaged file. Nothing goes ahead.
    #[error("{0}")]
    Broken(String),
}

/// Where charges are recorded. `now` is the caller's clock; a shared ledger keeps its own time and compares.
#[async_trait]
pub trait Ledger: Send + Sync {
    /// Takes units, all or nothing over all limits of the charge. A rejected charge records nothing; a repeated id is
    /// granted again and counted once.
    async fn charge(&self, charge: Charge<'_>, now: Timestamp) -> Result<Decision, LedgerError>;

    /// Tells the true cost of a charge, at the charge's own time, even beyond the limit. With no cost it is a release,
    /// whose zero entry stays for the window so that the same charge arriving late is not counted. An unknown id is
    /// remembered as settled, at `now`.
    async fn settle(
        &self,
        account: &Account,
        id: &ChargeId,
        cost: &Cost,
        now: Timestamp,
    ) -> Result<(), LedgerError>;

    /// Adds charges made elsewhere at their own times, once each, even beyond the limit; a settled id stays settled.
    /// The floors hold until their time leaves the window.
    async fn absorb(
        &self,
        account: &Account,
        entries: &[Entry],
        floors: &[Floor],
        now: Timestamp,
    ) -> Result<(), LedgerError>;

    /// Closes a limit that the upstream called spent.
    async fn close(
        &self,
        account: &Account,
        limit: &str,
        closing: Closing,
        now: Timestamp,
    ) -> Result<(), LedgerError>;

    /// Takes a closing back.
    async fn reopen(
        &self,
        account: &Account,
        limit: &str,
        now: Timestamp,
    ) -> Result<(), LedgerError>;

    /// How the limits of an account stand, in the order of their names. Writes nothing.
    async fn usage(
        &self,
        account: &Account,
        now: Timestamp,
    ) -> Result<Vec<LimitUsage>, LedgerError>;

    /// The first instant, now or later, at which no more than `most` units of a limit count, if nobody charges; `None`
    /// from a ledger that does not tell. Writes nothing.
    async fn falls_to(
        &self,
        _account: &Account,
        _limit: &str,
        _most: Units,
        _now: Timestamp,
    ) -> Result<Option<Timestamp>, LedgerError> {
        Ok(None)
    }

    /// What was charged at `from` or later, limit by limit, oldest first; `None` from a ledger that does not keep what a
    /// charge was for. Writes nothing.
    async fn spent(
        &self,
        _account: &Account,
        _from: Timestamp,
    ) -> Result<Option<Vec<Spent>>, LedgerError> {
        Ok(None)
    }

    /// Whether it is known to hold no charge of any account. Writes nothing.
    async fn is_empty(&self) -> Result<bool, LedgerError> {
        Ok(false)
    }

    /// What became of the charge of this id; `None` from a ledger that cannot look one up. Writes nothing.
    async fn look_up(
        &self,
        _account: &Account,
        _id: &ChargeId,
        _now: Timestamp,
    ) -> Result<Option<ChargeStatus>, LedgerError> {
        Ok(None)
    }
}
