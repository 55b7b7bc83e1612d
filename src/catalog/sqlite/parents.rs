//! The parents of records that were requested by id: the records that named those ids.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use rusqlite::{Connection, Transaction};

use super::{StoreError, recall};
use crate::catalog::{PassId, PendingQuery, RecordIds};

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
const FURTHER: &str =
    "insert into listing (pass, step, position, call, upstream, kind, id, requested, parent)
    select pass, step, ?4, call, upstream, kind, id, requested, ?5 from listing
    where pass = ?1 and step = ?2 and position = ?3";
pub const STATEMENTS: &[&str] = &[NAMING, CHILDREN, FIRST, LAST_POSITION, FURTHER];

/// A record that was returned for a requested id, and what is listed of it.
struct Child {
    position: i64,
    parents: HashSet<Arc<str>>,
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
    for (requested, mut child) in children {
        for parent in parents.get(&*requested).into_iter().flatten() {
            let is_first = child.parents.is_empty();
            if !child.parents.insert(Arc::clone(parent)) {
                continue;
            }
            let row = (pass.0, step, child.position);
            if is_first {
                let values = (row.0, row.1, row.2, parent);
                tx.prepare_cached(FIRST)?.execute(values)?;
            } else {
                last = last.saturating_add(1);
                let values = (row.0, row.1, row.2, last, parent);
                tx.prepare_cached(FURTHER)?.execute(values)?;
            }
        }
    }
    Ok(())
}

/// The children with the ids that requested them, in the order in which they came.
fn children(
    connection: &Connection,
    pass: PassId,
    step: i64,
) -> rusqlite::Result<Vec<(String, Child)>> {
    let mut statement = connection.prepare_cached(CHILDREN)?;
    let mut rows = statement.query((pass.0, step))?;
    let mut children: Vec<(String, Child)> = Vec::new();
    let mut places: HashMap<(String, String), usize> = HashMap::new();
    while let Some(row) = rows.next()? {
        let (id, requested): (String, String) = (row.get(1)?, row.get(2)?);
        let place = *places
            .entry((id, requested.clone()))
            .or_insert(children.len());
        if place == children.len() {
            let (position, parents) = (row.get(0)?, HashSet::new());
            children.push((requested, Child { position, parents }));
        }
        if let Some((_, child)) = children.get_mut(place) {
            child.parents.extend(row.get::<_, Option<Arc<str>>>(3)?);
        }
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
    let mut seen: HashSet<Arc<str>> = HashSet::new();
    let mut ids: Vec<Arc<str>> = Vec::new();
    for id in statement.query_map(values, |row| row.get::<_, Arc<str>>(0))? {
        let id = id?;
        if seen.insert(Arc::clone(&id)) {
            ids.push(id);
        }
    }
    let naming = RecordIds {
        upstream: upstream.clone(),
        kind: query.listed_kind.clone(),
        ids,
    };
    let mut parents: HashMap<Arc<str>, Vec<Arc<str>>> = HashMap::new();
    for (parent, named) in recall::named_ids(connection, &naming, &query.at)? {
        for id in named {
            parents.entry(id).or_default().push(Arc::clone(&parent));
        }
    }
    Ok(parents)
}
