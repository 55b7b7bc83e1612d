//! What a pass listed, put together from its rows.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use super::StepListing;

/// A pass's listing, which is read row by row in order.
#[derive(Default)]
pub struct Listings {
    steps: Vec<StepListing>,
    children: HashSet<(usize, Arc<str>)>,
}

impl Listings {
    /// Adds a row. A child, which was requested by an id, has a row for each of its parents and counts once.
    pub fn add(&mut self, step: usize, (call, kind): (&str, &str), id: Arc<str>, is_child: bool) {
        if is_child && !self.children.insert((step, Arc::clone(&id))) {
            return;
        }
        let last = self.steps.last_mut();
        match last.filter(|last| (last.step, &*last.call, &*last.kind) == (step, call, kind)) {
            Some(last) => last.ids.push(id),
            None => self.steps.push(StepListing {
                step,
                call: call.to_owned(),
                kind: kind.to_owned(),
                ids: vec![id],
            }),
        }
    }

    pub fn done(self) -> Vec<StepListing> {
        self.steps
    }
}

/// The children that a step listed, in the order in which they came, each with its position and its known parents.
#[derive(Default)]
pub struct Children {
    children: Vec<(String, Child)>,
    places: HashMap<(String, String), usize>,
}

struct Child {
    position: i64,
    parents: HashSet<Arc<str>>,
}

/// A parent that is not listed yet.
pub struct ParentRow {
    /// The position of the child's first row.
    pub position: i64,
    /// The parent's id.
    pub parent: Arc<str>,
    /// Whether the child has no parent yet, so that its first row takes this one.
    pub is_first: bool,
}

impl Children {
    /// Adds a row of a child: where it is, its id, the id that requested it, and a parent of it.
    pub fn add(&mut self, position: i64, id: String, requested: String, parent: Option<Arc<str>>) {
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

    pub fn is_empty(&self) -> bool {
        self.children.is_empty()
    }

    /// The rows that are missing, where `parents` has the records that name each id.
    pub fn missing(mut self, parents: &HashMap<Arc<str>, Vec<Arc<str>>>) -> Vec<ParentRow> {
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
pub fn parents_of(named: Vec<(Arc<str>, Vec<Arc<str>>)>) -> HashMap<Arc<str>, Vec<Arc<str>>> {
    let mut parents: HashMap<Arc<str>, Vec<Arc<str>>> = HashMap::new();
    for (parent, ids) in named {
        for id in ids {
            parents.entry(id).or_default().push(Arc::clone(&parent));
        }
    }
    parents
}
