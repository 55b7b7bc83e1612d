//! The text of a record that is searched.

use std::borrow::Cow;

use serde_json::Value;

use ingest_config::Pointer;

/// The marks around a found word of an excerpt. They are removed from the text of records.
pub const MARKS: [char; 2] = ['\u{E000}', '\u{E001}'];

/// The bytes of a record's text that are searched: more than people write, and few enough that a hostile upstream cannot
/// fill the memory with them.
const MOST_TEXT: usize = 64 * 1024;

/// The text of a record, one line for each place, or its first 64 KiB.
pub fn text_of(body: &Value, pointers: &[Pointer]) -> String {
    let mut text = String::new();
    let found = pointers
        .iter()
        .flat_map(|pointer| pointer.find_all(body))
        .filter_map(scalar);
    for (number, more) in found.enumerate() {
        if text.len() >= MOST_TEXT {
            break;
        }
        text.push_str(if number > 0 { "\n" } else { "" });
        text.push_str(beginning(&more, MOST_TEXT.saturating_sub(text.len())));
    }
    if text.is_ascii() {
        text
    } else {
        text.replace(MARKS, "")
    }
}

fn scalar(value: &Value) -> Option<Cow<'_, str>> {
    match value {
        Value::String(text) => Some(Cow::Borrowed(text)),
        Value::Number(number) => Some(Cow::Owned(number.to_string())),
        Value::Bool(truth) => Some(Cow::Owned(truth.to_string())),
        Value::Null | Value::Array(_) | Value::Object(_) => None,
    }
}

/// At most the first `most` bytes of a text, without half a character.
fn beginning(text: &str, most: usize) -> &str {
    (0..=most.min(text.len()))
        .rev()
        .find_map(|end| text.get(..end))
        .unwrap_or_default()
}
