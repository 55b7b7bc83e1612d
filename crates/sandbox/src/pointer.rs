//! Sets values by pointer.

use serde_json::{Map, Value};

/// A pointer makes no array longer than this.
const LONGEST: usize = 100;

/// Sets the value at these pointer tokens, and creates what leads there. An existing value stays. `*` is the first
/// element.
pub fn set(document: &mut Value, tokens: &[String], value: Value) {
    let Some((token, rest)) = tokens.split_first() else {
        if document.is_null() {
            *document = value;
        }
        return;
    };
    let index = if token == "*" {
        Some(0)
    } else {
        token.parse().ok().filter(|index| *index < LONGEST)
    };
    if document.is_null() {
        *document = if index.is_some() {
            Value::Array(Vec::new())
        } else {
            Value::Object(Map::new())
        };
    }
    match (document, index) {
        (Value::Object(members), _) => {
            set(members.entry(token).or_insert(Value::Null), rest, value)
        }
        (Value::Array(parts), Some(index)) => {
            parts.resize(parts.len().max(index.saturating_add(1)), Value::Null);
            if let Some(part) = parts.get_mut(index) {
                set(part, rest, value);
            }
        }
        _ => {}
    }
}
