//! The parents of records that were requested by id: the records that named those ids.

use std::collections::{HashMap, HashSet};
use std::sync::{Arc, LazyLock};

use super::recall::named_ids;
use super::sql::{StoreError, Tx, values};
use super::tables::listing_again;
use super::{PassId, PendingQuery, RecordIds};

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
    let mut naming: Vec<Arc<str>> = naming.collect::<Result<_, _>>()?;
    let mut seen: HashSet<Arc<str>> = HashSet::new();
    naming.retain(|id| seen.insert(Arc::clone(id)));
    let naming = RecordIds::new(&query.upstream, &query.listed_kind, &naming);
    Ok(parents_of(named_ids(tx, &naming, &query.at)?))
}

/// The children that a step listed, in the order in which they came, each with its position and its known parents.
#[derive(Default)]
struct Children {
    children: Vec<(String, Child)>,
    places: HashMap<(String, String), usize>,
}

struct Child {
    position: i64,
    parents: HashSet<Arc<str>>,
}

/// A parent that is not listed yet.
struct ParentRow {
    /// The position of the child's first row.
    position: i64,
    /// The parent's id.
    parent: Arc<str>,
    /// Whether the child has no parent yet, so that its first row takes this one.
    is_first: bool,
}

impl Children {
    /// Adds a row of a child: where it is, its id, the id that requested it, and a parent of it.
    fn add(&mut self, position: i64, id: String, requested: String, parent: Option<Arc<str>>) {
        let next = self.children.len();
        let place = *self.places.entry((id, requested.clone())).or_insert(next);
        if place == next {
            let parents = HashSet::new();
            self.children.push((requested, Child { position, parents }));
        }
        if let Some((_, child)) = self.children.get_mut(place) {
            child.parents.extend(parent);
        }
    }

    fn is_empty(&self) -> bool {
        self.children.is_empty()
    }

    /// The rows that are missing, where `parents` has the records that name each id.
    fn missing(mut self, parents: &HashMap<Arc<str>, Vec<Arc<str>>>) -> Vec<ParentRow> {
        let mut rows = Vec::new();
        for (requested, child) in &mut self.children {
            for parent in parents.get(requested.as_str()).into_iter().flatten() {
                let is_first = child.parents.is_empty();
                if child.parents.insert(Arc::clone(parent)) {
                    rows.push(ParentRow {
                        position: child.position,
                        parent: Arc::clone(parent),
                        is_first,
                    });
                }
            }
        }
        rows
    }
}

/// Turns what each record names into the records that name each id, in the same order.
fn parents_of(named: Vec<(Arc<str>, Vec<Arc<str>>)>) -> HashMap<Arc<str>, Vec<Arc<str>>> {
    let mut parents: HashMap<Arc<str>, Vec<Arc<str>>> = HashMap::new();
    for (parent, ids) in named {
        for id in ids {
            parents.entry(id).or_default().push(Arc::clone(&parent));
        }
    }
    parents
}
