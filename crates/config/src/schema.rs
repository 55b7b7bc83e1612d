//! The JSON schema of `quotas.toml`.

use serde_json::{Value, json};

use super::read;

/// The JSON Schema (draft 2020-12) of `quotas.toml`, for editors, generated from the declarations that the reader uses.
#[must_use]
pub fn schema() -> Value {
    let root = read::shape().with(
        "description",
        "What ingest fetches, from where, and within which quota",
    );
    let mut document = json!({
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": "quotas.toml",
    });
    if let (Some(document), Value::Object(root)) = (document.as_object_mut(), root.schema) {
        document.extend(root);
    }
    document
}
