//! `[upstreams.NAME.calls.CALL]`: one metered method of an upstream.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use reqwest::Method;
use serde_json::{Value, json};

use super::body::{Body, CALL_BODY, PARAMS, Params};
use super::declare::{
    AndThen, COST, Leaf, ListOf, Named, OneOrMore, Optional, Or, OwnName, POINTER, Required,
    SCALAR, Shape, TEXT, TRUTH, Table, Type, Words, keys, table,
};
use super::doubt::{DOUBTS, Doubt};
use super::field::{COLUMN, Column, Field, ID, RESPONSE_FIELD, ResponseField};
use super::format::{FORMATS, Format};
use super::headers::HEADERS;
use super::item::{self, Item};
use super::layout::{LAYOUTS, Layout};
use super::names::advice;
use super::paging::{PAGING, Paging};
use super::path::PATH;
use super::{Pointer, Template};
use ingest_quota::{Cost, LimitName, Outage, Units};

keys! {
    /// One metered method of an upstream.
    #[derive(Debug, Clone)]
    pub struct Call {
        /// The name of the call, such as `things.list`.
        name: String = OwnName,
        /// The path below `base_url`, a template, without a query. Omit it for a call that is only charged by hand.
        path: Option<Template> = Optional(PATH, "'things/{region}'"),
        /// The cost of one request, by limit; every page is one request. A plain number is units of the limit `daily`.
        cost: Cost = Required(COST, "1"),
        /// Whether a request may be sent unmetered during an outage of the ledger. If unset, it may if its cost is at most
        /// `ledger.cheap_max`.
        outage: Option<Outage> = Optional(Words(OUTAGES), "'refuse'"),
        /// The HTTP method. With a body the default is `POST`; a `GET` with a body must be written.
        method: Method = Or(METHOD, "'GET'", "'PUT'"),
        /// Headers of this call, besides those of the upstream. Their values are templates.
        headers: BTreeMap<String, Template> = Or(HEADERS, "{}", "{ x-language = '{language}' }"),
        /// Query parameters of every request. Their values are templates; a list repeats a parameter, and a template with `{ids}`
        /// in a list stands for one for each id. A step can override them.
        params: Params = Or(PARAMS, "{}", "{ fields = 'id,title', tag = ['new', 'free'] }"),
        /// The body of every request; `None` without one.
        body: Option<Body> = CALL_BODY,
        /// How the pages of a list follow each other.
        paging as "page": Paging = Or(PAGING, "{ kind = 'none' }", "{ kind = 'token', param = 'pageToken', next = '/nextPageToken' }"),
        /// What a response contains. Omit it for a call that is only charged by hand.
        records: Option<Arc<Records>> = Optional(AndThen(table::<Records>(), |item, records| with_its_fields(item, records).map(Arc::new)), "{ at = '/items', kind = 'thing', id = '/id' }"),
        /// The doubts about its lists that are accepted. A list with a doubt is not complete: its pass ends as `doubtful`. Accept one
        /// only if you know that the list is right.
        trust: Vec<Doubt> = Or(ListOf(DOUBTS, 0), "[]", "['cursor-repeats']"),
        /// Whether requests send the `ETag` of the stored page (`If-None-Match`).
        etag: Etag = Or(Words(ETAGS), "'unused'", "'free'"),
        /// Where a response reports what it cost, by limit: a header, or a JSON pointer into the body. `cost` is then an
        /// estimate.
        settle: BTreeMap<LimitName, ResponseField> = Or(Named(RESPONSE_FIELD, "LIMIT"), "{}", "{ daily = '/cost/actual' }"),
    }
}

pub const CALL: AndThen<Table<Call>, Call> = AndThen(table(), with_its_method);

