//! Records that no list has any more.
//!
//! A list is a job, a region and a step that lists everything there is. A record that a list had is gone when no list has it. A
//! list whose passes begin with a cursor of the last one, or stop at what is known, names what changed: it has every record that it
//! ever named, until it says that one was removed, or a pass lists everything again.

use super::sql::{Columns, all_stored, parameters, stored, time};
use super::turns::MARK_GONE;
use super::{PostgresError, Transaction, lock_pass};
use crate::PassId;
use crate::page::LandingPage;
use ingest_quota::Timestamp;

// In the order in which landings lock records.
const REMOVE: &str = "with removed as (select number from record
        where upstream = $1 and kind = $2 and id = any($3) and gone_at is null order by upstream, kind, id for update)
    update record set gone_at = $4 from removed where record.number = removed.number";

/// Marks the records that a page says were removed.
pub async fn remove(tx: &Transaction<'_>, page: &LandingPage) -> Result<(), PostgresError> {
    let landing = &page.landing;
    if landing.removed.is_empty() {
        return Ok(());
    }
    let (upstream, kind) = (stored(&landing.upstream), stored(page.kind()));
    let ids = all_stored(&landing.removed);
    tx.execute(REMOVE, parameters![upstream, kind, ids, time(landing.now)])
        .await
}

/// Marks what these lists of a pass lost. Returns the number of records.
pub async fn mark(
    tx: &Transaction<'_>,
    pass: PassId,
    steps: &[i64],
    now: Timestamp,
) -> Result<u64, PostgresError> {
    lock_pass(tx, pass).await?;
    let rows = tx
        .query(MARK_GONE, parameters![pass.0, steps.to_vec(), time(now)])
        .await?;
    rows.first().map_or(Ok(0), |row| row.count(0))
}
