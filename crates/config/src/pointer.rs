//! JSON pointers (RFC 6901), with `*` for every element or member.

use std::fmt;

use serde_json::{Value, json};
use thiserror::Error;

use super::error::Refusal;
use super::values::{Leaf, leaves, text};

/// A place in a JSON document (RFC 6901), in which a token `*` stands for every element of an array, and for every member of an object that has no member `*`.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Pointer {
    text: String,
    tokens: Vec<String>,
}

/// Why a string is not a JSON pointer.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum PointerError {
    /// It does not start with a slash.
    #[error("a JSON pointer is empty or starts with `/`")]
    NoSlash,
    /// A `~` that is not part of an escape.
    #[error("a JSON pointer escapes `~` as ~0 and `/` as ~1, and contains no other `~`")]
    Escape,
}

impl Pointer {
    /// The whole document.
    pub const ROOT: Self = Self {
        text: String::new(),
        tokens: Vec::new(),
    };

    /// Reads a pointer.
    ///
    /// # Errors
    /// The text is neither empty nor starts with a slash, or a `~` in it is not part of an escape.
    pub fn parse(text: &str) -> Result<Self, PointerError> {
        if !text.is_empty() && !text.starts_with('/') {
            return Err(PointerError::NoSlash);
        }
        if text
            .split('~')
            .skip(1)
            .any(|after| !after.starts_with(['0', '1']))
        {
            return Err(PointerError::Escape);
        }
        let tokens = text
            .split('/')
            .skip(1)
            // In this order, so that `~01` is `~1` and not a slash (RFC 6901, 4).
            .map(|token| token.replace("~1", "/").replace("~0", "~"));
        Ok(Self {
            tokens: tokens.collect(),
            text: text.to_owned(),
        })
    }

    /// The pointer as it was written.
    pub fn as_str(&self) -> &str {
        &self.text
    }

    /// Its tokens, unescaped.
    pub fn tokens(&self) -> &[String] {
        &self.tokens
    }

    /// The first value that it points at.
    pub fn find<'a>(&self, document: &'a Value) -> Option<&'a Value> {
        self.find_all(document).into_iter().next()
    }

    /// Every value that it points at.
    pub fn find_all<'a>(&self, document: &'a Value) -> Vec<&'a Value> {
        self.tokens.iter().fold(vec![document], |found, token| {
            found
                .into_iter()
                .flat_map(|value| step(value, token))
                .collect()
        })
    }

    /// The first value that it points at, as text, if it is a string, a number, a boolean, or an element of XML with a text.
    pub fn text_in(&self, document: &Value) -> Option<String> {
        self.find(document).and_then(scalar)
    }

    /// Whether it points at such a value. Copies nothing: a text can be as large as a response.
    pub fn has_text_in(&self, document: &Value) -> bool {
        let mut found = self.find_all(document).into_iter().map(text_of);
        found.any(|value| value.is_string() || value.is_number() || value.is_boolean())
    }

    /// The texts of all such values that it points at.
    pub fn texts_in(&self, document: &Value) -> Vec<String> {
        self.find_all(document)
            .into_iter()
            .filter_map(scalar)
            .collect()
    }
}

leaves!(Pointer);

impl Leaf for Pointer {
    type Value = Self;

    fn read(raw: Value) -> Result<Self, Refusal> {
        let text = text(raw)?;
        Self::parse(&text).map_err(|error| match error {
            PointerError::NoSlash => {
                let expected = "expected a JSON pointer: empty, or starting with `/`";
                Refusal::new(expected, meant(&text))
            }
            PointerError::Escape => Refusal::new(error, format!("write {:?}", escaped(&text))),
        })
    }

    fn schema() -> Value {
        json!({ "title": "JSON pointer", "type": "string", "pattern": "^(/([^~]|~[01])*)?$" })
    }
}

impl serde::Serialize for Pointer {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(&self.text)
    }
}

impl fmt::Display for Pointer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

fn step<'a>(value: &'a Value, token: &str) -> Vec<&'a Value> {
    match value {
        Value::Array(elements) if token == "*" => elements.iter().collect(),
        Value::Array(elements) => token
            .parse()
            .ok()
            .and_then(|index: usize| elements.get(index))
            .into_iter()
            .collect(),
        Value::Object(members) if token == "*" && !members.contains_key(token) => {
            members.values().collect()
        }
        Value::Object(members) => members.get(token).into_iter().collect(),
        // An element of XML is its text where it has no attributes.
        Value::String(_) if token == TEXT => vec![value],
        _ => Vec::new(),
    }
}

/// The member that is the text of an element of XML with attributes.
const TEXT: &str = "#text";

/// Returns the text of an element of XML that has attributes, and any other value as it is.
pub fn text_of(value: &Value) -> &Value {
    value.get(TEXT).unwrap_or(value)
}

fn scalar(value: &Value) -> Option<String> {
    match text_of(value) {
        Value::String(text) => Some(text.clone()),
        Value::Number(number) => Some(number.to_string()),
        Value::Bool(truth) => Some(truth.to_string()),
        _ => None,
    }
}

/// The pointer that a text without a slash means. A dot leads to a member in a JSONPath such as `$.page.next`, and is a part of
/// the name in an annotation such as `@odata.nextLink` or in quotes.
fn meant(text: &str) -> String {
    let is_path = text.starts_with('$');
    let parts = text.trim_start_matches(['$', '.', '/']).split(['[', ']']);
    let names: Vec<String> = parts.flat_map(members).collect();
    let pointer = escaped(&names.join("/"));
    if is_path || names.len() < 2 || text.contains(['@', '[']) {
        return format!("write \"/{pointer}\"");
    }
    format!(
        "write \"/{pointer}\", or \"/{}\" if that is the name of one member",
        escaped(text)
    )
}

/// The names in a part of a path that has no brackets.
fn members(part: &str) -> Vec<String> {
    let name = part.trim_matches(['\'', '"']);
    if name != part {
        return vec![name.to_owned()];
    }
    let (before, annotation) = part.split_at(part.find('@').unwrap_or(part.len()));
    let mut names: Vec<String> = before.split('.').map(str::to_owned).collect();
    if let Some(last) = names.last_mut() {
        last.push_str(annotation);
    }
    names.retain(|name| !name.is_empty());
    names
}

/// The pointer in which every `~` that escapes nothing is escaped itself.
fn escaped(text: &str) -> String {
    let mut parts = text.split('~');
    let first = parts.next().unwrap_or_default().to_owned();
    parts.fold(first, |done, part| {
        done + if part.starts_with(['0', '1']) {
            "~"
        } else {
            "~0"
        } + part
    })
}
