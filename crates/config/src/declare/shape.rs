//! How the schema and the manual describe a type.

use serde_json::{Map, Value, json};

use crate::tree::Node;

/// How the schema and the manual describe a type.
#[derive(Clone)]
pub struct Shape {
    /// The type, as the manual calls it.
    pub label: String,
    pub schema: Value,
    /// The tables within such a value.
    pub parts: Vec<Part>,
    /// The words that are such a value, each with its documentation.
    pub words: Vec<(&'static str, &'static str)>,
}

/// A table within a value.
#[derive(Clone)]
pub struct Part {
    /// Its path below the value, as it is appended to the value's own path.
    pub path: String,
    pub doc: String,
    pub keys: Vec<Key>,
}

/// A declared key.
#[derive(Clone)]
pub struct Key {
    pub name: &'static str,
    pub doc: String,
    pub need: Need,
    pub example: Node,
    pub shape: Shape,
}

/// Whether a key must be present.
#[derive(Clone)]
pub enum Need {
    Required,
    /// Its value where it is absent.
    Default(Node),
    Optional,
}

impl Shape {
    pub fn scalar(label: &str, schema: Value) -> Self {
        Self {
            label: label.to_owned(),
            schema,
            parts: Vec::new(),
            words: Vec::new(),
        }
    }

    pub fn table(keys: Vec<Key>) -> Self {
        Self {
            schema: object(&keys),
            parts: vec![Part {
                path: String::new(),
                doc: String::new(),
                keys,
            }],
            ..Self::scalar("table", Value::Null)
        }
    }

    pub fn words(words: Vec<(&'static str, &'static str)>) -> Self {
        let names: Vec<_> = words.iter().map(|(word, _)| *word).collect();
        let label = match names.as_slice() {
            [only] => format!("`\"{only}\"`"),
            _ => "one of the words below".to_owned(),
        };
        Self {
            words,
            ..Self::scalar(&label, json!({ "enum": names }))
        }
    }

    /// This shape, or another one.
    pub fn or(mut self, other: Self) -> Self {
        self.label = format!("{}, or {}", self.label, other.label);
        self.schema = json!({ "anyOf": [self.schema, other.schema] });
        self.parts.extend(other.parts);
        self.words.extend(other.words);
        self
    }

    /// The same with its tables below a path of their own.
    pub fn below(mut self, path: &str) -> Self {
        for part in &mut self.parts {
            part.path.insert_str(0, path);
        }
        self
    }

    /// A table of values of this shape by names that the file chooses.
    pub fn named(self, name: &str) -> Self {
        Self {
            label: match self.label.as_str() {
                "table" => "tables by name".to_owned(),
                label => format!("table by name of: {label}"),
            },
            schema: json!({
                "type": "object",
                "propertyNames": { "pattern": "^[^{}]{1,200}$" },
                "additionalProperties": self.schema,
            }),
            ..self.below(&format!(".{name}"))
        }
    }

    /// The same with one more condition in the schema.
    pub fn with(mut self, keyword: &str, value: impl Into<Value>) -> Self {
        if let Some(members) = self.schema.as_object_mut() {
            members.insert(keyword.to_owned(), value.into());
        }
        self
    }
}

/// The schema of a table of these keys and no others.
pub fn object(keys: &[Key]) -> Value {
    let properties: Map<String, Value> = keys.iter().map(property).collect();
    let required: Vec<_> = keys
        .iter()
        .filter(|key| matches!(key.need, Need::Required))
        .map(|key| key.name)
        .collect();
    let mut schema =
        json!({ "type": "object", "properties": properties, "additionalProperties": false });
    if let Some(members) = schema.as_object_mut()
        && !required.is_empty()
    {
        members.insert("required".to_owned(), json!(required));
    }
    schema
}

/// A key's entry in the schema.
fn property(key: &Key) -> (String, Value) {
    let mut described = key
        .shape
        .clone()
        .with("description", key.doc.as_str())
        .with("examples", json!([key.example.to_json()]));
    if let Need::Default(default) = &key.need {
        described = described.with("default", default.to_json());
    }
    (key.name.to_owned(), described.schema)
}
