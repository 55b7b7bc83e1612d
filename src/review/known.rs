//! What earlier lists of a call showed.

use std::collections::{BTreeMap, BTreeSet};

use serde::{Deserialize, Serialize};

use ingest_base::fnv::fnv;
use ingest_config::identity::{set_ones, written_params};
use ingest_config::{Body, Call, Template, Upstream};
use ingest_upstream::Page;
use serde_json::json;

/// The most names that are kept. A call whose responses have more has names that are values.
const MOST_NAMES: usize = 100;

/// What earlier lists of a call showed, under its present configuration.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Known {
    /// A hash of the configuration under which they were read.
    pub config: String,
    /// Whether any page named or led to another one.
    pub led_on: bool,
    /// Whether a number or a flag by which a list ended was confirmed by a further page.
    pub told: bool,
    /// The requested size of a page, and the number of records on a full one. They differ where the upstream caps its pages.
    pub full: Option<(u64, u64)>,
    /// The most records of a page that was not full and behind which a further one had none.
    #[serde(default)]
    pub proved: Option<u64>,
    /// The least number of records on a page that led on.
    pub least: Option<u64>,
    /// The keys of `page` whose place responses had, and whether every response did.
    pub places: BTreeMap<String, bool>,
    /// Whether a last page had the place of the next one, as null.
    #[serde(default)]
    pub names_end: bool,
    /// Whether any response had a list.
    #[serde(default)]
    pub has_lists: bool,
    /// The names of members of records: of the first one of each page, without those that the configuration reads as its id or adds.
    #[serde(default)]
    pub members: BTreeSet<String>,
    /// The names of members beside the records, in responses with a list.
    pub names: BTreeSet<String>,
    /// The flags and words beside the records that every response with a list had, by their place.
    #[serde(default)]
    pub values: BTreeMap<String, String>,
    /// The names of members of responses without a list that were empty lists, each joined to one text.
    #[serde(default)]
    pub empty: BTreeSet<String>,
    /// The errors that every response had, by their place; `None` before the first response.
    #[serde(default)]
    pub errors: Option<BTreeMap<String, String>>,
}

impl Known {
    /// Returns a hash of the configuration by which a call is requested and read.
    #[must_use]
    pub fn fingerprint(upstream: &Upstream, call: &Call) -> String {
        let written = set_ones(json!({
            "upstream": upstream.place(),
            "path": call.path.as_ref().map(Template::as_str),
            "method": call.method.as_str(),
            "params": written_params(&call.params),
            "body": call.body.as_ref().map(Body::written),
            "page": call.paging.written(),
            "list": call.records.as_ref().map(|records| records.written_list()),
        }));
        // It is stored, so the hash must be that of every build, which the standard library does not promise.
        format!("{:032x}", fnv(&written.to_string()))
    }

    /// Returns what a stored text says, unless it is of another configuration.
    #[must_use]
    pub fn read(stored: &str, config: &str) -> Option<Self> {
        let known: Self = serde_json::from_str(stored).ok()?;
        (known.config == config).then_some(known)
    }

    /// Adds what another list showed.
    pub fn add(&mut self, other: &Self) {
        self.led_on |= other.led_on;
        self.told |= other.told;
        self.names_end |= other.names_end;
        // The newer one, since an upstream can lower its cap.
        self.full = other.full.or(self.full);
        self.proved = self.proved.max(other.proved);
        self.least = self.least.into_iter().chain(other.least).min();
        for (key, always) in &other.places {
            let known = self.places.entry(key.clone()).or_insert(*always);
            *known &= *always;
        }
        self.add_names(&other.names);
        self.add_members(other.members.iter().cloned());
        self.add_values(other.has_lists, &other.values);
        self.empty.extend(other.empty.iter().cloned());
        if let Some(errors) = &other.errors {
            self.add_errors(errors);
        }
    }

