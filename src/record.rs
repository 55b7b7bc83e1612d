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
