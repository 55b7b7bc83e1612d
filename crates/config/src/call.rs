//! `[upstreams.NAME.calls.CALL]`: one metered method of an upstream.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use reqwest::Method;
use schemars::JsonSchema;
use serde::de::{Deserializer, Error};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use super::body::{Body, Graphql, JsonTemplate, Params, beside, only_body};
use super::doubt::Doubt;
use super::error::Refusal;
use super::field::{Column, Field, Id, ResponseField, WrittenColumn};
use super::format::{Format, Layout};
use super::headers::Headers;
use super::names::advice;
use super::paging::Paging;
use super::rules::Rule;
use super::template::Path;
use super::values::{
    As, ByLimit, Either, Filled, Leaf, List, Named, OneOf, OneOrMore, Scalar, SomeUnits, Table,
    Words, described, text,
};
use super::{Pointer, Template, Upstream};
use ingest_quota::{Cost, LimitName, Outage, Units};

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct CallKeys {
    /// The path below `base_url`, without a query. Omit it for a call that is only charged by hand. Example: `path = "things/{region}"`.
    #[serde(default, with = "As::<Option<Path>>")]
    path: Option<Template>,
    /// The cost of one request, by limit; every page is one. Example: `cost = 1`.
    #[serde(with = "As::<ByLimit<SomeUnits>>")]
    cost: Cost,
    /// Whether a request may be sent unmetered during an outage of the ledger. If unset, it may if its cost is at most
    /// `ledger.cheap_max`. Example: `outage = "refuse"`.
    #[serde(default, with = "As::<Option<OneOf<Outage>>>")]
    outage: Option<Outage>,
    /// The HTTP method. If unset, `GET`, or `POST` with a body. Example: `method = "PUT"`.
    #[serde(default, with = "As::<Option<MethodWord>>")]
    method: Option<Method>,
    /// Headers of this call, besides those of the upstream. Their values are templates. Example: `headers = { x-language = "{language}" }`.
    #[serde(default, with = "As::<Headers>")]
    headers: BTreeMap<String, Template>,
    /// Query parameters of every request. Their values are templates; a list repeats a parameter, once for each id where a template in
    /// it has `{ids}`. A step can override them. Example: `params = { fields = "id,title", tag = ["new", "free"] }`.
    #[serde(default)]
    params: Params,
    /// A JSON body, whose strings are templates. `{ number = "{since:%s}" }`, a table with this member alone and a variable in it, is
    /// the number that the template becomes, or null where that is empty, as the cursor of a first page. In a list, an element with
    /// `{ids}` stands for one for each id. Example: `json = { filter = { country = "{region}" }, limit = 100 }`.
    json: Option<JsonTemplate>,
    /// A form as the body (`application/x-www-form-urlencoded`). Its values are templates; a list repeats the field. Example: `form = { country = "{region}", tag = ["new", "free"] }`.
    form: Option<Params>,
    /// A GraphQL request as the body. Example: `graphql = { query = "query ($after: String) { things(after: $after) { id } }", variables = { first = 100 } }`.
    graphql: Option<Table<Graphql>>,
    /// How the pages of a list follow each other. Example: `page = { kind = "token", param = "pageToken", next = "/nextPageToken" }`.
    page: Option<Table<Paging>>,
    /// What a response contains. Omit it for a call that is only charged by hand. Example: `records = { at = "/items", kind = "thing", id = "/id" }`.
    records: Option<Table<Records>>,
    /// The doubts that are accepted. A list with any other is not complete: its pass is `doubtful`. Accept one only if you know that
    /// the list is right. Example: `trust = ["cursor-repeats"]`.
    #[serde(default)]
    trust: Vec<Doubt>,
    /// Whether requests send the `ETag` of the stored page (`If-None-Match`). If unset, no. Example: `etag = "free"`.
    etag: Option<Etag>,
    /// Where a response reports what it cost, by limit. `cost` is then an estimate. Example: `settle = { daily = "/cost/actual" }`.
    #[serde(default, with = "Named::<ResponseField>")]
    settle: BTreeMap<LimitName, ResponseField>,
    /// Rules for the refusals of this call, before those of the upstream. Their keys are those of `upstreams.NAME.errors`. Example:
    /// `errors = [{ status = 404, class = "end" }]`.
    #[serde(default)]
    errors: Vec<Rule>,
}

