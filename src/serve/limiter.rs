//! The limits on requests: sliding, for each client, by the rule of [`quota::admission`](ingest_quota::admission). Counted in
//! the ledger's Redis where there is one, since several servers then share it, and in memory otherwise.

use std::collections::{BTreeMap, HashMap};
use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;

use crate::commands::Error;
use ingest_config::{Config, LedgerStore};
use ingest_ledger::redis::RedisLedger;
use ingest_ledger::{
    Charge, ChargeReply, CircuitBreaker, LedgerError, Purpose, SharedLedger, random_id,
};
use ingest_quota::admission::{Claim, LimitState};
use ingest_quota::{Account, Cost, Decision, Limit, LimitName, SlidingLog, Timestamp, Units};
use parking_lot::Mutex;

use super::auth::Requester;

/// The most clients that are counted each by itself. Further ones are counted together while all of these have requests in
/// their window: forgetting one of them would let it exceed its limit.
const MOST_CLIENTS: usize = 100_000;
/// How long Redis remembers a client at least.
const LEAST_LIFE: Duration = Duration::from_secs(60);
/// The characters of a request's id in Redis, which are a third of what it takes there. No request is repeated under its id; one
/// that has another's by chance is not counted.
const ID_LENGTH: usize = 6;
/// How often clients without requests in their window are looked for when there are that many.
const SWEEP: Duration = Duration::from_secs(1);

/// The limits on requests.
pub struct Limiter {
    readers: Arc<RequestLimit>,
    clients: HashMap<String, Arc<RequestLimit>>,
    memory: Mutex<Memory>,
    redis: Option<Redis>,
}

/// A limit on the requests of each of some clients.
pub struct RequestLimit {
    /// Its name in responses.
    pub name: &'static str,
    name_in_ledger: LimitName,
    /// Its arithmetic.
    pub limit: Limit,
}

/// What a client has used of its limit.
#[derive(Clone)]
pub struct Usage {
    /// The limit.
    pub policy: Arc<RequestLimit>,
    /// The requests that it can still send now.
    pub remaining: Units,
    /// How long until it can send more; `None` while it can send all.
    pub more_in: Option<Duration>,
    /// How long until the request fits; `None` if it is within the limit.
    pub retry_in: Option<Duration>,
}

/// A client, as its requests are counted.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
enum Key {
    Client(String),
    Address(IpAddr),
    /// All addresses beyond [`MOST_CLIENTS`].
    Others,
}

#[derive(Default)]
struct Memory {
    logs: HashMap<Key, (Arc<RequestLimit>, SlidingLog)>,
    swept: Option<Timestamp>,
}

struct Redis {
    ledger: RedisLedger,
    breaker: CircuitBreaker,
}

impl Limiter {
    /// Limiters of the configured clients.
    ///
    /// # Errors
    /// The ledger's URL cannot be used.
    pub fn new(config: &Config) -> Result<Self, Error> {
        let policies = config.serve.clients.iter();
        let policies = policies
            .map(|(name, client)| (name.clone(), RequestLimit::new("client", client.limit)));
        let redis = match &config.ledger.store {
            LedgerStore::Sqlite => None,
            LedgerStore::Redis(url) => {
                let ledger = RedisLedger::new(url, &config.ledger);
                let ledger = ledger.map_err(|error| Error::Usage(error.to_string()))?;
                Some(Redis {
                    // There are as many accounts as addresses, and nothing of one is needed after its window.
                    ledger: ledger.with_least_life(LEAST_LIFE),
                    breaker: CircuitBreaker::default(),
                })
            }
        };
        Ok(Self {
            readers: RequestLimit::new("readers", config.serve.readers),
            clients: policies.collect(),
            memory: Mutex::default(),
            redis,
        })
    }

