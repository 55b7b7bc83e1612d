//! The cursors at the ends of lists, with which the next pass begins.

use super::sql::{Columns, Values, parameters, stored};
use super::{PostgresError, Transaction};
use crate::page::LandingPage;
use crate::{LastingCursor, LastingCursors, PassId};

const OF_PASSES: &str =
    "select pass, request, cursor from lasting_cursor where pass = any($1) and cursor is not null";
const STORE: &str =
    "insert into lasting_cursor (pass, step, request, cursor) values ($1, $2, $3, $4)
    on conflict (pass, request) do update set step = excluded.step, cursor = excluded.cursor";
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

/// Stores the cursor of the last page of a list.
pub async fn store(
    tx: &Transaction<'_>,
    page: &LandingPage,
    pass: PassId,
) -> Result<(), PostgresError> {
    let Some(cursor) = &page.landing.lasting else {
        return Ok(());
    };
    let (request, cursor) = (stored(&page.landing.request), stored(cursor));
    tx.execute(STORE, parameters![pass.0, page.step, request, cursor])
        .await
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