    /// Adds what a response has beside its records.
    pub fn see(&mut self, page: &Page) {
        let beside = &page.unread.beside;
        self.add_errors(&beside.errors);
        if page.lacks_list || page.is_blank || !beside.errors.is_empty() {
            return;
        }
        self.add_names(&page.unread.names);
        self.add_values(true, &beside.values);
    }

    /// Returns what a doubtful list shows: the errors of its responses alone.
    #[must_use]
    pub fn errors_alone(&self) -> Self {
        Self {
            config: self.config.clone(),
            errors: self.errors.clone(),
            ..Self::default()
        }
    }

    fn add_values(&mut self, has_lists: bool, values: &BTreeMap<String, String>) {
        match self.has_lists {
            true if has_lists => self
                .values
                .retain(|place, value| values.get(place) == Some(value)),
            true => {}
            false => values.clone_into(&mut self.values),
        }
        self.has_lists |= has_lists;
    }

    fn add_errors(&mut self, errors: &BTreeMap<String, String>) {
        match &mut self.errors {
            Some(known) => known.retain(|place, said| errors.get(place) == Some(said)),
            None => self.errors = Some(errors.clone()),
        }
    }

    /// Adds the names of a response without a list that was an empty list.
    pub fn add_empty(&mut self, names: &[String]) {
        /// How many are kept, and of how many bytes.
        const MOST: usize = 10;
        const LONGEST: usize = 1_000;
        let form = form(names);
        if self.empty.len() < MOST && form.len() <= LONGEST {
            self.empty.insert(form);
        }
    }

    /// Whether a response without a list and with these names was an empty list once.
    #[must_use]
    pub fn was_empty(&self, names: &[String]) -> bool {
        self.empty.contains(&form(names))
    }

    /// Whether every response had this error.
    #[must_use]
    pub fn always_says(&self, (place, said): (&String, &String)) -> bool {
        let known = self.errors.as_ref();
        known.is_some_and(|known| known.get(place) == Some(said))
    }

    /// Whether a response has a flag or a word that every one with a list had.
    #[must_use]
    pub fn agrees(&self, values: &BTreeMap<String, String>) -> bool {
        let mut values = values.iter();
        values.any(|(place, value)| self.values.get(place) == Some(value))
    }

    /// Whether a response has another flag or word than every one with a list had.
    #[must_use]
    pub fn contradicts(&self, values: &BTreeMap<String, String>) -> bool {
        let mut values = values.iter();
        values.any(|(place, value)| self.values.get(place).is_some_and(|known| known != value))
    }

    /// Adds names of members beside the records, and keeps at most `MOST_NAMES`, the first in alphabetical order.
    pub fn add_names<'a>(&mut self, names: impl IntoIterator<Item = &'a String>) {
        self.names.extend(names.into_iter().cloned());
        while self.names.len() > MOST_NAMES {
            self.names.pop_last();
        }
    }

    /// Adds names of members of records, and keeps at most `MOST_NAMES`.
    pub fn add_members(&mut self, members: impl IntoIterator<Item = String>) {
        self.members.extend(members);
        while self.members.len() > MOST_NAMES {
            self.members.pop_last();
        }
    }

    /// Whether a record had a member of this name, or may have had it.
    #[must_use]
    pub fn may_have(&self, name: &str) -> bool {
        self.members.len() >= MOST_NAMES || self.members.contains(name)
    }

    /// Whether a response with a list had a name, or may have had it.
    #[must_use]
    pub fn may_know(&self, name: &str) -> bool {
        self.names.len() >= MOST_NAMES || self.names.contains(name)
    }

    /// Whether a name is new, where the names are known.
    #[must_use]
    pub fn is_new(&self, name: &str) -> bool {
        // Of a full set, the names that it could not keep would look new.
        !self.names.is_empty() && self.names.len() < MOST_NAMES && !self.names.contains(name)
    }
}

/// The names of members as one text.
fn form(names: &[String]) -> String {
    let names: BTreeSet<&str> = names.iter().map(String::as_str).collect();
    names.into_iter().collect::<Vec<_>>().join(",")
}
