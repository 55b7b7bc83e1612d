//! `/openapi.json`: the description of the API. Its schemas are generated from the types of the answers.

use std::sync::LazyLock;

use axum::body::Bytes;
use axum::http::HeaderMap;
use axum::response::Response;
use schemars::generate::SchemaSettings;
use schemars::{JsonSchema, SchemaGenerator};
use serde::Serialize;
use serde_json::{Map, Value, json};

use super::charge::{ChargeBody, ReleaseBody, Released, SettleBody, Settled};
use super::page::TWINS;
use super::problem::Problem;
use super::tagged::{JSON, tagged};
use crate::commands::charge::Charged;
use crate::commands::history::History;
use crate::commands::search::SearchReport;
use crate::commands::status::Status;
use crate::foresight::Preview;

/// One line of `/api/v1/records/{kind}`.
#[derive(Serialize, JsonSchema)]
pub struct Record {
    upstream: String,
    kind: String,
    id: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    first_seen: Option<ingest_quota::Timestamp>,
    #[serde(skip_serializing_if = "Option::is_none")]
    last_seen: Option<ingest_quota::Timestamp>,
    /// When the last list that had it no longer had it; absent while a list has it.
    #[serde(skip_serializing_if = "Option::is_none")]
    gone_at: Option<ingest_quota::Timestamp>,
    /// The record as the upstream returned it; with `since` absent in a record that is gone.
    #[serde(skip_serializing_if = "Option::is_none")]
    body: Option<Value>,
}

/// The answer of `/healthz`.
#[derive(Serialize, JsonSchema)]
struct Health {
    /// `ok`
    status: String,
    /// Where requests of clients are counted: `memory` or `redis`.
    limits: String,
}

static DOCUMENT: LazyLock<Bytes> = LazyLock::new(|| document().to_string().into());

/// `GET /openapi.json`
pub async fn description(headers: HeaderMap) -> Response {
    tagged(&headers, DOCUMENT.clone(), JSON)
}

/// The schemas of the answers, and of the bodies: what may be absent in a body is always in an answer.
pub struct Schemas {
    answers: SchemaGenerator,
    bodies: SchemaGenerator,
}

impl Schemas {
    fn of<T: JsonSchema>(&mut self) -> Value {
        self.answers.subschema_for::<T>().to_value()
    }

    fn body<T: JsonSchema>(&mut self) -> Value {
        json!({ "application/json": { "schema": self.bodies.subschema_for::<T>().to_value() } })
    }

    pub fn json<T: JsonSchema>(&mut self) -> Value {
        json!({ "application/json": { "schema": self.of::<T>() } })
    }
}

fn document() -> Value {
    let settings = SchemaSettings::draft2020_12().with(|settings| {
        settings.definitions_path = "/components/schemas".into();
        settings.meta_schema = None;
    });
    let mut schemas = Schemas {
        answers: settings.clone().for_serialize().into_generator(),
        bodies: settings.into_generator(),
    };
    let mut paths = Map::new();
    for get in GETS.iter().chain(&TWINS) {
        let operation = get.operation(&mut schemas);
        paths.insert(get.path.to_owned(), json!({ "get": operation }));
    }
    for (path, operation) in posts(&mut schemas) {
        paths.insert(path.to_owned(), json!({ "post": operation }));
    }
    let mut components = schemas.answers.take_definitions(true);
    components.extend(schemas.bodies.take_definitions(true));
    json!({
        "openapi": "3.1.0",
        "info": {
            "title": "ingest serve",
            "version": env!("CARGO_PKG_VERSION"),
            "description": "What was ingested, what is left of each quota, and charges over HTTP. Every response has the \
                fields RateLimit and RateLimit-Policy of the client's limit on requests.",
        },
        "paths": paths,
        "components": {
            "schemas": components,
            "securitySchemes": {
                "bearer": { "type": "http", "scheme": "bearer" },
                "basic": { "type": "http", "scheme": "basic" },
            },
        },
        // The empty one: on a loopback address, reading needs no token.
        "security": [{}, { "bearer": [] }, { "basic": [] }],
    })
}

/// A path that answers GET.
pub struct Get {
    pub path: &'static str,
    pub summary: &'static str,
    /// The parameters of the query, each with its description.
    pub query: &'static [Parameter],
    pub content: fn(&mut Schemas) -> Value,
}

/// A parameter of a query, and its description.
type Parameter = (&'static str, &'static str);

pub const SINCE: Parameter = (
    "since",
    "Only passes that started within this time; 30d if absent",
);
pub const SEARCH_QUERY: [Parameter; 5] = [
    (
        "q",
        "The words; one that ends in * stands for every word that begins so",
    ),
    ("kind", "Only records of this kind"),
    ("region", "Only records listed for this region"),
    ("since", "Only records seen within this time, such as 7d"),
    ("limit", "The most records, up to 1000; 20 if absent"),
];

