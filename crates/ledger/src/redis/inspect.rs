//! Checks whether a Redis is fit for a ledger.

use std::collections::BTreeMap;
use std::time::Duration;

use redis::{FromRedisValue, InfoDict, ParsingError, Value, from_redis_value};

use super::access::Keys;
use super::call::{Terms, keys_of};
use super::link::Link;
use super::{RedisLedger, errors};
use crate::LedgerError;
use ingest_config::{LedgerConfig, RedisUrl};
use ingest_quota::{Account, Timestamp};

/// The account whose keys the inspection uses. Nothing stays in them.
const PROBED: &str = "ingest-check";

/// What an inspection finds, in words with the remedies.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Fitness {
    /// How the ledger runs its operations there, and why.
    pub way: String,
    /// Through what it may lose the ledger.
    pub risks: Vec<String>,
    /// Why it cannot be a ledger.
    pub faults: Vec<String>,
    /// How far its clock is from ours; `None` where it tells no time.
    pub skew: Option<Duration>,
}

/// Reads the passwords and certificates that are configured; connects to nothing.
///
/// # Errors
/// When one of them cannot be read; the error names the remedy.
pub async fn ready(config: &LedgerConfig) -> Result<(), String> {
    Keys::read(config).await.map(drop)
}

/// Inspects a Redis: how it runs operations, what may happen to its keys, and whether this user may run every command that the
/// operations need.
///
/// # Errors
/// When it cannot be reached.
pub async fn inspect(
    url: &RedisUrl,
    config: &LedgerConfig,
    now: Timestamp,
) -> Result<Fitness, LedgerError> {
    let ledger = RedisLedger::new(url, config)?;
    let link = &ledger.link;
    let mut fitness = Fitness::default();
    if let Some(servers) = fitness.ask(link, "INFO all").await? {
        fitness.judge(&servers);
    }
    if let Some((seconds, micros)) = fitness.ask::<(i64, i64)>(link, "TIME").await? {
        let theirs = seconds.saturating_mul(1_000_000).saturating_add(micros);
        let theirs = Timestamp::from_micros(theirs);
        fitness.skew = Some(theirs.since(now).max(now.since(theirs)));
    }
    if let Some(skew) = fitness.skew.filter(|skew| *skew > config.max_skew) {
        fitness.faults.push(format!(
            "the clocks of Redis and this machine differ by {skew:?}, more than ledger.max_skew; synchronize the clocks"
        ));
    }
    for command in commands(&keys_of(url.prefix(), PROBED)) {
        fitness.ask::<Value>(link, &command).await?;
    }
    // Runs an operation that writes nothing: then it is known how.
    let account = Account {
        name: PROBED.to_owned(),
        limits: BTreeMap::new(),
    };
    let mut rules = ledger.rules.clone();
    rules.max_skew = None;
    let call = Terms::new(&rules, &account, None, now).usage([], (now, 1), &[]);
    let ran = link.run(&call).await;
    if fitness.risks.is_empty() && fitness.faults.is_empty() {
        ran?;
    }
    fitness.way = match link.why_scripts() {
        Some(why) => format!(
            "runs the ledger as a script by EVALSHA, since it runs no functions ({why}): a charge takes about three times as long"
        ),
        None => "runs the ledger as functions by FCALL".to_owned(),
    };
    Ok(fitness)
}

impl Fitness {
    /// Sends a command in words; `None` where it fails, which is a fault.
    async fn ask<T>(&mut self, link: &Link, command: &str) -> Result<Option<T>, LedgerError>
    where
        T: FromRedisValue,
    {
        let (name, words) = command.split_once(' ').unwrap_or((command, ""));
        let words: Vec<&str> = words.split_terminator(' ').collect();
        let asked = link.ask(redis::cmd(name).arg(words)).await?;
        match asked.and_then(|value| Ok(from_redis_value(value)?)) {
            Ok(value) => return Ok(Some(value)),
            Err(error) => self.lacks(name, &errors::own_words(&error)),
        }
        Ok(None)
    }

    fn lacks(&mut self, command: &str, why: &str) {
        self.faults.push(format!(
            "{command} fails: {why}; permit it (deploy/redis/users.acl)"
        ));
    }

    /// Judges by what the servers say of themselves.
    fn judge(&mut self, Servers(servers): &Servers) {
        let fields = |name: &'static str| servers.iter().map(move |info| info.get::<String>(name));
        if fields("master_replid").any(|id| id.is_none()) {
            self.lacks("INFO", "it reports no replication id");
        }
        let mut policies = fields("maxmemory_policy").flatten();
        if let Some(policy) = policies.find(|policy| policy != "noeviction") {
            self.risks.push(format!(
                "Redis can evict the ledger: maxmemory-policy is `{policy}`; set `maxmemory-policy noeviction` \
                (deploy/redis/redis.conf)"
            ));
        }
        let mut enabled = fields("aof_enabled").flatten();
        if enabled.any(|enabled| enabled != "1") {
            self.risks.push(
                "Redis loses charges in a restart: appendonly is off; set `appendonly yes` (deploy/redis/redis.conf)"
                    .to_owned(),
            );
        }
    }
}

/// What INFO says of one server, or of each node of a cluster.
struct Servers(Vec<InfoDict>);

impl FromRedisValue for Servers {
    fn from_redis_value(info: Value) -> Result<Self, ParsingError> {
        let of_each = match info {
            Value::Map(nodes) => nodes.into_iter().map(|(_, info)| info).collect(),
            of_one => vec![of_one],
        };
        let read = of_each.into_iter().map(from_redis_value);
        Ok(Self(read.collect::<Result<_, _>>()?))
    }
}

/// The commands that the operations run, on keys that hold nothing afterwards.
fn commands([hash, set, other]: &[String; 3]) -> [String; 10] {
    [
        format!("HSET {hash} field 1"),
        format!("HGET {hash} field"),
        format!("HMGET {hash} field"),
        format!("PEXPIRE {hash} 60000"),
        format!("HDEL {hash} field"),
        format!("ZADD {set} 1 one"),
        format!("ZCARD {set}"),
        format!("ZRANGEBYSCORE {set} -inf +inf"),
        format!("ZREM {set} one"),
        format!("DEL {set} {other}"),
    ]
}
