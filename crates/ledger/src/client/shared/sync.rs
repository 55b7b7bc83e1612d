//! Sends the ledger what it does not have: unmetered charges, true costs and closings (L25); and everything again after it
//! lost its data (L38).

use super::SharedClient;
use crate::client::{ClientError, fresh_id};
use crate::journal::{Pending, PendingClosing, Recovery};
use crate::{Ack, LedgerError, LedgerPosition, Seen, Update};
use ingest_config::AfterLoss;
use ingest_quota::{Account, Closing, Cost, Entry, Floor, LimitName, Timestamp};

/// The number of charges in one update, and of floors.
const BATCH: usize = 200;

/// The number of batches at one contact; the rest waits for the next.
const BATCHES: u32 = 500;

/// The number of losses in one operation after which the ledger counts as away (L43).
const LOSSES: u32 = 3;

/// The number of losses that one operation has found.
#[derive(Default)]
pub struct Losses(u32);

/// Whether the ledger took an update.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Synced {
    Yes,
    /// It is not the ledger that this machine has seen.
    Lost,
}

impl SharedClient {
    /// Sends what is pending if calls go through and the ledger replies. Otherwise the journal keeps it.
    pub async fn sync_now_or_later(&self, account: &Account) -> Result<(), ClientError> {
        if self.breaker.open_reason().is_some() {
            return Ok(());
        }
        let synced = self.sync(account, &mut Losses::default()).await;
        self.note(&synced);
        match synced {
            Err(error) if error.is_outage() => Ok(()),
            synced => synced,
        }
    }

    /// Sends what is pending, and everything again where the ledger turns out to have lost its data.
    pub async fn sync(&self, account: &Account, losses: &mut Losses) -> Result<(), ClientError> {
        // No charge is under way here, so a fresh id leaves no charge out.
        let state = self.sync_state(account, &fresh_id()).await?;
        if state.recovering {
            self.recover(account, &state.seen, losses).await?;
        }
        for _ in 0..BATCHES {
            let pending = self.journal.pending(account, self.clock.now()).await?;
            let closings = self.journal.pending_closings(account).await?;
            if pending.is_empty() && closings.is_empty() {
                break;
            }
            // Read for each batch: the replies to the one before have moved it.
            let seen = self.journal.seen(account, self.clock.now()).await?;
            if self
                .send_pending(account, &pending, &closings, &seen)
                .await?
                == Synced::Lost
            {
                self.recover(account, &seen, losses).await?;
            }
        }
        Ok(())
    }

    async fn send_pending(
        &self,
        account: &Account,
        pending: &[Pending],
        closings: &[PendingClosing],
        seen: &Seen,
    ) -> Result<Synced, ClientError> {
        if self.send_charges(account, pending, seen).await? == Synced::Lost {
            return Ok(Synced::Lost);
        }
        // Only now: what a crash lets be sent twice counts once.
        self.journal.mark_synced(account, pending).await?;
        for pending in closings {
            if let Some(until) = self.closed_since(account, pending).await? {
                self.journal.mark_closing_synced(account, pending).await?;
                self.journal.learn(account, &pending.limit, until).await?;
                continue;
            }
            let update = closing_update(&pending.limit, pending.closing);
            if self.send(account, update, seen).await? == Synced::Lost {
                return Ok(Synced::Lost);
            }
            self.journal.mark_closing_synced(account, pending).await?;
        }
        Ok(Synced::Yes)
    }

    /// Of a reopening that the ledger did not hear when it was made: until when the ledger has closed the limit meanwhile, which
    /// holds; `None` where it has not.
    async fn closed_since(
        &self,
        account: &Account,
        pending: &PendingClosing,
    ) -> Result<Option<Timestamp>, ClientError> {
        if pending.closing.is_some() {
            return Ok(None);
        }
        let (part, now) = (account.only(&pending.limit), self.clock.now());
        let usage = self.ledger.usage(&part, None, &[], now).await?.limits;
        let closed = usage.iter().filter_map(|usage| usage.closed_until).max();
        Ok(closed.filter(|until| Some(*until) > pending.opens))
    }

    async fn send_charges(
        &self,
        account: &Account,
        pending: &[Pending],
        seen: &Seen,
    ) -> Result<Synced, ClientError> {
        let missing = pending.iter().filter(|pending| pending.absorb);
        let missing: Vec<Entry> = missing.map(|pending| pending.entry.clone()).collect();
        if !missing.is_empty() {
            if self.send(account, Update::Absorb(&missing), seen).await? == Synced::Lost {
                return Ok(Synced::Lost);
            }
            log_sent(account, &missing);
        }
        for Pending { entry, .. } in pending.iter().filter(|pending| pending.settle) {
            let update = Update::Settle {
                id: &entry.id,
                cost: &entry.cost,
            };
            if self.send(account, update, seen).await? == Synced::Lost {
                return Ok(Synced::Lost);
            }
        }
        Ok(Synced::Yes)
    }

    /// Notes the epoch before the first charge (L45). A newcomer's charge would be granted by whatever ledger is there: of
    /// two that are under way at a loss, each in an epoch of its own, one would be forgotten.
    pub async fn join(&self, account: &Account) -> Result<(), ClientError> {
        let nothing = Update::Absorb(&[]);
        self.send(account, nothing, &Seen::default()).await?;
        Ok(())
    }

