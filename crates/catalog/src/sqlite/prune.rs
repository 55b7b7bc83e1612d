//! Deletes records that an upstream has not returned for too long.

use rusqlite::{Connection, TransactionBehavior};

use super::tags;

/// Records deleted in one transaction, so that other processes can land pages in between.
const AT_ONCE: i64 = 1_000;

const OLD: &str = "select exists (select 1 from record where upstream = ?1 and last_seen < ?2)
    or exists (select 1 from absent where upstream = ?1 and at < ?2)
    or exists (select 1 from record_version where upstream = ?1 and replaced_at < ?2)";
/// The records that [`DROP`] deletes lose their former bodies too.
const DROP_VERSIONS: &str = "delete from record_version where number in (
    select version.number from record cross join record_version version
        on version.id = record.id and version.kind = record.kind and version.upstream = record.upstream
    where record.number in (
        select number from record where upstream = ?1 and last_seen < ?2 order by last_seen, number limit ?3))";
const DROP_OLD_VERSIONS: &str = "delete from record_version where number in
    (select number from record_version where upstream = ?1 and replaced_at < ?2 order by replaced_at limit ?3)";
const DROP: &str = "delete from record where number in
    (select number from record where upstream = ?1 and last_seen < ?2 order by last_seen, number limit ?3)";
const FORGET: &str = "delete from absent where upstream = ?1 and at < ?2";
const COUNT: &str = "select count(*) from record where upstream = ?1 and last_seen < ?2";
pub const STATEMENTS: &[&str] = &[OLD, COUNT, DROP_VERSIONS, DROP_OLD_VERSIONS, DROP, FORGET];

/// Returns the number of records that [`drop_unseen`] would delete.
pub fn unseen(connection: &Connection, upstream: &str, since: &str) -> rusqlite::Result<u64> {
    let mut count = connection.prepare_cached(COUNT)?;
    let count: i64 = count.query_row((upstream, since), |row| row.get(0))?;
    Ok(count.unsigned_abs())
}

/// Deletes the records of an upstream, its absent ids, former bodies and tags that are older than `since`. Returns the number of
/// records. Writes nothing if there are none.
pub fn drop_unseen(
    connection: &mut Connection,
    upstream: &str,
    since: &str,
) -> rusqlite::Result<u64> {
    let mut dropped = 0;
    while connection
        .prepare_cached(OLD)?
        .query_row((upstream, since), |row| row.get(0))?
    {
        dropped += drop_some(connection, upstream, since)?;
    }
    Ok(dropped)
}

fn drop_some(connection: &mut Connection, upstream: &str, since: &str) -> rusqlite::Result<u64> {
    let tx = connection.transaction_with_behavior(TransactionBehavior::Immediate)?;
    // Before the records are gone: it selects the same ones.
    for versions in [DROP_VERSIONS, DROP_OLD_VERSIONS] {
        tx.prepare_cached(versions)?
            .execute((upstream, since, AT_ONCE))?;
    }
    let dropped = tx
        .prepare_cached(DROP)?
        .execute((upstream, since, AT_ONCE))?;
    tx.prepare_cached(FORGET)?.execute((upstream, since))?;
    tags::forget_old(&tx, upstream, since)?;
    tx.commit()?;
    Ok(dropped as u64)
}
