//! Telling the ledger what it has not heard: unmetered charges, true costs, closings; and everything again after it lost
//! its data.

use std::sync::PoisonError;

use super::super::journal::{Pending, PendingClosing, Recovery};
use super::super::meter::MeterError;
use super::super::{Contact, Heard, LedgerError, News, Seen};
use super::Journaled;
use crate::config::AfterLoss;
use crate::quota::{Account, Closing, Cost, Entry, LimitName, Timestamp};

/// So many charges are told at once.
const BATCH: usize = 200;
/// So many batches at one contact; the rest waits for the next.
const BATCHES: u32 = 500;

/// So many losses are borne in one operation: a ledger that goes on losing its data is away.
const LOSSES: u32 = 3;

/// How often the ledger had lost its data in one operation.
#[derive(Default)]
pub(super) struct Losses(u32);

/// Whether the ledger took what it was told.
enum Told {
    All,
    /// It is not the ledger that this machine has seen.
    Lost,
}

impl Journaled {
    /// Tells what is due, if the ledger may be asked now and answers. Nothing is lost otherwise: it is in the journal.
    pub(super) async fn tell_now_or_later(&self, account: &Account) -> Result<(), MeterError> {
        if self.gate.closed().is_some() {
            return Ok(());
        }
        let told = self.catch_up(account, &mut Losses::default()).await;
        self.note(&told);
        match told {
            Err(error) if error.is_outage() => Ok(()),
            told => told,
        }
    }

    /// Tells what is due, and everything again where the ledger turns out to have lost its data.
    pub(super) async fn catch_up(&self, account: &Account, losses: &mut Losses) -> Result<(), MeterError> {
        let contact = self.journal.look_again(account, &super::fresh_id(), self.clock.now()).await?;
        if contact.recovering {
            self.recover(account, losses).await?;
        }
        for _ in 0..BATCHES {
            let pending = self.journal.pending(account, self.clock.now()).await?;
            let closings = self.journal.pending_closings(account).await?;
            if pending.is_empty() && closings.is_empty() {
                break;
            }
            if let Told::Lost = self.tell_all(account, &pending, &closings).await? {
                self.recover(account, losses).await?;
            }
        }
        Ok(())
    }

    async fn tell_all(
        &self,
        account: &Account,
        pending: &[Pending],
        closings: &[PendingClosing],
    ) -> Result<Told, MeterError> {
        let seen = self.journal.seen(account, self.clock.now()).await?;
        if let Told::Lost = self.tell_charges(account, pending, &seen).await? {
            return Ok(Told::Lost);
        }
        self.journal.told(account, pending).await?;
        for closing in closings {
            if let Told::Lost = self.tell_closing(account, &closing.limit, closing.closing, &seen).await? {
                return Ok(Told::Lost);
            }
            self.journal.closing_told(account, closing).await?;
        }
        Ok(Told::All)
    }

    async fn tell_charges(&self, account: &Account, pending: &[Pending], seen: &Seen) -> Result<Told, MeterError> {
        let unknown: Vec<Entry> =
            pending.iter().filter(|pending| pending.absorb).map(|pending| pending.entry.clone()).collect();
        if !unknown.is_empty() {
            if let Told::Lost = self.tell(account, News::Made(&unknown), seen).await? {
                return Ok(Told::Lost);
            }
            let mut units = Cost::none();
            unknown.iter().for_each(|entry| units.add(&entry.cost));
            tracing::info!(
                account = account.name,
                charges = unknown.len(),
                ?units,
                "told the ledger of charges that it had not heard of"
            );
        }
        for Pending { entry, .. } in pending.iter().filter(|pending| pending.settle) {
            let news = News::Settled { id: &entry.id, cost: &entry.cost };
            if let Told::Lost = self.tell(account, news, seen).await? {
                return Ok(Told::Lost);
            }
        }
        Ok(Told::All)
    }

    async fn tell_closing(
        &self,
        account: &Account,
        limit: &LimitName,
        closing: Option<Closing>,
        seen: &Seen,
    ) -> Result<Told, MeterError> {
        let news = match closing {
            Some(closing) => News::Closed { limit, closing },
            None => News::Reopened { limit },
        };
        self.tell(account, news, seen).await
    }

    async fn tell(&self, account: &Account, news: News<'_>, seen: &Seen) -> Result<Told, MeterError> {
        match self.ledger.tell(account, news, Some(seen), self.clock.now()).await? {
            Heard::Noted { contact, .. } => {
                self.journal.heard(account, &contact, self.clock.now()).await?;
                Ok(Told::All)
            }
            Heard::Lost => Ok(Told::Lost),
        }
    }

    /// Tells a ledger that lost its data everything that this machine knows of the window. Its grants are void from the
    /// first step to the last.
    pub(super) async fn recover(&self, account: &Account, losses: &mut Losses) -> Result<(), MeterError> {
        if losses.0 == LOSSES {
            return Err(LedgerError::Unreachable("it loses its data again and again".to_owned()).into());
        }
        losses.0 += 1;
        let recovery = self.journal.start_recovery(account, self.clock.now()).await?;
        let (contact, intact) = self.tell_again(account, &recovery).await?;
        let seen = Seen { epoch: contact.epoch.clone(), sequence: 0, newest: None };
        for (limit, closing) in &recovery.closings {
            self.tell_closing(account, limit, Some(*closing), &seen).await?;
        }
        self.journal.finish_recovery(account, &contact, self.wait_until(account, intact)).await?;
        self.say_lost(account, &recovery, intact);
        Ok(())
    }

    /// Floors first, the newest charge last: so whoever knows the newest knows the floors.
    async fn tell_again(&self, account: &Account, recovery: &Recovery) -> Result<(Contact, bool), MeterError> {
        let mut batches: Vec<&[Entry]> = recovery.entries.chunks(BATCH).collect();
        if batches.is_empty() {
            batches.push(&[]);
        }
        let mut first = None;
        let mut latest = None;
        for batch in batches {
            let floors = if first.is_none() { recovery.floors.as_slice() } else { &[] };
            let news = News::Recovered(batch, floors);
            match self.ledger.tell(account, news, Some(&recovery.seen), self.clock.now()).await? {
                Heard::Noted { contact, intact } => {
                    first.get_or_insert(intact);
                    latest = Some(contact);
                }
                Heard::Lost => break,
            }
        }
        let broken = || LedgerError::Broken("the ledger does not take back what it lost".to_owned());
        Ok(latest.zip(first).ok_or_else(broken)?)
    }

    fn wait_until(&self, account: &Account, intact: bool) -> Option<Timestamp> {
        let waits = self.policy.after_loss == AfterLoss::Wait && !intact;
        waits.then(|| self.clock.now().after(account.longest_window()))
    }

    /// Once a process: a ledger that evicts would fill the log.
    fn say_lost(&self, account: &Account, recovery: &Recovery, intact: bool) {
        if intact {
            tracing::info!(
                account = account.name,
                "the ledger was restarted or moved; it has all that this machine knows of"
            );
            return;
        }
        let is_news = self.said_lost.lock().unwrap_or_else(PoisonError::into_inner).insert(account.name.clone());
        if !is_news {
            tracing::debug!(account = account.name, charges = recovery.entries.len(), "the ledger lost data again");
            return;
        }
        tracing::warn!(
            account = account.name,
            charges = recovery.entries.len(),
            "the ledger lost data: this machine's charges of the window were told it again; until other machines come \
             by, what they charged since counts as far as this machine had heard of it"
        );
    }
}
