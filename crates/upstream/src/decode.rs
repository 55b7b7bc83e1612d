//! A response body as one JSON document, whatever its format is.
//!
//! The rules, which the manual states:
//! - CSV: the document is a list with one object per row; the first row names its members, and every value is a string.
//! - NDJSON: the document is a list with one value per line.
//! - XML: the document is an object whose only member is the root element. An element with neither attributes nor child
//!   elements becomes its text; any other becomes an object, in which `@name` is an attribute, `name` a child element, and
//!   `#text` the text. Child elements of one name become a list. Namespaces and their prefixes are left out.

use std::collections::HashSet;

use quick_xml::escape::resolve_predefined_entity;
use quick_xml::events::{BytesRef, BytesStart, Event};
use quick_xml::{Reader, XmlVersion};
use serde_json::{Map, Value};
use thiserror::Error;

use super::json;
use super::repeated::{Repeated, TooMuchRepeated};
use ingest_config::Format;

/// Why a body is not of its format.
#[derive(Debug, Error)]
pub enum DecodeError {
    #[error("{0}")]
    Json(serde_json::Error),
    #[error("line {0}: {1}")]
    Line(usize, serde_json::Error),
    #[error("{0}")]
    Csv(csv::Error),
    #[error("it ends within a quoted field, so it is cut")]
    Quoted,
    #[error(
        "in line {0}, a quoted field goes on behind its closing quote: a quote within a quoted field is written twice"
    )]
    Quote(usize),
    #[error("two columns of the first row are named `{0}`")]
    Column(String),
    #[error("an element has the attribute `{0}` twice")]
    Twice(String),
    #[error("{0}")]
    Xml(#[from] quick_xml::Error),
    #[error("a tag contains a `<`")]
    Tag,
    #[error("the element `{0}` is not closed")]
    Unclosed(String),
    #[error("it has no root element, or something beside it")]
    Root,
    #[error("it declares entities, which are not read")]
    Entities,
    #[error("it has the entity `{0}`, which XML does not know")]
    Entity(String),
    #[error("its elements are nested deeper than {DEEPEST} levels")]
    Depth,
    #[error(transparent)]
    Repeat(#[from] TooMuchRepeated),
}

/// Reads a body.
///
/// # Errors
/// The body is not of this format.
pub fn decode(text: &str, format: Format) -> Result<Value, DecodeError> {
    match format {
        Format::Json => json::read(text).map_err(DecodeError::Json),
        Format::Ndjson => lines(text),
        // An API that answers in CSV often reports an error as a JSON object.
        Format::Csv(_) if text.trim_start().starts_with('{') && json::read(text).is_ok() => {
            json::read(text).map_err(DecodeError::Json)
        }
        Format::Csv(delimiter) => rows(text, delimiter),
        Format::Xml => xml(text),
    }
}

/// Whether a text may contain more than `most` values, so that a hostile one is not read at all.
pub fn may_exceed(most: usize, text: &[u8], format: Format) -> bool {
    // A loop for each format, which the compiler then turns into one that takes many bytes at once.
    let starts_of_values = || match format {
        Format::Json => count(text, |byte| matches!(byte, b',' | b'[' | b'{')),
        Format::Ndjson => count(text, |byte| matches!(byte, b',' | b'[' | b'{' | b'\n')),
        Format::Csv(delimiter) => count(text, |byte| {
            byte == delimiter || matches!(byte, b'\n' | b'\r')
        }),
        Format::Xml => count(text, |byte| matches!(byte, b'<' | b'=')),
    };
    text.len() > most && starts_of_values() > most
}

fn count(text: &[u8], is_counted: impl Fn(u8) -> bool) -> usize {
    text.iter().filter(|byte| is_counted(**byte)).count()
}

fn lines(text: &str) -> Result<Value, DecodeError> {
    let lines = text.lines().enumerate();
    let lines = lines.filter(|(_, line)| !line.trim().is_empty());
    let read = |(at, line)| json::read(line).map_err(|error| DecodeError::Line(at + 1, error));
    lines.map(read).collect()
}

/// The names of the columns of a CSV, which its first row has.
pub fn columns(text: &str, delimiter: u8) -> Vec<String> {
    let mut reader = csv::ReaderBuilder::new()
        .delimiter(delimiter)
        .from_reader(text.as_bytes());
    let names = reader
        .headers()
        .map(|names| names.iter().map(str::to_owned).collect());
    names.unwrap_or_default()
}

/// Where a field of a CSV is read.
enum At {
    Begin,
    Plain,
    Quoted,
    /// Behind a closing quote, which another one opens again.
    Closed,
}

/// Checks the quotes of a CSV. Its reader takes the end for the end of a quoted field, and what follows a closing quote for a part of
/// the field: an unquoted text that begins with a quote would take up the rows behind it. Returns whether a quoted field goes over the
/// end of a line.
fn check_quotes(text: &str, delimiter: u8) -> Result<bool, DecodeError> {
    let (mut at, mut line, mut spans_lines) = (At::Begin, 1, false);
    for byte in text.bytes() {
        let ends = byte == delimiter || matches!(byte, b'\n' | b'\r');
        line += usize::from(byte == b'\n');
        spans_lines |= byte == b'\n' && matches!(at, At::Quoted);
        at = match (at, byte) {
            (At::Quoted, b'"') => At::Closed,
            (At::Quoted, _) | (At::Begin | At::Closed, b'"') => At::Quoted,
            (At::Begin | At::Plain | At::Closed, _) if ends => At::Begin,
            (At::Closed, b' ') => At::Closed,
            (At::Closed, _) => return Err(DecodeError::Quote(line)),
            (At::Begin | At::Plain, _) => At::Plain,
        };
    }
    match at {
        At::Quoted => Err(DecodeError::Quoted),
        At::Begin | At::Plain | At::Closed => Ok(spans_lines),
    }
}

/// Whether fields can be quoted. Text that is separated by tabs has no quotes by its definition (IANA), and spreadsheets write it with
/// them: there they are quotes only if each closes in its line.
fn has_quotes(text: &str, delimiter: u8) -> Result<bool, DecodeError> {
    let spans_lines = check_quotes(text, delimiter);
    match delimiter {
        b'\t' => Ok(spans_lines.is_ok_and(|spans_lines| !spans_lines)),
        _ => spans_lines.map(|_| true),
    }
}

fn rows(text: &str, delimiter: u8) -> Result<Value, DecodeError> {
    let mut reader = csv::ReaderBuilder::new()
        .delimiter(delimiter)
        .quoting(has_quotes(text, delimiter)?)
        .from_reader(text.as_bytes());
    let names = reader.headers().map_err(DecodeError::Csv)?.clone();
    let mut seen = HashSet::new();
    if let Some(name) = names.iter().find(|name| !seen.insert(*name)) {
        return Err(DecodeError::Column(name.to_owned()));
    }
    let mut repeated = Repeated::default();
    let row = |row: csv::Result<csv::StringRecord>| {
        let row = row.map_err(DecodeError::Csv)?;
        repeated.add(names.as_slice().len(), 1)?;
        let members = names.iter().zip(row.iter());
        let members = members.map(|(name, value)| (name.to_owned(), value.into()));
        Ok(Value::Object(members.collect()))
    };
    reader.records().map(row).collect()
}

/// The deepest nesting of elements that we read, as `serde_json` limits that of JSON.
pub const DEEPEST: usize = 128;

/// An element whose end was not read yet.
struct Open {
    name: String,
    members: Map<String, Value>,
    text: String,
}

/// Reads an XML document.
fn xml(text: &str) -> Result<Value, DecodeError> {
    let mut reader = Reader::from_str(text);
    reader.config_mut().expand_empty_elements = true;
    let mut open: Vec<Open> = Vec::new();
    let mut document = Map::new();
    loop {
        match reader.read_event()? {
            Event::Start(_) if open.is_empty() && !document.is_empty() => {
                return Err(DecodeError::Root);
            }
            Event::Start(_) if open.len() > DEEPEST => return Err(DecodeError::Depth),
            // A response that was cut and joined again: no name and no value of an attribute contains a `<`.
            Event::Start(tag) if tag.contains('<') => return Err(DecodeError::Tag),
            Event::Start(tag) => open.push(begun(&tag)?),
            Event::End(_) => {
                if let Some(ended) = open.pop() {
                    let outer = open
                        .last_mut()
                        .map_or(&mut document, |outer| &mut outer.members);
                    let (name, value) = ended.done();
                    add(outer, name, value);
                }
            }
            Event::Text(text) => put(open.last_mut(), &text.xml10_content())?,
            Event::CData(text) => put(open.last_mut(), &text.xml10_content())?,
            Event::GeneralRef(name) => put(open.last_mut(), &character(&name)?)?,
            // Many documents name a DTD, which is not read. One that declares entities could grow without bound.
            Event::DocType(dtd) if dtd.contains("<!ENTITY") => return Err(DecodeError::Entities),
            // An empty element comes as its start and its end.
            Event::Empty(_)
            | Event::DocType(_)
            | Event::Comment(_)
            | Event::Decl(_)
            | Event::PI(_) => {}
            Event::Eof => break,
        }
    }
    match open.pop() {
        Some(unclosed) => Err(DecodeError::Unclosed(unclosed.name)),
        None if document.is_empty() => Err(DecodeError::Root),
        None => Ok(Value::Object(document)),
    }
}

/// An element with its attributes.
fn begun(tag: &BytesStart<'_>) -> Result<Open, DecodeError> {
    let mut members = Map::new();
    // Names that occur twice are found below, in time that grows with their number alone.
    for attribute in tag.attributes().with_checks(false) {
        let attribute = attribute.map_err(quick_xml::Error::from)?;
        if attribute.key.as_namespace_binding().is_some() {
            continue;
        }
        let value = attribute.normalized_value(XmlVersion::Implicit1_0)?;
        let name = attribute.key.local_name().as_ref().to_owned();
        if members
            .insert(format!("@{name}"), value.into_owned().into())
            .is_some()
        {
            return Err(DecodeError::Twice(name));
        }
    }
    let name = tag.local_name().as_ref().to_owned();
    Ok(Open {
        name,
        members,
        text: String::new(),
    })
}

/// Adds text to the innermost element; outside of the root is none.
fn put(inner: Option<&mut Open>, text: &str) -> Result<(), DecodeError> {
    match inner {
        Some(element) => element.text.push_str(text),
        None if text.trim().is_empty() => {}
        None => return Err(DecodeError::Root),
    }
    Ok(())
}

fn character(reference: &BytesRef<'_>) -> Result<String, DecodeError> {
    if let Some(character) = reference.resolve_char_ref()? {
        return Ok(character.to_string());
    }
    let known = resolve_predefined_entity(reference);
    known
        .map(str::to_owned)
        .ok_or_else(|| DecodeError::Entity(reference.to_string()))
}

impl Open {
    /// Its name and value.
    fn done(self) -> (String, Value) {
        let Self {
            name,
            mut members,
            text,
        } = self;
        let text = text.trim();
        if members.is_empty() {
            return (name, text.into());
        }
        if !text.is_empty() {
            members.insert("#text".to_owned(), text.into());
        }
        (name, Value::Object(members))
    }
}

/// Adds a child element; several of one name become a list. No element becomes a list in another way.
fn add(members: &mut Map<String, Value>, name: String, child: Value) {
    match members.get_mut(&name) {
        Some(Value::Array(children)) => children.push(child),
        Some(first) => {
            let first_child = first.take();
            *first = Value::Array(vec![first_child, child]);
        }
        None => drop(members.insert(name, child)),
    }
}
