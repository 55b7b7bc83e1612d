//! What stored identities are made of: values of the configuration, written out by their keys. A value that is unset is left out, so
//! that a key which is added later changes no stored identity until somebody uses it.

use serde::Serialize;
use serde_json::{Value, json};

use super::format::Layout;
use super::paging::{Lasting, Paging, Place};
use super::upstream::{USUAL_BODY, USUAL_VALUES};
use super::{
    Body, Column, Doubt, Field, Format, Params, Pointer, Records, Removed, Rule, Template, Upstream,
};

/// Removes what is unset from the members of an object.
pub fn set_ones(members: Value) -> Value {
    let is_set = |value: &Value| match value {
        Value::Null => false,
        Value::Bool(truth) => *truth,
        Value::Number(_) => true,
        Value::String(text) => !text.is_empty(),
        Value::Array(elements) => !elements.is_empty(),
        Value::Object(members) => !members.is_empty(),
    };
    match members {
        Value::Object(mut members) => {
            members.retain(|_, value| is_set(value));
            Value::Object(members)
        }
        other => other,
    }
}

impl Upstream {
    /// Where it is: its `base_url`. A sandbox serves it on this machine, below its own name, on another port for each run, so the port
    /// of such a URL is not part of the place.
    pub fn place(&self) -> String {
        let mut url = self.base_url.clone();
        let mut path = url.path_segments().into_iter().flatten();
        let is_sandbox = self.is_loopback() && path.next() == Some(&*encoded(&self.name));
        let is_sandbox = is_sandbox && path.all(str::is_empty);
        if is_sandbox && url.set_port(None).is_ok() {
            return url.into();
        }
        url.into()
    }
}

impl Upstream {
    /// The bounds of a response, `max_body` and `max_values`; `None` where both are the usual ones.
    pub fn bounds(&self) -> Option<[u64; 2]> {
        let bounds = [self.max_body, self.max_values];
        (bounds != [USUAL_BODY, USUAL_VALUES]).then_some(bounds)
    }
}

/// A name as the only segment of a path.
fn encoded(name: &str) -> String {
    let mut url = url::Url::parse("http://127.0.0.1").ok();
    if let Some(mut segments) = url.as_mut().and_then(|url| url.path_segments_mut().ok()) {
        segments.push(name);
    }
    let path = url.as_ref().map_or("", url::Url::path);
    path.trim_start_matches('/').to_owned()
}

impl Paging {
    /// How pages follow each other.
    pub fn written(&self) -> Value {
        let (kind, param, _) = self.identity();
        set_ones(json!({
            "kind": kind,
            "param": param,
            "next": self.next,
            "next_header": self.next_header,
            "last": self.last,
            "pages": self.pages,
            "in": matches!(self.place(), Place::Body).then_some("body"),
            "first": self.cursor_text(None).map(|text| text.to_string()),
            "omit_first": self.omit_first,
            "size": self.size,
            "size_param": self.size_param,
            "empty_page_ends": self.empty_page_ends(),
            "total": self.total,
            "more": self.more,
            "done": self.done,
            "lasting": self.lasting.as_ref().map(Lasting::as_str),
            "lasting_param": self.lasting_param,
            "then": self.then.as_deref().map(|then| set_ones(value(then))),
        }))
    }
}

fn value(of: &impl Serialize) -> Value {
    serde_json::to_value(of).unwrap_or_default()
}

/// Parameters as they are configured.
pub fn written_params(params: &Params) -> Value {
    value(params)
}

fn texts<'a>(texts: impl Iterator<Item = &'a str>) -> Value {
    texts.map(Value::from).collect()
}

impl Body {
    /// The body as it is configured.
    pub fn written(&self) -> Value {
        value(self)
    }
}

impl Records {
    /// How records are read.
    pub fn written(&self) -> Value {
        let Self {
            at,
            key,
            format,
            layout,
            fields,
            kind,
            id,
            removed,
            history,
            text,
            columns,
        } = self;
        let columns = columns.iter();
        let columns = columns.map(|(name, column)| (name.clone(), of_column(column)));
        set_ones(json!({
            "at": at.as_str(),
            "key": key,
            "format": of_format(*format),
            "layout": of_layout(*layout),
            "fields": fields,
            "kind": kind,
            "id": texts(id.iter().map(Field::as_str)),
            "removed": removed.as_ref().map(|Removed { at, is }| json!([at.as_str(), is])),
            "history": history,
            "text": texts(text.iter().map(Pointer::as_str)),
            "columns": Value::Object(columns.collect()),
        }))
    }
}

impl Records {
    /// Where a response has the list, and in which form.
    pub fn written_list(&self) -> Value {
        set_ones(json!({
            "at": self.at.as_str(),
            "format": of_format(self.format),
            "layout": of_layout(self.layout),
        }))
    }
}

fn of_format(format: Format) -> Option<String> {
    match format {
        Format::Json => None,
        Format::Ndjson | Format::Xml => Some(format.name().to_owned()),
        Format::Csv(separator) => Some(format!("{} {separator}", format.name())),
    }
}

const fn of_layout(layout: Layout) -> Option<&'static str> {
    match layout {
        Layout::Objects => None,
        Layout::Columns => Some("columns"),
        Layout::Rows => Some("rows"),
    }
}

fn of_column(column: &Column) -> Value {
    let Column { at, kind, template } = column;
    set_ones(json!({
        "at": at.as_str(),
        "type": kind.map(super::ColumnType::name),
        "template": template.as_ref().map(Template::as_str),
    }))
}

impl Rule {
    /// What the rule matches and means.
    pub fn written(&self) -> Value {
        set_ones(value(self))
    }
}

/// The names of doubts.
pub fn doubt_names(doubts: &[Doubt]) -> Value {
    texts(doubts.iter().map(|doubt| doubt.name()))
}
