//! Headers of requests.

use std::collections::BTreeMap;

use reqwest::header::{self, HeaderValue};
use serde_json::{Value, json};

use super::Template;
use super::error::Refusal;
use super::values::{Leaf, scalar, text};

/// The name of a header, in lower case.
pub struct HeaderName;

impl Leaf for HeaderName {
    type Value = String;

    fn read(raw: Value) -> Result<String, Refusal> {
        header_name(&text(raw)?)
    }

    fn schema() -> Value {
        json!({ "title": "header name", "type": "string", "minLength": 1 })
    }
}

pub fn header_name(name: &str) -> Result<String, Refusal> {
    match header::HeaderName::from_bytes(name.as_bytes()) {
        Ok(name) => Ok(name.as_str().to_owned()),
        Err(_) => Err(Refusal::new(
            "expected a header name",
            "write for example \"x-api-key\"",
        )),
    }
}

/// The name of a header that requests carry, in lower case.
pub struct SentHeaderName;

impl Leaf for SentHeaderName {
    type Value = String;

    fn read(raw: Value) -> Result<String, Refusal> {
        sent_header_name(&text(raw)?)
    }

    fn schema() -> Value {
        HeaderName::schema()
    }
}

/// Headers that say where a message goes and where it ends: each request has its own.
const OF_THE_CONNECTION: [&str; 9] = [
    "connection",
    "content-length",
    "host",
    "keep-alive",
    "proxy-connection",
    "te",
    "trailer",
    "transfer-encoding",
    "upgrade",
];

fn sent_header_name(name: &str) -> Result<String, Refusal> {
    let name = header_name(name)?;
    match OF_THE_CONNECTION.contains(&name.as_str()) {
        true => Err(Refusal::new(
            "this header belongs to the connection, and every request has its own",
            "remove it, or write another header",
        )),
        false => Ok(name),
    }
}

/// Headers by name, in lower case.
pub struct Headers;

impl Leaf for Headers {
    type Value = BTreeMap<String, Template>;

    fn read(raw: Value) -> Result<Self::Value, Refusal> {
        let Value::Object(members) = raw else {
            return Err(Refusal::no_table());
        };
        let read = |(name, raw): (String, Value)| match header(&name, raw) {
            Ok(header) => Ok(header),
            Err(refusal) => Err(refusal.below(&name)),
        };
        members.into_iter().map(read).collect()
    }

    fn written(_: &Self::Value) -> Value {
        json!({})
    }

    fn schema() -> Value {
        let value = Template::schema();
        json!({ "title": "table of templates by header", "type": "object", "additionalProperties": value })
    }
}

/// Headers that carry secrets, which do not belong in a configuration.
const SECRET_HEADERS: [&str; 3] = ["authorization", "proxy-authorization", "cookie"];

fn header(name: &str, raw: Value) -> Result<(String, Template), Refusal> {
    let name = sent_header_name(name)?;
    let value = scalar(raw)?;
    let template = Template::parse(&value);
    let names_secret = template
        .as_ref()
        .is_ok_and(|one| one.secrets().next().is_some());
    if SECRET_HEADERS.contains(&name.as_str()) && !names_secret {
        return Err(Refusal::new(
            "a secret must not be in this file",
            format!(
                "configure the secret in a credential, and write auth = {{ header = \"{name}\" }} or {{ bearer = true }}, or \
                here for example \"Token {{secret}}\""
            ),
        ));
    }
    if HeaderValue::from_str(&value).is_err() {
        return Err(Refusal::new(
            "expected a header value without control characters",
            "remove them",
        ));
    }
    Ok((name, Template::read(value.into())?))
}
