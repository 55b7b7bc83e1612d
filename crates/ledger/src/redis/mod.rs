//! The ledger of many machines: Redis, which runs `lua/`, as functions or as a script. What a reply leaves to decide is decided by
//! `quota::admission`.

mod access;
mod arguments;
mod errors;
mod inspect;
mod library;
mod link;
mod node;
mod records;
mod reply;
mod route;
mod sentinel;

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use parking_lot::Mutex;

use super::{Ack, Charge, ChargeReply, LedgerError, Seen, SharedLedger, Update, UsageReply};
use ingest_base::clock::Clock;
use ingest_config::{AfterLoss, LedgerConfig, LedgerStore, RedisAccess, RedisUrl};
use ingest_quota::admission::LimitState;
use ingest_quota::{Account, ChargeId, Cost, LimitName, LimitUsage, Timestamp, Units};

use arguments::{Arguments, Terms};
pub use inspect::{Finding, Fitness, inspect, ready};
use library::{Operation, keys_of};
use link::{Call, Link, Sent};
use records::{LimitRecords, Unknown};
use reply::{Charged, Disagreement, Holdings, Updated};

/// How long the keys of an account live at least (L50).
const LEAST_LIFE: Duration = Duration::from_secs(26 * 60 * 60);

/// The most limits of an account that a settlement sends all. Of more, it sends those that it needs.
const MOST_SETTLED: usize = 64;

/// The most chunks of the log that one call replies: 16,000 records or more.
const MOST_CHUNKS: usize = 1000;

/// The most parts in which a log is read: some millions of records.
const MOST_PARTS: usize = 250;

