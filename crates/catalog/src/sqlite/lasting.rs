//! The cursors at the ends of lists, with which the next pass begins.

use rusqlite::{Connection, Transaction};

use crate::page::LandingPage;
use crate::{LastingCursor, LastingCursors, PassId};

const OF_PASS: &str =
    "select request, cursor from lasting_cursor where pass = ?1 and cursor is not null";
const STORE: &str =
    "insert into lasting_cursor (pass, step, request, cursor) values (?1, ?2, ?3, ?4)
    on conflict do update set step = excluded.step, cursor = excluded.cursor";
const FORGET: &str = "update lasting_cursor set cursor = null
    where request = ?3 and pass in (select id from pass where job = ?1 and region = ?2)";
const FORGET_OF_ID: &str =
    "update id_since set request = null, cursor = null where job = ?1 and call = ?2 and id = ?3";
pub const STATEMENTS: &[&str] = &[OF_PASS];

pub fn of_passes(connection: &Connection, passes: &[PassId]) -> rusqlite::Result<LastingCursors> {
    let mut statement = connection.prepare_cached(OF_PASS)?;
    let mut known = LastingCursors::new();
    for pass in passes {
        let cursors = statement.query_map([pass.0], |row| {
            Ok(LastingCursor {
                request: row.get(0)?,
                cursor: row.get(1)?,
            })
        })?;
        known.insert(*pass, cursors.collect::<rusqlite::Result<_>>()?);
    }
    Ok(known)
}

/// Stores the cursor of the last page of a list.
pub fn store(tx: &Transaction<'_>, page: &LandingPage, pass: PassId) -> rusqlite::Result<()> {
    let Some(cursor) = &page.landing.lasting else {
        return Ok(());
    };
    tx.prepare_cached(STORE)?
        .execute((pass.0, page.step, &page.landing.request, cursor))
        .map(drop)
}

/// Forgets the cursors of all passes of a region.
pub fn forget(
    tx: &Transaction<'_>,
    job: &str,
    region: &str,
    request: &str,
) -> rusqlite::Result<()> {
    tx.prepare_cached(FORGET)?
        .execute((job, region, request))
        .map(drop)
}

/// Forgets the cursor of an id.
pub fn forget_of_id(tx: &Transaction<'_>, job: &str, call: &str, id: &str) -> rusqlite::Result<()> {
    tx.prepare_cached(FORGET_OF_ID)?
        .execute((job, call, id))
        .map(drop)
}
