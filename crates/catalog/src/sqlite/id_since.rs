//! Where the lists of ids continue: the ends of their last complete lists.

use rusqlite::{Connection, OptionalExtension, Transaction};

use super::columns;
use crate::{IdSince, PassId, rows};

const SINCE: &str = "select id, began, greatest, request, cursor from id_since where job = ?1 and call = ?2 and id = ?3";
const STORE: &str = "insert into id_since (job, call, id, began, greatest, request, cursor)
    select job, ?2, ?3, ?4, ?5, ?6, ?7 from pass where id = ?1
    on conflict do update set began = excluded.began, greatest = excluded.greatest,
        request = excluded.request, cursor = excluded.cursor";
pub const STATEMENTS: &[&str] = &[SINCE];

pub fn id_sinces(
    connection: &Connection,
    job: &str,
    call: &str,
    ids: &[String],
) -> rusqlite::Result<Vec<IdSince>> {
    let mut statement = connection.prepare_cached(SINCE)?;
    let mut sinces = Vec::new();
    for id in ids {
        let since = statement.query_row((job, call, id), |row| rows::id_since(row));
        sinces.extend(since.optional()?);
    }
    Ok(sinces)
}

/// Stores the end of a complete list of an id, for the job of the pass.
pub fn store(
    tx: &Transaction<'_>,
    pass: PassId,
    call: &str,
    since: &IdSince,
) -> rusqlite::Result<()> {
    let began = columns::time(since.began);
    tx.prepare_cached(STORE)?
        .execute((
            pass.0,
            call,
            &since.id,
            began,
            &since.greatest,
            since.lasting.as_ref().map(|lasting| &lasting.request),
            since.lasting.as_ref().map(|lasting| &lasting.cursor),
        ))
        .map(drop)
}
