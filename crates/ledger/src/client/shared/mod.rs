//! The client of a ledger that many machines share, which can be away or lose its data, with the journal of this machine
//! beside it.
//!
//! A charge is written to the journal, charged in the ledger, and marked "may be sent" in the journal before its request
//! leaves (L20). While the ledger cannot be reached, the call's outage policy decides: the charge is refused, or recorded as
//! unmetered and sent (L29).

mod breaker;
mod sync;
mod unmetered;

use std::collections::BTreeSet;
use std::sync::Arc;

use parking_lot::Mutex;

use async_trait::async_trait;

use super::{
    Acquired, Available, ChargeRequest, ClientError, Found, LedgerClient, Permit, Spending,
    spent_by_journal,
};
use crate::journal::{Journal, Marked, SyncState};
use crate::{Charge, ChargeReply, Granted, LedgerError, SharedLedger, UNREACHABLE, reported_of};
use ingest_base::clock::{Clock, Monotonic};
use ingest_config::{AfterLoss, LedgerConfig};
use ingest_quota::{Account, ChargeId, Closing, Cost, Entry, Grant, LimitUsage, Timestamp, Units};
use ingest_sqlite::Restored;

pub use breaker::CircuitBreaker;
use sync::Losses;

/// The journal is pruned once in this many charges of the ledger.
const PRUNE_EVERY: u64 = 256;

/// What a machine does while the ledger cannot be reached, or after it lost its data.
#[derive(Debug, Clone, Copy)]
pub struct Policy {
    /// The units of one account that may go ahead unmetered on this machine within a window.
    pub unmetered_max: Units,
    /// What happens after a loss.
    pub after_loss: AfterLoss,
}

impl From<&LedgerConfig> for Policy {
    fn from(config: &LedgerConfig) -> Self {
        Self {
            unmetered_max: config.unmetered_max,
            after_loss: config.after_loss,
        }
    }
}

/// A shared ledger with this machine's journal.
pub struct SharedClient {
    ledger: Arc<dyn SharedLedger>,
    journal: Journal,
    policy: Policy,
    clock: Arc<dyn Clock>,
    breaker: CircuitBreaker,
    /// Held by the task that recovers: tasks that find one loss together recover from it once.
    recovering: tokio::sync::Mutex<()>,
    /// The accounts for which this process has reported a loss.
    reported_losses: Mutex<BTreeSet<String>>,
}

/// One charge under one id.
pub struct Attempt<'a> {
    request: ChargeRequest<'a>,
    id: ChargeId,
    requested_at: Monotonic,
    /// Whether the ledger may hold the charge: it was sent now, or before with an unknown result.
    in_doubt: bool,
}

impl Attempt<'_> {
    fn permitted(&self, grant: Grant, metered: bool) -> Acquired {
        let id = self.id.clone();
        let permit = Permit::new(&self.request, id, grant, metered, self.requested_at);
        Acquired::Permitted(permit)
    }
}

impl SharedClient {
    /// A client of `ledger`, with this machine's journal and policy.
    #[must_use]
    pub fn new(
        ledger: Arc<dyn SharedLedger>,
        journal: Journal,
        policy: Policy,
        clock: Arc<dyn Clock>,
    ) -> Self {
        Self {
            ledger,
            journal: journal.under(policy.after_loss),
            policy,
            clock,
            breaker: CircuitBreaker::default(),
            recovering: tokio::sync::Mutex::default(),
            reported_losses: Mutex::default(),
        }
    }

    /// Charges the ledger, and records the result in the journal. Returns `None` when the grant is void.
    async fn charge_ledger(
        &self,
        attempt: &mut Attempt<'_>,
        mut state: SyncState,
    ) -> Result<Option<Acquired>, ClientError> {
        let account = attempt.request.account;
        let was_in_doubt = attempt.in_doubt;
        let mut losses = Losses::default();
        loop {
            if state.is_behind() {
                state = self.catch_up(attempt, &state, &mut losses).await?;
            }
            // Behind `catch_up`: a machine that waits charges nothing, and still absorbs (L42).
            if self.journal.is_waiting(state.wait_until, self.clock.now()) {
                return self.refuse_while_waiting(attempt).await.map(Some);
            }
            // From here on, an error does not say whether the ledger holds the charge.
            attempt.in_doubt = true;
            let charge = Charge::new(&attempt.request, &attempt.id);
            let now = self.clock.now();
            match self.ledger.charge(charge, Some(&state.seen), now).await? {
                ChargeReply::Lost => {
                    self.recover(account, &state.seen, &mut losses).await?;
                    state = self.sync_state(account, &attempt.id).await?;
                }
                reply => {
                    self.breaker.record_success();
                    // The reply says it of this charge. What an earlier one under the same id left open stays open.
                    attempt.in_doubt = was_in_doubt;
                    return self.record(attempt, reply).await;
                }
            }
        }
    }

