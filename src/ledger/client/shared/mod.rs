//! Asking a ledger that can be away or lose its data, with the journal of this machine beside it.
//!
//! A charge is written down, put to the ledger, and marked "may be sent" in the journal before its request leaves. Where
//! the ledger is silent, the call's own policy decides: refused, or written down as unmetered and sent.

mod breaker;
mod sync;

use std::collections::BTreeSet;
use std::sync::{Arc, Mutex};

use super::{Acquired, Available, ChargeRequest, ClientError, Permit, fresh_id};
use crate::clock::{Clock, Deadline, Monotonic};
use crate::config::{AfterLoss, LedgerConfig};
use crate::ledger::journal::{Allowance, Begun, Granted, Journal, Marked, Unmetered};
use crate::ledger::{Answer, Charge, LedgerError, Seen, SharedLedger, Update};
use crate::quota::{
    Account, ChargeId, Closing, Cost, Entry, Grant, LimitUsage, Outage, Timestamp, Units,
};

use breaker::CircuitBreaker;
use sync::Losses;

/// A charge is begun anew this often when its grant was void.
const ATTEMPTS: u32 = 5;

/// What a machine does when the ledger is silent, or has lost its data.
#[derive(Debug, Clone, Copy)]
pub struct Policy {
    /// Units of one account that may go unmetered on this machine within a window.
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
    /// Whoever tells a ledger again that lost its data does so alone.
    recovering: tokio::sync::Mutex<()>,
    /// Accounts of which it was said that the ledger lost data.
    said_lost: Mutex<BTreeSet<String>>,
}

/// One ask under one id.
struct Attempt<'a> {
    request: &'a ChargeRequest<'a>,
    id: ChargeId,
    asked: Monotonic,
    /// Whether it was put to the ledger now.
    reached: bool,
    /// Whether it was put to the ledger before, and nobody knows what came of that.
    doubtful: bool,
}

/// What came of putting a charge to the ledger.
enum Put {
    Answered(Answer),
    /// The ledger lost its data, and until then nothing is charged.
    Waits(Timestamp),
}

/// What came of one attempt.
enum Outcome {
    Acquired(Acquired),
    /// The grant was void: to be charged anew under a fresh id.
    Void,
    /// The id names no charge any more: to be charged under the next of its kind.
    TakenBack,
}

impl SharedClient {
    pub fn new(
        ledger: Arc<dyn SharedLedger>,
        journal: Journal,
        policy: Policy,
        clock: Arc<dyn Clock>,
    ) -> Self {
        Self {
            ledger,
            journal,
            policy,
            clock,
            breaker: CircuitBreaker::default(),
            recovering: tokio::sync::Mutex::default(),
            said_lost: Mutex::default(),
        }
    }

    pub async fn acquire(&self, request: &ChargeRequest<'_>) -> Result<Acquired, ClientError> {
        let mut voided = 0;
        while voided < ATTEMPTS {
            let id = request.id.cloned().unwrap_or_else(fresh_id);
            let attempt = Attempt {
                request,
                id,
                asked: Monotonic::now(),
                reached: false,
                doubtful: false,
            };
            match self.attempt(attempt).await? {
                Outcome::Acquired(verdict) => return Ok(verdict),
                Outcome::Void => voided += 1,
                Outcome::TakenBack => {}
            }
        }
        Ok(Acquired::Refused(
            "the ledger lost its data several times during one charge".to_owned(),
        ))
    }

    async fn attempt(&self, mut attempt: Attempt<'_>) -> Result<Outcome, ClientError> {
        if let Some(why) = self.breaker.open_reason() {
            return self.without_ledger(attempt, why).await;
        }
        let (account, now) = (attempt.request.account, self.clock.now());
        let begun = self
            .journal
            .begin(
                account,
                &attempt.id,
                (attempt.request.cost, attempt.request.purpose),
                now,
            )
            .await?;
        attempt.id = begun.id.clone();
        attempt.doubtful = begun.doubtful;
        match self.put(&mut attempt, begun).await {
            Ok(Put::Answered(answer)) => self.take(attempt, answer).await,
            Ok(Put::Waits(until)) => self.waits_after_loss(attempt, until).await,
            Err(error) if error.is_outage() => {
                let why = error.to_string();
                self.breaker.record_failure(&why);
                self.without_ledger(attempt, why).await
            }
            Err(error) => {
                self.journal.void(account, &attempt.id).await?;
                Err(error)
            }
        }
    }

