//! The ledger of many machines: Redis, with one script for each operation.

mod access;
mod errors;
mod inspect;
mod link;
mod node;
mod reply;
mod route;
mod scripts;
mod sentinel;
mod terms;

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use parking_lot::Mutex;
use uuid::Uuid;

use super::{
    Ack, Charge, ChargeReply, Granted, LedgerError, Seen, SharedLedger, Update, UsageReply,
};
use ingest_base::clock::Clock;
use ingest_config::{AfterLoss, LedgerConfig, LedgerStore, RedisAccess, RedisUrl};
use ingest_quota::{Account, ChargeId, Closing, Entry, Floor, LimitName, Timestamp, Units};

pub use inspect::{Finding, inspect, ready};
use link::{Link, Sent};
use reply::{Disagreement, UpdateReply};
use scripts::{Script, keys_of};
use terms::Terms;

/// The totals are compared with the log once in this many charges.
const CHECK_EVERY: u64 = 512;

/// How long the keys of an account live at least (L50).
const LEAST_LIFE: Duration = Duration::from_secs(26 * 60 * 60);

/// The clock that the ledger goes by.
#[derive(Clone)]
pub enum ServerTime {
    /// Redis' own.
    Own,
    /// The caller's `now`, for tests that move time by hand.
    Callers,
    /// Another clock, for tests in which the server's is wrong.
    Told(Arc<dyn Clock>),
}

/// Who calls a script: the account, the part of it that the script needs, what the machine has seen of the ledger, its clock,
/// and what it charges.
#[derive(Clone, Copy)]
struct Caller<'a> {
    account: &'a Account,
    sent: &'a Account,
    seen: Option<&'a Seen>,
    now: Timestamp,
    charge: Option<Charge<'a>>,
}

/// The ledger of many machines.
pub struct RedisLedger {
    link: Link,
    /// What its keys begin with.
    prefix: &'static str,
    max_skew: Option<Duration>,
    least_life: Duration,
    time: ServerTime,
    warned: Mutex<BTreeSet<(String, LimitName)>>,
}

impl RedisLedger {
    /// A ledger in the Redis at `url`; connects at the first operation. `timeout` holds for each operation, connecting
    /// included; a server whose clock is more than `max_skew` away is an outage (L5).
    ///
    /// # Errors
    /// When the URL is not one of Redis.
    pub fn new(url: &RedisUrl, timeout: Duration, max_skew: Duration) -> Result<Self, LedgerError> {
        let config = LedgerConfig {
            store: LedgerStore::Redis(url.clone()),
            access: RedisAccess::default(),
            timeout,
            cheap_max: Units::ZERO,
            unmetered_max: Units::ZERO,
            max_skew,
            after_loss: AfterLoss::default(),
        };
        Self::configured(url, &config)
    }

    /// The same with everything that is configured; passwords and certificates are read at the first operation.
    ///
    /// # Errors
    /// When the URL is not one of Redis.
    pub fn configured(url: &RedisUrl, config: &LedgerConfig) -> Result<Self, LedgerError> {
        Ok(Self {
            link: Link::new(url, &config.access, config.timeout)?,
            prefix: url.prefix(),
            max_skew: Some(config.max_skew),
            least_life: LEAST_LIFE,
            time: ServerTime::Own,
            warned: Mutex::default(),
        })
    }

    /// The same ledger, whose keys live for at least this long.
    #[must_use]
    pub fn with_least_life(self, least_life: Duration) -> Self {
        Self { least_life, ..self }
    }

    /// The same ledger by another clock.
    #[must_use]
    pub fn with_time(self, time: ServerTime) -> Self {
        // Time that a test moves by hand is no wrong clock.
        let max_skew = self
            .max_skew
            .filter(|_| !matches!(time, ServerTime::Callers));
        Self {
            time,
            max_skew,
            ..self
        }
    }

    async fn run(
        &self,
        script: Script,
        caller: Caller<'_>,
        more: impl IntoIterator<Item = String>,
    ) -> Result<Sent, LedgerError> {
        let keys = keys_of(self.prefix, &caller.account.name);
        let arguments = self.arguments(script, caller, more);
        let link = self.link.for_limits(caller.sent.limits.len());
        link.run(script, &keys, &arguments).await
    }

