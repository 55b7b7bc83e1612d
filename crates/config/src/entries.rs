//! The values of a section, each by its name.

use std::collections::BTreeMap;
use std::sync::Arc;

use super::document::Document;
use super::error::Refusal;
use super::names::advice;
use super::values;

/// Values by name, and the names of all in the order of the file, wrong ones included: a reference to one of those is not reported
/// as unknown.
pub struct Entries<T> {
    pub right: BTreeMap<String, Arc<T>>,
    written: Vec<String>,
}

impl<T> Entries<T> {
    /// Reads each value of a table by itself.
    pub fn read(
        document: &Document<'_>,
        path: &[&str],
        read: impl Fn(&[&str]) -> Option<T>,
    ) -> Self {
        if document.find(path).is_some_and(|value| !value.is_table()) {
            document.report(path, &Refusal::no_table());
        }
        let written = document.keys(path);
        let mut right = BTreeMap::new();
        for name in &written {
            let path = [path, &[name.as_str()]].concat();
            if let Err(refusal) = values::name_of(name) {
                document.report(&path, &refusal);
            } else if let Some(value) = read(&path) {
                right.insert(name.clone(), Arc::new(value));
            }
        }
        Self { right, written }
    }

    /// The same names with other values.
    pub fn map<U>(&self, value: impl Fn(&T) -> U) -> Entries<U> {
        let right = self.right.iter();
        let right = right.map(|(name, one)| (name.clone(), Arc::new(value(one))));
        Entries {
            right: right.collect(),
            written: self.written.clone(),
        }
    }

    /// All names, in the order of the file.
    pub fn written(&self) -> &[String] {
        &self.written
    }

    /// The value to which the name at a place refers.
    pub fn named(
        &self,
        name: &str,
        what: &str,
        document: &Document<'_>,
        place: &[&str],
    ) -> Option<Arc<T>> {
        if self.written.iter().any(|written| written == name) {
            return self.right.get(name).cloned();
        }
        let known = self.written.iter().map(String::as_str);
        document.refuse(place, format!("unknown {what}"), advice(name, known));
        None
    }
}