    /// Puts a charge to the ledger, after everything that it must hear first.
    async fn put(&self, attempt: &mut Attempt<'_>, mut begun: Begun) -> Result<Put, ClientError> {
        let account = attempt.request.account;
        let mut losses = Losses::default();
        loop {
            if begun.seen.epoch.is_empty() {
                self.join(account).await?;
                begun = self
                    .journal
                    .look_again(account, &attempt.id, self.clock.now())
                    .await?;
            }
            if begun.recovering || begun.pending {
                self.catch_up(account, &mut losses).await?;
                begun = self
                    .journal
                    .look_again(account, &attempt.id, self.clock.now())
                    .await?;
            }
            if begun.wait_until > self.clock.now() {
                return self.wait(account, attempt).await;
            }
            attempt.reached = true;
            match self
                .ledger
                .ask(charge(attempt, &begun), self.clock.now())
                .await?
            {
                Answer::Lost => {
                    self.recover(account, &begun.seen, &mut losses).await?;
                    begun = self
                        .journal
                        .look_again(account, &attempt.id, self.clock.now())
                        .await?;
                }
                answer => {
                    self.breaker.record_success();
                    return Ok(Put::Answered(answer));
                }
            }
        }
    }

    /// Notes the epoch before the first charge (L34). A newcomer's charge would be granted by whatever ledger is there: of
    /// two that are under way at a loss, each in an epoch of its own, one would be forgotten.
    async fn join(&self, account: &Account) -> Result<(), ClientError> {
        self.tell(account, Update::Made(&[]), &Seen::default())
            .await?;
        Ok(())
    }

    /// Charges nothing, but looks whether the ledger has lost its data once more: others do not wait.
    async fn wait(&self, account: &Account, attempt: &Attempt<'_>) -> Result<Put, ClientError> {
        match self.usage_now(account).await {
            Err(error) if !error.is_outage() => return Err(error),
            _ => (),
        }
        let begun = self
            .journal
            .look_again(account, &attempt.id, self.clock.now())
            .await?;
        Ok(Put::Waits(begun.wait_until))
    }

    /// Writes down what the ledger answered.
    async fn take(&self, attempt: Attempt<'_>, answer: Answer) -> Result<Outcome, ClientError> {
        let account = attempt.request.account;
        match answer {
            Answer::Granted {
                grant,
                used,
                contact,
                fresh,
            } => {
                let due = contact.sequence.is_multiple_of(256);
                let granted = Granted {
                    contact,
                    used,
                    probing: grant.probing.clone(),
                    fresh,
                };
                let now = self.clock.now();
                if self
                    .journal
                    .mark(account, &attempt.id, granted, now)
                    .await?
                    == Marked::Void
                {
                    return Ok(Outcome::Void);
                }
                if due {
                    self.journal.prune(account, now).await?;
                }
                Ok(permitted(attempt, grant, true))
            }
            Answer::Rejected {
                rejection,
                closed_until,
                report,
                doubtful,
            } => {
                self.journal
                    .heard_report(account, report, self.clock.now())
                    .await?;
                self.drop_rejected(&attempt, doubtful).await?;
                if let Some(until) = closed_until {
                    self.journal.learn(account, &rejection.limit, until).await?;
                }
                Ok(Outcome::Acquired(Acquired::Rejected(rejection)))
            }
            Answer::Never { limit, most } => {
                self.drop_rejected(&attempt, false).await?;
                Ok(Outcome::Acquired(Acquired::Never { limit, most }))
            }
            Answer::TakenBack => {
                self.journal
                    .settle(account, &attempt.id, &Cost::none(), self.clock.now())
                    .await?;
                Ok(Outcome::TakenBack)
            }
            Answer::Lost => Ok(Outcome::Void),
        }
    }

