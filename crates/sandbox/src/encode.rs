//! Invented records in the format that a call expects.

use std::collections::BTreeSet;
use std::fmt::Write;

use serde_json::{Map, Value};

use super::answer::{Content, Reply};
use ingest_config::{Format, Layout, Records};

/// The same response, whose records are arranged as the configuration expects them.
pub fn arranged(mut reply: Reply, records: &Records) -> Reply {
    if let Content::Json(body) = &mut reply.content
        && let Some(list) = body.pointer_mut(records.at.as_str())
    {
        let objects = || {
            list.as_array()
                .into_iter()
                .flatten()
                .filter_map(Value::as_object)
        };
        let names: BTreeSet<String> = objects().flat_map(Map::keys).cloned().collect();
        let value = |object: &Map<String, Value>, name: &String| {
            object.get(name).cloned().unwrap_or_default()
        };
        let arranged = match records.layout {
            Layout::Objects => return reply,
            Layout::Columns => {
                let column = |name: &String| {
                    let values = objects().map(|object| value(object, name));
                    (name.clone(), values.collect())
                };
                Value::Object(names.iter().map(column).collect())
            }
            Layout::Rows => {
                let names: Vec<String> = match records.fields.is_empty() {
                    true => names.into_iter().collect(),
                    false => records.fields.clone(),
                };
                let row = |object| Value::from_iter(names.iter().map(|name| value(object, name)));
                let first = Value::from_iter(names.iter().cloned());
                let first = Some(first).filter(|_| records.fields.is_empty());
                first.into_iter().chain(objects().map(row)).collect()
            }
        };
        *list = arranged;
    }
    reply
}

/// The same response in a format.
pub fn encoded(reply: Reply, format: Format) -> Reply {
    let Content::Json(body) = &reply.content else {
        return reply;
    };
    let text = match format {
        Format::Json => return reply,
        Format::Ndjson => list(body).map(|value| format!("{value}\n")).collect(),
        Format::Csv(delimiter) => csv(body, delimiter).unwrap_or_default(),
        Format::Xml => xml(body),
    };
    Reply {
        content: Content::Formatted(text, format.media_type()),
        ..reply
    }
}

fn list(body: &Value) -> impl Iterator<Item = &Value> {
    body.as_array().into_iter().flatten()
}

/// Rows with the members of the first record.
fn csv(body: &Value, delimiter: u8) -> Option<String> {
    let mut writer = csv::WriterBuilder::new()
        .delimiter(delimiter)
        .from_writer(Vec::new());
    let names: Vec<&String> = list(body).next()?.as_object()?.keys().collect();
    writer.write_record(&names).ok()?;
    for record in list(body) {
        let values = names.iter().map(|name| text(record.get(name)));
        writer.write_record(values).ok()?;
    }
    String::from_utf8(writer.into_inner().ok()?).ok()
}

fn text(value: Option<&Value>) -> String {
    match value {
        None | Some(Value::Null) => String::new(),
        Some(Value::String(text)) => text.clone(),
        Some(other) => other.to_string(),
    }
}

/// A document of which each member is an element, as the reader's rule has it.
fn xml(body: &Value) -> String {
    let mut text = "<?xml version=\"1.0\" encoding=\"UTF-8\"?>".to_owned();
    match body {
        // Its only member is the root. Any other document needs a root that the configuration does not name.
        Value::Object(members) if members.len() == 1 => elements(&mut text, body),
        other => element(&mut text, "response", other),
    }
    text
}

fn elements(into: &mut String, value: &Value) {
    let members = value.as_object().into_iter().flatten();
    for (name, member) in members.filter(|(name, _)| !name.starts_with('@')) {
        match member {
            _ if name == "#text" => into.push_str(&escaped(&text(Some(member)))),
            Value::Array(several) => several.iter().for_each(|one| element(into, name, one)),
            one => element(into, name, one),
        }
    }
}

fn element(into: &mut String, name: &str, value: &Value) {
    let _ = write!(into, "<{name}");
    // A reader takes an element that has nothing but text for its text.
    if value
        .as_object()
        .is_some_and(|members| members.len() == 1 && members.contains_key("#text"))
    {
        into.push_str(" version=\"1\"");
    }
    for (name, value) in value.as_object().into_iter().flatten() {
        if let Some(attribute) = name.strip_prefix('@') {
            let value = escaped(&text(Some(value))).replace('"', "&quot;");
            let _ = write!(into, " {attribute}=\"{value}\"");
        }
    }
    into.push('>');
    match value {
        Value::Object(_) => elements(into, value),
        other => into.push_str(&escaped(&text(Some(other)))),
    }
    let _ = write!(into, "</{name}>");
}

fn escaped(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;")
}
