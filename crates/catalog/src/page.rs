//! A page in the form in which it is stored.

use std::collections::{HashMap, HashSet};
use std::hash::{DefaultHasher, Hash, Hasher};
use std::sync::Arc;

use serde_json::Value;

use super::text::text_of;
use super::{AtKnown, Landing, values, words};
use ingest_base::record::Record;
use ingest_config::Pointer;

/// Whether a page takes much memory. Storing it needs as much again.
pub fn is_large(landing: &Landing) -> bool {
    const LARGE: usize = 1024 * 1024;
    let bodies = landing
        .records
        .iter()
        .map(|record| size_of_text(&record.body));
    bodies.sum::<usize>() > LARGE
}

/// The bytes of a value as JSON, roughly.
fn size_of_text(value: &Value) -> usize {
    match value {
        Value::Null | Value::Bool(_) => 5,
        Value::Number(number) => number.as_str().len(),
        Value::String(text) => text.len() + 3,
        Value::Array(elements) => elements.iter().map(size_of_text).sum(),
        Value::Object(members) => {
            let sizes = members
                .iter()
                .map(|(name, value)| name.len() + 4 + size_of_text(value));
            sizes.sum()
        }
    }
}

/// A page to store, with its records in the form in which they are stored.
pub struct LandingPage {
    pub landing: Arc<Landing>,
    pub step: i64,
    pub rows: Vec<Row>,
}

/// A record as it is stored.
pub struct Row {
    pub id: String,
    pub body: String,
    /// The ids that it names, by the places of [`Landing::names`].
    pub named: Vec<Vec<String>>,
    /// What the full-text index holds of it; `None` for nothing.
    pub text: Option<IndexedText>,
    /// Tells whether the body changed, in a list that can end at what is known. Another release can compute another hash: the list
    /// is then read to its end once.
    pub version: Option<i64>,
}

/// What the full-text index holds of a record.
pub struct IndexedText {
    pub parted: String,
    /// Tells whether the text changed. Another release can compute another hash; the text is then compared.
    pub hash: i64,
}

impl LandingPage {
    pub fn new(landing: Arc<Landing>) -> Self {
        let remembers = landing.at_known != AtKnown::Ignore;
        let row = |record: &Record| Row {
            named: landing
                .names
                .iter()
                .map(|at| at.ids_in(&record.body))
                .collect(),
            ..Row::new(record, &landing.kind.text, remembers)
        };
        Self {
            step: values::integer(landing.step as u64),
            rows: landing.records.iter().map(row).collect(),
            landing,
        }
    }

    /// The page of a simulation, which stores no records.
    pub fn without_records(landing: Arc<Landing>) -> Self {
        Self {
            step: values::integer(landing.step as u64),
            rows: Vec::new(),
            landing,
        }
    }

    /// The kind of its records.
    pub fn kind(&self) -> &str {
        &self.landing.kind.kind
    }

    /// The id with which a record was requested; `None` in a step that lists, and where it can be any of several ids.
    pub fn requested_by<'a>(&'a self, row: &'a Row) -> Option<&'a str> {
        match self.landing.batch.as_ref()?.ids.as_slice() {
            [one] => Some(one),
            several => several.contains(&row.id).then_some(&row.id),
        }
    }

    /// Whether all records have the versions that the passes which tell about the list returned last, by id.
    pub fn is_known(&self, versions: &HashMap<String, i64>) -> bool {
        let is_known =
            |row: &Row| row.version.is_some() && row.version.as_ref() == versions.get(&row.id);
        self.landing.can_stop() && self.rows.iter().all(is_known)
    }

    /// The requested ids, and whether each came.
    pub fn answers(&self) -> impl Iterator<Item = (&str, bool)> {
        let came: HashSet<&str> = self.rows.iter().map(|row| row.id.as_str()).collect();
        let requested = self.landing.requested.iter();
        requested.map(move |id| (id.as_str(), came.contains(id.as_str())))
    }
}

impl Row {
    fn new(record: &Record, text: &[Pointer], remembers: bool) -> Self {
        let body = serde_json::to_string(&record.body);
        let body = body.unwrap_or_else(|_| record.body.to_string());
        Self {
            id: record.id.clone(),
            version: remembers.then(|| hash(&body)),
            body,
            named: Vec::new(),
            text: IndexedText::new(&record.body, text),
        }
    }

    pub fn text_hash(&self) -> Option<i64> {
        self.text.as_ref().map(|text| text.hash)
    }
}

impl IndexedText {
    pub fn new(body: &Value, pointers: &[Pointer]) -> Option<Self> {
        let text = text_of(body, pointers);
        (!text.is_empty()).then(|| Self {
            parted: words::part(&text).into_owned(),
            hash: hash(&text),
        })
    }
}

fn hash(text: &str) -> i64 {
    let mut hasher = DefaultHasher::new();
    text.hash(&mut hasher);
    i64::from_ne_bytes(hasher.finish().to_ne_bytes())
}
