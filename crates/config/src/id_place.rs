//! Where the records of a step name what a later one requests.

use std::fmt;

use serde_json::Value;

use super::Pointer;

/// The places in a record of an id, and of the values that are sent with it: `{parent:/owner/login}`.
///
/// An id with such values is one text, their list in JSON: two records with one id and other values name two requests.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct IdPlace {
    at: Pointer,
    parent: Vec<Pointer>,
}

impl IdPlace {
    /// Ids at `at`, each with the values at the other places.
    pub const fn new(at: Pointer, parent: Vec<Pointer>) -> Self {
        Self { at, parent }
    }

    /// Where a record has the ids: every value at this place is one.
    pub const fn at(&self) -> &Pointer {
        &self.at
    }

    /// Where it has the values that are sent with an id, one at each place.
    pub fn parent(&self) -> &[Pointer] {
        &self.parent
    }

    /// The ids that a record names. One without a value that is sent with the id names none.
    pub fn ids_in(&self, record: &Value) -> Vec<String> {
        let is_filled = |text: &String| !text.is_empty();
        let ids = self.at.texts_in(record).into_iter().filter(is_filled);
        if self.parent.is_empty() {
            return ids.collect();
        }
        let values = self.parent.iter();
        let values = values.map(|at| at.text_in(record).filter(is_filled));
        match values.collect::<Option<Vec<_>>>() {
            Some(values) => ids.map(|id| joined(id, &values)).collect(),
            None => Vec::new(),
        }
    }
}

/// Ids alone.
impl From<Pointer> for IdPlace {
    fn from(at: Pointer) -> Self {
        Self::new(at, Vec::new())
    }
}

impl fmt::Display for IdPlace {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.at)?;
        self.parent.iter().try_for_each(|at| write!(f, " {at}"))
    }
}

/// An id and the values that are sent with it, as one text.
pub fn joined(id: String, values: &[String]) -> String {
    let all: Vec<String> = std::iter::once(id).chain(values.iter().cloned()).collect();
    Value::from(all).to_string()
}

/// The id and the values of such a text; a text that is none is an id alone.
pub fn parts(id: &str) -> Vec<String> {
    serde_json::from_str(id).unwrap_or_else(|_| vec![id.to_owned()])
}
