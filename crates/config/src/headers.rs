//! Headers of requests.

use std::collections::BTreeMap;

use reqwest::header::{self, HeaderValue};
use serde_json::{Value, json};

use super::Template;
use super::error::Refusal;
use super::values::{Leaf, Text, leaf, scalar};

// The name of a header, in lower case.
leaf!(
    HeaderName,
    Text,
    String,
    |text| {
        let name = header::HeaderName::from_bytes(text.as_bytes());
        name.ok().map(|name| name.as_str().to_owned())
    },
    "expected a header name",
    "write for example \"x-api-key\"",
    json!({ "title": "header name", "type": "string", "minLength": 1 }),
);

// The name of a header that requests carry, in lower case.
leaf!(
    SentHeaderName,
    HeaderName,
    String,
    |name| (!OF_THE_CONNECTION.contains(&name.as_str())).then_some(name),
    "this header belongs to the connection, and every request has its own",
    "remove it, or write another header",
    HeaderName::schema(),
);

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
    let name = SentHeaderName::read(name.into())?;
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