    /// Where requests are counted now: `memory` or `redis`. After a failure, Redis is asked whether it replies again.
    pub async fn store(&self, now: Timestamp) -> &'static str {
        match &self.redis {
            Some(redis) if redis.replies(&self.readers, now).await => "redis",
            Some(_) | None => "memory",
        }
    }

    /// Counts a request if it fits. A request that does not fit is not counted.
    pub async fn take(&self, identity: &Requester, now: Timestamp) -> Usage {
        let (key, policy) = self.counted_as(identity);
        let key = self.memory.lock().place(key, now);
        let in_redis = match &self.redis {
            Some(redis) => {
                // What this server counted while Redis was away holds after that too.
                if let Some(rejected) = self.memory.lock().rejected(&key, now) {
                    return rejected;
                }
                redis.take(&key, &policy, now).await
            }
            None => None,
        };
        match in_redis {
            Some(rejected) if rejected.retry_in.is_some() => rejected,
            // Requests that Redis counted are counted here too: they hold while Redis is away.
            Some(granted) => {
                self.memory.lock().take(key, &policy, now);
                granted
            }
            None => self.memory.lock().take(key, &policy, now),
        }
    }

    /// Returns what the client has used on this server, and counts nothing.
    pub fn look(&self, identity: &Requester, now: Timestamp) -> Usage {
        let (key, policy) = self.counted_as(identity);
        let memory = self.memory.lock();
        let mut log = memory
            .logs
            .get(&key)
            .map(|(_, log)| log.clone())
            .unwrap_or_default();
        let now = log.advance(&policy.limit, now);
        policy.usage(&log, now)
    }

    fn counted_as(&self, identity: &Requester) -> (Key, Arc<RequestLimit>) {
        let client = identity.token.client();
        let known = client.and_then(|client| Some((client, self.clients.get(&client.name)?)));
        match known {
            Some((client, policy)) => (Key::Client(client.name.clone()), Arc::clone(policy)),
            None => (Key::Address(identity.address), Arc::clone(&self.readers)),
        }
    }
}

impl Memory {
    fn take(&mut self, key: Key, policy: &Arc<RequestLimit>, now: Timestamp) -> Usage {
        let (_, log) = self
            .logs
            .entry(key)
            .or_insert_with(|| (Arc::clone(policy), SlidingLog::new()));
        policy.take(log, now)
    }

    /// Returns the rejection of a client whose requests here are as many as its limit; `None` if there are fewer.
    fn rejected(&mut self, key: &Key, now: Timestamp) -> Option<Usage> {
        let (policy, log) = self.logs.get_mut(key)?;
        let now = log.advance(&policy.limit, now);
        let retry_in = policy.retry_in(log, now)?;
        Some(Usage {
            retry_in: Some(retry_in),
            ..policy.usage(log, now)
        })
    }

    /// Returns under which key a client is counted. Clients with a token are few, so each always has its own.
    fn place(&mut self, key: Key, now: Timestamp) -> Key {
        let has_token = matches!(key, Key::Client(_));
        if has_token || self.logs.len() < MOST_CLIENTS || self.logs.contains_key(&key) {
            return key;
        }
        if self.swept.is_none_or(|swept| now.since(swept) >= SWEEP) {
            self.swept = Some(now);
            self.logs.retain(|_, (policy, log)| {
                log.advance(&policy.limit, now);
                !log.is_empty()
            });
        }
        let is_full = self.logs.len() >= MOST_CLIENTS;
        if is_full { Key::Others } else { key }
    }
}

impl RequestLimit {
    fn new(name: &'static str, limit: Limit) -> Arc<Self> {
        Arc::new(Self {
            name,
            name_in_ledger: "requests".to_owned(),
            limit,
        })
    }

    fn take(self: &Arc<Self>, log: &mut SlidingLog, now: Timestamp) -> Usage {
        let now = log.advance(&self.limit, now);
        let retry_in = self.retry_in(log, now);
        if retry_in.is_none() {
            log.add(ONE, &self.limit, now);
        }
        Usage {
            retry_in,
            ..self.usage(log, now)
        }
    }