/// One metered method of an upstream.
#[derive(Debug, Clone, Deserialize)]
#[serde(try_from = "CallKeys")]
pub struct Call {
    /// The name of the call, such as `things.list`.
    pub name: String,
    /// The path below `base_url`; `None` for a call that is only charged by hand.
    pub path: Option<Template>,
    /// The cost of one request.
    pub cost: Cost,
    /// What happens during an outage of the ledger; `None`: its cost decides.
    pub outage: Option<Outage>,
    /// The HTTP method.
    pub method: Method,
    /// Headers of this call, besides those of the upstream.
    pub headers: BTreeMap<String, Template>,
    /// Query parameters of every request.
    pub params: Params,
    /// The body of every request; `None` without one.
    pub body: Option<Body>,
    /// How the pages of a list follow each other.
    pub paging: Paging,
    /// What a response contains; `None` for a call that is only charged by hand.
    pub records: Option<Arc<Records>>,
    /// The doubts about its lists that are accepted.
    pub trust: Vec<Doubt>,
    /// Whether requests send the `ETag` of the stored page.
    pub etag: Etag,
    /// Where a response reports what it cost, by limit.
    pub settle: BTreeMap<LimitName, ResponseField>,
    /// The rules that classify its refusals: its own, and then those of its upstream.
    pub errors: Vec<Rule>,
    /// How many of them are its own.
    pub own_rules: usize,
}

/// What a response contains.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Records {
    /// Where the records are: a list, or an object, which is one record. Null, there or on the way there, is an empty list. `*` stands
    /// for every element and member. If unset, the whole response. Example: `at = "/items"`.
    #[serde(default)]
    pub at: Pointer,
    /// The field in which a record stores the name of the member that it was found under, by the last `*` in `at` that matches
    /// members. A member that is no object becomes a record with this field and the field `value`. Example: `key = "date"`.
    #[serde(default, with = "As::<Option<Filled>>")]
    pub key: Option<String>,
    /// The format of the response. Example: `format = "csv"`.
    #[serde(default, with = "As::<OneOf<Format>>")]
    pub format: Format,
    /// How the records at `at` are arranged. Example: `layout = "columns"`.
    #[serde(default)]
    pub layout: Layout,
    /// The names of the fields with `layout = "rows"`, in their order: of all values of a row, which can lack the last ones. If unset,
    /// the first row has them. Example: `fields =
    /// ["open_time", "open", "high"]`.
    #[serde(default, with = "As::<List<Filled, 0>>")]
    pub fields: Vec<String>,
    /// The kind of record. Ids are unique within a kind, and a newer record replaces an older one as a whole: parts from several
    /// responses are not merged, so give each part a kind of its own. The view of a kind with `columns` is `UPSTREAM_KIND`. Example: `kind = "thing"`.
    #[serde(with = "As::<Filled>")]
    pub kind: String,
    /// Where a record has its id, or a template such as `{region}` for a value of the request. Several are joined by `/`. Example: `id = "/id"`.
    #[serde(with = "As::<Id>")]
    pub id: Vec<Field>,
    /// How a record says that it was removed, in a list of what changed: a place with a value, or a place and its values. The stored
    /// record is marked as gone and keeps its body. Example: `removed = { at = "/status", is = "cancelled" }`.
    pub removed: Option<Removed>,
    /// Whether the table `record_version` keeps former bodies, as long as `keep` keeps records. Example: `history = true`.
    #[serde(default)]
    pub history: bool,
    /// The text of a record that `ingest search` finds. Example: `text = ["/title", "/tags/*"]`.
    #[serde(default)]
    pub text: Vec<Pointer>,
    /// The columns of the kind's SQL view: a JSON pointer, one with a type, or a template such as `{region}`, whose text is stored in
    /// the record under the column's name. Example: `columns = { title = "/title", views = { at = "/views", type = "integer" } }`.
    #[serde(default, with = "Columns")]
    pub columns: BTreeMap<String, Column>,
}

described!(Call: CallKeys);

impl TryFrom<CallKeys> for Call {
    type Error = Refusal;

