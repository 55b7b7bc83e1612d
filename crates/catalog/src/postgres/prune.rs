//! Deletes what an upstream has not returned for too long.

use super::catalog::in_transaction;
use super::sql::{Values, parameters, stored, time};
use super::{Postgres, PostgresError, Transaction, tags};
use ingest_quota::Timestamp;

/// Rows deleted in one transaction, so that other machines can land pages in between.
const AT_ONCE: i64 = 1_000;

// A record that is being landed is not old any more.
const OLD: &str = "select number from record where upstream = $1 and last_seen < $2
    order by last_seen, number limit $3 for update skip locked";
const COUNT: &str = "select count(*) from record where upstream = $1 and last_seen < $2";
const DROP_VERSIONS: &str = "delete from record_version version using record
    where record.number = any($1)
        and version.id = record.id and version.kind = record.kind and version.upstream = record.upstream";
const DROP_TEXTS: &str = "delete from record_text where number = any($1)";
const DROP: &str = "delete from record where number = any($1)";
const DROP_OLD_VERSIONS: &str = "delete from record_version where number in
    (select number from record_version where upstream = $1 and replaced_at < $2 order by replaced_at limit $3)";
const FORGET: &str = "delete from absent where upstream = $1 and at < $2";

/// Returns the number of records that [`drop_unseen`] would delete.
pub async fn unseen(
    tx: &Transaction<'_>,
    upstream: &str,
    since: Timestamp,
) -> Result<u64, PostgresError> {
    let rows = tx
        .query(COUNT, parameters![stored(upstream), time(since)])
        .await?;
    let count: i64 = rows.first().map_or(Ok(0), |row| row.value(0))?;
    Ok(count.unsigned_abs())
}

/// Deletes the records of an upstream, its absent ids, former bodies and tags that are older than `since`. Returns the number of
/// records.
pub async fn drop_unseen(
    postgres: &Postgres,
    upstream: &str,
    since: Timestamp,
) -> Result<u64, PostgresError> {
    let mut dropped = 0;
    loop {
        let (records, versions) = in_transaction!(postgres, tx => drop_some(&tx, upstream, since))?;
        dropped += records;
        if records == 0 && versions == 0 {
            return Ok(dropped);
        }
    }
}

/// Returns the number of deleted records, and that of deleted former bodies.
async fn drop_some(
    tx: &Transaction<'_>,
    upstream: &str,
    since: Timestamp,
) -> Result<(u64, u64), PostgresError> {
    let (upstream_name, since_time) = (stored(upstream), time(since));
    let old = tx
        .query(OLD, parameters![upstream_name, since_time, AT_ONCE])
        .await?;
    let old: Vec<i64> = old
        .iter()
        .map(|row| row.value(0))
        .collect::<Result<_, _>>()?;
    if !old.is_empty() {
        tx.execute(DROP_VERSIONS, parameters![old]).await?;
        tx.execute(DROP_TEXTS, parameters![old]).await?;
        tx.execute(DROP, parameters![old]).await?;
    }
    let versions = tx
        .affected(
            DROP_OLD_VERSIONS,
            parameters![upstream_name, since_time, AT_ONCE],
        )
        .await?;
    tx.execute(FORGET, parameters![upstream_name, since_time])
        .await?;
    tags::forget_old(tx, upstream, since).await?;
    Ok((old.len() as u64, versions))
}
