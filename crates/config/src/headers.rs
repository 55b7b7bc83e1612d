//! Headers of requests.

use std::collections::BTreeMap;

use reqwest::header::{HeaderName, HeaderValue};
use serde_json::json;

use super::Template;
use super::declare::{Leaf, Shape, template};
use super::item::{self, Item};

/// The name of a header, in lower case.
pub const HEADER_NAME: Leaf<String> = Leaf {
    read: |item| header_name(&item, item.text()?),
    shape: || Shape::scalar("header name", json!({ "type": "string", "minLength": 1 })),
};

pub fn header_name(item: &Item<'_>, name: &str) -> Option<String> {
    match HeaderName::from_bytes(name.as_bytes()) {
        Ok(name) => Some(name.as_str().to_owned()),
        Err(_) => item.refuse("expected a header name", "write for example \"x-api-key\""),
    }
}

/// Headers by name, in lower case.
pub const HEADERS: Leaf<BTreeMap<String, Template>> = Leaf {
    read: |item| item::all(item.entries()?.iter().map(header)),
    shape: || {
        let value = json!({ "type": ["string", "number", "boolean"] });
        let schema = json!({ "type": "object", "additionalProperties": value });
        Shape::scalar("table of templates by header", schema)
    },
};

/// Headers that carry secrets, which do not belong in a configuration.
const SECRET_HEADERS: [&str; 3] = ["authorization", "proxy-authorization", "cookie"];

fn header(item: &Item<'_>) -> Option<(String, Template)> {
    let name = header_name(item, item.name())?;
    let value = item.as_text()?;
    let names_secret =
        || Template::parse(&value).is_ok_and(|template| template.secrets().next().is_some());
    if SECRET_HEADERS.contains(&name.as_str()) && !names_secret() {
        return item.refuse(
            "a secret must not be in this file",
            format!(
                "configure the secret in a credential, and write auth = {{ header = \"{name}\" }} or {{ bearer = true }}, or \
                here for example \"Token {{secret}}\""
            ),
        );
    }
    match HeaderValue::from_str(&value) {
        Ok(_) => Some((name, template(item.clone())?)),
        Err(_) => item.refuse(
            "expected a header value without control characters",
            "remove them",
        ),
    }
}
