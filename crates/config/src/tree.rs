//! A TOML document with the line of each of its values.

use std::sync::Arc;

use serde_json::Value;
use toml::Spanned;
use toml::de::{DeInteger, DeString, DeTable, DeValue};

/// Where a value was written.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Origin {
    /// In the file, on this line, from 1.
    Line(usize),
    /// In a `--set` of this path.
    Set(Arc<str>),
}

/// A value.
#[derive(Debug, Clone)]
pub struct Node {
    pub origin: Origin,
    pub kind: Kind,
}

/// A value without its origin.
#[derive(Debug, Clone)]
pub enum Kind {
    Text(String),
    Integer(i128),
    /// The number, and the text that it was written as.
    Float(f64, String),
    Bool(bool),
    Date(String),
    List(Vec<Node>),
    Table(Vec<Entry>),
}

/// A key of a table with its value, in the order of the file.
#[derive(Debug, Clone)]
pub struct Entry {
    pub key: String,
    pub node: Node,
}

/// Returns the table or the key of a line, from 1, and the line before it that has the same one; `None` where both are not
/// written alike.
fn first_place(text: &str, line: usize) -> Option<(String, usize)> {
    let is_table = |line: &str| line.trim_start().starts_with('[');
    let name = |line: &str| match is_table(line) {
        true => line
            .split_inclusive(']')
            .next()
            .unwrap_or_default()
            .replace(' ', ""),
        false => line.split('=').next().unwrap_or_default().trim().to_owned(),
    };
    let before: Vec<&str> = text.lines().take(line).collect();
    let (here, before) = before.split_last()?;
    let wanted = name(here);
    for (at, other) in before.iter().enumerate().rev() {
        if is_table(other) == is_table(here) && name(other) == wanted {
            return Some((format!("`{wanted}`"), at + 1));
        }
        if is_table(other) && !is_table(here) {
            return None;
        }
    }
    None
}

/// Why a text is not TOML, and on which line.
#[derive(Debug)]
pub struct SyntaxError {
    pub line: usize,
    pub message: String,
}

impl Node {
    /// Reads a document.
    pub fn parse(text: &str) -> Result<Self, SyntaxError> {
        let lines = Lines::new(text);
        let table = DeTable::parse(text).map_err(|error| {
            let line = lines.at(error.span().map_or(0, |span| span.start));
            let first = (error.message() == "duplicate key").then(|| first_place(text, line));
            let message = match first.flatten() {
                Some((key, first)) => format!("{key} stands on line {first} already; remove one"),
                None => error.message().to_owned(),
            };
            SyntaxError { line, message }
        })?;
        Ok(Self {
            origin: Origin::Line(1),
            kind: Kind::Table(entries(table.get_ref(), &|at| lines.origin(at))),
        })
    }

    /// Reads the value of a `--set`: what is not TOML is text.
    pub fn of_set(value: &str, origin: &Origin) -> Self {
        let kind = match DeValue::parse(value) {
            Ok(value) => kind(value.get_ref(), &|_| origin.clone()),
            Err(_) => Kind::Text(value.to_owned()),
        };
        Self {
            origin: origin.clone(),
            kind,
        }
    }

    pub fn to_json(&self) -> Value {
        match &self.kind {
            Kind::Text(text) | Kind::Date(text) => Value::from(text.as_str()),
            Kind::Integer(number) => i64::try_from(*number).map_or(Value::Null, Value::from),
            Kind::Float(number, _) => Value::from(*number),
            Kind::Bool(truth) => Value::from(*truth),
            Kind::List(nodes) => nodes.iter().map(Self::to_json).collect(),
            Kind::Table(entries) => entries
                .iter()
                .map(|entry| (entry.key.clone(), entry.node.to_json()))
                .collect(),
        }
    }

    /// Replaces the value of a key that a table has.
    pub fn put(&mut self, key: &str, kind: Kind) {
        if let Kind::Table(entries) = &mut self.kind
            && let Some(entry) = entries.iter_mut().find(|entry| entry.key == key)
        {
            entry.node.kind = kind;
        }
    }

    /// The value of a key of a table, or an element of a list by its number.
    pub fn get(&self, key: &str) -> Option<&Self> {
        match &self.kind {
            Kind::Table(entries) => entries
                .iter()
                .find(|entry| entry.key == key)
                .map(|entry| &entry.node),
            Kind::List(nodes) => nodes.get(key.parse::<usize>().ok()?),
            _ => None,
        }
    }
}

/// The offsets at which the lines of a text start.
struct Lines(Vec<usize>);

impl Lines {
    fn new(text: &str) -> Self {
        Self(text.match_indices('\n').map(|(at, _)| at + 1).collect())
    }

    fn at(&self, offset: usize) -> usize {
        self.0.partition_point(|start| *start <= offset) + 1
    }

    fn origin(&self, offset: usize) -> Origin {
        Origin::Line(self.at(offset))
    }
}

type Locate<'a> = &'a dyn Fn(usize) -> Origin;

/// The entries of a table in the order of the file, each with the line of its key.
fn entries(table: &DeTable<'_>, locate: Locate<'_>) -> Vec<Entry> {
    let mut found: Vec<_> = table.iter().collect();
    // The parser sorts by name; jobs and regions count in the order of the file.
    found.sort_by_key(|(key, _)| key.span().start);
    let entry = |(key, value): (&Spanned<DeString<'_>>, &Spanned<DeValue<'_>>)| Entry {
        key: key.get_ref().to_string(),
        node: Node {
            origin: locate(key.span().start),
            kind: kind(value.get_ref(), locate),
        },
    };
    found.into_iter().map(entry).collect()
}

fn kind(value: &DeValue<'_>, locate: Locate<'_>) -> Kind {
    match value {
        DeValue::String(text) => Kind::Text(text.to_string()),
        DeValue::Integer(integer) => Kind::Integer(whole(integer)),
        DeValue::Float(float) => Kind::Float(
            float.as_str().parse().unwrap_or(f64::NAN),
            float.as_str().to_owned(),
        ),
        DeValue::Boolean(truth) => Kind::Bool(*truth),
        DeValue::Datetime(date) => Kind::Date(date.to_string()),
        DeValue::Array(values) => {
            Kind::List(values.iter().map(|value| node(value, locate)).collect())
        }
        DeValue::Table(table) => Kind::Table(entries(table, locate)),
    }
}

fn node(value: &Spanned<DeValue<'_>>, locate: Locate<'_>) -> Node {
    Node {
        origin: locate(value.span().start),
        kind: kind(value.get_ref(), locate),
    }
}

/// A number that does not fit into an `i128` is outside of every range, as is the largest one that fits.
fn whole(integer: &DeInteger<'_>) -> i128 {
    i128::from_str_radix(integer.as_str(), integer.radix()).unwrap_or(i128::MAX)
}
