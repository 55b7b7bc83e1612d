//! Where the lists of ids continue: the ends of their last complete lists.

use super::sql::{StoreError, Tx, values};
use super::{IdSince, PassId, rows};

const SINCE: &str = "select id, began, greatest, request, cursor from id_since
    where job = ?1 and call = ?2 and id = {key}";
const STORE: &str = "insert into id_since (job, call, id, began, greatest, request, cursor)
    select job, ?2, ?3, ?4, ?5, ?6, ?7 from pass where id = ?1
    on conflict (job, call, id) do update set began = excluded.began, greatest = excluded.greatest,
        request = excluded.request, cursor = excluded.cursor";
const FORGET: &str =
    "update id_since set request = null, cursor = null where job = ?1 and call = ?2 and id = ?3";
pub const STATEMENTS: &[&str] = &[SINCE, FORGET];

pub fn id_sinces(
    tx: &Tx<'_>,
    job: &str,
    call: &str,
    ids: &[String],
) -> Result<Vec<IdSince>, StoreError> {
    let rows = tx.each(SINCE, values![job, call], ids)?;
    rows.iter().map(rows::id_since).collect()
}

/// Stores the end of a complete list of an id, for the job of the pass.
pub fn store(tx: &Tx<'_>, pass: PassId, call: &str, since: &IdSince) -> Result<(), StoreError> {
    let lasting = since.lasting.as_ref();
    tx.later(
        STORE,
        values![
            pass.0,
            call,
            &since.id,
            since.began,
            &since.greatest,
            lasting.map(|lasting| &lasting.request),
            lasting.map(|lasting| &lasting.cursor),
        ],
    )
}

/// Forgets the cursor of an id.
pub fn forget(tx: &Tx<'_>, job: &str, call: &str, id: &str) -> Result<(), StoreError> {
    tx.later(FORGET, values![job, call, id])
}