keys! {
    /// What a response contains.
    #[derive(Debug, Clone, Default, PartialEq, Eq)]
    pub struct Records {
        /// Where the records are: a list of them, or one object, which is one record. Null, there or on the way there, is an
        /// empty list. `*` stands for every element of a list and for every member of an object. If unset, the whole response.
        at: Pointer = Or(POINTER, "''", "'/items'"),
        /// The field in which a record stores the name of the member that it was found under: that of the last `*` in `at` that
        /// matches members. A member that is no object becomes a record with this field and the field `value`.
        key: Option<String> = Optional(TEXT, "'date'"),
        /// The format of the response.
        format: Format = Or(Words(FORMATS), "'json'", "'csv'"),
        /// How the records at `at` are arranged.
        layout: Layout = Or(Words(LAYOUTS), "'objects'", "'columns'"),
        /// The names of the fields with `layout = "rows"`, in the order of the values, where the response does not name them. If
        /// unset, its first row does.
        fields: Vec<String> = Or(ListOf(TEXT, 0), "[]", "['open_time', 'open', 'high']"),
        /// The kind of record. Ids are unique within a kind, and a newer record replaces an older one as a whole: parts of a
        /// record that come in several responses are not merged, so give each part a kind of its own. The view of the kind in
        /// the catalog, if it has columns, is `UPSTREAM_KIND`.
        kind: String = Required(TEXT, "'thing'"),
        /// Where a record has its id: a JSON pointer, or a template such as `{region}` for a value of the request. Several
        /// values are joined by `/`.
        id: Vec<Field> = Required(ID, "'/id'"),
        /// How a record says that it was removed, in a list that names what changed: a place with a value, or a place and its
        /// values. The stored record is marked as gone and keeps its body.
        removed: Option<Removed> = Optional(REMOVED, "{ at = '/status', is = 'cancelled' }"),
        /// Whether the catalog keeps former bodies of a record in its table `record_version`, as long as `keep` keeps records.
        history: bool = Or(TRUTH, "false", "true"),
        /// The text of a record that `ingest search` finds.
        text: Vec<Pointer> = Or(ListOf(POINTER, 0), "[]", "['/title', '/tags/*']"),
        /// The columns of the kind's SQL view, by name: a JSON pointer, a pointer with a type, or a template such as `{region}`,
        /// whose text is stored in the record under the column's name.
        columns: BTreeMap<String, Column> = Or(COLUMNS, "{}", "{ title = '/title', views = { at = '/views', type = 'integer' } }"),
    }
}

impl Call {
    /// Whether it goes ahead when the ledger cannot be reached, where calls of at most `cheap_max` units do.
    #[must_use]
    pub fn outage_policy(&self, cheap_max: Units) -> Outage {
        // By the largest: units of different limits do not add up.
        let by_cost = if self.cost.largest() <= cheap_max {
            Outage::Allow
        } else {
            Outage::Refuse
        };
        self.outage.unwrap_or(by_cost)
    }
}

impl Call {
    /// Whether its lists can leave out records that did not change, so that one that is absent is not gone.
    #[must_use]
    pub fn names_changes(&self) -> bool {
        self.paging.lasting().is_some() || self.names_removed()
    }

    /// Whether its records can say that they were removed.
    #[must_use]
    pub fn names_removed(&self) -> bool {
        let records = self.records.as_ref();
        records.is_some_and(|records| records.removed.is_some())
    }
}

/// How a record says that it was removed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Removed {
    /// The place.
    pub at: Pointer,
    /// The values there; empty: any but null and false.
    pub is: Vec<String>,
}

impl Removed {
    /// Whether a record says so.
    #[must_use]
    pub fn is_said_by(&self, record: &Value) -> bool {
        match self.at.find(record) {
            None | Some(Value::Null | Value::Bool(false)) => false,
            Some(_) if self.is.is_empty() => true,
            Some(_) => self
                .at
                .texts_in(record)
                .iter()
                .any(|text| self.is.contains(text)),
        }
    }
}

keys! {
    struct RemovedKeys {
        /// The place in a record.
        at: Pointer = Required(POINTER, "'/status'"),
        /// The values at that place. If unset, any but null and false.
        is: Option<Vec<String>> = Optional(OneOrMore(SCALAR), "'cancelled'"),
    }
}

