//! The ledger of many machines: Redis, which runs `lua/`, as functions or as a script. What a reply leaves to decide is decided by
//! `quota::admission`.

mod access;
mod call;
mod connection;
mod errors;
mod inspect;
mod library;
mod link;
mod packed;
mod records;
mod reply;
mod route;

use std::collections::BTreeSet;
use std::time::Duration;

use async_trait::async_trait;
use parking_lot::Mutex;

use super::{Ack, Charge, ChargeReply, LedgerError, Seen, SharedLedger, Update, UsageReply};
use ingest_config::{LedgerConfig, RedisUrl};
use ingest_quota::{Account, ChargeId, Cost, LimitName, LimitUsage, Timestamp, Units};

pub use call::ServerTime;
use call::{Rules, Terms};
pub use inspect::{Fitness, inspect, ready};
use link::Link;
use packed::broken;
use records::{LimitRecords, Unknown};
use reply::{Charged, Holdings, Updated};

/// How long the keys of an account live at least (L50).
const LEAST_LIFE: Duration = Duration::from_secs(26 * 60 * 60);

/// The most chunks of the log that one call replies: 16,000 records or more.
const MOST_CHUNKS: usize = 1000;

/// The most parts in which a log is read: some millions of records.
const MOST_PARTS: usize = 250;

/// How often a charge is sent whose rejection is too far from the instant at which it fits.
const MOST_TRIES: usize = 3;

/// The ledger of many machines.
pub struct RedisLedger {
    link: Link,
    rules: Rules,
    warned: Mutex<BTreeSet<(String, LimitName)>>,
}

impl RedisLedger {
    /// A ledger in the Redis at `url`. It connects, and reads passwords and certificates, at the first operation.
    /// `config.timeout` holds for each operation, connecting included.
    ///
    /// # Errors
    /// When the URL is not one of Redis.
    pub fn new(url: &RedisUrl, config: &LedgerConfig) -> Result<Self, LedgerError> {
        Ok(Self {
            link: Link::new(url, config)?,
            rules: Rules {
                prefix: url.prefix(),
                max_skew: Some(config.max_skew),
                least_life: LEAST_LIFE,
                time: ServerTime::Own,
            },
            warned: Mutex::default(),
        })
    }

    /// The same ledger, whose keys live for at least this long.
    #[must_use]
    pub fn with_least_life(mut self, least_life: Duration) -> Self {
        self.rules.least_life = least_life;
        self
    }

    /// The same ledger by another clock.
    #[must_use]
    pub fn with_time(mut self, time: ServerTime) -> Self {
        if matches!(time, ServerTime::Callers) {
            // Time that a test moves by hand is no wrong clock.
            self.rules.max_skew = None;
        }
        self.rules.time = time;
        self
    }

    fn warn(&self, account: &Account, disagreements: Vec<(LimitName, String)>) {
        let mut warned = self.warned.lock();
        for (limit, theirs) in disagreements {
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
    async fn holdings<'a>(
        &self,
        terms: &Terms<'a>,
        ids: &[ChargeId],
    ) -> Result<Holdings<'a>, LedgerError> {
        let account = terms.account;
        // The ledger's clock may be behind.
        let earliest = terms.now - self.rules.max_skew.unwrap_or_default();
        let windows = account.windows().into_iter();
        let from = windows.map(|(_, window)| window.counted_from(earliest));
        let from = (from.min().unwrap_or(terms.now), MOST_CHUNKS);
        let call = terms.usage(account.limits.keys(), from, ids);
        let mut holdings = Holdings::read(self.link.run(&call).await?, account)?;
        for _ in 0..MOST_PARTS {
            let Some(next) = holdings.next else {
                return Ok(holdings);
            };
            let call = terms.usage([], (next, MOST_CHUNKS), &[]);
            holdings.read_on(self.link.run(&call).await?)?;
        }
        Err(broken("the log does not end"))
    }

