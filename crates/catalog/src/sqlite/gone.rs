//! Records that no list has any more.
//!
//! A list is a job, a region and a step that lists everything there is. A record that a list had is gone when no list has it. A
//! list whose passes begin with a cursor of the last one, or stop at what is known, names what changed: it has every record that it
//! ever named, until it says that one was removed, or a pass lists everything again.

use rusqlite::{Connection, OptionalExtension, Transaction};

use super::columns;
use crate::PassId;
use crate::page::LandingPage;
use ingest_quota::Timestamp;

/// The last complete pass of the same region of the job, the step in it that requested the same, and that request unless this pass
/// began at the cursor of that one.
// The edges of a slice are null outside of slices: hence `is`.
const BEFORE: &str = "select before.id, checkpoint.step, case when pass.relists or not exists (
        select 1 from lasting_cursor own cross join lasting_cursor last on last.pass = before.id and last.request = own.request
        where own.pass = pass.id and own.step = ?2 and own.cursor is not null and last.cursor is not null)
    then checkpoint.request end
    from pass join pass before on before.job = pass.job and before.region = pass.region
        and before.slice_from is pass.slice_from and before.slice_to is pass.slice_to
        and before.outcome = 'complete' and before.id <> pass.id
    left join checkpoint on checkpoint.pass = before.id and checkpoint.request = (
        select request from checkpoint own where own.pass = ?1 and own.step = ?2 and own.request is not null limit 1)
    where pass.id = ?1
    order by before.started_at desc, before.id desc limit 1";
/// What the pass has listed was seen since it started.
// `cross join` keeps the order: what one step listed, and each of those records by its key.
const MISSING: &str = "select record.number from listing
    cross join record
        on record.upstream = listing.upstream and record.kind = listing.kind and record.id = listing.id
    where listing.pass = ?1 and listing.step = ?2
        and record.gone_at is null and record.last_seen < (select started_at from pass where id = ?3)";
/// Releases what earlier passes named: it no longer counts as in the list.
const RELEASE: &str = "delete from lasting_cursor where request = ?2 and pass < ?1 and exists (
    select 1 from pass cross join pass former on former.job = pass.job and former.region = pass.region
    where pass.id = ?1 and former.id = lasting_cursor.pass)
    returning pass, step";
/// The passes that tell what each list has now: its newest complete one, and those that are open.
// `id` is that of the row with the greatest start: SQLite promises it beside `max`.
const CURRENT: &str =
    "select id, max(started_at) from pass where outcome = 'complete' group by job, region, slice_from, slice_to
    union all select id, started_at from pass where finished_at is null";
const MARK: &str = "update record set gone_at = ?2 where number = ?1 and not exists (
    select 1 from json_each(?3) current cross join listing
        on listing.id = record.id and listing.kind = record.kind and listing.upstream = record.upstream
            and listing.pass = current.value and listing.requested is null)
    and not exists (select 1 from listing cross join lasting_cursor
        on lasting_cursor.pass = listing.pass and lasting_cursor.step = listing.step
        where listing.id = record.id and listing.kind = record.kind and listing.upstream = record.upstream
            and listing.requested is null)";
const REMOVE: &str = "update record set gone_at = ?4
    where upstream = ?1 and kind = ?2 and id = ?3 and gone_at is null";
pub const STATEMENTS: &[&str] = &[BEFORE, MISSING, RELEASE, REMOVE];

/// Marks the records that a page says were removed.
pub fn remove(tx: &Transaction<'_>, page: &LandingPage) -> rusqlite::Result<()> {
    let now = columns::time(page.landing.now);
    let mut remove = tx.prepare_cached(REMOVE)?;
    for id in &page.landing.removed {
        remove.execute((&page.landing.upstream, page.kind(), id, &now))?;
    }
    Ok(())
}

/// Marks what these lists of a pass lost. Returns the number of records.
pub fn mark(
    tx: &Transaction<'_>,
    pass: PassId,
    steps: &[i64],
    now: Timestamp,
) -> rusqlite::Result<u64> {
    let mut missing: Vec<i64> = Vec::new();
    let mut previous = None;
    for step in steps {
        let before: Option<(i64, Option<i64>, Option<String>)> = tx
            .prepare_cached(BEFORE)?
            .query_row((pass.0, step), |row| row.try_into())
            .optional()?;
        let Some((before, Some(step), anew)) = before else {
            continue;
        };
        previous = Some(before);
        let mut lists = vec![(before, step)];
        if let Some(request) = anew {
            lists.append(&mut released(tx, pass, &request)?);
        }
        let mut statement = tx.prepare_cached(MISSING)?;
        for (before, step) in lists {
            for number in statement.query_map((before, step, pass.0), |row| row.get(0))? {
                missing.push(number?);
            }
        }
    }
    if missing.is_empty() {
        return Ok(0);
    }
    // Several passes named the same record.
    missing.sort_unstable();
    missing.dedup();
    let current = current(tx, pass, previous)?;
    let mut mark = tx.prepare_cached(MARK)?;
    let mut gone = 0;
    for number in missing {
        gone += mark.execute((number, columns::time(now), &current))? as u64;
    }
    Ok(gone)
}

/// Returns the passes that named what a list has, with their steps, and releases them.
fn released(
    tx: &Transaction<'_>,
    pass: PassId,
    request: &str,
) -> rusqlite::Result<Vec<(i64, i64)>> {
    let mut release = tx.prepare_cached(RELEASE)?;
    let former = release.query_map((pass.0, request), |row| row.try_into())?;
    former.collect()
}

/// The current passes as JSON. `pass`, which is about to end, replaces `previous`.
fn current(
    connection: &Connection,
    pass: PassId,
    previous: Option<i64>,
) -> rusqlite::Result<String> {
    let mut statement = connection.prepare_cached(CURRENT)?;
    let current = statement.query_map([], |row| row.get::<_, i64>(0))?;
    let mut current = current.collect::<rusqlite::Result<Vec<i64>>>()?;
    current.retain(|id| Some(*id) != previous);
    current.push(pass.0);
    Ok(serde_json::json!(current).to_string())
}