/// How often a charge is sent whose rejection is too far from the instant at which it fits.
const MOST_TRIES: usize = 3;

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

    fn terms<'a>(&self, account: &'a Account, seen: Option<&'a Seen>, now: Timestamp) -> Terms<'a> {
        Terms {
            account,
            seen,
            now,
            max_skew: self.max_skew,
            server_time: match &self.time {
                ServerTime::Own => None,
                ServerTime::Callers => Some(now),
                ServerTime::Told(clock) => Some(clock.now()),
            },
            least_life: self.least_life,
            id: None,
            forgotten: Timestamp::from_micros(0),
        }
    }

    async fn run(
        &self,
        operation: Operation,
        account: &Account,
        arguments: Arguments,
    ) -> Result<Sent, LedgerError> {
        let call = Call {
            operation,
            keys: &keys_of(self.prefix, &account.name),
            arguments: &arguments.packed,
            limits: arguments.limits,
        };
        self.link.run(&call).await
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

    /// Reads what the ledger holds of the account's limits, and whether these charges are recorded. A long log comes in several
    /// parts, each by a call of its own, so that none holds the server for long; what was charged before the first one is complete.
    async fn holdings(&self, terms: Terms<'_>, ids: &[ChargeId]) -> Result<Holdings, LedgerError> {
        let account = terms.account;
        let names: Vec<&LimitName> = account.limits.keys().collect();
        // The ledger's clock may be behind.
        let earliest = terms.now - self.max_skew.unwrap_or_default();
        let windows = account.windows().into_iter();
        let from = windows.map(|(_, window)| window.counted_from(earliest));
        let from = from.min().unwrap_or(terms.now);
        let arguments = Arguments::new(&terms, names.iter().copied()).usage(from, MOST_CHUNKS, ids);
        let sent = self.run(Operation::Usage, account, arguments).await?;
        let mut holdings = reply::usage(sent, &names, ids.len())?;
        let mut parts = 1;
        while let Some(next) = holdings.next {
            parts += 1;
            if parts > MOST_PARTS {
                return Err(reply::broken("the log does not end"));
            }
            let arguments = Arguments::new(&terms, []).usage(next, MOST_CHUNKS, &[]);
            let sent = self.run(Operation::Usage, account, arguments).await?;
            holdings.extend(reply::usage(sent, &[], 0)?);
        }
        Ok(holdings)
    }

    /// Decides on a rejected charge whose reply does not reach the instant at which it fits.
    async fn decide(&self, charge: &Charge<'_>, terms: Terms<'_>) -> Result<Charged, LedgerError> {
        let limits = charge.account.charged(charge.cost);
        let account = &Account {
            name: charge.account.name.clone(),
            limits: limits.map(|(name, limit)| (name.clone(), *limit)).collect(),
        };
        let holdings = self.holdings(Terms { account, ..terms }, &[]).await?;
        if holdings.is_lost() {
            return Ok(Charged::Decided(ChargeReply::Lost, Vec::new()));
        }
        let (report, clock) = (holdings.report.clone(), holdings.clock);
        let records = holdings.records(account)?;
        reply::decide(charge, &records, report, clock, false)
    }

    async fn settle(
        &self,
        terms: Terms<'_>,
        id: &ChargeId,
        cost: &Cost,
    ) -> Result<Ack, LedgerError> {
        let id = Some(id);
        let terms = Terms { id, ..terms };
        let known = &terms.account.limits;
        let mut names: BTreeSet<&LimitName> = cost.limits().collect();
        let mut asks = known.len() > MOST_SETTLED;
        if !asks {
            names.extend(known.keys());
        }
        loop {
            let arguments = Arguments::new(&terms, names.iter().copied());
            let arguments = arguments.settle(cost, names.iter().copied(), asks);
            let sent = self.run(Operation::Settle, terms.account, arguments);
            match reply::updated(sent.await?)? {
                Updated::Acknowledged(ack) => return Ok(ack),
                // Those that this configuration does not know keep their units.
                Updated::TakesFrom(others) => {
                    let others = others.iter().filter_map(|name| known.get_key_value(name));
                    names.extend(others.map(|(name, _)| name));
                    asks = false;
                }
            }
        }
    }

    async fn amend(
        &self,
        operation: Operation,
        account: &Account,
        arguments: Arguments,
    ) -> Result<Ack, LedgerError> {
        match reply::updated(self.run(operation, account, arguments).await?)? {
            Updated::Acknowledged(ack) => Ok(ack),
            Updated::TakesFrom(_) => Err(reply::broken("nobody asked for limits")),
        }
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
        let mut terms = Terms {
            id: Some(charge.id),
            ..self.terms(account, seen, now)
        };
        for _ in 0..MOST_TRIES {
            let limits = account.charged(charge.cost).map(|(name, _)| name);
            let arguments = Arguments::new(&terms, limits).charge(charge, &terms);
            let sent = self.run(Operation::Charge, account, arguments).await?;
            let charged = match reply::charge(sent, &charge)? {
                Charged::TooFar => self.decide(&charge, terms).await?,
                charged => charged,
            };
            match charged {
                Charged::Decided(reply, disagreements) => {
                    self.warn(account, disagreements);
                    return Ok(reply);
                }
                Charged::Forgotten(made) => terms.forgotten = made,
                Charged::TooFar => {}
            }
        }
        Err(LedgerError::Unreachable(
            "it changes faster than a rejection can be decided".to_owned(),
        ))
    }

    async fn update(
        &self,
        account: &Account,
        update: Update<'_>,
        seen: Option<&Seen>,
        now: Timestamp,
    ) -> Result<Ack, LedgerError> {
        let terms = self.terms(account, seen, now);
        let (mode, entries, floors) = match update {
            Update::Settle { id, cost } => return self.settle(terms, id, cost).await,
            Update::Close { limit, closing } => {
                let arguments = Arguments::new(&terms, [&limit.to_owned()]).close(Some(closing));
                return self.amend(Operation::Close, account, arguments).await;
            }
            Update::Reopen { limit } => {
                let arguments = Arguments::new(&terms, [&limit.to_owned()]).close(None);
                return self.amend(Operation::Close, account, arguments).await;
            }
            Update::Absorb(entries) => ("tell", entries, &[][..]),
            Update::Recover(entries, floors) => ("recover", entries, floors),
        };
        let charged = entries.iter().flat_map(|entry| entry.cost.limits());
        let names = charged.chain(floors.iter().map(|floor| &floor.limit));
        let names: BTreeSet<&LimitName> = names.collect();
        let arguments = Arguments::new(&terms, names.iter().copied());
        let arguments = arguments.absorb(mode, &names, entries, floors);
        self.amend(Operation::Absorb, account, arguments).await
    }

    async fn usage(
        &self,
        account: &Account,
        seen: Option<&Seen>,
        charges: &[ChargeId],
        now: Timestamp,
    ) -> Result<UsageReply, LedgerError> {
        let terms = self.terms(account, seen, now);
        let holdings = self.holdings(terms, charges).await?;
        let (lost, recorded) = (holdings.is_lost(), holdings.recorded.clone());
        let mut report = holdings.report.clone();
        let (mut limits, at) = (Vec::new(), report.position.at);
        for (name, records) in holdings.records(account)? {
            let usage = with_state(account, name, &records, at, |state| state.usage());
            limits.extend(usage.transpose().map_err(missing)?);
        }
        let used = |usage: &LimitUsage| (usage.limit.clone(), usage.used);
        report.used = limits.iter().map(used).collect();
        Ok(UsageReply {
            limits,
            report,
            lost,
            recorded,
        })
    }

    async fn falls_to(
        &self,
        account: &Account,
        limit: &str,
        most: Units,
        now: Timestamp,
    ) -> Result<Option<Timestamp>, LedgerError> {
        let account = &account.only(limit);
        let holdings = self.holdings(self.terms(account, None, now), &[]).await?;
        let now = holdings.report.position.at;
        let records = holdings.records(account)?;
        let Some((name, records)) = records.first() else {
            return Ok(None);
        };
        with_state(account, name, records, now, |state| state.falls_to(most))
            .transpose()
            .map_err(missing)
    }
}

/// What the state of a limit says at the ledger's time; `None` for a limit that the account lacks.
fn with_state<T>(
    account: &Account,
    name: &LimitName,
    records: &LimitRecords,
    now: Timestamp,
    say: impl FnOnce(LimitState<'_, &LimitRecords>) -> Result<T, Unknown>,
) -> Option<Result<T, Unknown>> {
    let (name, limit) = account.limits.get_key_value(name)?;
    Some(LimitState::read(name, limit, records, now).and_then(say))
}

/// Cannot happen: all records of the window were read.
fn missing(Unknown: Unknown) -> LedgerError {
    reply::broken("records are missing")
}
