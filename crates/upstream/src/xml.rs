//! An XML document as JSON: see [`decode`](super::decode) for the rules.

use quick_xml::escape::resolve_predefined_entity;
use quick_xml::events::{BytesRef, BytesStart, Event};
use quick_xml::{Error, Reader, XmlVersion};
use serde_json::{Map, Value};

use super::decode::DecodeError;

/// The deepest nesting of elements that we read, as `serde_json` limits that of JSON.
pub const DEEPEST: usize = 128;

/// An element whose end was not read yet.
struct Open {
    name: String,
    members: Map<String, Value>,
    text: String,
}

/// Reads a document.
///
/// # Errors
/// It is not well-formed, declares entities, or is nested too deeply.
pub fn read(text: &str) -> Result<Value, DecodeError> {
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
        let attribute = attribute.map_err(Error::from)?;
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
