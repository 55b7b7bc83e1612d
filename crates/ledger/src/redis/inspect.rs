//! Checks whether a Redis is fit for a ledger.

use std::collections::BTreeMap;
use std::time::Duration;

use thiserror::Error;

use super::access::Access;
use super::link::Link;
use super::reply;
use super::scripts::{Script, keys_of};
use crate::LedgerError;
use ingest_config::{LedgerConfig, RedisUrl};
use ingest_quota::Timestamp;

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
    /// This user lacks a permission that the scripts need.
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

/// The result of the probe script.
pub struct Probe {
    pub policy: String,
    pub is_appended: bool,
    pub time: Timestamp,
    pub failures: BTreeMap<String, String>,
}

/// Reads the passwords and certificates that are configured; connects to nothing.
///
/// # Errors
/// When one of them cannot be read; the error names the remedy.
pub async fn ready(config: &LedgerConfig) -> Result<(), String> {
    Access::new(&config.access).read().await.map(drop)
}

/// Returns what makes a Redis unfit for a ledger; empty when it is fit.
///
/// # Errors
/// When it cannot be reached.
pub async fn inspect(
    url: &RedisUrl,
    config: &LedgerConfig,
    now: Timestamp,
) -> Result<Vec<Finding>, LedgerError> {
    let link = Link::new(url, &config.access, config.timeout)?;
    let probe = reply::probe(
        link.run(Script::Probe, &keys_of(url.prefix(), PROBED), &[])
            .await?,
    )?;
    let mut findings = Vec::new();
    // Without INFO neither is known, and the lack of it is found below.
    let knows_settings = !probe.failures.contains_key("INFO");
    if knows_settings && probe.policy != "noeviction" {
        findings.push(Finding::MayEvict {
            policy: probe.policy,
        });
    }
    if knows_settings && !probe.is_appended {
        findings.push(Finding::KeepsNothing);
    }
    let skew = probe.time.since(now).max(now.since(probe.time));
    if skew > config.max_skew {
        findings.push(Finding::Skewed { skew });
    }
    findings.extend(
        probe
            .failures
            .into_iter()
            .map(|(command, why)| Finding::Lacks { command, why }),
    );
    Ok(findings)
}
