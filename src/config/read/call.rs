//! `[upstreams.X.calls."Y"]`

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use serde_json::{Map, Number, Value};

use super::paging::{empty_pages, paging};
use super::scalars::{cost, pointer, pointers, template, word};
use super::upstream::headers;
use crate::config::item::{self, Item};
use crate::config::section::Section;
use crate::config::tree::Kind;
use crate::config::{Call, Cheaper, Etag, Method, Pointer, Records, Template};
use crate::quota::{LimitName, Outage};

pub const KEYS: [&str; 12] = [
    "path", "cost", "outage", "method", "headers", "params", "body", "page", "records", "etag",
    "settle", "cheaper",
];

pub const CHEAPER_KEYS: [&str; 3] = ["call", "with", "how"];
pub const RECORDS_KEYS: [&str; 5] = ["at", "kind", "id", "text", "columns"];
pub const OUTAGES: [(&str, Outage); 2] = [("allow", Outage::Allow), ("refuse", Outage::Refuse)];
pub const METHODS: [(&str, Method); 2] = [("GET", Method::Get), ("POST", Method::Post)];
pub const ETAGS: [(&str, Etag); 1] = [("free", Etag::Free)];

pub fn call(item: Item<'_>) -> Option<Call> {
    let name = item.name().to_owned();
    let empty_pages = empty_pages(&item);
    let section = item.table(&KEYS)?;
    let cost = section.required("cost", "1, or { LIMIT = UNITS }", cost);
    let outage = section.optional("outage", |item| word(&item, &OUTAGES));
    let method = section.or("method", Method::Get, |item| word(&item, &METHODS));
    let path = section.optional("path", path);
    let headers = section.or("headers", BTreeMap::new(), headers);
    let params = section.or("params", BTreeMap::new(), params);
    let paging = section.or("page", Default::default(), paging);
    let records = section.optional("records", records);
    let settle = section.or("settle", BTreeMap::new(), settle);
    let cheaper = section.optional("cheaper", cheaper);
    params?;
    let method = method?;
    Some(Call {
        name,
        cost: cost?,
        outage: outage?,
        method,
        path: path?,
        headers: headers?,
        body: body_of(&section, method)?,
        paging: paging?,
        empty_pages: empty_pages?,
        records: records?.map(Arc::new),
        etag: etag_of(&section, method)?,
        settle: settle?,
        cheaper: cheaper?,
    })
}

/// What is posted has no earlier answer to compare with.
fn etag_of(section: &Section<'_>, method: Method) -> Option<Etag> {
    section.or("etag", Etag::Unused, |item| match method {
        Method::Get => word(&item, &ETAGS),
        Method::Post => item.refuse("`etag` works with GET requests only", "remove etag"),
    })
}

/// Where an answer tells what it truly cost.
fn settle(item: Item<'_>) -> Option<BTreeMap<LimitName, Pointer>> {
    item::all(
        item.entries()?
            .into_iter()
            .map(|item| Some((item.name().to_owned(), pointer(item)?))),
    )
}

fn cheaper(item: Item<'_>) -> Option<Cheaper> {
    let section = item.table(&CHEAPER_KEYS)?;
    let call = section.required("call", "\"things.list\"", |item| item.filled_text());
    let with = section.optional("with", |item| item.filled_text());
    let how = section.optional("how", |item| item.filled_text());
    Some(Cheaper {
        call: call?,
        with: with?,
        how: how?,
    })
}

/// A path below the base URL. What would lead elsewhere, or into the query, is not part of one.
fn path(item: Item<'_>) -> Option<Template> {
    let text = item.text()?;
    if text.contains(['?', '#']) {
        return item.refuse(
            "expected a path without `?` and `#`",
            "move the query into `params`",
        );
    }
    if text.contains("://") || text.split('/').any(|segment| matches!(segment, "." | "..")) {
        return item.refuse(
            "expected a path below the upstream's base_url",
            "write for example \"things/{region}\"",
        );
    }
    template(item)
}

/// Query parameters by name. Those of a call are merged under those of the steps that use it.
pub fn params(item: Item<'_>) -> Option<BTreeMap<String, Template>> {
    item::all(
        item.entries()?
            .into_iter()
            .map(|item| Some((item.name().to_owned(), template(item)?))),
    )
}

fn body_of(section: &Section<'_>, method: Method) -> Option<Option<Value>> {
    section.optional("body", |item| match (method, item.is_table()) {
        (Method::Get, _) => item.refuse(
            "only a POST request has a body",
            "write method = \"POST\", or remove the body",
        ),
        (Method::Post, false) => item.refuse("expected a table", "write { name = value }"),
        (Method::Post, true) => json(item),
    })
}

/// The body as JSON, in which every text is a template.
fn json(item: Item<'_>) -> Option<Value> {
    match item.kind() {
        Kind::Text(text) => template(item).map(|_| Value::String(text.clone())),
        Kind::Date(date) => Some(Value::String(date.clone())),
        Kind::Bool(truth) => Some(Value::Bool(*truth)),
        Kind::Integer(number) => number_of(&item, i64::try_from(*number).ok().map(Number::from)),
        Kind::Float(number, _) => number_of(&item, Number::from_f64(*number)),
        Kind::List(_) => item::all(item.list()?.into_iter().map(json)).map(Value::Array),
        Kind::Table(_) => {
            let members = item
                .entries()?
                .into_iter()
                .map(|item| Some((item.name().to_owned(), json(item)?)));
            item::all::<_, Map<String, Value>>(members).map(Value::Object)
        }
    }
}

fn number_of(item: &Item<'_>, number: Option<Number>) -> Option<Value> {
    match number {
        Some(number) => Some(Value::Number(number)),
        None => item.refuse(
            "expected a number that JSON can represent",
            "write it in quotes",
        ),
    }
}

fn records(item: Item<'_>) -> Option<Records> {
    let section = item.table(&RECORDS_KEYS)?;
    let at = section.required("at", "\"/items\"", pointer);
    let kind = section.required("kind", "\"thing\"", |item| item.filled_text());
    let id = section.required("id", "\"/id\"", pointers);
    let text = section.or("text", Vec::new(), pointers_or_none);
    let columns = section.or("columns", BTreeMap::new(), columns);
    Some(Records {
        at: at?,
        kind: kind?,
        id: id?,
        text: text?,
        columns: columns?,
    })
}

fn pointers_or_none(item: Item<'_>) -> Option<Vec<Pointer>> {
    item::all(item.list()?.into_iter().map(pointer))
}

/// Columns of a view, in whose names SQL does not tell cases apart.
fn columns(item: Item<'_>) -> Option<BTreeMap<String, Pointer>> {
    let mut seen = BTreeSet::new();
    item::all(item.entries()?.into_iter().map(|item| {
        if item.name().is_empty() || item.name().chars().any(char::is_control) {
            return item.refuse("expected a column's name", "write for example view_count");
        }
        if !seen.insert(item.name().to_ascii_lowercase()) {
            return item.refuse(
                "another column has this name (SQL ignores case)",
                "write another name",
            );
        }
        Some((item.name().to_owned(), pointer(item)?))
    }))
}
