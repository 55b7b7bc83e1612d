//! Checks whether a Redis is fit for a ledger.

use std::collections::BTreeMap;
use std::time::Duration;

use redis::{InfoDict, Value};
use thiserror::Error;

use super::access::Access;
use super::arguments::{Arguments, Terms};
use super::library::{Operation, keys_of};
use super::link::Way;
use super::{RedisLedger, errors};
use crate::LedgerError;
use ingest_config::{LedgerConfig, RedisUrl};
use ingest_quota::{Account, Timestamp};

/// The account whose keys the inspection uses. Nothing stays in them.
const PROBED: &str = "ingest-check";

/// A property of a Redis that makes it unfit for a ledger.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum Finding {
    /// It drops keys when its memory is full.
    #[error(
        "Redis can evict the ledger: maxmemory-policy is `{policy}`; set `maxmemory-policy \
        noeviction` (deploy/redis/redis.conf)"
    )]
    MayEvict { policy: String },
    /// It keeps no append-only file.
    #[error(
        "Redis loses charges in a restart: appendonly is off; set `appendonly yes` \
        (deploy/redis/redis.conf)"
    )]
    KeepsNothing,
    /// This user lacks a permission that the operations need.
    #[error("{command} fails: {why}; permit it (deploy/redis/users.acl)")]
    Lacks {
        command: String,
        /// The server's error.
        why: String,
    },
    /// Its clock is too far from ours.
    #[error(
        "the clocks of Redis and this machine differ by {skew:?}, more than ledger.max_skew; \
        synchronize the clocks"
    )]
    Skewed {
        /// How far they are apart.
        skew: Duration,
    },
}

/// What an inspection finds.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Fitness {
    /// How the ledger runs its operations there, and why, in words.
    pub way: String,
    /// What makes the Redis unfit for a ledger; empty where it is fit.
    pub findings: Vec<Finding>,
}

/// Reads the passwords and certificates that are configured; connects to nothing.
///
/// # Errors
/// When one of them cannot be read; the error names the remedy.
pub async fn ready(config: &LedgerConfig) -> Result<(), String> {
    Access::new(&config.access).read().await.map(drop)
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
    let ledger = RedisLedger::configured(url, config)?;
    let link = &ledger.link;
    let mut findings = Vec::new();
    match link.ask(redis::cmd("INFO").arg("all")).await? {
        Ok(info) => findings.extend(settings(&InfoDict::new(&text(info)))),
        Err(error) => findings.push(lacks("INFO", &error)),
    }
    match link.ask(&redis::cmd("TIME")).await? {
        Ok(time) => findings.extend(skew(time, config.max_skew, now)),
        Err(error) => findings.push(lacks("TIME", &error)),
    }
    for command in commands(&keys_of(url.prefix(), PROBED)) {
        let (name, words) = command.split_once(' ').unwrap_or_default();
        let words: Vec<&str> = words.split(' ').collect();
        if let Err(error) = link.ask(redis::cmd(name).arg(words)).await? {
            findings.push(lacks(name, &error));
        }
    }
    // Runs an operation that writes nothing: then it is known how.
    let account = Account {
        name: PROBED.to_owned(),
        limits: BTreeMap::new(),
    };
    let terms = Terms {
        max_skew: None,
        ..ledger.terms(&account, None, now)
    };
    let arguments = Arguments::new(&terms, []).usage(now, 1, &[]);
    let ran = ledger.run(Operation::Usage, &account, arguments).await;
    if findings.is_empty() {
        ran?;
    }
    Ok(Fitness {
        way: way(&link.way()),
        findings,
    })
}

fn way(way: &Way) -> String {
    match way {
        Way::Scripts(why) => format!(
            "runs the ledger as a script by EVALSHA, since it runs no functions ({why}): a charge takes about twice as long"
        ),
        Way::Functions | Way::Undecided => "runs the ledger as functions by FCALL".to_owned(),
    }
}

fn settings(info: &InfoDict) -> Vec<Finding> {
    let field = |name: &str| info.get::<String>(name);
    let mut findings = Vec::new();
    if field("master_replid").is_none() {
        findings.push(Finding::Lacks {
            command: "INFO".to_owned(),
            why: "it reports no replication id".to_owned(),
        });
    }
    if let Some(policy) = field("maxmemory_policy").filter(|policy| policy != "noeviction") {
        findings.push(Finding::MayEvict { policy });
    }
    if field("aof_enabled").is_some_and(|enabled| enabled != "1") {
        findings.push(Finding::KeepsNothing);
    }
    findings
}

fn skew(time: Value, most: Duration, now: Timestamp) -> Option<Finding> {
    let (seconds, micros) = redis::from_redis_value::<(i64, i64)>(time).ok()?;
    let theirs = Timestamp::from_micros(seconds.saturating_mul(1_000_000).saturating_add(micros));
    let skew = theirs.since(now).max(now.since(theirs));
    (skew > most).then_some(Finding::Skewed { skew })
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

fn lacks(command: &str, error: &redis::RedisError) -> Finding {
    Finding::Lacks {
        command: command.to_owned(),
        why: errors::own_words(error),
    }
}

fn text(value: Value) -> String {
    redis::from_redis_value(value).unwrap_or_default()
}