    fn try_from(keys: CallKeys) -> Result<Self, Refusal> {
        let body = only_body(keys.json, keys.form, keys.graphql)?;
        let paging = keys
            .page
            .map_or(Ok(Paging::default()), |Table(page)| page.checked());
        let paging = paging.map_err(|refusal| refusal.below("page"))?;
        let records = keys
            .records
            .map(|Table(records)| records.checked().map(Arc::new))
            .transpose();
        let records = records.map_err(|refusal| refusal.below("records"))?;
        if keys.method == Some(Method::HEAD) && records.is_some() {
            let refusal = Refusal::new(
                "the response to HEAD has no body, so it contains no records",
                "write method = \"GET\", or remove `records`",
            );
            return Err(refusal.below("method"));
        }
        let usual = match body {
            Some(_) => Method::POST,
            None => Method::GET,
        };
        let method = keys.method.unwrap_or(usual);
        if keys.etag.is_some() && (method != Method::GET || body.is_some()) {
            let refusal = Refusal::new(
                "`etag` works with GET requests only, and without a body",
                "remove etag",
            );
            return Err(refusal.below("etag"));
        }
        Ok(Self {
            name: String::new(),
            path: keys.path,
            cost: keys.cost,
            outage: keys.outage,
            method,
            headers: keys.headers,
            params: keys.params,
            body,
            paging,
            records,
            trust: keys.trust,
            etag: keys.etag.unwrap_or_default(),
            settle: keys.settle,
            own_rules: keys.errors.len(),
            errors: keys.errors,
        })
    }
}

impl Records {
    /// The templates of its ids and columns.
    pub fn templates(&self) -> impl Iterator<Item = &Template> {
        let ids = self.id.iter().filter_map(|field| match field {
            Field::Template(template) => Some(template),
            Field::At(_) => None,
        });
        let columns = self.columns.values();
        ids.chain(columns.filter_map(|column| column.template.as_ref()))
    }

    /// Whether the fields that are named are those of rows, each once.
    fn checked(self) -> Result<Self, Refusal> {
        let distinct: BTreeSet<&String> = self.fields.iter().collect();
        let refusal = match distinct.len() == self.fields.len() {
            _ if self.fields.is_empty() => return Ok(self),
            _ if self.layout != Layout::Rows => Refusal::new(
                "`fields` names the values of rows, and the layout is another one",
                "add layout = \"rows\"",
            ),
            true => return Ok(self),
            false => Refusal::new("two fields have the same name", "name each field once"),
        };
        Err(refusal.below("fields"))
    }
}

impl Call {
    /// The call by its name, with what its upstream says of all calls.
    #[must_use]
    pub fn within(mut self, name: &str, upstream: &Upstream) -> Self {
        name.clone_into(&mut self.name);
        self.errors.extend(upstream.errors.iter().cloned());
        self.params = beside(&upstream.params, self.params);
        self.paging = self.paging.with_params(&upstream.params);
        self
    }

    /// The rules that only this call has.
    pub fn own_errors(&self) -> &[Rule] {
        self.errors.get(..self.own_rules).unwrap_or_default()
    }

    /// Whether it goes ahead when the ledger cannot be reached, where calls of at most `cheap_max` units do.
    pub fn outage_policy(&self, cheap_max: Units) -> Outage {
        self.outage
            .unwrap_or_else(|| outage_by_cost(&self.cost, cheap_max))
    }
}

/// Whether a charge of this cost goes ahead when the ledger cannot be reached, where charges of at most `cheap_max` units do.
pub fn outage_by_cost(cost: &Cost, cheap_max: Units) -> Outage {
    // By the largest: units of different limits do not add up.
    match cost.largest() <= cheap_max {
        true => Outage::Allow,
        false => Outage::Refuse,
    }
}

impl Call {
    /// Whether its lists can leave out records that did not change, so that one that is absent is not gone.
    pub fn names_changes(&self) -> bool {
        self.paging.lasting.is_some() || self.names_removed()
    }

    /// Whether its records can say that they were removed.
    pub fn names_removed(&self) -> bool {
        let records = self.records.as_ref();
        records.is_some_and(|records| records.removed.is_some())
    }
}

/// How a record says that it was removed.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(from = "Either<Pointer, RemovedKeys>")]
pub struct Removed {
    /// The place.
    pub at: Pointer,
    /// The values there; empty: any but null, false, 0, an empty text or list, and these as text.
    pub is: Vec<String>,
}

impl Removed {
    /// Whether a record says so.
    pub fn is_said_by(&self, record: &Value) -> bool {
        match self.at.find(record) {
            None | Some(Value::Null | Value::Bool(false)) => false,
            Some(value) if self.is.is_empty() => !says_no(value),
            Some(_) => self
                .at
                .texts_in(record)
                .iter()
                .any(|text| self.is.contains(text)),
        }
    }
}

