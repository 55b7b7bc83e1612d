//! A ledger that many machines share, and that can lose what it holds: every call carries what the machine has seen of it.

use std::collections::BTreeMap;

use async_trait::async_trait;

use super::{Charge, LedgerError, Seen};
use ingest_quota::{
    Account, ChargeId, Closing, Cost, Entry, Floor, Grant, LimitName, LimitUsage, Rejection,
    Timestamp, Units,
};

/// Where a ledger stood when it replied.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LedgerPosition {
    pub epoch: String,
    /// A number that grows with every charge, correction and absorbed charge.
    pub sequence: u64,
    /// Its time.
    pub at: Timestamp,
}

/// What a shared ledger reported without recording anything. It counts towards the floors that a machine sets after a loss
/// (L40).
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Report {
    /// Where the ledger stood.
    pub position: LedgerPosition,
    /// When the lives of its keys were last renewed: a report does not renew them.
    pub renewed: Timestamp,
    /// The units used of each limit.
    pub used: BTreeMap<LimitName, Units>,
}

/// A charge that a shared ledger recorded.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Granted {
    /// What the charge leaves.
    pub grant: Grant,
    /// The units used of each limit that was charged.
    pub used: BTreeMap<LimitName, Units>,
    /// The ledger's position; its time is that of the charge.
    pub position: LedgerPosition,
}

impl Granted {
    /// Whether the charge was recorded just now; otherwise its id was recorded before.
    #[must_use]
    pub const fn is_fresh(&self) -> bool {
        !self.grant.repeated
    }
}

/// A shared ledger's reply to a charge.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ChargeReply {
    /// It is recorded.
    Granted(Granted),
    /// It does not fit now. Nothing was recorded.
    Rejected {
        /// Why, and when it fits.
        rejection: Rejection,
        /// The use of every limit of the charge.
        report: Report,
        /// Whether the charge was sent before over a connection that broke, and may still arrive.
        repeated: bool,
    },
    /// It can never fit. Nothing was recorded.
    Never {
        /// The limit that cannot hold it.
        limit: LimitName,
        /// The most that one charge can take of it, in units.
        most: Units,
    },
    /// The id is that of a charge that was settled to nothing (L12). Nothing was recorded.
    TakenBack,
    /// It is not the ledger that this machine has seen (L35). Nothing was recorded.
    Lost,
}

/// What a machine sends a shared ledger beside charges.
#[derive(Debug, Clone, Copy)]
pub enum Update<'a> {
    /// The true cost of a charge.
    Settle {
        id: &'a ChargeId,
        /// Its true cost.
        cost: &'a Cost,
    },
    /// Charges made while the ledger could not be reached.
    Absorb(&'a [Entry]),
    /// After a loss: this machine's charges, its newest last, and its floors, sent first. The ledger takes it whatever was
    /// lost, and begins a new epoch unless another machine has (L36).
    Recover(&'a [Entry], &'a [Floor]),
    /// A limit that the upstream reported exhausted.
    Close {
        /// The limit's name.
        limit: &'a str,
        /// For how long.
        closing: Closing,
    },
    /// The end of a closing.
    Reopen {
        /// The limit's name.
        limit: &'a str,
    },
}

/// A shared ledger's reply to an update.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Ack {
    /// It is recorded.
    Recorded {
        /// The ledger's position.
        position: LedgerPosition,
        /// After a loss: whether everything that this machine knew of survived (L41).
        intact: bool,
    },
    /// It is not the ledger that this machine has seen (L35). Nothing was recorded.
    Lost,
}

/// A shared ledger's usage.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct UsageReply {
    /// The usage of each limit, by name.
    pub limits: Vec<LimitUsage>,
    /// What was used of them, and where the ledger stood.
    pub report: Report,
    /// Whether it is not the ledger that this machine has seen, and so may lack charges.
    pub lost: bool,
    /// Whether each requested charge is recorded, in the order of the request.
    pub recorded: Vec<bool>,
}

/// A ledger that many machines share. `seen` is what this machine has seen of it; without it nothing is compared.
#[async_trait]
pub trait SharedLedger: Send + Sync {
    /// Takes units, all or nothing over all limits of the charge.
    async fn charge(
        &self,
        charge: Charge<'_>,
        seen: Option<&Seen>,
        now: Timestamp,
    ) -> Result<ChargeReply, LedgerError>;

    /// Applies an update. Safe to repeat.
    async fn update(
        &self,
        account: &Account,
        update: Update<'_>,
        seen: Option<&Seen>,
        now: Timestamp,
    ) -> Result<Ack, LedgerError>;

    /// Returns the usage of the account's limits, and whether these charges are recorded. Writes nothing.
    async fn usage(
        &self,
        account: &Account,
        seen: Option<&Seen>,
        charges: &[ChargeId],
        now: Timestamp,
    ) -> Result<UsageReply, LedgerError>;

    /// Returns the first instant, now or later, at which no more than `most` units of a limit count if nothing is charged;
    /// `None` for a limit that the account lacks. Writes nothing.
    async fn falls_to(
        &self,
        account: &Account,
        limit: &str,
        most: Units,
        now: Timestamp,
    ) -> Result<Option<Timestamp>, LedgerError>;
}