    fn arguments(
        &self,
        script: Script,
        caller: Caller<'_>,
        more: impl IntoIterator<Item = String>,
    ) -> Vec<Vec<u8>> {
        let Caller {
            account,
            sent,
            seen,
            now,
            charge,
        } = caller;
        let server_time = match &self.time {
            ServerTime::Own => None,
            ServerTime::Callers => Some(now),
            ServerTime::Told(clock) => Some(clock.now()),
        };
        let shown = match script {
            // These name instants at which units return, up to a window from now.
            Script::Usage | Script::Falls => account.longest_window(),
            _ => Duration::ZERO,
        };
        let terms = Terms {
            account,
            sent,
            now,
            max_skew: self.max_skew,
            least_life: self.least_life,
            server_time,
            seen,
            // With every script: the one that finds a loss begins a new epoch (L36).
            fresh_epoch: Uuid::now_v7().simple().to_string(),
            charge,
            ahead: shown,
        };
        let mut arguments = terms.arguments();
        arguments.extend(more.into_iter().map(String::into_bytes));
        arguments
    }

    fn warn(&self, account: &Account, disagreements: Vec<Disagreement>) {
        let mut warned = self.warned.lock();
        for Disagreement { limit, theirs } in disagreements {
            if warned.insert((account.name.clone(), limit.clone())) {
                tracing::warn!(
                    account = account.name,
                    limit,
                    before = theirs,
                    "another configuration of this limit was used before; if another machine \
                    still uses it, make the configurations equal"
                );
            }
        }
    }

    /// Compares totals with the log now and then, beside the charges: those of many limits in turns.
    fn check_after(&self, granted: &Granted, account: &Account, now: Timestamp) {
        if !granted.is_fresh() || !granted.position.sequence.is_multiple_of(CHECK_EVERY) {
            return;
        }
        let parts = terms::parts(account);
        let turn = usize::try_from(granted.position.sequence / CHECK_EVERY).unwrap_or_default();
        let Some(sent) = parts.get(turn % parts.len().max(1)) else {
            return;
        };
        let caller = Caller {
            account,
            sent,
            seen: None,
            now,
            charge: None,
        };
        let arguments = self.arguments(Script::Check, caller, []);
        let keys = keys_of(self.prefix, &account.name);
        let (link, account) = (self.link.clone(), account.name.clone());
        tokio::spawn(async move {
            let checked = link.run(Script::Check, &keys, &arguments).await;
            match checked.and_then(reply::mended) {
                Ok(mended) => mended.iter().for_each(|what| log_mended(&account, what)),
                Err(error) => {
                    tracing::debug!(account, "cannot check the ledger's sums: {error}")
                }
            }
        });
    }

    /// Compares the totals of an account with its log now, and returns what had to be corrected.
    ///
    /// # Errors
    /// When Redis cannot be reached.
    pub async fn mend(
        &self,
        account: &Account,
        now: Timestamp,
    ) -> Result<Vec<String>, LedgerError> {
        let mut mended = Vec::new();
        for sent in &terms::parts(account) {
            let caller = Caller {
                account,
                sent,
                seen: None,
                now,
                charge: None,
            };
            mended.extend(reply::mended(self.run(Script::Check, caller, []).await?)?);
        }
        Ok(mended)
    }
}

#[async_trait]
impl SharedLedger for RedisLedger {
    async fn charge(
        &self,
        charge: Charge<'_>,
        seen: Option<&Seen>,
        now: Timestamp,
    ) -> Result<ChargeReply, LedgerError> {
        let account = charge.account;
        let caller = Caller {
            account,
            sent: &terms::for_charge(account, charge.cost),
            seen,
            now,
            charge: Some(charge),
        };
        let reply = self.run(Script::Charge, caller, []).await?;
        let (reply, disagreements) = reply::charge(reply, caller, charge.cost)?;
        self.warn(account, disagreements);
        if let ChargeReply::Granted(granted) = &reply {
            self.check_after(granted, account, now);
        }
        Ok(reply)
    }

