//! What upstreams return and the catalog lands.

use serde_json::Value;

/// One thing that an upstream returned.
#[derive(Debug, Clone, PartialEq)]
pub struct Record {
    /// Its id, within its kind.
    pub id: String,
    /// The whole of it.
    pub body: Value,
}

/// The upstream's name for the state of an answer (its `ETag`), so that it can be asked whether that changed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Tag {
    /// The request that was answered, all of it but the secret.
    pub request: String,
    /// The name.
    pub name: String,
    /// The cursor that led on from there.
    pub next: Option<String>,
}

/// A page that is there already.
#[derive(Debug, Clone, PartialEq)]
pub struct CachedPage {
    /// The tag under which it came.
    pub tag: Tag,
    /// Its records, in their order, each as it was last seen.
    pub records: Vec<Record>,
}
