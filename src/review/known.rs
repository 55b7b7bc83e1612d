//! What earlier lists of a call showed.

use std::collections::{BTreeMap, BTreeSet};

use serde::{Deserialize, Serialize};

use ingest_base::fnv::fnv;
use ingest_config::identity::{set_ones, written_params};
use ingest_config::{Body, Call, Template, Upstream};
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
    /// The names of members beside the records.
    pub names: BTreeSet<String>,
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
        // The newer one, since an upstream can lower its cap.
        self.full = other.full.or(self.full);
        self.proved = self.proved.max(other.proved);
        self.least = self.least.into_iter().chain(other.least).min();
        for (key, always) in &other.places {
            let known = self.places.entry(key.clone()).or_insert(*always);
            *known &= *always;
        }
        self.add_names(&other.names);
    }

    /// Adds names of members beside the records, and keeps at most `MOST_NAMES`, the first in alphabetical order.
    pub fn add_names<'a>(&mut self, names: impl IntoIterator<Item = &'a String>) {
        self.names.extend(names.into_iter().cloned());
        while self.names.len() > MOST_NAMES {
            self.names.pop_last();
        }
    }

    /// Whether a name is new, where the names are known.
    #[must_use]
    pub fn is_new(&self, name: &str) -> bool {
        // Of a full set, the names that it could not keep would look new.
        !self.names.is_empty() && self.names.len() < MOST_NAMES && !self.names.contains(name)
    }
}
