//! The parents of records that were requested by id: the records that named those ids.

use std::collections::HashMap;
use std::sync::{Arc, LazyLock};

use super::copy::listing_again;
use super::listings::{Children, parents_of};
use super::recall::named_ids;
use super::sql::{StoreError, Tx, values};
use super::{PassId, PendingQuery};

const NAMING: &str = "select listing.id from pass {join} listing on listing.pass = pass.id
    where pass.job = ?1 and pass.finished_at is null
        and listing.upstream = ?2 and listing.call = ?3 and listing.kind = ?4
    order by pass.started_at, pass.id, listing.step, listing.position";
const CHILDREN: &str = "select position, id, requested, parent from listing
    where pass = ?1 and step = ?2 and requested is not null order by position";
const FIRST: &str =
    "update listing set parent = ?4 where pass = ?1 and step = ?2 and position = ?3";
const LAST_POSITION: &str =
    "select coalesce(max(position), 0) from listing where pass = ?1 and step = ?2";
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
    tx: &Tx<'_>,
    pass: PassId,
    step: usize,
    query: &PendingQuery,
) -> Result<(), StoreError> {
    tx.hold(pass)?;
    let mut children = Children::default();
    for row in tx.query(CHILDREN, values![pass.0, step])? {
        let parent = row.optional_text(3)?.map(Arc::from);
        children.add(row.integer(0)?, row.text(1)?, row.text(2)?, parent);
    }
    if children.is_empty() {
        return Ok(());
    }
    let parents = parents(tx, query)?;
    let last = tx.first(LAST_POSITION, values![pass.0, step])?;
    let mut last = last.map_or(Ok(0), |row| row.integer(0))?;
    for row in children.missing(&parents) {
        if row.is_first {
            tx.later(FIRST, values![pass.0, step, row.position, &row.parent])?;
        } else {
            last = last.saturating_add(1);
            let further = values![pass.0, step, row.position, last, &row.parent];
            tx.later(&FURTHER, further)?;
        }
    }
    Ok(())
}

/// The records that name each id, in the order in which the open passes list them.
fn parents(
    tx: &Tx<'_>,
    query: &PendingQuery,
) -> Result<HashMap<Arc<str>, Vec<Arc<str>>>, StoreError> {
    let of = values![
        &query.job,
        &query.upstream,
        &query.listed_by,
        &query.listed_kind
    ];
    let naming = tx.query(NAMING, of)?;
    let naming = naming.iter().map(|row| row.text(0).map(Arc::from));
    let naming = query.naming(naming)?;
    Ok(parents_of(named_ids(tx, &naming, &query.at)?))
}