    /// A rejected charge is dropped; one that an earlier sending may still bring is settled to nothing.
    async fn drop_rejected(
        &self,
        attempt: &Attempt<'_>,
        doubtful: bool,
    ) -> Result<(), ClientError> {
        let account = attempt.request.account;
        match doubtful || attempt.doubtful {
            true => self.journal.void(account, &attempt.id).await?,
            false => self.journal.forget(account, &attempt.id).await?,
        }
        Ok(())
    }

    /// Takes back a charge that is refused: settled to nothing at the next contact, if the ledger may have heard of it.
    async fn drop_refused(&self, attempt: &Attempt<'_>) -> Result<(), ClientError> {
        self.drop_rejected(attempt, attempt.reached).await
    }

    async fn waits_after_loss(
        &self,
        attempt: Attempt<'_>,
        until: Timestamp,
    ) -> Result<Outcome, ClientError> {
        self.drop_refused(&attempt).await?;
        Ok(refused(format!(
            "the ledger lost its data, or is another one than before, and ledger.after_loss = \"wait\" refuses charges until {until}"
        )))
    }

    /// What the call's policy says where the ledger is silent.
    async fn without_ledger(
        &self,
        attempt: Attempt<'_>,
        why: String,
    ) -> Result<Outcome, ClientError> {
        if attempt.request.outage == Outage::Refuse {
            self.drop_refused(&attempt).await?;
            let remedy = "calls above `ledger.cheap_max` units or with `outage = \"refuse\"` are \
                refused during an outage";
            return Ok(refused(format!("{why}; {remedy}")));
        }
        let ChargeRequest {
            account,
            cost,
            leave,
            purpose,
            ..
        } = *attempt.request;
        if let Some((limit, most)) = account.never_holds(cost, leave) {
            self.drop_refused(&attempt).await?;
            return Ok(Outcome::Acquired(Acquired::Never { limit, most }));
        }
        let allowance = Allowance {
            units: self.policy.unmetered_max,
        };
        match self
            .journal
            .unmetered(
                account,
                &attempt.id,
                (cost, purpose),
                allowance,
                self.clock.now(),
            )
            .await?
        {
            Unmetered::Allowed(id, probing) => {
                let grant = Grant {
                    probing,
                    ..Grant::default()
                };
                Ok(permitted(Attempt { id, ..attempt }, grant, false))
            }
            Unmetered::Repeated(id, held) => {
                let held = Some(held).filter(|held| *held != account.taken(cost));
                let grant = Grant {
                    repeated: true,
                    held,
                    ..Grant::default()
                };
                Ok(permitted(Attempt { id, ..attempt }, grant, false))
            }
            Unmetered::Spent => {
                self.drop_refused(&attempt).await?;
                let most = self.policy.unmetered_max;
                Ok(refused(format!(
                    "{why}; all {most} units of `ledger.unmetered_max` are used"
                )))
            }
            Unmetered::Closed(limit, until) => {
                self.drop_refused(&attempt).await?;
                Ok(refused(format!(
                    "{why}; the upstream reported `{limit}` exhausted, and it is closed until \
                    {until}"
                )))
            }
        }
    }

    /// Tells what a charge truly cost: at once where the ledger answers, else at the next contact.
    pub async fn settle(
        &self,
        account: &Account,
        id: &ChargeId,
        cost: &Cost,
    ) -> Result<(), ClientError> {
        self.journal
            .settle(account, id, cost, self.clock.now())
            .await?;
        self.tell_now_or_later(account).await
    }

    /// Adds what was charged elsewhere: what is not known yet is told at its own time.
    pub async fn absorb(&self, account: &Account, entries: &[Entry]) -> Result<(), ClientError> {
        self.journal.add(account, entries).await?;
        self.tell_now_or_later(account).await
    }

