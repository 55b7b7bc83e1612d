//! An XML document as JSON: see [`decode`](super::decode) for the rules.

use std::collections::HashSet;

use roxmltree::{Document, Node, ParsingOptions};
use serde_json::{Map, Value};

use super::decode::DecodeError;

/// The deepest nesting of elements that we read, as `serde_json` limits that of JSON.
pub const DEEPEST: usize = 128;
/// The most attributes of an element that we read: the parser compares each one with all others.
pub const MOST_ATTRIBUTES: usize = 1_000;
/// The most prefixes of namespaces that we read: the parser compares the declarations of each element with all others.
pub const MOST_NAMESPACES: usize = 250;

/// Reads a document.
///
/// # Errors
/// It is not well-formed, or exceeds a limit.
pub fn read(text: &str) -> Result<Value, DecodeError> {
    // No value of an attribute contains a `<`.
    let mut tags = text
        .split('<')
        .filter(|tag| !tag.starts_with(['!', '?', '/', ' ']));
    if tags.any(|tag| attributes(tag) > MOST_ATTRIBUTES) {
        return Err(DecodeError::Attributes);
    }
    if prefixes(text).len() > MOST_NAMESPACES {
        return Err(DecodeError::Namespaces);
    }
    // Many documents name a DTD, which is not read. One that declares entities could grow without bound.
    let options = ParsingOptions {
        allow_dtd: !text.contains("<!ENTITY"),
        ..ParsingOptions::default()
    };
    let document = Document::parse_with_options(text, options).map_err(DecodeError::Xml)?;
    let root = document.root_element();
    let mut members = Map::new();
    members.insert(root.tag_name().name().to_owned(), element(root, 0)?);
    Ok(Value::Object(members))
}

/// The number of attributes of a tag whose `<` is left out: the equal signs outside of quotes. What follows a `<` in a comment or in
/// CDATA can look like a tag.
fn attributes(tag: &str) -> usize {
    let (mut quote, mut found) = (None, 0);
    for byte in tag.bytes() {
        match (byte, quote) {
            (_, Some(begun)) => quote = Some(begun).filter(|_| byte != begun),
            (b'"' | b'\'', None) => quote = Some(byte),
            (b'>', None) => break,
            (b'=', None) => found += 1,
            _ => {}
        }
    }
    found
}

/// The prefixes of namespaces that a document declares.
fn prefixes(text: &str) -> HashSet<&str> {
    const DECLARES: &str = "xmlns:";
    let declared = text.split(DECLARES).skip(1);
    declared
        .filter_map(|after| after.split(['=', ' ', '\t', '\r', '\n']).next())
        .collect()
}

fn element(node: Node<'_, '_>, depth: usize) -> Result<Value, DecodeError> {
    if depth > DEEPEST {
        return Err(DecodeError::Depth);
    }
    let texts = node.children().filter(Node::is_text);
    let text: String = texts.filter_map(|child| child.text()).collect();
    let text = text.trim();
    let mut members = Map::new();
    for attribute in node.attributes() {
        let name = format!("@{}", attribute.name());
        if members.insert(name, attribute.value().into()).is_some() {
            return Err(DecodeError::Twice(attribute.name().to_owned()));
        }
    }
    for child in node.children().filter(Node::is_element) {
        add(
            &mut members,
            child.tag_name().name(),
            element(child, depth + 1)?,
        );
    }
    if members.is_empty() {
        return Ok(text.into());
    }
    if !text.is_empty() {
        members.insert("#text".to_owned(), text.into());
    }
    Ok(Value::Object(members))
}

/// Adds a child element; several of one name become a list. No element becomes a list in another way.
fn add(members: &mut Map<String, Value>, name: &str, child: Value) {
    match members.get_mut(name) {
        Some(Value::Array(children)) => children.push(child),
        Some(first) => {
            let first_child = first.take();
            *first = Value::Array(vec![first_child, child]);
        }
        None => drop(members.insert(name.to_owned(), child)),
    }
}