    async fn update(
        &self,
        account: &Account,
        update: Update<'_>,
        seen: Option<&Seen>,
        now: Timestamp,
    ) -> Result<Ack, LedgerError> {
        let account = &*terms::with_unknown_limits(account, &update);
        let mut sent = terms::for_update(account, &update);
        let is_whole = sent.limits.len() == account.limits.len();
        // Where all limits are sent, there is none left to ask for.
        let mut unsent = if is_whole {
            UnsentLimits::Keep
        } else {
            UnsentLimits::Ask
        };
        loop {
            let (script, more) = script_of(&sent, update, unsent);
            let caller = Caller {
                account,
                sent: &sent,
                seen,
                now,
                charge: None,
            };
            match reply::updated(self.run(script, caller, more).await?)? {
                UpdateReply::Acknowledged(ack) => return Ok(ack),
                UpdateReply::TakesFrom(names) => {
                    let names: Vec<LimitName> = sent.limits.keys().cloned().chain(names).collect();
                    (sent, unsent) = (terms::with_limits(account, names), UnsentLimits::Keep);
                }
            }
        }
    }

    async fn usage(
        &self,
        account: &Account,
        seen: Option<&Seen>,
        charges: &[ChargeId],
        now: Timestamp,
    ) -> Result<UsageReply, LedgerError> {
        let ids = charges.iter().map(|id| id.as_str().to_owned());
        let caller = Caller {
            account,
            sent: account,
            seen,
            now,
            charge: None,
        };
        reply::usage(self.run(Script::Usage, caller, ids).await?, account)
    }

    async fn falls_to(
        &self,
        account: &Account,
        limit: &str,
        most: Units,
        now: Timestamp,
    ) -> Result<Option<Timestamp>, LedgerError> {
        let sent = &*terms::with_limits(account, [limit]);
        let Some(place) = sent.limits.keys().position(|name| name == limit) else {
            return Ok(None);
        };
        let more = [(place + 1).to_string(), terms::units(most)];
        let caller = Caller {
            account,
            sent,
            seen: None,
            now,
            charge: None,
        };
        reply::falls(self.run(Script::Falls, caller, more).await?).map(Some)
    }
}

fn log_mended(account: &str, what: &str) {
    tracing::warn!(
        account,
        "the ledger's sums were wrong and have been corrected: {what}"
    );
}

/// What becomes of units that a settled charge took of limits that are not sent.
#[derive(Clone, Copy)]
enum UnsentLimits {
    /// They stay: this configuration does not know the limits.
    Keep,
    /// The script names the limits and writes nothing: those of this configuration are then sent too.
    Ask,
}

/// The script that applies an update, and its arguments.
fn script_of(sent: &Account, update: Update<'_>, unsent: UnsentLimits) -> (Script, Vec<String>) {
    match update {
        Update::Settle { id, cost } => {
            let mut arguments = vec![id.as_str().to_owned()];
            terms::Components::new(sent).write(cost, &mut arguments);
            let unsent = match unsent {
                UnsentLimits::Keep => "keep",
                UnsentLimits::Ask => "ask",
            };
            arguments.push(unsent.to_owned());
            (Script::Settle, arguments)
        }
        Update::Absorb(entries) => (Script::Absorb, absorbed("tell", sent, entries, &[])),
        Update::Recover(entries, floors) => {
            (Script::Absorb, absorbed("recover", sent, entries, floors))
        }
        Update::Close { limit, closing } => (Script::Close, closed(limit, closing)),
        Update::Reopen { limit } => (Script::Close, vec![limit.to_owned(), "reopen".to_owned()]),
    }
}

fn absorbed(mode: &str, sent: &Account, entries: &[Entry], floors: &[Floor]) -> Vec<String> {
    let mut arguments = vec![mode.to_owned()];
    arguments.extend(terms::entries(sent, entries));
    arguments.extend(terms::floors(floors));
    arguments
}

fn closed(limit: &str, closing: Closing) -> Vec<String> {
    let mut arguments = vec![limit.to_owned()];
    match closing {
        Closing::Until(until) => {
            arguments.extend(["until".to_owned(), until.micros().to_string()]);
        }
        Closing::Probing => arguments.push("probing".to_owned()),
        Closing::Copied { until, interval } => arguments.extend([
            "copied".to_owned(),
            until.micros().to_string(),
            interval.as_micros().to_string(),
        ]),
    }
    arguments
}
