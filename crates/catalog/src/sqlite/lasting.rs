//! Lists of which a pass reads only what is new: the cursors at their ends, with which the next pass begins, and what is known of
//! lists that stop there.

use std::collections::HashMap;

use rusqlite::{Connection, OptionalExtension, Transaction};

use super::columns;
use crate::page::LandingPage;
use crate::rows::known_list;
use crate::values::integer;
use crate::{AtKnown, KnownList, LastingCursor, LastingCursors, PassId};
use ingest_quota::Timestamp;

const OF_PASS: &str =
    "select request, cursor from lasting_cursor where pass = ?1 and cursor is not null";
const STORE: &str =
    "insert into lasting_cursor (pass, step, request, cursor, stopped) values (?1, ?2, ?3, ?4, ?5)
    on conflict do update set step = excluded.step, cursor = excluded.cursor, stopped = excluded.stopped";
/// The version of a record that the last pass returned which tells about the list.
// Names its index, and `cross join` keeps the order: from the newest pass with the record on, until one tells.
const VERSION: &str = "select listing.version from listing indexed by listing_of_record
    cross join lasting_cursor own on own.pass = listing.pass and own.request = ?4 and own.step = listing.step
    cross join pass on pass.id = listing.pass and pass.outcome = 'complete' and pass.cut = 0
        and (pass.job, pass.region) = (select job, region from pass where id = ?5)
    where listing.id = ?1 and listing.kind = ?2 and listing.upstream = ?3
    order by listing.pass desc limit 1";
/// Whether a list has a record that a pass returned which tells about the list.
const MEETS: &str = "select exists (select 1 from listing mine
    cross join listing told indexed by listing_of_record
        on told.id = mine.id and told.kind = mine.kind and told.upstream = mine.upstream and told.pass <> mine.pass
    cross join lasting_cursor own on own.pass = told.pass and own.request = ?3 and own.step = told.step
    cross join pass on pass.id = told.pass and pass.outcome = 'complete' and pass.cut = 0
        and (pass.job, pass.region) = (select job, region from pass where id = ?1)
    where mine.pass = ?1 and mine.step = ?2)";
const KNOWN: &str = "select pass.id, pass.started_at, last.page, last.empty_pages,
        exists (select 1 from lasting_cursor any cross join pass told on told.id = any.pass
            where any.request = own.request and any.stopped is not null and told.job = pass.job and told.region = pass.region
                and told.outcome = 'complete' and told.cut = 0),
        own.step, last.list
    from lasting_cursor own cross join pass on pass.id = own.pass
    cross join checkpoint last on last.pass = own.pass and last.step = own.step and last.page = (
        select max(page) from checkpoint where checkpoint.pass = own.pass and checkpoint.step = own.step)
    where own.request = ?3 and own.stopped = 0 and pass.job = ?1 and pass.region = ?2 and pass.outcome = 'complete'
        and pass.cut = 0 and pass.started_at <= ?4
    order by pass.started_at desc, pass.id desc limit 1";
const FORGET: &str = "update lasting_cursor set cursor = null
    where request = ?3 and pass in (select id from pass where job = ?1 and region = ?2)";
const FORGET_OF_ID: &str =
    "update id_since set request = null, cursor = null where job = ?1 and call = ?2 and id = ?3";
pub const STATEMENTS: &[&str] = &[OF_PASS, VERSION, MEETS, KNOWN];

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

/// Stores the cursor of the last page of a list, or that a list stops at what is known. `is_known`: whether it stopped at this page.
pub fn store(
    tx: &Transaction<'_>,
    page: &LandingPage,
    pass: PassId,
    is_known: bool,
) -> rusqlite::Result<()> {
    let cursor = page.landing.lasting.as_ref();
    let stopped = (page.landing.at_known != AtKnown::Ignore).then_some(is_known);
    if cursor.is_none() && stopped.is_none() {
        return Ok(());
    }
    let request = &page.landing.request;
    tx.prepare_cached(STORE)?
        .execute((pass.0, page.step, request, cursor, stopped))
        .map(drop)
}

/// Whether a page that can end its list has nothing but what is known.
pub fn is_known(tx: &Transaction<'_>, page: &LandingPage, pass: PassId) -> rusqlite::Result<bool> {
    if !page.landing.can_stop() {
        return Ok(false);
    }
    let landing = &page.landing;
    let mut version = tx.prepare_cached(VERSION)?;
    let mut versions = HashMap::new();
    for row in &page.rows {
        let of = (
            &row.id,
            page.kind(),
            &landing.upstream,
            &landing.request,
            pass.0,
        );
        let last: Option<Option<i64>> = version.query_row(of, |row| row.get(0)).optional()?;
        let Some(last) = last.flatten() else {
            return Ok(false);
        };
        versions.insert(row.id.clone(), last);
    }
    Ok(page.is_known(&versions))
}

/// Whether the list of a step has a record that an earlier pass knew.
pub fn meets_known(
    connection: &Connection,
    pass: PassId,
    step: usize,
    request: &str,
) -> rusqlite::Result<bool> {
    let mut meets = connection.prepare_cached(MEETS)?;
    meets.query_row((pass.0, integer(step as u64), request), |row| row.get(0))
}

/// How far lists of a job were read.
pub fn known(
    connection: &Connection,
    job: &str,
    lists: &[(String, String)],
    now: Timestamp,
) -> rusqlite::Result<Vec<Option<KnownList>>> {
    let mut known = connection.prepare_cached(KNOWN)?;
    let mut all = Vec::new();
    for (region, request) in lists {
        let of = (job, region, request, columns::time(now));
        let list = known.query_row(of, |row| known_list(row)).optional()?;
        all.push(list);
    }
    Ok(all)
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
