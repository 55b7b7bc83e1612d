//! `[upstreams.X]`

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use reqwest::header::{HeaderName, HeaderValue};
use url::Url;

use super::scalars::{bytes, duration, template};
use super::{call, named, rules};
use crate::config::item::{self, Item};
use crate::config::{Auth, Call, Template, Upstream};

pub const KEYS: [&str; 10] = [
    "base_url", "auth", "timeout", "attempts", "pause", "max_body", "keep", "headers", "errors",
    "calls",
];
pub const AUTH_KEYS: [&str; 3] = ["header", "query", "bearer"];
const TIMEOUT: Duration = Duration::from_secs(30);
const ATTEMPTS: u32 = 4;
const PAUSE: Duration = Duration::from_millis(500);
const MAX_BODY: u64 = 32 << 20;
/// Headers that carry secrets, which have no place in a configuration.
const SECRET_HEADERS: [&str; 3] = ["authorization", "proxy-authorization", "cookie"];

pub fn upstream(item: Item<'_>) -> Option<Upstream> {
    let name = item.name().to_owned();
    let section = item.table(&KEYS)?;
    let base_url = section.required("base_url", "\"https://...\"", base_url);
    let auth = section.or("auth", Auth::None, auth);
    let timeout = section.or("timeout", TIMEOUT, duration);
    let attempts = section.or("attempts", ATTEMPTS, attempts);
    let pause = section.or("pause", PAUSE, duration);
    let max_body = section.or("max_body", MAX_BODY, bytes);
    let keep = section.optional("keep", duration);
    let headers = section.or("headers", BTreeMap::new(), headers);
    let errors = section.or("errors", Vec::new(), rules::rules);
    let calls = section.required(
        "calls",
        "{ \"things.list\" = { path = \"things\", cost = 1 } }",
        calls,
    );
    Some(Upstream {
        name,
        base_url: base_url?,
        auth: auth?,
        timeout: timeout?,
        attempts: attempts?,
        pause: pause?,
        max_body: max_body?,
        keep: keep?,
        headers: headers?,
        errors: errors?,
        calls: calls?,
    })
}

fn base_url(item: Item<'_>) -> Option<Url> {
    let example = "write for example \"https://api.example.com/v1\"";
    let Ok(url) = Url::parse(item.text()?) else {
        return item.refuse("expected a URL", example);
    };
    if !matches!(url.scheme(), "http" | "https") {
        return item.refuse("expected an http or https URL", example);
    }
    if !url.username().is_empty() || url.password().is_some() {
        return item.refuse(
            "expected a URL without a user or password",
            "configure the secret with `auth` and a credential",
        );
    }
    if url.query().is_some() || url.fragment().is_some() {
        return item.refuse(
            "expected a URL without `?` and `#`",
            "move them into `params` of the calls",
        );
    }
    Some(url)
}

fn attempts(item: Item<'_>) -> Option<u32> {
    item.number(1..=100)
        .and_then(|attempts| u32::try_from(attempts).ok())
}

fn auth(item: Item<'_>) -> Option<Auth> {
    let ways =
        "write { header = \"x-api-key\" }, { query = \"key\" }, { bearer = true } or \"none\"";
    if !item.is_table() {
        return match item.text()? {
            "none" => Some(Auth::None),
            _ => item.refuse(
                "expected the way in which a request carries the secret",
                ways,
            ),
        };
    }
    let section = item.clone().table(&AUTH_KEYS)?;
    match (
        section.get("header"),
        section.get("query"),
        section.get("bearer"),
    ) {
        (Some(header), None, None) => header_name(&header, header.text()?).map(Auth::Header),
        (None, Some(query), None) => query.filled_text().map(Auth::Query),
        (None, None, Some(bearer)) => match bearer.truth()? {
            true => Some(Auth::Bearer),
            false => bearer.refuse(
                "expected true",
                "write auth = \"none\" if the upstream needs no secret",
            ),
        },
        _ => item.refuse("expected exactly one of header, query, bearer", ways),
    }
}

/// A header's name, in lower case.
pub fn header_name(item: &Item<'_>, name: &str) -> Option<String> {
    match HeaderName::from_bytes(name.as_bytes()) {
        Ok(name) => Some(name.as_str().to_owned()),
        Err(_) => item.refuse("expected a header name", "write for example \"x-api-key\""),
    }
}

/// Headers by name, in lower case.
pub fn headers(item: Item<'_>) -> Option<BTreeMap<String, Template>> {
    item::all(item.entries()?.iter().map(header))
}

fn header(item: &Item<'_>) -> Option<(String, Template)> {
    let name = header_name(item, item.name())?;
    if SECRET_HEADERS.contains(&name.as_str()) {
        return item.refuse(
            "a secret must not be in this file",
            format!(
                "write auth = {{ header = \"{name}\" }} or {{ bearer = true }}, and configure \
                the secret in a credential"
            ),
        );
    }
    let value = item.as_text()?;
    match HeaderValue::from_str(&value) {
        Ok(_) => Some((name, template(item.clone())?)),
        Err(_) => item.refuse(
            "expected a header value without control characters",
            "remove them",
        ),
    }
}

fn calls(item: Item<'_>) -> Option<BTreeMap<String, Arc<Call>>> {
    let calls: BTreeMap<_, _> = item::all(named(item.clone())?.into_iter().map(|item| {
        let call = call::call(item)?;
        Some((call.name.clone(), Arc::new(call)))
    }))?;
    if calls.is_empty() {
        return item.refuse(
            "expected at least one call",
            "add [upstreams.NAME.calls.\"things.list\"]",
        );
    }
    Some(calls)
}