const GETS: [Get; 9] = [
    Get {
        path: "/api/v1/status",
        summary: "The limits, and the age of each region",
        query: &[(
            "fail_if_stale",
            "Adds the regions without a complete pass within this time, such as 6h",
        )],
        content: Schemas::json::<Status>,
    },
    Get {
        path: "/api/v1/history",
        summary: "Passes and spend by day, job and region",
        query: &[SINCE],
        content: Schemas::json::<History>,
    },
    Get {
        path: "/api/v1/search",
        summary: "Records that contain all words, best match first",
        query: &SEARCH_QUERY,
        content: Schemas::json::<SearchReport<'_>>,
    },
    Get {
        path: "/api/v1/plan",
        summary: "What the next run would spend",
        query: &[
            ("region", "Regions, separated by commas; all if absent"),
            ("job", "Jobs, separated by commas; all if absent"),
        ],
        content: Schemas::json::<Preview>,
    },
    Get {
        path: "/api/v1/records/{kind}",
        summary: "Records, one line each, in the order of first sight. The Link header with rel=\"next\" names the next page",
        query: &[
            ("region", "Only records listed for this region"),
            ("since", "Only changes within this time, such as 7d"),
            ("seen_since", "Only records seen within this time"),
            ("limit", "The most records, up to 1000; 100 if absent"),
            (
                "cursor",
                "Where the page begins, from the Link header of the page before",
            ),
            ("as", "csv, or ndjson if absent"),
        ],
        content: |schemas| json!({ "application/x-ndjson": { "schema": schemas.of::<Record>() }, "text/csv": { "schema": { "type": "string" } } }),
    },
    Get {
        path: "/api/v1/records/{kind}/{id}",
        summary: "A record",
        query: &[(
            "upstream",
            "Required where several upstreams have a record of this kind and id",
        )],
        content: Schemas::json::<Record>,
    },
    Get {
        path: "/metrics",
        summary: "The state, for Prometheus",
        query: &[],
        content: |_| json!({ "text/plain": { "schema": { "type": "string" } } }),
    },
    Get {
        path: "/healthz",
        summary: "Whether the server answers",
        query: &[],
        content: Schemas::json::<Health>,
    },
    Get {
        path: "/openapi.json",
        summary: "This description",
        query: &[],
        content: |_| json!({ "application/json": { "schema": { "type": "object" } } }),
    },
];

impl Get {
    fn operation(&self, schemas: &mut Schemas) -> Value {
        let names = self.path.split('/');
        let names = names.filter_map(|part| part.strip_prefix('{')?.strip_suffix('}'));
        let in_path = names.map(|name| {
            json!({ "name": name, "in": "path", "required": true, "schema": { "type": "string" } })
        });
        let in_query = self.query.iter().map(|(name, text)| parameter(name, text));
        let parameters = Value::from_iter(in_path.chain(in_query));
        let content = (self.content)(schemas);
        let mut responses = responses(schemas, content, &[]);
        if let Some(responses) = responses.as_object_mut() {
            let unchanged =
                json!({ "description": "The client has it: its ETag is in If-None-Match" });
            responses.insert("304".to_owned(), unchanged);
        }
        json!({
            "summary": self.summary,
            "parameters": parameters,
            "responses": responses,
        })
    }
}

fn posts(schemas: &mut Schemas) -> Vec<(&'static str, Value)> {
    let charged = schemas.json::<Charged>();
    let refused = [
        ("400", "The charge can never fit, or makes no sense"),
        ("422", "The key names another charge"),
        (
            "429",
            "The charge does not fit now: Retry-After and retry_at say when",
        ),
        ("503", "The ledger cannot be reached"),
    ];
    let charge = post(
        schemas,
        "Charge a call, or units",
        |schemas| schemas.body::<ChargeBody>(),
        charged,
        &refused,
    );
    let released = schemas.json::<Released>();
    let release = post(
        schemas,
        "Release a charge",
        |schemas| schemas.body::<ReleaseBody>(),
        released,
        &[],
    );
    let settled = schemas.json::<Settled>();
    let settle = post(
        schemas,
        "Correct a charge to its true cost",
        |schemas| schemas.body::<SettleBody>(),
        settled,
        &[],
    );
    vec![
        ("/api/v1/charge", charge),
        ("/api/v1/release", release),
        ("/api/v1/settle", settle),
    ]
}

fn post(
    schemas: &mut Schemas,
    summary: &str,
    body: fn(&mut Schemas) -> Value,
    answer: Value,
    refused: &[(&str, &str)],
) -> Value {
    json!({
        "summary": summary,
        "parameters": [{
            "name": "Idempotency-Key", "in": "header", "schema": { "type": "string", "maxLength": 255 },
            "description": "The id of the charge. A request under the same key has the same answer, and is charged once",
        }],
        "requestBody": { "required": true, "content": body(schemas) },
        "responses": responses(schemas, answer, refused),
        "security": [{ "bearer": [] }],
    })
}

/// The answer, the answers of the same form to what was refused, and errors.
fn responses(schemas: &mut Schemas, answer: Value, refused: &[(&str, &str)]) -> Value {
    let problem = json!({ "application/problem+json": { "schema": schemas.of::<Problem>() } });
    let mut responses = Map::new();
    for (status, description) in refused {
        let mut content = answer.as_object().cloned().unwrap_or_default();
        content.extend(problem.as_object().cloned().unwrap_or_default());
        let response = json!({ "description": description, "content": content });
        responses.insert((*status).to_owned(), response);
    }
    responses.insert(
        "200".to_owned(),
        json!({ "description": "The answer", "content": answer }),
    );
    let other = json!({ "description": "An error", "content": problem });
    responses.insert("default".to_owned(), other);
    Value::Object(responses)
}

fn parameter(name: &str, description: &str) -> Value {
    json!({ "name": name, "in": "query", "description": description, "schema": { "type": "string" } })
}