    /// Brings ledger and journal in step before a charge (L25), and joins a ledger that is new to this machine (L45).
    async fn catch_up(
        &self,
        attempt: &Attempt<'_>,
        state: &SyncState,
        losses: &mut Losses,
    ) -> Result<SyncState, ClientError> {
        let account = attempt.request.account;
        if state.seen.epoch.is_empty() {
            self.join(account).await?;
        }
        if state.recovering || state.pending {
            self.sync(account, losses).await?;
        }
        self.sync_state(account, &attempt.id).await
    }

    async fn sync_state(
        &self,
        account: &Account,
        charging: &ChargeId,
    ) -> Result<SyncState, ClientError> {
        let now = self.clock.now();
        Ok(self.journal.sync_state(account, charging, now).await?)
    }

    /// Refuses a charge while this machine waits after a loss. Looks first whether the ledger has lost its data once more,
    /// since other machines need not wait.
    async fn refuse_while_waiting(&self, attempt: &Attempt<'_>) -> Result<Acquired, ClientError> {
        let account = attempt.request.account;
        match self.usage_now(account, account).await {
            Err(error) if !error.is_outage() => return Err(error),
            _ => (),
        }
        let until = self.sync_state(account, &attempt.id).await?.wait_until;
        self.refuse(
            attempt,
            format!(
                "the ledger lost its data, or is another one than before, and \
                ledger.after_loss = \"wait\" refuses charges until {until}"
            ),
        )
        .await
    }

    /// Records the ledger's reply in the journal.
    async fn record(
        &self,
        attempt: &mut Attempt<'_>,
        reply: ChargeReply,
    ) -> Result<Option<Acquired>, ClientError> {
        let (account, now) = (attempt.request.account, self.clock.now());
        match reply {
            ChargeReply::Granted(granted) => self.mark(attempt, granted).await,
            ChargeReply::Rejected {
                rejection,
                report,
                repeated,
            } => {
                self.journal.record_report(account, report, now).await?;
                // The same charge, sent before over a connection that broke, may still arrive and be granted.
                attempt.in_doubt |= repeated;
                self.drop_charge(attempt).await?;
                if let Some(until) = rejection.closed_until {
                    self.journal.learn(account, &rejection.limit, until).await?;
                }
                Ok(Some(Acquired::Rejected(rejection)))
            }
            ChargeReply::Never { limit, most } => {
                self.drop_charge(attempt).await?;
                Ok(Some(Acquired::Never { limit, most }))
            }
            ChargeReply::TakenBack => {
                let nothing = Cost::none();
                self.journal
                    .settle(account, &attempt.id, &nothing, now)
                    .await?;
                // The journal now knows that this id names no charge, and makes the next of its kind (L12).
                let given = attempt.request.id.unwrap_or(&attempt.id).clone();
                self.charge(attempt.request, given).await
            }
            ChargeReply::Lost => Ok(None),
        }
    }

    /// Marks a granted charge "may be sent". Returns `None` when the grant is void (L21).
    async fn mark(
        &self,
        attempt: &Attempt<'_>,
        granted: Granted,
    ) -> Result<Option<Acquired>, ClientError> {
        let (account, now) = (attempt.request.account, self.clock.now());
        let is_pruning_due = granted.position.sequence.is_multiple_of(PRUNE_EVERY);
        let grant = granted.grant.clone();
        let marked = self.journal.mark(account, &attempt.id, granted, now);
        if marked.await? == Marked::Void {
            return Ok(None);
        }
        if is_pruning_due {
            self.journal.prune(account, now).await?;
        }
        Ok(Some(attempt.permitted(grant, true)))
    }