    pub async fn close(
        &self,
        account: &Account,
        limit: &str,
        closing: Closing,
    ) -> Result<(), ClientError> {
        self.journal
            .close(account, limit, closing, self.clock.now())
            .await?;
        self.tell_now_or_later(account).await
    }

    pub async fn reopen(&self, account: &Account, limit: &str) -> Result<(), ClientError> {
        self.journal.reopen(account, limit).await?;
        self.tell_now_or_later(account).await
    }

    pub async fn usage(&self, account: &Account) -> Result<Vec<LimitUsage>, ClientError> {
        if let Some(why) = self.breaker.open_reason() {
            return Err(LedgerError::Unreachable(why).into());
        }
        let usage = self.usage_now(account).await;
        self.note(&usage);
        usage
    }

    /// When a limit's use falls to `most`.
    pub async fn falls_to(
        &self,
        account: &Account,
        limit: &str,
        most: Units,
    ) -> Result<Option<Timestamp>, ClientError> {
        match self.breaker.open_reason() {
            Some(_) => Ok(None),
            None => Ok(self
                .ledger
                .falls_to(account, limit, most, self.clock.now())
                .await?),
        }
    }

    /// What an account has left by the ledger; where that is silent, what may go ahead without it.
    pub async fn left(&self, account: &Account) -> Result<Available, ClientError> {
        match self.usage(account).await {
            Err(error) if error.is_outage() => {
                let from = self.clock.now() - account.longest_window();
                let spent = self.journal.unmetered_since(account, from).await?;
                Ok(Available::Unmetered(
                    self.policy.unmetered_max.saturating_sub(spent),
                ))
            }
            usage => usage.map(Available::Metered),
        }
    }

    async fn usage_now(&self, account: &Account) -> Result<Vec<LimitUsage>, ClientError> {
        let mut losses = Losses::default();
        self.catch_up(account, &mut losses).await?;
        let seen = self.journal.seen(account, self.clock.now()).await?;
        let standing = self
            .ledger
            .standing(account, Some(&seen), &[], self.clock.now())
            .await?;
        let standing = if standing.lost {
            self.recover(account, &seen, &mut losses).await?;
            self.ledger
                .standing(account, None, &[], self.clock.now())
                .await?
        } else {
            standing
        };
        self.journal
            .heard_report(account, standing.report, self.clock.now())
            .await?;
        Ok(standing.limits)
    }

    /// This machine's own record.
    pub const fn journal(&self) -> &Journal {
        &self.journal
    }

    /// Closes the gate where the ledger did not answer, and opens it where it did; a journal that fails says nothing of
    /// the ledger.
    fn note<T>(&self, result: &Result<T, ClientError>) {
        match result {
            Err(error) if error.is_outage() => self.breaker.record_failure(&error.to_string()),
            Ok(_) | Err(ClientError::Ledger(_)) => self.breaker.record_success(),
            Err(ClientError::Journal(_) | ClientError::ReadOnly) => {}
        }
    }
}

fn charge<'a>(attempt: &'a Attempt<'_>, begun: &'a Begun) -> Charge<'a> {
    let ChargeRequest {
        account,
        cost,
        leave,
        purpose,
        ..
    } = *attempt.request;
    Charge {
        account,
        id: &attempt.id,
        cost,
        leave,
        purpose,
        seen: Some(&begun.seen),
    }
}

fn permitted(attempt: Attempt<'_>, grant: Grant, metered: bool) -> Outcome {
    let deadline = Deadline::new(
        attempt.asked,
        attempt.request.account.grant_lifetime(attempt.request.cost),
    );
    Outcome::Acquired(Acquired::Permitted(Permit {
        id: attempt.id,
        grant,
        metered,
        deadline,
    }))
}

const fn refused(why: String) -> Outcome {
    Outcome::Acquired(Acquired::Refused(why))
}
