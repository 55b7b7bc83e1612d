//! The leases that this process holds in a database.

use std::collections::HashMap;
use std::collections::hash_map::Entry;

use parking_lot::Mutex;
use uuid::Uuid;

use crate::{PassId, Resource, Term};
use ingest_base::clock::Monotonic;

/// The leases that this process holds.
#[derive(Default)]
pub struct Terms {
    pub held: Mutex<HashMap<Resource, Held>>,
}

/// A lease that this process holds, or is about to take.
#[derive(Clone)]
pub struct Held {
    /// `None` while it is being taken.
    term: Option<Term>,
    /// When the request began by which the database confirmed it last.
    pub confirmed: Monotonic,
    pub is_lost: bool,
    /// The passes whose pages were landed under it.
    passes: Vec<PassId>,
    /// The page that was landed last under it.
    last_landing: Option<Uuid>,
}

impl Held {
    pub const fn new(term: Option<Term>, confirmed: Monotonic) -> Self {
        Self {
            term,
            confirmed,
            is_lost: false,
            passes: Vec::new(),
            last_landing: None,
        }
    }
}

impl Terms {
    /// The term under which this process holds a resource, or held one that it lost; `None` if it did not take it.
    pub fn of(&self, resource: &Resource) -> Option<Term> {
        self.held.lock().get(resource)?.term.clone()
    }

    /// Stores the pass that is walked under a lease.
    pub fn walks(&self, resource: &Resource, pass: PassId) {
        if let Some(held) = self.held.lock().get_mut(resource)
            && !held.passes.contains(&pass)
        {
            held.passes.push(pass);
        }
    }

    /// The resource whose lease this process took to walk a pass; `None` where that is not known.
    pub fn walked_by(&self, pass: PassId) -> Option<Resource> {
        let held = self.held.lock();
        let walked = held.iter().find(|(_, held)| held.passes.contains(&pass));
        walked.map(|(resource, _)| resource.clone())
    }

    /// The page that this process landed last under a term, and that the catalog must have for as long as the term holds.
    pub fn last_landing(&self, term: &Term) -> Option<Uuid> {
        let held = self.held.lock();
        let held = held.get(&term.resource)?;
        held.last_landing
            .filter(|_| held.term.as_ref() == Some(term))
    }

    /// Stores that a page was landed; `None`: that pages may have been deleted.
    pub fn set_last_landing(&self, resource: &Resource, landing: Option<Uuid>) {
        if let Some(held) = self.held.lock().get_mut(resource) {
            held.last_landing = landing;
        }
    }

    /// Reserves a resource for one task of this process. Returns `false` if another one has it.
    pub fn reserve(&self, resource: &Resource) -> bool {
        let mut held = self.held.lock();
        let Entry::Vacant(free) = held.entry(resource.clone()) else {
            return false;
        };
        free.insert(Held::new(None, Monotonic::now()));
        true
    }

    /// Those that are not lost.
    pub fn current(&self) -> Vec<Term> {
        let held = self.held.lock();
        let held = held.values().filter(|held| !held.is_lost);
        held.filter_map(|held| held.term.clone()).collect()
    }

    /// Stores which of these terms the database confirmed; the others are lost.
    pub fn confirm(&self, asked: &[Term], confirmed: &[Resource], began: Monotonic) {
        let mut held = self.held.lock();
        for term in asked {
            let Some(one) = held.get_mut(&term.resource) else {
                continue;
            };
            if one.term.as_ref() != Some(term) {
                continue;
            }
            if confirmed.contains(&term.resource) {
                one.confirmed = began;
            } else {
                one.is_lost = true;
                tracing::warn!(
                    "lost the lease of {}: it expired before the database could renew it",
                    term.resource
                );
            }
        }
    }
}
