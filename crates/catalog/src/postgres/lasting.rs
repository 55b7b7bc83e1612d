//! Lists of which a pass reads only what is new: the cursors at their ends, with which the next pass begins, and what is known of
//! lists that stop there.

use super::sql::{Columns, Values, all_stored, parameters, stored, time};
use super::{PostgresError, Transaction};
use crate::page::LandingPage;
use crate::rows::known_list;
use crate::values::integer;
use crate::{AtKnown, KnownList, LastingCursor, LastingCursors, PassId};
use ingest_quota::Timestamp;

const OF_PASSES: &str =
    "select pass, request, cursor from lasting_cursor where pass = any($1) and cursor is not null";
const STORE: &str =
    "insert into lasting_cursor (pass, step, request, cursor, stopped) values ($1, $2, $3, $4, $5)
    on conflict (pass, request) do update set step = excluded.step, cursor = excluded.cursor, stopped = excluded.stopped";
/// Whether a list has a record that a pass returned which tells about the list.
const MEETS: &str = "select exists (select 1 from listing mine
    join listing told on told.id = mine.id and told.kind = mine.kind and told.upstream = mine.upstream and told.pass <> mine.pass
    join lasting_cursor own on own.pass = told.pass and own.request = $3 and own.step = told.step
    join pass on pass.id = told.pass and pass.outcome = 'complete' and not pass.cut
        and (pass.job, pass.region) = (select job, region from pass where id = $1)
    where mine.pass = $1 and mine.step = $2)";
const KNOWN: &str = "select known.*, list.place from unnest($2, $3) with ordinality list (region, request, place)
    cross join lateral (
        select pass.id, pass.started_at, last.page, last.empty_pages,
            exists (select 1 from lasting_cursor any_one join pass told on told.id = any_one.pass
                where any_one.request = own.request and any_one.stopped is not null and told.job = pass.job
                    and told.region = pass.region and told.outcome = 'complete' and not told.cut) can_stop,
            own.step, last.list
        from lasting_cursor own join pass on pass.id = own.pass
        join checkpoint last on last.pass = own.pass and last.step = own.step and last.page = (
            select max(page) from checkpoint where checkpoint.pass = own.pass and checkpoint.step = own.step)
        where own.request = list.request and not own.stopped and pass.job = $1 and pass.region = list.region
            and pass.outcome = 'complete' and not pass.cut and pass.started_at <= $4
        order by pass.started_at desc, pass.id desc limit 1) known";
const FORGET: &str = "update lasting_cursor set cursor = null
    where request = $3 and pass in (select id from pass where job = $1 and region = $2)";
const FORGET_OF_ID: &str =
    "update id_since set request = null, cursor = null where job = $1 and call = $2 and id = $3";

pub async fn of_passes(
    tx: &Transaction<'_>,
    passes: &[PassId],
) -> Result<LastingCursors, PostgresError> {
    let passes: Vec<i64> = passes.iter().map(|pass| pass.0).collect();
    let mut known = LastingCursors::new();
    for row in tx.query(OF_PASSES, parameters![passes]).await? {
        let cursor = LastingCursor {
            request: row.text(1)?,
            cursor: row.text(2)?,
        };
        known.entry(PassId(row.value(0)?)).or_default().push(cursor);
    }
    Ok(known)
}

/// Stores the cursor of the last page of a list, or that a list stops at what is known. `is_known`: whether it stopped at this page.
pub async fn store(
    tx: &Transaction<'_>,
    page: &LandingPage,
    pass: PassId,
    is_known: bool,
) -> Result<(), PostgresError> {
    let cursor = page.landing.lasting.as_deref().map(stored);
    let stopped = (page.landing.at_known != AtKnown::Ignore).then_some(is_known);
    if cursor.is_none() && stopped.is_none() {
        return Ok(());
    }
    let request = stored(&page.landing.request);
    tx.execute(
        STORE,
        parameters![pass.0, page.step, request, cursor, stopped],
    )
    .await
}

/// Whether the list of a step has a record that an earlier pass knew.
pub async fn meets_known(
    tx: &Transaction<'_>,
    pass: PassId,
    step: usize,
    request: &str,
) -> Result<bool, PostgresError> {
    let request = stored(request);
    let rows = tx
        .query(MEETS, parameters![pass.0, integer(step as u64), request])
        .await?;
    rows.first().map_or(Ok(false), |row| row.value(0))
}

/// How far lists of a job were read.
pub async fn known(
    tx: &Transaction<'_>,
    job: &str,
    lists: &[(String, String)],
    now: Timestamp,
) -> Result<Vec<Option<KnownList>>, PostgresError> {
    let regions = all_stored(lists.iter().map(|(region, _)| region));
    let requests = all_stored(lists.iter().map(|(_, request)| request));
    let mut all = vec![None; lists.len()];
    for row in tx
        .query(
            KNOWN,
            parameters![stored(job), regions, requests, time(now)],
        )
        .await?
    {
        let place = row.step(7)?.saturating_sub(1);
        if let Some(list) = all.get_mut(place) {
            *list = Some(known_list(&row)?);
        }
    }
    Ok(all)
}

/// Forgets the cursors of all passes of a region.
pub async fn forget(
    tx: &Transaction<'_>,
    job: &str,
    region: &str,
    request: &str,
) -> Result<(), PostgresError> {
    let (job, region, request) = (stored(job), stored(region), stored(request));
    tx.execute(FORGET, parameters![job, region, request]).await
}

/// Forgets the cursor of an id.
pub async fn forget_of_id(
    tx: &Transaction<'_>,
    job: &str,
    call: &str,
    id: &str,
) -> Result<(), PostgresError> {
    let (job, call, id) = (stored(job), stored(call), stored(id));
    tx.execute(FORGET_OF_ID, parameters![job, call, id]).await
}
