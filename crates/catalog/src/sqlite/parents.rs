//! The parents of records that were requested by id: the records that named those ids.

use std::collections::HashMap;
use std::sync::{Arc, LazyLock};

use rusqlite::{Connection, Transaction};

use super::{StoreError, recall};
use crate::copy::listing_again;
use crate::listings::{Children, parents_of};
use crate::{PassId, PendingQuery};

const NAMING: &str = "select listing.id from pass
    cross join listing on listing.pass = pass.id
    where pass.job = ?1 and pass.finished_at is null
        and listing.upstream = ?2 and listing.call = ?3 and listing.kind = ?4
    order by pass.started_at, pass.id, listing.step, listing.position";
const CHILDREN: &str = "select position, id, requested, parent from listing
    where pass = ?1 and step = ?2 and requested is not null order by position";
const FIRST: &str =
    "update listing set parent = ?4 where pass = ?1 and step = ?2 and position = ?3";
const LAST_POSITION: &str = "select max(position) from listing where pass = ?1 and step = ?2";
static FURTHER: LazyLock<String> = LazyLock::new(|| {
    let row = "from listing where pass = ?1 and step = ?2 and position = ?3";
    format!("{} {row}", listing_again("?4", "?5"))
});

pub fn statements() -> [&'static str; 5] {
    [NAMING, CHILDREN, FIRST, LAST_POSITION, &FURTHER]
}

/// Writes the parents of what a step of ids returned: one row for each. A further row is no further record, so the pass
/// counts none.
pub fn link(
    tx: &Transaction<'_>,
    pass: PassId,
    step: i64,
    query: &PendingQuery,
) -> Result<(), StoreError> {
    let children = children(tx, pass, step)?;
    if children.is_empty() {
        return Ok(());
    }
    let parents = parents(tx, query)?;
    let mut last: i64 = tx
        .prepare_cached(LAST_POSITION)?
        .query_row((pass.0, step), |row| row.get(0))?;
    for row in children.missing(&parents) {
        if row.is_first {
            let values = (pass.0, step, row.position, row.parent);
            tx.prepare_cached(FIRST)?.execute(values)?;
        } else {
            last = last.saturating_add(1);
            let values = (pass.0, step, row.position, last, row.parent);
            tx.prepare_cached(&FURTHER)?.execute(values)?;
        }
    }
    Ok(())
}

fn children(connection: &Connection, pass: PassId, step: i64) -> rusqlite::Result<Children> {
    let mut statement = connection.prepare_cached(CHILDREN)?;
    let mut rows = statement.query((pass.0, step))?;
    let mut children = Children::default();
    while let Some(row) = rows.next()? {
        children.add(row.get(0)?, row.get(1)?, row.get(2)?, row.get(3)?);
    }
    Ok(children)
}

/// The records that name each id, in the order in which the open passes list them.
fn parents(
    connection: &Connection,
    query: &PendingQuery,
) -> rusqlite::Result<HashMap<Arc<str>, Vec<Arc<str>>>> {
    let mut statement = connection.prepare_cached(NAMING)?;
    let (job, upstream) = (&query.job, &query.upstream);
    let values = (job, upstream, &query.listed_by, &query.listed_kind);
    let naming = query.naming(statement.query_map(values, |row| row.get(0))?)?;
    let named = recall::named_ids(connection, &naming, &query.at)?;
    Ok(parents_of(named))
}
