//! What holds of JSON. All of it is shown where it does not hold.

use serde_json::Value;

/// Sees that these members have these values.
#[track_caller]
pub fn has(found: &Value, members: &Value) {
    for (name, value) in members.as_object().unwrap() {
        assert_eq!(found[name], *value, "{name} of {found}");
    }
}

/// Sees that a text has this part.
#[track_caller]
pub fn says(text: &Value, part: &str) {
    let found = text.as_str().is_some_and(|text| text.contains(part));
    assert!(found, "{part:?} is not in {text}");
}
