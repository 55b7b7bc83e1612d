//! Telling the ledger what it has not heard: unmetered charges, true costs, closings; and everything again after it lost
//! its data.

use std::sync::PoisonError;

use super::SharedClient;
use crate::config::AfterLoss;
use crate::ledger::client::ClientError;
use crate::ledger::journal::{Pending, PendingClosing, Recovery};
use crate::ledger::{Ack, LedgerError, LedgerPosition, Seen, Update};
use crate::quota::{Account, Closing, Cost, Entry, Floor, LimitName, Timestamp};

/// So many charges are told at once.
const BATCH: usize = 200;
/// So many batches at one contact; the rest waits for the next.
const BATCHES: u32 = 500;

/// So many losses are borne in one operation: a ledger that goes on losing its data is away.
const LOSSES: u32 = 3;

/// How often the ledger had lost its data in one operation.
#[derive(Default)]
pub struct Losses(u32);

/// Whether the ledger took what it was told.
pub enum Synced {
    All,
    /// It is not the ledger that this machine has seen.
    Lost,
}

impl SharedClient {
    /// Tells what is due, if the ledger may be asked now and answers. Nothing is lost otherwise: it is in the journal.
    pub async fn tell_now_or_later(&self, account: &Account) -> Result<(), ClientError> {
        if self.breaker.open_reason().is_some() {
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
    pub async fn catch_up(
        &self,
        account: &Account,
        losses: &mut Losses,
    ) -> Result<(), ClientError> {
        let contact = self
            .journal
            .look_again(account, &super::fresh_id(), self.clock.now())
            .await?;
        if contact.recovering {
            self.recover(account, &contact.seen, losses).await?;
        }
        for _ in 0..BATCHES {
            let pending = self.journal.pending(account, self.clock.now()).await?;
            let closings = self.journal.pending_closings(account).await?;
            if pending.is_empty() && closings.is_empty() {
                break;
            }
            let seen = self.journal.seen(account, self.clock.now()).await?;
            if let Synced::Lost = self.tell_all(account, &pending, &closings, &seen).await? {
                self.recover(account, &seen, losses).await?;
            }
        }
        Ok(())
    }

    async fn tell_all(
        &self,
        account: &Account,
        pending: &[Pending],
        closings: &[PendingClosing],
        seen: &Seen,
    ) -> Result<Synced, ClientError> {
        if let Synced::Lost = self.tell_charges(account, pending, seen).await? {
            return Ok(Synced::Lost);
        }
        self.journal.told(account, pending).await?;
        for closing in closings {
            if let Synced::Lost = self
                .tell_closing(account, &closing.limit, closing.closing, seen)
                .await?
            {
                return Ok(Synced::Lost);
            }
            self.journal.closing_told(account, closing).await?;
        }
        Ok(Synced::All)
    }

    async fn tell_charges(
        &self,
        account: &Account,
        pending: &[Pending],
        seen: &Seen,
    ) -> Result<Synced, ClientError> {
        let unknown: Vec<Entry> = pending
            .iter()
            .filter(|pending| pending.absorb)
            .map(|pending| pending.entry.clone())
            .collect();
        if !unknown.is_empty() {
            if let Synced::Lost = self.tell(account, Update::Made(&unknown), seen).await? {
                return Ok(Synced::Lost);
            }
            let mut units = Cost::none();
            unknown.iter().for_each(|entry| units.add(&entry.cost));
            tracing::info!(
                account = account.name,
                charges = unknown.len(),
                ?units,
                "sent charges to the ledger that it did not have"
            );
        }
        for Pending { entry, .. } in pending.iter().filter(|pending| pending.settle) {
            let news = Update::Settled {
                id: &entry.id,
                cost: &entry.cost,
            };
            if let Synced::Lost = self.tell(account, news, seen).await? {
                return Ok(Synced::Lost);
            }
        }
        Ok(Synced::All)
    }

    async fn tell_closing(
        &self,
        account: &Account,
        limit: &LimitName,
        closing: Option<Closing>,
        seen: &Seen,
    ) -> Result<Synced, ClientError> {
        let news = match closing {
            Some(closing) => Update::Closed { limit, closing },
            None => Update::Reopened { limit },
        };
        self.tell(account, news, seen).await
    }

    pub async fn tell(
        &self,
        account: &Account,
        news: Update<'_>,
        seen: &Seen,
    ) -> Result<Synced, ClientError> {
        match self
            .ledger
            .tell(account, news, Some(seen), self.clock.now())
            .await?
        {
            Ack::Noted { contact, .. } => {
                self.journal
                    .heard(account, &contact, self.clock.now())
                    .await?;
                Ok(Synced::All)
            }
            Ack::Lost => Ok(Synced::Lost),
        }
    }

    /// Tells a ledger that lost its data everything that this machine knows of the window, unless another task has done so
    /// since. Its grants are void from the first step to the last.
    pub async fn recover(
        &self,
        account: &Account,
        lost: &Seen,
        losses: &mut Losses,
    ) -> Result<(), ClientError> {
        let _alone = self.recovering.lock().await;
        let (recovery, contact, intact) = loop {
            if losses.0 == LOSSES {
                return Err(
                    LedgerError::Unreachable("it lost its data several times".to_owned()).into(),
                );
            }
            losses.0 += 1;
            let Some(recovery) = self
                .journal
                .start_recovery(account, &lost.epoch, self.clock.now())
                .await?
            else {
                return Ok(());
            };
            if let Some((contact, intact)) = self.tell_again(account, &recovery).await? {
                break (recovery, contact, intact);
            }
        };
        let seen = Seen {
            epoch: contact.epoch.clone(),
            sequence: 0,
            newest: None,
        };
        for (limit, closing) in &recovery.closings {
            self.tell_closing(account, limit, Some(*closing), &seen)
                .await?;
        }
        self.journal
            .finish_recovery(account, &contact, intact, self.wait_until(account, intact))
            .await?;
        self.say_lost(account, &recovery, intact);
        Ok(())
    }

    /// Floors first, the newest charge last: so whoever knows the newest knows the floors. Nothing where the ledger lost its
    /// data once more between two batches: what was told before that is gone.
    async fn tell_again(
        &self,
        account: &Account,
        recovery: &Recovery,
    ) -> Result<Option<(LedgerPosition, bool)>, ClientError> {
        let (first, rest) = recovery.entries.split_at(recovery.entries.len().min(BATCH));
        let Some((mut contact, intact)) = self
            .tell_batch(account, recovery, first, &recovery.floors)
            .await?
        else {
            return Ok(None);
        };
        for batch in rest.chunks(BATCH) {
            match self.tell_batch(account, recovery, batch, &[]).await? {
                Some((later, _)) if later.epoch == contact.epoch => contact = later,
                _ => return Ok(None),
            }
        }
        Ok(Some((contact, intact)))
    }

    async fn tell_batch(
        &self,
        account: &Account,
        recovery: &Recovery,
        batch: &[Entry],
        floors: &[Floor],
    ) -> Result<Option<(LedgerPosition, bool)>, ClientError> {
        let news = Update::Recovered(batch, floors);
        Ok(
            match self
                .ledger
                .tell(account, news, Some(&recovery.seen), self.clock.now())
                .await?
            {
                Ack::Noted { contact, intact } => Some((contact, intact)),
                Ack::Lost => None,
            },
        )
    }

    fn wait_until(&self, account: &Account, intact: bool) -> Option<Timestamp> {
        let waits = self.policy.after_loss == AfterLoss::Wait && !intact;
        waits.then(|| self.clock.now() + account.longest_window())
    }

    /// The ledger that this machine was in step with before, and the one that the configuration names, where they differ.
    fn other_ledgers<'a>(&'a self, recovery: &'a Recovery) -> Option<(&'a str, &'a str)> {
        let (before, now) = (recovery.ledger.as_deref()?, self.journal.ledger()?);
        (before != now).then_some((before, now))
    }

    /// Once a process: a ledger that evicts would fill the log.
    fn say_lost(&self, account: &Account, recovery: &Recovery, intact: bool) {
        if intact {
            tracing::info!(
                account = account.name,
                "the ledger was restarted or moved; it has all charges of this machine"
            );
            return;
        }
        let is_news = self
            .said_lost
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .insert(account.name.clone());
        if !is_news {
            tracing::debug!(
                account = account.name,
                charges = recovery.entries.len(),
                "the ledger lost data again"
            );
            return;
        }
        if let Some((before, now)) = self.other_ledgers(recovery) {
            tracing::warn!(
                account = account.name,
                charges = recovery.entries.len(),
                before,
                now,
                "the configuration names another Redis; this machine's charges of the window were copied to it. Until \
                 every other machine's configuration names it, what those machines charge is not counted in it"
            );
            return;
        }
        tracing::warn!(
            account = account.name,
            charges = recovery.entries.len(),
            "the ledger lost data; this machine's charges of the window were sent again; other \
            machines' charges count as far as this machine saw them, until those machines \
            reconnect"
        );
    }
}
