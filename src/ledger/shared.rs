//! What a ledger that many machines share, and that can lose what it holds, must be asked and told beyond the common
//! trait: each time with what this machine has seen of it.

use std::collections::BTreeMap;

use async_trait::async_trait;

use super::{Charge, Ledger, LedgerError, Seen};
use crate::quota::{
    Account, ChargeId, Closing, Cost, Entry, Floor, Grant, LimitName, LimitUsage, Rejection,
    Timestamp, Units,
};

/// Where a ledger stood when it answered.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LedgerPosition {
    /// Its epoch.
    pub epoch: String,
    /// How much it has recorded: a number that grows with every charge, correction and absorbed charge.
    pub sequence: u64,
    /// Its time.
    pub at: Timestamp,
}

/// What a shared ledger reported without recording anything: it counts towards the floors that a machine sets after a loss.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Report {
    /// Where the ledger stood.
    pub contact: LedgerPosition,
    /// When the lives of its keys were renewed last: a report does not renew them.
    pub renewed: Timestamp,
    /// What was used of each limit, in units.
    pub used: BTreeMap<LimitName, Units>,
}

/// What a shared ledger says to a charge.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Answer {
    /// Recorded.
    Granted {
        /// What it leaves.
        grant: Grant,
        /// What is used of each limit that was charged, in units.
        used: BTreeMap<LimitName, Units>,
        /// Where the ledger stands; the time is that of the charge.
        contact: LedgerPosition,
        /// Whether it was recorded just now; otherwise the id was known.
        fresh: bool,
    },
    /// Not now. Nothing was recorded.
    Rejected {
        /// Why, and when it fits.
        rejection: Rejection,
        /// Until when the limit is closed, if it is.
        closed_until: Option<Timestamp>,
        /// What was used of every limit of the charge.
        report: Report,
        /// Whether the charge was sent before over a connection that broke, and may still arrive.
        doubtful: bool,
    },
    /// Not ever. Nothing was recorded.
    Never {
        /// The limit that cannot hold it.
        limit: LimitName,
        /// The most that one charge can take of it.
        most: Units,
    },
    /// The id is that of a charge that was settled to nothing. Nothing was recorded.
    TakenBack,
    /// It is not the ledger that this machine has seen. Nothing was recorded.
    Lost,
}

/// What a machine tells a shared ledger.
#[derive(Debug, Clone, Copy)]
pub enum Update<'a> {
    /// The true cost of a charge.
    Settled {
        /// Its id.
        id: &'a ChargeId,
        /// What it cost.
        cost: &'a Cost,
    },
    /// Charges made while the ledger could not be reached.
    Made(&'a [Entry]),
    /// After a loss: this machine's charges, its newest last, and its floors, told first. Is let in whatever was lost,
    /// and begins a new epoch where nobody has.
    Recovered(&'a [Entry], &'a [Floor]),
    /// A limit that the upstream called spent.
    Closed {
        /// Its name.
        limit: &'a str,
        /// For how long.
        closing: Closing,
    },
    /// A closing that is taken back.
    Reopened {
        /// The limit's name.
        limit: &'a str,
    },
}

/// What becomes of news.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Ack {
    /// It is recorded.
    Noted {
        /// Where the ledger stands.
        contact: LedgerPosition,
        /// After a loss: whether everything that this machine knew of was still there.
        intact: bool,
    },
    /// It is not the ledger that this machine has seen. Nothing was recorded.
    Lost,
}

/// How a shared ledger's limits stand.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct UsageReply {
    /// By name.
    pub limits: Vec<LimitUsage>,
    /// What was used of them, and where the ledger stood.
    pub report: Report,
    /// Whether it is not the ledger that this machine has seen, and so may know less.
    pub lost: bool,
    /// Whether each charge that was looked for is recorded, in their order.
    pub recorded: Vec<bool>,
}

/// A ledger that many machines share.
#[async_trait]
pub trait SharedLedger: Ledger {
    /// Takes units, as [`Ledger::charge`] does. Without `seen` nothing is compared.
    async fn ask(&self, charge: Charge<'_>, now: Timestamp) -> Result<Answer, LedgerError>;

    /// Tells the ledger something. Safe to repeat. Without `seen` nothing is compared.
    async fn tell(
        &self,
        account: &Account,
        news: Update<'_>,
        seen: Option<&Seen>,
        now: Timestamp,
    ) -> Result<Ack, LedgerError>;

    /// How the limits stand, and whether these charges are recorded. Writes nothing.
    async fn standing(
        &self,
        account: &Account,
        seen: Option<&Seen>,
        charges: &[ChargeId],
        now: Timestamp,
    ) -> Result<UsageReply, LedgerError>;
}