    /// Returns how long until one request fits; `None` if it fits now.
    fn retry_in(&self, log: &SlidingLog, now: Timestamp) -> Option<Duration> {
        let account = self.account(String::new());
        let claim = Claim {
            account: &account,
            cost: &self.cost(),
            leave: &Cost::none(),
        };
        let Ok(state) = LimitState::read(&self.name_in_ledger, &self.limit, log, now);
        let Ok(decision) = claim.decide(&[state], now);
        match decision {
            Decision::Granted(_) => None,
            Decision::Rejected(rejection) => Some(rejection.retry_after),
            // Neither can happen: a quota is at least 1, and a request has no id.
            Decision::Never { .. } | Decision::TakenBack => Some(self.limit.window().longest()),
        }
    }

    fn usage(self: &Arc<Self>, log: &SlidingLog, now: Timestamp) -> Usage {
        let Ok(state) = LimitState::read(&self.name_in_ledger, &self.limit, log, now);
        Usage {
            policy: Arc::clone(self),
            remaining: state.remaining(),
            more_in: log.first_return(&self.limit).map(|at| at.since(now)),
            retry_in: None,
        }
    }

    fn cost(&self) -> Cost {
        Cost::from_iter([(self.name_in_ledger.clone(), ONE)])
    }

    fn account(&self, name: String) -> Account {
        Account {
            name,
            limits: BTreeMap::from([(self.name_in_ledger.clone(), self.limit)]),
        }
    }
}

const ONE: Units = Units::new(1);

impl Redis {
    /// Counts a request in Redis; `None` while Redis cannot be reached.
    async fn take(&self, key: &Key, policy: &Arc<RequestLimit>, now: Timestamp) -> Option<Usage> {
        let account = policy.account(key.account());
        let (cost, id) = (policy.cost(), random_id(ID_LENGTH));
        let charge = Charge {
            account: &account,
            id: &id,
            cost: &cost,
            leave: &Cost::none(),
            purpose: &Purpose::default(),
        };
        let reply = self.ask(self.ledger.charge(charge, None, now)).await?;
        usage(reply, policy, now)
    }

    /// Whether the last call did not fail, or one that is due now does not.
    async fn replies(&self, policy: &Arc<RequestLimit>, now: Timestamp) -> bool {
        let account = policy.account(Key::Others.account());
        let asking = self.ledger.usage(&account, None, &[], now);
        !self.breaker.is_open() || self.ask(asking).await.is_some()
    }

    /// Returns the reply; `None` while Redis cannot be reached. After a failure nothing waits for it until an interval is over.
    async fn ask<T>(&self, asking: impl Future<Output = Result<T, LedgerError>>) -> Option<T> {
        if !self.breaker.admit_one() {
            return None;
        }
        let asked = asking.await;
        match &asked {
            Ok(_) => self.breaker.record_success(),
            Err(error) => self.breaker.record_failure(&format!(
                "{error}; requests of readers are counted in the memory of this server"
            )),
        }
        asked.ok()
    }
}

impl Key {
    /// The account in Redis.
    fn account(&self) -> String {
        match self {
            Self::Client(name) => format!("serve/client/{name}"),
            Self::Address(address) => format!("serve/reader/{address}"),
            Self::Others => "serve/readers".to_owned(),
        }
    }
}

fn usage(reply: ChargeReply, policy: &Arc<RequestLimit>, now: Timestamp) -> Option<Usage> {
    let (remaining, retry_in) = match reply {
        ChargeReply::Granted(granted) => {
            let left = granted.grant.remaining.get(&policy.name_in_ledger).copied();
            (left.unwrap_or_default(), None)
        }
        ChargeReply::Rejected { rejection, .. } => (Units::ZERO, Some(rejection.retry_after)),
        // Nothing was decided about the request, so it is counted in memory.
        ChargeReply::Never { .. } | ChargeReply::TakenBack | ChargeReply::Lost => return None,
    };
    Some(Usage {
        policy: Arc::clone(policy),
        remaining,
        // Redis does not report it: no unit is back later than after a window.
        more_in: retry_in.or_else(|| Some(policy.limit.window().expiry(now).since(now))),
        retry_in,
    })
}

#[cfg(test)]
#[path = "tests/limiter.rs"]
mod tests;
