//! Deletes records that an upstream has not returned for too long. Passes stay.

use super::sql::{Row, StoreError, Tx, values};
use super::{Catalog, CatalogError, CatalogReader, index, tags};
use ingest_quota::Timestamp;

/// Rows deleted in one transaction, so that others can land pages in between.
const AT_ONCE: i64 = 1_000;

// A record that is being landed is not old any more.
const OLD: &str = "select number from record where upstream = ?1 and last_seen < ?2
    order by last_seen, number limit ?3{unlocked}";
const COUNT: &str = "select count(*) from record where upstream = ?1 and last_seen < ?2";
const IS_OLD: &str = "select exists (select 1 from record where upstream = ?1 and last_seen < ?2)
    or exists (select 1 from absent where upstream = ?1 and at < ?2)
    or exists (select 1 from record_version where upstream = ?1 and replaced_at < ?2)";
const DROP_VERSIONS: &str = "delete from record_version where number in (
    select version.number from record {join} record_version version
        on version.id = record.id and version.kind = record.kind and version.upstream = record.upstream
    where record.number {any ?1})";
const DROP_OLD_VERSIONS: &str = "delete from record_version where number in
    (select number from record_version where upstream = ?1 and replaced_at < ?2 order by replaced_at limit ?3)";
const DROP: &str = "delete from record where number {any ?1}";
const FORGET: &str = "delete from absent where upstream = ?1 and at < ?2";
pub const STATEMENTS: &[&str] = &[
    OLD,
    COUNT,
    IS_OLD,
    DROP_VERSIONS,
    DROP_OLD_VERSIONS,
    DROP,
    FORGET,
];

impl CatalogReader {
    /// Returns the number of an upstream's records that were last seen before `since`.
    pub async fn unseen(&self, upstream: &str, since: Timestamp) -> Result<u64, CatalogError> {
        let upstream = upstream.to_owned();
        self.read(move |tx| tx.one(COUNT, values![&upstream, since], Row::count))
            .await
    }
}

impl Catalog {
    /// Deletes the records of an upstream that were last seen before `since`. Returns their number.
    pub async fn drop_unseen(&self, upstream: &str, since: Timestamp) -> Result<u64, CatalogError> {
        let of = upstream.to_owned();
        let is_old = self.read(move |tx| tx.one(IS_OLD, values![&of, since], Row::truth));
        if !is_old.await? {
            return Ok(0);
        }
        let mut dropped = 0;
        loop {
            let of = upstream.to_owned();
            let (records, more) = self.write(move |tx| drop_some(tx, &of, since)).await?;
            dropped += records;
            if !more {
                return Ok(dropped);
            }
        }
    }
}

/// Deletes some of the records of an upstream that are older than `since`, and its absent ids, former bodies and tags. Returns the
/// number of records, and whether there may be more of anything.
fn drop_some(tx: &Tx<'_>, upstream: &str, since: Timestamp) -> Result<(u64, bool), StoreError> {
    let old = tx.query(OLD, values![upstream, since, AT_ONCE])?;
    let old: Vec<i64> = old
        .iter()
        .map(|row| row.integer(0))
        .collect::<Result<_, _>>()?;
    let dropped = old.len() as u64;
    if dropped > 0 {
        tx.later(DROP_VERSIONS, values![old.clone()])?;
        index::forget(tx, old.clone())?;
        tx.later(DROP, values![old])?;
    }
    let versions = tx.execute(DROP_OLD_VERSIONS, values![upstream, since, AT_ONCE])?;
    tx.later(FORGET, values![upstream, since])?;
    tags::forget_old(tx, upstream, since)?;
    Ok((dropped, dropped > 0 || versions > 0))
}
