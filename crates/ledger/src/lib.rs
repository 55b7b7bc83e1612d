//! Where charges are recorded, and a process's way to it.
//!
//! A [`Ledger`] takes a [`Charge`] whole or not at all: [`SqliteLedger`] in a file, or in memory for simulations, [`redis`] by one
//! script per operation (in `lua/`). A run asks a [`LedgerClient`]: [`LocalClient`] for the file,
//! [`SharedClient`] for Redis, with a journal, a circuit breaker and the outage policy. The rules are those of
//! `docs/ledger-protocol.md` (L1 to L51), cited where the code holds them.
//!
//! Decides by `quota::admission` alone. Never sends a request to an upstream. Begin with [`Ledger`], then `client/shared/mod.rs` and
//! `lua/charge.lua`. Every store passes the one suite of behaviours in `crates/ledger/tests/all/suite`.

mod carry_over;
mod client;
pub mod clocks;
mod journal;
mod open;
pub mod redis;
pub mod refill;
mod shared;
mod sqlite;

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use ingest_quota::admission::forgotten_by;
use thiserror::Error;

pub use ingest_quota::Origin;
use ingest_quota::{
    Account, ChargeId, Closing, Cost, Decision, Entry, Floor, LimitName, LimitUsage, Timestamp,
    Units,
};

pub use client::read_only::ReadOnlyClient;
pub use client::shared::{CircuitBreaker, Policy, SharedClient};
pub use client::{
    Acquired, Available, ChargeRequest, ChargeSource, ClientError, Found, LedgerClient, Permit,
    Spending, fresh_id, random_id,
};
pub use journal::{Journal, JournalError};
pub use open::{JOURNAL_FILE, LEDGER_FILE, Mode, OpenLedgerError, file_of, open};
pub use shared::{
    Ack, ChargeReply, Granted, LedgerPosition, Report, SharedLedger, Update, UsageReply,
};
pub use sqlite::{ForgottenLedger, LocalClient, SqliteLedger, Watch, Witness};

/// One charge, as a ledger takes it.
#[derive(Debug, Clone, Copy)]
pub struct Charge<'a> {
    /// The account, with its limits.
    pub account: &'a Account,
    /// The id, by which the charge is safe to repeat.
    pub id: &'a ChargeId,
    /// The units to take of each limit.
    pub cost: &'a Cost,
    /// The units of each limit that must stay free beside them.
    pub leave: &'a Cost,
    /// What the charge is for, kept for reports.
    pub purpose: &'a Purpose,
}

impl<'a> Charge<'a> {
    fn new(request: &ChargeRequest<'a>, id: &'a ChargeId) -> Self {
        Self {
            account: request.account,
            id,
            cost: request.cost,
            leave: request.leave,
            purpose: request.purpose,
        }
    }
}

/// What a charge is for.
#[derive(Debug, Clone, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Purpose {
    /// The job; `None` for a charge by hand.
    pub job: Option<String>,
    /// The region; `None` for a charge by hand.
    pub region: Option<String>,
    /// The name of the call.
    pub call: String,
}

/// What a machine has seen of a shared ledger (L34): a ledger that knows less has lost data.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Seen {
    /// The ledger's epoch; empty before the first contact.
    pub epoch: String,
    /// Its highest sequence number seen.
    pub sequence: u64,
    /// This machine's newest charge in it.
    pub newest: Option<ChargeId>,
}

/// What a charge took of one limit.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Spent {
    /// When it was charged.
    pub at: Timestamp,
    pub limit: LimitName,
    /// The units; never zero.
    pub units: Units,
    /// The number of charges that took them: more than one where old charges were merged.
    pub charges: u64,
    /// What the charge was for; empty when that was not recorded.
    pub purpose: Arc<Purpose>,
    /// Where the ledger has it from.
    pub origin: Origin,
}

/// Returns an id for an entry of units that the upstream reported as used by others.
#[must_use]
pub fn reported_id(limit: &str, at: Timestamp) -> ChargeId {
    ChargeId::own(format_args!("reported {limit} {at} {}", fresh_id()))
}

/// Whether a charge under the id of one that this ledger granted at `at`, and that holds units of limits of the account, repeats it
/// (L11): one of those limits counts it by itself, or counts in parts and was charged a short while ago. One that holds nothing is
/// known as long as the account remembers ids.
fn repeats(account: &Account, held: &Cost, at: Timestamp, now: Timestamp) -> bool {
    let limits = account.charged(held).map(|(_, limit)| limit);
    held.is_none() || at > forgotten_by(limits, now)
}

/// Returns the entries of a limit for units that the upstream reported as used by others: with the units of that limit alone.
fn reported_of(limit: &str, entries: Vec<Entry>) -> Vec<Entry> {
    let is_reported =
        |one: &Entry| one.origin == Origin::Reported && one.cost.of(limit) > Units::ZERO;
    entries.into_iter().filter(is_reported).collect()
}

/// Begins what is said of an outage.
const UNREACHABLE: &str = "the ledger cannot be reached: ";

/// Why a ledger did not do what was requested.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum LedgerError {
    /// It cannot be reached, or cannot work now: the outage policy decides (L26).
    #[error("{UNREACHABLE}{0}")]
    Unreachable(String),
    /// Its clock and ours are too far apart to trust either (L5): treated as an outage.
    #[error(
        "the ledger's clock and this machine's differ by {skew:?}, more than ledger.max_skew; \
        synchronize the clocks (chrony, systemd-timesyncd)"
    )]
    Skewed {
        /// How far they are apart.
        skew: Duration,
    },
    /// Its file is gone, was replaced or emptied. No request is sent.
    #[error(transparent)]
    Forgotten(#[from] ForgottenLedger),
    /// It failed as it never should: a bug or a damaged file. No request is sent (L27).
    #[error("{0}")]
    Broken(String),
}

/// A store of charges. `now` is the caller's clock; the ledger keeps its own time (L4).
#[async_trait]
pub trait Ledger: Send + Sync {
    /// Takes units, all or nothing over all limits of the charge (L7). A rejected charge records nothing; a repeated id is
    /// granted again and counted once.
    async fn charge(&self, charge: Charge<'_>, now: Timestamp) -> Result<Decision, LedgerError>;

    /// Sets the true cost of a charge, at the charge's own time, even beyond the limit (L14). With no cost it is a release,
    /// whose zero entry stays for the window so that the same charge arriving late is not counted (L15). An unknown id is
    /// remembered as settled, at `now`.
    async fn settle(
        &self,
        account: &Account,
        id: &ChargeId,
        cost: &Cost,
        now: Timestamp,
    ) -> Result<(), LedgerError>;

    /// Adds charges made elsewhere at their own times, once each, even beyond the limit; a settled id stays settled (L17).
    /// The floors hold until their time leaves the window (L40).
    async fn absorb(
        &self,
        account: &Account,
        entries: &[Entry],
        floors: &[Floor],
        now: Timestamp,
    ) -> Result<(), LedgerError>;

    /// Closes a limit that the upstream reported exhausted (L18).
    async fn close(
        &self,
        account: &Account,
        limit: &str,
        closing: Closing,
        now: Timestamp,
    ) -> Result<(), LedgerError>;

    /// Ends the closing of a limit.
    async fn reopen(
        &self,
        account: &Account,
        limit: &str,
        now: Timestamp,
    ) -> Result<(), LedgerError>;

    /// Returns the usage of the account's limits, by name. Writes nothing.
    async fn usage(
        &self,
        account: &Account,
        now: Timestamp,
    ) -> Result<Vec<LimitUsage>, LedgerError>;
}
