//! A request as people see it.

use serde::Serialize;
use serde_json::Value;

/// A request as it is sent, with `(hidden)` in place of its secret.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct ShownRequest {
    pub method: String,
    /// The URL with its query.
    pub url: String,
    /// Name and value of each header.
    pub headers: Vec<(String, String)>,
    /// The body; a form as text.
    pub body: Option<Value>,
}