    /// Decides on a rejected charge whose reply does not reach the instant at which it fits.
    async fn decide(&self, charge: &Charge<'_>, terms: Terms<'_>) -> Result<Charged, LedgerError> {
        let limits = charge.account.charged(charge.cost);
        let account = &Account {
            name: charge.account.name.clone(),
            limits: limits.map(|(name, limit)| (name.clone(), *limit)).collect(),
        };
        let holdings = self.holdings(&Terms { account, ..terms }, &[]).await?;
        if holdings.lost {
            return Ok(Charged::Decided(ChargeReply::Lost, Vec::new()));
        }
        let told = (holdings.report, holdings.clock);
        Ok(reply::decide(charge, &holdings.limits, told, false))
    }

    /// Settles a charge. Limits that it took from beside those of its true cost are named in the reply, and sent with it again.
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
        let mut asks = true;
        loop {
            let sent = self.link.run(&terms.settle(cost, &names, asks)).await?;
            match reply::updated(sent)? {
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
}

#[async_trait]
impl SharedLedger for RedisLedger {
    async fn charge(
        &self,
        charge: Charge<'_>,
        seen: Option<&Seen>,
        now: Timestamp,
    ) -> Result<ChargeReply, LedgerError> {
        let mut terms = Terms::new(&self.rules, charge.account, seen, now);
        terms.id = Some(charge.id);
        for _ in 0..MOST_TRIES {
            let sent = self.link.run(&terms.charge(charge)).await?;
            let charged = match reply::charge(sent, &charge)? {
                Charged::TooFar => self.decide(&charge, terms).await?,
                charged => charged,
            };
            match charged {
                Charged::Decided(reply, disagreements) => {
                    self.warn(charge.account, disagreements);
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
        let terms = Terms::new(&self.rules, account, seen, now);
        let call = match update {
            Update::Settle { id, cost } => return self.settle(terms, id, cost).await,
            Update::Close { limit, closing } => terms.close(limit, Some(closing)),
            Update::Reopen { limit } => terms.close(limit, None),
            Update::Absorb(entries) => terms.absorb(false, entries, &[]),
            Update::Recover(entries, floors) => terms.absorb(true, entries, floors),
        };
        match reply::updated(self.link.run(&call).await?)? {
            Updated::Acknowledged(ack) => Ok(ack),
            Updated::TakesFrom(_) => Err(broken("nobody asked for limits")),
        }
    }

    async fn usage(
        &self,
        account: &Account,
        seen: Option<&Seen>,
        charges: &[ChargeId],
        now: Timestamp,
    ) -> Result<UsageReply, LedgerError> {
        let terms = Terms::new(&self.rules, account, seen, now);
        let mut holdings = self.holdings(&terms, charges).await?;
        let limits = holdings.limits.iter().map(|limit| limit.state()?.usage());
        let limits = limits.collect::<Result<Vec<_>, _>>().map_err(missing)?;
        let used = |usage: &LimitUsage| (usage.limit.clone(), usage.used);
        holdings.report.used = limits.iter().map(used).collect();
        Ok(UsageReply {
            limits,
            report: holdings.report,
            lost: holdings.lost,
            recorded: holdings.recorded,
        })
    }

    async fn falls_to(
        &self,
        account: &Account,
        limit: &str,
        most: Units,
        now: Timestamp,
    ) -> Result<Option<Timestamp>, LedgerError> {
        let account = account.only(limit);
        let terms = Terms::new(&self.rules, &account, None, now);
        let holdings = self.holdings(&terms, &[]).await?;
        let falls_to = |limit: &LimitRecords<'_>| limit.state()?.falls_to(most);
        let falls_to = holdings.limits.first().map(falls_to);
        falls_to.transpose().map_err(missing)
    }
}

/// Cannot happen: all records of the window were read.
fn missing(Unknown: Unknown) -> LedgerError {
    broken("records are missing")
}
