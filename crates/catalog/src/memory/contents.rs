//! What a catalog in memory begins with.

use std::borrow::Cow;
use std::collections::HashMap;
use std::sync::Arc;

use foldhash::HashMap as FastMap;

use crate::{NamedIds, PassId, StepListing};
use ingest_quota::Timestamp;

/// Records of one kind of one upstream.
pub type RecordKind = (String, String);

/// Where records of a kind name ids.
pub type Place = (RecordKind, String);

/// A page of a list, by its place among all such pages. In a simulation it travels as one record with this number for an id: what a
/// page costs does not depend on its records.
pub type PageNumber = usize;

/// A map by id. A simulation looks up each id of each region many times, so the hash must be fast.
pub type ById<T> = FastMap<Arc<str>, T>;

/// The records on a page of a list.
#[derive(Debug, Clone)]
pub enum PageRecords {
    /// Those of these ids.
    Listed(Vec<Arc<str>>),
    /// A number of records with unknown ids, which no other page has.
    Invented {
        /// The page's name, with which each of their ids begins.
        name: String,
        count: usize,
    },
}

/// The ids that records name, by the record's own.
type Named = ById<Vec<Arc<str>>>;

/// What lists have, and what of it is in the catalog.
#[derive(Debug, Default)]
pub struct Contents {
    /// The kind of each page, and the records on it.
    pages: Vec<(RecordKind, PageRecords)>,
    /// The pages on which an id is, for the kinds that a step requests by id.
    pages_with: HashMap<RecordKind, ById<Vec<PageNumber>>>,
    /// The ids that a record names, by its kind, the place and its id.
    names: HashMap<Place, Named>,
    /// When ids were fetched before, by kind.
    pub fetched: HashMap<RecordKind, ById<Timestamp>>,
    /// The listings of passes.
    pub listings: HashMap<PassId, Vec<StepListing>>,
}

impl Contents {
    /// Adds pages of records of a kind. Returns their numbers.
    pub fn add_pages(&mut self, kind: &RecordKind, pages: Vec<PageRecords>) -> Vec<PageNumber> {
        let first = self.pages.len();
        let pages = pages.into_iter().map(|records| (kind.clone(), records));
        self.pages.extend(pages);
        (first..self.pages.len()).collect()
    }

    /// Notes on which pages each id of a kind is.
    pub fn find_pages(&mut self, kind: RecordKind) {
        let mut pages: ById<Vec<PageNumber>> = ById::default();
        for (number, (of, records)) in self.pages.iter().enumerate() {
            if let PageRecords::Listed(ids) = records
                && *of == kind
            {
                for id in ids {
                    pages.entry(Arc::clone(id)).or_default().push(number);
                }
            }
        }
        self.pages_with.insert(kind, pages);
    }

    /// Adds what records name at a place. `from`: records of which those that were fetched and are not stored name nothing.
    pub fn add_names(&mut self, place: Place, named: Vec<NamedIds>, from: Vec<Arc<str>>) {
        let fetched = self.fetched.get(&place.0);
        let names = self.names.entry(place).or_default();
        names.extend(named);
        for id in from {
            if fetched.is_some_and(|fetched| fetched.contains_key(&id)) {
                names.entry(id).or_default();
            }
        }
    }

    /// The ids of a kind that a call listed in a pass before.
    pub fn listed(&self, pass: PassId, call: &str, kind: &str) -> impl Iterator<Item = &Arc<str>> {
        let steps = self.listings.get(&pass).into_iter().flatten();
        let is_of = move |step: &&StepListing| step.call == call && step.kind == kind;
        steps.filter(is_of).flat_map(|step| &step.ids)
    }

    /// The pages on which each id of a kind is; `None` where no step requests the kind by id.
    pub fn pages_with(&self, kind: &RecordKind) -> Option<&ById<Vec<PageNumber>>> {
        self.pages_with.get(kind)
    }

    /// How many records a page has.
    pub fn record_count(&self, page: PageNumber) -> usize {
        match self.pages.get(page) {
            Some((_, PageRecords::Listed(ids))) => ids.len(),
            Some((_, PageRecords::Invented { count, .. })) => *count,
            None => 0,
        }
    }

    /// What records of a kind name at a place.
    pub fn names<'w>(&'w self, place: &'w Place) -> Names<'w> {
        Names {
            pages: &self.pages,
            named: self.names.get(place),
            place: &place.1,
        }
    }
}

/// The ids that records of one kind name at one place.
#[derive(Clone, Copy)]
pub struct Names<'w> {
    pages: &'w [(RecordKind, PageRecords)],
    named: Option<&'w Named>,
    place: &'w str,
}

impl<'w> Names<'w> {
    /// Returns the ids that a record names. A record that is not known names one invented id.
    pub fn of(self, id: &str) -> Cow<'w, [Arc<str>]> {
        match self.named.and_then(|named| named.get(id)) {
            Some(named) => Cow::Borrowed(named),
            None => Cow::Owned(vec![[self.place, id].concat().into()]),
        }
    }

    /// Returns the ids that each record on a page names.
    pub fn on(self, page: PageNumber) -> impl Iterator<Item = Cow<'w, [Arc<str>]>> {
        let (listed, name, invented): (&[_], _, _) = match self.pages.get(page) {
            Some((_, PageRecords::Listed(ids))) => (ids, "", 0),
            Some((_, PageRecords::Invented { name, count })) => (&[], name.as_str(), *count),
            None => (&[], "", 0),
        };
        let invented = (0..invented)
            .map(move |nth| Cow::Owned(vec![format!("{}{name}{nth}", self.place).into()]));
        listed.iter().map(move |id| self.of(id)).chain(invented)
    }
}
