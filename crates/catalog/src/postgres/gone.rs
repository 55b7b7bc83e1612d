//! Records that no list has any more.
//!
//! A list is a job, a region and a step that lists everything there is. A record that a list had is gone when no list has it. A
//! list whose passes begin with a cursor of the last one names what changed: it has every record that it ever named, until it says
//! that one was removed, or a pass without such a cursor lists everything again.

use futures_util::future::try_join_all;
use tokio_postgres::Row;

use super::sql::{Columns, Values, all_stored, parameters, stored, time};
use super::{PostgresError, Transaction, lock_pass};
use crate::PassId;
use crate::page::LandingPage;
use ingest_quota::Timestamp;

/// The last complete pass of the same region of the job, the step in it that requested the same, and that request if the list begins
/// passes at cursors and this one did not begin at the last pass's.
// The edges of a slice are null outside of slices: hence `is not distinct from`.
const BEFORE: &str = "select before.id, checkpoint.step, (select own.request from lasting_cursor own
        where own.pass = pass.id and own.step = $2 and (pass.relists or not exists (select 1 from lasting_cursor last
            where last.pass = before.id and last.request = own.request and last.cursor is not null)))
    from pass join pass before on before.job = pass.job and before.region = pass.region
        and before.slice_from is not distinct from pass.slice_from and before.slice_to is not distinct from pass.slice_to
        and before.outcome = 'complete' and before.id <> pass.id
    left join checkpoint on checkpoint.pass = before.id and checkpoint.request = (
        select request from checkpoint own where own.pass = $1 and own.step = $2 and own.request is not null limit 1)
    where pass.id = $1
    order by before.started_at desc, before.id desc limit 1";
/// What the pass has listed was seen since it started.
const MISSING: &str = "select record.number from listing
    join record
        on record.upstream = listing.upstream and record.kind = listing.kind and record.id = listing.id
    where listing.pass = $1 and listing.step = $2
        and record.gone_at is null and record.last_seen < (select started_at from pass where id = $3)";
/// Releases what earlier passes named: it no longer counts as in the list.
const RELEASE: &str = "delete from lasting_cursor where request = $2 and pass <> $1 and pass in (
    select former.id from pass join pass former on former.job = pass.job and former.region = pass.region where pass.id = $1)
    returning pass, step";
/// The passes that tell what each list has now: its newest complete one, and those that are open.
const CURRENT: &str = "select id from (
        select distinct on (job, region, slice_from, slice_to) id from pass where outcome = 'complete'
        order by job, region, slice_from, slice_to, started_at desc, id desc) newest
    union all select id from pass where finished_at is null";
const LOCK: &str =
    "select 1 from record where number = any($1) order by upstream, kind, id for update";
// Another machine may have seen a record meanwhile.
const MARK: &str = "update record set gone_at = $2 where number = any($1)
    and gone_at is null and last_seen < (select started_at from pass where id = $4)
    and not exists (select 1 from listing
        where listing.id = record.id and listing.kind = record.kind and listing.upstream = record.upstream
            and listing.pass = any($3) and listing.requested is null)
    and not exists (select 1 from listing join lasting_cursor
            on lasting_cursor.pass = listing.pass and lasting_cursor.step = listing.step
        where listing.id = record.id and listing.kind = record.kind and listing.upstream = record.upstream
            and listing.requested is null)";
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
    let mut missing: Vec<i64> = Vec::new();
    let mut previous = None;
    // Sent behind the lock, in the same round trip: what they read is no earlier state.
    let before = try_join_all(steps.iter().map(|step| before(tx, pass, *step)));
    let (_, before) = tokio::try_join!(biased; lock_pass(tx, pass), before)?;
    for rows in before {
        let Some(row) = rows.first() else {
            continue;
        };
        let (before, step): (i64, Option<i64>) = (row.value(0)?, row.value(1)?);
        let Some(step) = step else {
            continue;
        };
        previous = Some(before);
        let mut lists = vec![(before, step)];
        if let Some(request) = row.optional_text(2)? {
            for row in tx
                .query(RELEASE, parameters![pass.0, stored(&request)])
                .await?
            {
                lists.push((row.value(0)?, row.value(1)?));
            }
        }
        for (before, step) in lists {
            for row in tx.query(MISSING, parameters![before, step, pass.0]).await? {
                missing.push(row.value(0)?);
            }
        }
    }
    if missing.is_empty() {
        return Ok(0);
    }
    let current = tx.query(CURRENT, &[]).await?;
    let current = current.iter().map(|row| row.value(0));
    let mut current: Vec<i64> = current.collect::<Result<_, _>>()?;
    // The pass, which is about to end, replaces the one before.
    current.retain(|id| Some(*id) != previous);
    current.push(pass.0);
    // In the order of their keys, in which landings lock them too. `update` alone would take any order.
    tx.query(LOCK, parameters![missing]).await?;
    tx.affected(MARK, parameters![missing, time(now), current, pass.0])
        .await
}

async fn before(tx: &Transaction<'_>, pass: PassId, step: i64) -> Result<Vec<Row>, PostgresError> {
    tx.query(BEFORE, parameters![pass.0, step]).await
}