    /// Sends one update, and records the ledger's position after it.
    async fn send(
        &self,
        account: &Account,
        update: Update<'_>,
        seen: &Seen,
    ) -> Result<Synced, ClientError> {
        let now = self.clock.now();
        match self.ledger.update(account, update, Some(seen), now).await? {
            Ack::Recorded { position, .. } => {
                let now = self.clock.now();
                self.journal
                    .record_position(account, &position, now)
                    .await?;
                Ok(Synced::Yes)
            }
            Ack::Lost => Ok(Synced::Lost),
        }
    }

    /// Sends a ledger that lost its data everything that this machine knows of the window, unless another task has done so
    /// since. From the first step to the last its grants are void (L37).
    pub async fn recover(
        &self,
        account: &Account,
        lost: &Seen,
        losses: &mut Losses,
    ) -> Result<(), ClientError> {
        let _alone = self.recovering.lock().await;
        let (recovery, position, intact) = loop {
            if losses.0 == LOSSES {
                let error = LedgerError::Unreachable("it lost its data several times".to_owned());
                return Err(error.into());
            }
            losses.0 += 1;
            let now = self.clock.now();
            let recovery = self.journal.start_recovery(account, &lost.epoch, now);
            // Another task has recovered from this loss while this one waited.
            let Some(recovery) = recovery.await? else {
                return Ok(());
            };
            if let Some((position, intact)) = self.send_all(account, &recovery).await? {
                break (recovery, position, intact);
            }
        };
        // Of the new epoch alone: what was seen before belongs to the data that is lost.
        let seen = Seen {
            epoch: position.epoch.clone(),
            ..Seen::default()
        };
        for (limit, closing) in &recovery.closings {
            let update = closing_update(limit, Some(*closing));
            self.send(account, update, &seen).await?;
        }
        let wait_until = self.wait_until(account, intact);
        self.journal
            .finish_recovery(account, &position, intact, wait_until)
            .await?;
        self.report_loss(account, &recovery, intact);
        Ok(())
    }

    /// Sends floors first and the newest charge last: a ledger that holds the newest charge holds the floors (L38). Returns
    /// `None` when the ledger lost its data once more between two batches (L39): what was sent before that is gone.
    async fn send_all(
        &self,
        account: &Account,
        recovery: &Recovery,
    ) -> Result<Option<(LedgerPosition, bool)>, ClientError> {
        let (first, rest) = recovery.entries.split_at(recovery.entries.len().min(BATCH));
        let many = recovery.floors.len().saturating_sub(BATCH);
        let (early, floors) = recovery.floors.split_at(many);
        let early = early.chunks(BATCH).map(|floors| (&[][..], floors));
        let rest = rest.chunks(BATCH).map(|entries| (entries, &[][..]));
        let mut sent: Option<(LedgerPosition, bool)> = None;
        for (entries, floors) in early.chain([(first, floors)]).chain(rest) {
            let batch = self.send_batch(account, recovery, entries, floors).await?;
            sent = match (sent, batch) {
                (None, Some(first)) => Some(first),
                (Some((before, intact)), Some((position, _))) if before.epoch == position.epoch => {
                    Some((position, intact))
                }
                (_, _) => return Ok(None),
            };
        }
        Ok(sent)
    }

    async fn send_batch(
        &self,
        account: &Account,
        recovery: &Recovery,
        batch: &[Entry],
        floors: &[Floor],
    ) -> Result<Option<(LedgerPosition, bool)>, ClientError> {
        let (update, now) = (Update::Recover(batch, floors), self.clock.now());
        let sent = self
            .ledger
            .update(account, update, Some(&recovery.seen), now);
        Ok(match sent.await? {
            Ack::Recorded { position, intact } => Some((position, intact)),
            Ack::Lost => None,
        })
    }

    fn wait_until(&self, account: &Account, intact: bool) -> Option<Timestamp> {
        let waits = self.policy.after_loss == AfterLoss::Wait && !intact;
        waits.then(|| self.clock.now() + account.longest_window())
    }

    /// Logs a loss, once a process and account: a ledger that evicts its keys would fill the log.
    fn report_loss(&self, account: &Account, recovery: &Recovery, intact: bool) {
        let (account, charges) = (&account.name, recovery.entries.len());
        if intact {
            tracing::info!(
                account,
                "the ledger was restarted or moved; it has all charges of this machine"
            );
            return;
        }
        let mut reported = self.reported_losses.lock();
        if !reported.insert(account.clone()) {
            tracing::debug!(account, charges, "the ledger lost data again");
            return;
        }
        match (recovery.ledger.as_deref(), self.journal.ledger()) {
            (Some(before), Some(now)) if before != now => tracing::warn!(
                account,
                charges,
                before,
                now,
                "the configuration names another Redis; this machine's charges of the window were copied to it. Until \
                 every other machine's configuration names it, what those machines charge is not counted in it"
            ),
            _ => tracing::warn!(
                account,
                charges,
                "the ledger lost data; this machine's charges of the window were sent again; other \
                machines' charges count as far as this machine saw them, until those machines \
                reconnect"
            ),
        }
    }
}

fn closing_update(limit: &LimitName, closing: Option<Closing>) -> Update<'_> {
    match closing {
        Some(closing) => Update::Close { limit, closing },
        None => Update::Reopen { limit },
    }
}

fn log_sent(account: &Account, charges: &[Entry]) {
    let mut units = Cost::none();
    charges.iter().for_each(|entry| units.add(&entry.cost));
    tracing::info!(
        account = account.name,
        charges = charges.len(),
        ?units,
        "sent charges to the ledger that it did not have"
    );
}
