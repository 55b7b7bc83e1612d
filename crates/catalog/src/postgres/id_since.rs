//! Where the lists of ids continue: the ends of their last complete lists.

use super::sql::{all_stored, parameters, stored, time};
use super::{PostgresError, Transaction};
use crate::page::LandingPage;
use crate::{IdSince, PassId, rows};

// `offset 0` keeps the lookup of each id apart. Without it, and without statistics of the table, the planner reads all ids of the
// call.
const SINCES: &str = "select known.id, began, greatest, request, cursor
    from unnest($3) with ordinality named (id, place)
    cross join lateral (select * from id_since where job = $1 and call = $2 and id_since.id = named.id offset 0) known
    order by named.place";
const STORE: &str = "insert into id_since (job, call, id, began, greatest, request, cursor)
    select job, $2, $3, $4, $5, $6, $7 from pass where id = $1
    on conflict (job, call, id) do update set began = excluded.began, greatest = excluded.greatest,
        request = excluded.request, cursor = excluded.cursor";

pub async fn id_sinces(
    tx: &Transaction<'_>,
    job: &str,
    call: &str,
    ids: &[String],
) -> Result<Vec<IdSince>, PostgresError> {
    let (job, call) = (stored(job), stored(call));
    let rows = tx
        .query(SINCES, parameters![job, call, all_stored(ids)])
        .await?;
    rows.iter().map(rows::id_since).collect()
}

/// Stores the end of a complete list of an id with its last page, for the job of the pass.
pub async fn store(
    tx: &Transaction<'_>,
    page: &LandingPage,
    pass: PassId,
) -> Result<(), PostgresError> {
    let Some(since) = &page.landing.since else {
        return Ok(());
    };
    let (call, id) = (stored(&page.landing.call), stored(&since.id));
    let greatest = since.greatest.as_deref().map(stored);
    let lasting = since.lasting.as_ref();
    let request = lasting.map(|lasting| stored(&lasting.request));
    let cursor = lasting.map(|lasting| stored(&lasting.cursor));
    let began = time(since.began);
    tx.execute(
        STORE,
        parameters![pass.0, call, id, began, greatest, request, cursor],
    )
    .await
}