/// A pointer, or a table.
const REMOVED: Leaf<Removed> = Leaf {
    read: |item| match item.is_table() {
        true => {
            let RemovedKeys { at, is } = table::<RemovedKeys>().read(item)?;
            Some(Removed {
                at,
                is: is.unwrap_or_default(),
            })
        }
        false => POINTER.read(item).map(|at| Removed { at, is: Vec::new() }),
    },
    shape: || POINTER.shape().or(table::<RemovedKeys>().shape()),
};

const OUTAGES: &[(&str, Outage, &str)] = &[
    (
        "allow",
        Outage::Allow,
        "The request is sent, and counted locally.",
    ),
    ("refuse", Outage::Refuse, "The request is not sent."),
];

/// The method of a request: a word in capitals, so that a typing error such as `Get` is not sent.
const METHOD: Leaf<Method> = Leaf {
    read: |item| {
        let text = item.text()?;
        let in_capitals = text.len() > 2 && text.bytes().all(|letter| letter.is_ascii_uppercase());
        match Method::from_bytes(text.as_bytes()) {
            // CONNECT opens a tunnel: its response is no page.
            Ok(method) if in_capitals && method != Method::CONNECT => Some(method),
            Ok(_) | Err(_) => item.refuse(
                "expected an HTTP method in capitals",
                advice(text, ["GET", "POST", "PUT", "PATCH", "DELETE"]),
            ),
        }
    },
    shape: || {
        let schema =
            json!({ "type": "string", "pattern": "^[A-Z]{3,}$", "not": { "const": "CONNECT" } });
        Shape::scalar("HTTP method", schema)
    },
};

/// Whether requests of a call carry the `ETag` of the stored page. `etag = "…"`
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Etag {
    /// `unused`: they do not, because a response 304 (not modified) costs something, or may.
    #[default]
    Unused,
    /// `free`: they do, because a response 304 costs nothing.
    Free,
}

const ETAGS: &[(&str, Etag, &str)] = &[
    (
        "free",
        Etag::Free,
        "Requests send the `ETag`, because a response 304 (not modified) costs nothing.",
    ),
    ("unused", Etag::Unused, "Requests do not send it."),
];

/// The method that is meant where none is written, and whether it and the etag fit the rest of the call.
fn with_its_method(item: &Item<'_>, mut call: Call) -> Option<Call> {
    let written = item.find(&["method"]);
    if written.is_none() && call.body.is_some() {
        call.method = Method::POST;
    }
    if let (true, Some(method), Some(_)) = (call.method == Method::HEAD, written, &call.records) {
        return method.refuse(
            "the response to HEAD has no body, so it contains no records",
            "write method = \"GET\", or remove `records`",
        );
    }
    match item.find(&["etag"]) {
        Some(etag) if call.method != Method::GET || call.body.is_some() => etag.refuse(
            "`etag` works with GET requests only, and without a body",
            "remove etag",
        ),
        Some(_) | None => Some(call),
    }
}

/// Whether the fields that are named are those of rows, each once.
fn with_its_fields(item: &Item<'_>, records: Records) -> Option<Records> {
    let Some(fields) = item.find(&["fields"]) else {
        return Some(records);
    };
    if records.layout != Layout::Rows {
        return fields.refuse(
            "`fields` names the values of rows, and the layout is another one",
            "add layout = \"rows\"",
        );
    }
    let distinct: BTreeSet<&String> = records.fields.iter().collect();
    match distinct.len() == records.fields.len() {
        true => Some(records),
        false => fields.refuse("two fields have the same name", "name each field once"),
    }
}

const COLUMNS: Leaf<BTreeMap<String, Column>> = Leaf {
    read: columns,
    shape: || {
        let schema = json!({ "type": "object", "additionalProperties": COLUMN.shape().schema });
        Shape {
            label: "table of columns".to_owned(),
            schema,
            ..COLUMN.shape()
        }
        .below(".COLUMN")
    },
};

/// Columns of a view, in whose names SQL does not tell cases apart.
fn columns(item: Item<'_>) -> Option<BTreeMap<String, Column>> {
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
        Some((item.name().to_owned(), COLUMN.read(item)?))
    }))
}
