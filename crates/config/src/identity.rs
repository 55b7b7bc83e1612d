//! What stored identities are made of: values of the configuration, written out by their keys. A value that is unset is left out, so
//! that a key which is added later changes no stored identity until somebody uses it.

use serde_json::{Map, Value, json};

use super::layout::Layout;
use super::paging::{Lasting, Lead, Paging, Place, Then};
use super::{
    Body, Column, Condition, Doubt, Field, Format, Free, JsonTemplate, Param, Params, Pointer,
    Records, Removed, Rule, StatusMatch, Template, Until, Upstream,
};

/// Removes what is unset from the members of an object.
#[must_use]
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
    #[must_use]
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
    #[must_use]
    pub fn written(&self) -> Value {
        let (kind, param, _) = self.identity();
        let (lead, at) = lead(self.lead());
        let size = self.size();
        set_ones(json!({
            "kind": kind,
            "param": param,
            "lead": lead,
            "at": at,
            "in": matches!(self.place(), Place::Body).then_some("body"),
            "first": self.cursor_text(None).map(|text| text.to_string()),
            "size": size.map(|size| size.size),
            "size_param": size.and_then(|size| size.param.clone()),
            "empty_page_ends": self.empty_page_ends(),
            "total": self.total().map(Pointer::as_str),
            "more": self.more().map(Pointer::as_str),
            "done": self.done().map(Pointer::as_str),
            "lasting": self.lasting().map(Lasting::as_str),
            "lasting_param": self.lasting_param(),
            "then": self.then().map(then),
        }))
    }
}

fn lead(lead: Lead<'_>) -> (&'static str, &str) {
    match lead {
        Lead::Nowhere => ("", ""),
        Lead::Total(at) => ("total", at.as_str()),
        Lead::Pages(at) => ("pages", at.as_str()),
        Lead::Token(at) => ("next", at.as_str()),
        Lead::TokenHeader(name) => ("next_header", name),
        Lead::LastRecord(at) => ("last", at.as_str()),
        Lead::Url(at) => ("next_url", at.as_str()),
        Lead::LinkHeader => ("link", ""),
    }
}

fn then(then: &Then) -> Value {
    let Then { path, params, body } = then;
    set_ones(json!({
        "path": path.as_ref().map(Template::as_str),
        "params": written_params(params),
        "body": body.as_ref().map(Body::written),
    }))
}

/// Parameters as they are configured.
#[must_use]
pub fn written_params(params: &Params) -> Value {
    let written = |param: &Param| match param {
        Param::Once(template) => json!(template.as_str()),
        Param::Repeated(several) => texts(several.iter().map(Template::as_str)),
    };
    let members = params.iter();
    let members = members.map(|(name, param)| (name.clone(), written(param)));
    Value::Object(members.collect())
}

fn texts<'a>(texts: impl Iterator<Item = &'a str>) -> Value {
    texts.map(Value::from).collect()
}

impl Body {
    /// The body as it is configured.
    #[must_use]
    pub fn written(&self) -> Value {
        match self {
            Self::Json(template) => json!({ "json": of_json(template) }),
            Self::Form(fields) => json!({ "form": written_params(fields) }),
        }
    }
}

fn of_json(template: &JsonTemplate) -> Value {
    match template {
        JsonTemplate::Fixed(value) => value.clone(),
        JsonTemplate::Text(text) => json!(text.as_str()),
        JsonTemplate::List(elements) => elements.iter().map(of_json).collect(),
        JsonTemplate::Object(members) => {
            let members = members.iter();
            let members = members.map(|(name, member)| (name.clone(), of_json(member)));
            Value::Object(members.collect::<Map<String, Value>>())
        }
    }
}

impl Records {
    /// How records are read.
    #[must_use]
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
    #[must_use]
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
    #[must_use]
    pub fn written(&self) -> Value {
        let Self {
            status,
            conditions,
            class,
            limit,
            limit_at,
            until,
            pause,
            free,
        } = self;
        let status: Vec<String> = status.iter().map(of_status).collect();
        let conditions: Vec<Value> = conditions.iter().map(of_condition).collect();
        let until = until.as_ref().map(|until| match until {
            Until::EpochHeader(name) => name.as_str(),
            Until::At(at) => at.as_str(),
        });
        set_ones(json!({
            "status": status,
            "if": conditions,
            "class": class.name(),
            "limit": limit,
            "limit_at": limit_at.as_ref().map(Pointer::as_str),
            "until": until,
            "pause_us": pause.map(|pause| pause.as_micros().to_string()),
            "free": match free {
                Free::Nothing => Value::Null,
                Free::Everything => Value::Bool(true),
                Free::Limits(limits) => json!(limits),
            },
        }))
    }
}

fn of_status(status: &StatusMatch) -> String {
    match status {
        StatusMatch::Exactly(code) => code.to_string(),
        StatusMatch::Hundred(hundred) => format!("{hundred}xx"),
    }
}

fn of_condition(condition: &Condition) -> Value {
    match condition {
        Condition::Body { at, is } => json!({ "at": at.as_str(), "is": is }),
        Condition::Text(text) => json!({ "text": text }),
        Condition::Header { name, is } => json!({ "header": name, "is": is }),
    }
}

/// The names of doubts.
#[must_use]
pub fn doubt_names(doubts: &[Doubt]) -> Value {
    texts(doubts.iter().map(|doubt| doubt.name()))
}