    /// Drops a charge that does not go ahead. One that the ledger may hold is settled to nothing at the next contact (L23).
    async fn drop_charge(&self, attempt: &Attempt<'_>) -> Result<(), ClientError> {
        let account = attempt.request.account;
        match attempt.in_doubt {
            true => self.journal.void(account, &attempt.id).await?,
            false => self.journal.forget(account, &attempt.id).await?,
        }
        Ok(())
    }

    async fn refuse(&self, attempt: &Attempt<'_>, reason: String) -> Result<Acquired, ClientError> {
        self.drop_charge(attempt).await?;
        Ok(Acquired::Refused(reason))
    }

    /// Returns the usage of an account, or of a part of it, unless the circuit breaker is open.
    async fn usage_of_part(
        &self,
        account: &Account,
        part: &Account,
    ) -> Result<Vec<LimitUsage>, ClientError> {
        if let Some(reason) = self.breaker.open_reason() {
            // It is the text of an error, which begins as that of this one does.
            let why = reason.strip_prefix(UNREACHABLE).unwrap_or(&reason);
            return Err(LedgerError::Unreachable(why.to_owned()).into());
        }
        let usage = self.usage_now(account, part).await;
        self.note(&usage);
        usage
    }

    /// Reads the usage of an account, or of a part of it, after everything that the ledger must hear first.
    async fn usage_now(
        &self,
        account: &Account,
        part: &Account,
    ) -> Result<Vec<LimitUsage>, ClientError> {
        let mut losses = Losses::default();
        self.sync(account, &mut losses).await?;
        // Behind `sync`, which moves what this machine has seen.
        let seen = self.journal.seen(account, self.clock.now()).await?;
        let now = self.clock.now();
        let mut reply = self.ledger.usage(part, Some(&seen), &[], now).await?;
        if reply.lost {
            self.recover(account, &seen, &mut losses).await?;
            let now = self.clock.now();
            reply = self.ledger.usage(part, None, &[], now).await?;
        }
        self.journal
            .record_report(account, reply.report, self.clock.now())
            .await?;
        Ok(reply.limits)
    }

    /// Opens the circuit breaker after an outage, and closes it when the ledger replied. A failure of the journal says
    /// nothing about the ledger.
    fn note<T>(&self, result: &Result<T, ClientError>) {
        match result {
            Err(error) if error.is_outage() => self.breaker.record_failure(&error.to_string()),
            // A script that fails is a bug (L27), and a reply all the same.
            Ok(_) | Err(ClientError::Ledger(_)) => self.breaker.record_success(),
            Err(ClientError::Journal(_) | ClientError::ReadOnly) => {}
        }
    }
}

#[async_trait]
impl LedgerClient for SharedClient {
    async fn charge(
        &self,
        request: ChargeRequest<'_>,
        id: ChargeId,
    ) -> Result<Option<Acquired>, ClientError> {
        let mut attempt = Attempt {
            request,
            id,
            requested_at: Monotonic::now(),
            in_doubt: false,
        };
        // A fresh id names no charge yet.
        if request.id.is_some() {
            let now = self.clock.now();
            self.journal
                .free_forgotten(request.account, &attempt.id, now)
                .await?;
        }
        // Before the journal: a charge without the ledger writes its own row, which is final at once.
        if let Some(reason) = self.breaker.open_reason() {
            return self.charge_unmetered(attempt, reason).await.map(Some);
        }
        let account = request.account;
        let charge = Charge::new(&request, &attempt.id);
        let begun = self.journal.begin(charge, self.clock.now()).await?;
        attempt.id = begun.id;
        attempt.in_doubt = begun.in_doubt;
        match self.charge_ledger(&mut attempt, begun.state).await {
            Err(error) if error.is_outage() => {
                let reason = error.to_string();
                self.breaker.record_failure(&reason);
                self.charge_unmetered(attempt, reason).await.map(Some)
            }
            Err(error) => {
                // No outage policy lets it go ahead, and yet the ledger may hold it.
                self.journal.void(account, &attempt.id).await?;
                Err(error)
            }
            acquired => acquired,
        }
    }

    async fn settle(
        &self,
        account: &Account,
        id: &ChargeId,
        cost: &Cost,
    ) -> Result<(), ClientError> {
        let now = self.clock.now();
        // The journal first: what the ledger does not hear now, it hears at the next contact.
        self.journal.settle(account, id, cost, now).await?;
        self.sync_now_or_later(account).await
    }

