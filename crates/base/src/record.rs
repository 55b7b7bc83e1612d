//! Records and pages, as upstreams return them and the catalog stores them.

use serde::{Deserialize, Serialize};
use serde_json::Value;

/// One record of a response.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Record {
    /// The id, unique within the kind.
    pub id: String,
    /// The whole record.
    pub body: Value,
}

/// A doubt about a list: what cannot happen in one that is read correctly.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Doubted {
    /// Its name, as `trust` has it.
    pub doubt: String,
    /// The call that lists.
    pub call: String,
    /// What was seen, and what to do.
    pub text: String,
}

/// The `ETag` of a response, for a conditional request.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Tag {
    /// The request without its secret.
    pub request: String,
    /// The tag.
    pub name: String,
    /// The cursor of the next page.
    pub next: Option<String>,
}

/// A page that was landed before.
#[derive(Debug, Clone, PartialEq)]
pub struct CachedPage {
    pub tag: Tag,
    /// Its records in order, each as it was last seen.
    pub records: Vec<Record>,
}
