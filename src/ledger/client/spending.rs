//! What a meter tells of what was spent: charges and what for, what is owed, when a limit falls.

use serde::Serialize;

use super::{ClientError, LedgerClient, Way};
use crate::ledger::Spent;
use crate::ledger::journal::Journal;
use crate::quota::{Account, ChargeId, Cost, Timestamp, Units};

/// What was charged, and whose record tells it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Spending {
    /// Oldest first.
    pub charges: Vec<Spent>,
    /// Who tells.
    pub source: ChargeSource,
}

/// Whose record tells what was charged.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum ChargeSource {
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

impl LedgerClient {
    /// What was charged to an account at `from` or later, and for what.
    ///
    /// # Errors
    /// When the record cannot be read.
    pub async fn spent(&self, account: &Account, from: Timestamp) -> Result<Spending, ClientError> {
        let source = match &self.0 {
            Way::Local(_) => ChargeSource::Ledger,
            Way::Shared(_) | Way::ReadOnly(_) => ChargeSource::Journal,
        };
        let charges = match (&self.0, self.journal()) {
            (_, Some(journal)) => journal.spent(account, from).await?,
            (Way::Local(local), None) => local.spent(account, from).await?,
            _ => Vec::new(),
        };
        Ok(Spending { charges, source })
    }

    /// What went ahead without the ledger on this machine, and the ledger has yet to be told.
    ///
    /// # Errors
    /// When the journal cannot be read.
    pub async fn unrepaid(&self, account: &Account) -> Result<Cost, ClientError> {
        match self.journal() {
            Some(journal) => Ok(journal.unrepaid(account).await?),
            None => Ok(Cost::none()),
        }
    }

    /// Until when this machine charges nothing, since the ledger lost data and `ledger.after_loss` is `wait`; `None` where
    /// it does not wait.
    ///
    /// # Errors
    /// When the journal cannot be read.
    pub async fn waits_until(
        &self,
        account: &Account,
        now: Timestamp,
    ) -> Result<Option<Timestamp>, ClientError> {
        match self.journal() {
            Some(journal) => Ok(journal.waits_until(account, now).await?),
            None => Ok(None),
        }
    }

    /// The first instant, now or later, at which no more than `most` units of a limit count, if nobody charges; `None`
    /// where the ledger does not tell.
    ///
    /// # Errors
    /// When the ledger cannot be asked.
    pub async fn falls_to(
        &self,
        account: &Account,
        limit: &str,
        most: Units,
    ) -> Result<Option<Timestamp>, ClientError> {
        match &self.0 {
            Way::Local(local) => local.falls_to(account, limit, most).await,
            Way::Shared(journaled) => journaled.falls_to(account, limit, most).await,
            Way::ReadOnly(watching) => watching.falls_to(account, limit, most).await,
        }
    }

    /// What became of a charge that was made under this id, or under one made from it.
    ///
    /// # Errors
    /// When the record cannot be read.
    pub async fn find(&self, account: &Account, id: &ChargeId) -> Result<Found, ClientError> {
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
            Way::Shared(journaled) => Some(journaled.journal()),
            Way::ReadOnly(watching) => Some(watching.journal()),
        }
    }
}