/// Whether a value says no. An empty object does not: some upstreams mark a removed record with one.
fn says_no(value: &Value) -> bool {
    match value {
        Value::Null | Value::Bool(false) => true,
        Value::Bool(true) | Value::Object(_) => false,
        Value::Number(number) => number.as_f64() == Some(0.0),
        Value::String(text) => {
            ["", "0", "false"].contains(&text.trim().to_ascii_lowercase().as_str())
        }
        Value::Array(elements) => elements.is_empty(),
    }
}

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct RemovedKeys {
    /// The place in a record. Example: `at = "/status"`.
    pub at: Pointer,
    /// The values at that place. If unset, any but null, false, 0 and an empty text or list. Example: `is = "cancelled"`.
    #[serde(default, with = "As::<Option<OneOrMore<Scalar>>>")]
    pub is: Option<Vec<String>>,
}

described!(Removed: Either<Pointer, RemovedKeys>);

impl From<Either<Pointer, RemovedKeys>> for Removed {
    fn from(written: Either<Pointer, RemovedKeys>) -> Self {
        let (at, is) = match written {
            Either::Text(at) => (at, None),
            Either::Table(RemovedKeys { at, is }) => (at, is),
        };
        let is = is.unwrap_or_default();
        Self { at, is }
    }
}

impl Words for Outage {
    const WORDS: &'static [(&'static str, Self, &'static str)] = &[
        (
            "allow",
            Self::Allow,
            "The request is sent, and counted locally.",
        ),
        ("refuse", Self::Refuse, "The request is not sent."),
    ];
}

/// The method of a request: a word in capitals, so that a typing error such as `Get` is not sent.
struct MethodWord;

impl Leaf for MethodWord {
    type Value = Method;

    fn read(raw: Value) -> Result<Method, Refusal> {
        let text = text(raw)?;
        let in_capitals = text.len() > 2 && text.bytes().all(|letter| letter.is_ascii_uppercase());
        match Method::from_bytes(text.as_bytes()) {
            // CONNECT opens a tunnel: its response is no page.
            Ok(method) if in_capitals && method != Method::CONNECT => Ok(method),
            Ok(_) | Err(_) => Err(Refusal::new(
                "expected an HTTP method in capitals",
                advice(&text, ["GET", "POST", "PUT", "PATCH", "DELETE"]),
            )),
        }
    }

    fn schema() -> Value {
        let connect = json!({ "const": "CONNECT" });
        json!({ "title": "HTTP method", "type": "string", "pattern": "^[A-Z]{3,}$", "not": connect })
    }
}

/// Whether requests of a call carry the `ETag` of the stored page. `etag = "…"`
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Etag {
    /// Yes: a response 304 (not modified) costs nothing.
    Free,
    /// No: a response 304 costs something, or may.
    #[default]
    Unused,
}

/// For a field: columns of a view, in whose names SQL does not tell cases apart.
struct Columns;

impl Columns {
    fn deserialize<'de, D: Deserializer<'de>>(
        deserializer: D,
    ) -> Result<BTreeMap<String, Column>, D::Error> {
        let written = BTreeMap::<String, WrittenColumn>::deserialize(deserializer)?;
        let mut seen = BTreeSet::new();
        // Lower-case letters come last.
        let columns = written.into_iter().rev().map(|(name, column)| {
            let column = if name.is_empty() || name.chars().any(char::is_control) {
                let remedy = "write for example view_count";
                Err(Refusal::new("expected a column's name", remedy))
            } else if seen.insert(name.to_ascii_lowercase()) {
                column.named(&name)
            } else {
                Err(Refusal::new(
                    "another column has this name (SQL ignores case)",
                    "write another name",
                ))
            };
            match column {
                Ok(column) => Ok((name, column)),
                Err(refusal) => Err(D::Error::custom(refusal.below(&name))),
            }
        });
        columns.collect()
    }

    fn serialize<S: serde::Serializer>(
        _: &BTreeMap<String, Column>,
        to: S,
    ) -> Result<S::Ok, S::Error> {
        json!({}).serialize(to)
    }
}

impl JsonSchema for Columns {
    fn schema_name() -> std::borrow::Cow<'static, str> {
        "Columns".into()
    }

    fn json_schema(generator: &mut schemars::SchemaGenerator) -> schemars::Schema {
        <BTreeMap<String, WrittenColumn>>::json_schema(generator)
    }
}