    async fn correct(
        &self,
        account: &Account,
        id: &ChargeId,
        cost: &Cost,
    ) -> Result<Found, ClientError> {
        let now = self.clock.now();
        match self.journal.correct(account, id, cost, now).await? {
            Found::CannotTell => {
                self.settle(account, id, cost).await?;
                Ok(Found::CannotTell)
            }
            found => {
                self.sync_now_or_later(account).await?;
                Ok(found)
            }
        }
    }

    async fn absorb(&self, account: &Account, entries: &[Entry]) -> Result<(), ClientError> {
        self.journal.add(account, entries).await?;
        self.sync_now_or_later(account).await
    }

    async fn close(
        &self,
        account: &Account,
        limit: &str,
        closing: Closing,
    ) -> Result<(), ClientError> {
        let now = self.clock.now();
        self.journal.close(account, limit, closing, now).await?;
        self.sync_now_or_later(account).await
    }

    async fn reopen(&self, account: &Account, limit: &str) -> Result<(), ClientError> {
        // What is closed now is opened, and nothing that is closed later, should the ledger hear of this only then (L18).
        match self.usage_of(account, limit).await {
            Ok(usage) => {
                if let Some(until) = usage.and_then(|usage| usage.closed_until) {
                    self.journal.learn(account, limit, until).await?;
                }
            }
            Err(error) if error.is_outage() => {}
            Err(error) => return Err(error),
        }
        self.journal.reopen(account, limit).await?;
        self.sync_now_or_later(account).await
    }

    async fn reported(&self, account: &Account, limit: &str) -> Result<Vec<Entry>, ClientError> {
        let entries = self.journal.charges(account, self.clock.now()).await?;
        Ok(reported_of(limit, entries))
    }

    async fn usage(&self, account: &Account) -> Result<Vec<LimitUsage>, ClientError> {
        self.usage_of_part(account, account).await
    }

    async fn usage_of(
        &self,
        account: &Account,
        limit: &str,
    ) -> Result<Option<LimitUsage>, ClientError> {
        let part = account.only(limit);
        Ok(self.usage_of_part(account, &part).await?.pop())
    }

    async fn available(&self, account: &Account) -> Result<Available, ClientError> {
        match self.usage(account).await {
            Err(error) if error.is_outage() => {
                let from = self.clock.now() - account.longest_window();
                let used = self.journal.unmetered_since(account, from).await?;
                let left = self.policy.unmetered_max.saturating_sub(used);
                Ok(Available::Unmetered(left))
            }
            usage => usage.map(Available::Metered),
        }
    }

    async fn falls_to(
        &self,
        account: &Account,
        limit: &str,
        most: Units,
    ) -> Result<Option<Timestamp>, ClientError> {
        if self.breaker.open_reason().is_some() {
            return Ok(None);
        }
        let now = self.clock.now();
        Ok(self.ledger.falls_to(account, limit, most, now).await?)
    }

    async fn spent(&self, account: &Account, from: Timestamp) -> Result<Spending, ClientError> {
        spent_by_journal(&self.journal, account, from).await
    }

    async fn find(&self, account: &Account, id: &ChargeId) -> Result<Found, ClientError> {
        let found = self.journal.find(account, id).await?;
        if found != Found::CannotTell || self.breaker.open_reason().is_some() {
            return Ok(found);
        }
        // Another machine can have charged it: the ledger knows.
        let now = self.clock.now();
        let (seen, ids) = (self.journal.seen(account, now).await?, [id.clone()]);
        match self.ledger.usage(account, Some(&seen), &ids, now).await {
            Ok(reply) if reply.recorded == [true] => Ok(Found::Counting(id.clone())),
            Ok(reply) if !reply.lost => Ok(Found::Unknown),
            // What was lost may hold it, and so may a ledger that does not answer.
            Ok(_) | Err(LedgerError::Unreachable(_) | LedgerError::Skewed { .. }) => Ok(found),
            Err(error) => Err(error.into()),
        }
    }

    async fn restored(&self) -> Result<Option<Restored>, ClientError> {
        Ok(self.journal.restored().await?)
    }

    async fn note_restored(&self) -> Result<(), ClientError> {
        Ok(self.journal.note_restored(self.clock.now()).await?)
    }

    fn journal(&self) -> Option<&Journal> {
        Some(&self.journal)
    }
}
