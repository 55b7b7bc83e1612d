//! The parents of records that were requested by id: the records that named those ids.

use std::collections::{HashMap, HashSet};
use std::sync::{Arc, LazyLock};

use super::sql::{Row, StoreError, Tx, values};
use super::tables::listing_again;
use super::wanted::{self, Named, Naming};
use super::{PassId, PendingQuery};

const CHILDREN: &str = "select position, id, requested, parent from listing
    where pass = ?1 and step = ?2 and requested is not null order by position";
const FIRST: &str =
    "update listing set parent = ?4 where pass = ?1 and step = ?2 and position = ?3";
const LAST_POSITION: &str =
    "select coalesce(max(position), 0) from listing where pass = ?1 and step = ?2";
static FURTHER: LazyLock<String> = LazyLock::new(listing_again);

pub fn statements() -> [&'static str; 4] {
    [CHILDREN, FIRST, LAST_POSITION, &FURTHER]
}

/// Writes the parents of what a step of ids returned: one row for each. A further row is no further record, so the pass
/// counts none.
pub fn link(
    tx: &Tx<'_>,
    pass: PassId,
    step: usize,
    query: &PendingQuery,
) -> Result<(), StoreError> {
    let children = tx.query(CHILDREN, values![pass.0, step])?;
    if children.is_empty() {
        return Ok(());
    }
    let child = |row: &Row| Ok::<_, StoreError>((row.text(1)?, row.text(2)?));
    let mut linked: HashMap<(String, String), HashSet<Arc<str>>> = HashMap::new();
    for row in &children {
        let parents = linked.entry(child(row)?).or_default();
        parents.extend(row.optional_text(3)?.map(Arc::from));
    }
    let parents = parents(tx, query)?;
    let mut last = tx.one(LAST_POSITION, values![pass.0, step], Row::integer)?;
    for row in &children {
        let (position, child) = (row.integer(0)?, child(row)?);
        // All parents of a child are written with its first row.
        let Some(mut linked) = linked.remove(&child) else {
            continue;
        };
        for parent in parents.get(child.1.as_str()).into_iter().flatten() {
            let is_first = linked.is_empty();
            if !linked.insert(Arc::clone(parent)) {
                continue;
            }
            if is_first {
                tx.later(FIRST, values![pass.0, step, position, parent])?;
            } else {
                last = last.saturating_add(1);
                tx.later(&FURTHER, values![pass.0, step, position, last, parent])?;
            }
        }
    }
    Ok(())
}

/// The records that name each id, in the order in which the passes list them.
fn parents(
    tx: &Tx<'_>,
    query: &PendingQuery,
) -> Result<HashMap<Arc<str>, Vec<Arc<str>>>, StoreError> {
    let passes = Naming::of(tx, query)?;
    let mut parents: HashMap<Arc<str>, Vec<Arc<str>>> = HashMap::new();
    for Named { record, id, .. } in wanted::named(tx, &passes, query)? {
        parents.entry(id).or_default().push(record);
    }
    Ok(parents)
}
