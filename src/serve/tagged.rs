//! Responses, with a tag that tells a client that it has them.

use axum::body::Bytes;
use axum::http::{HeaderMap, StatusCode, header};
use axum::response::{IntoResponse, Response};
use ring::digest::{SHA256, digest};
use serde::Serialize;
use serde_json::Value;

/// The media type of JSON.
pub const JSON: &str = "application/json";

/// What changes as time passes, although nothing happens.
const OF_THE_TIME: [&str; 4] = [
    "age_seconds",
    "retry_after_seconds",
    "returns",
    "returns_within",
];

/// A report as JSON with a tag, or 304 if the client has it. Two reports that differ only in what changes as time passes are the
/// same.
pub fn tagged_json(headers: &HeaderMap, report: &impl Serialize) -> Response {
    let mut report = serde_json::to_value(report).unwrap_or_default();
    let text = report.to_string();
    if let Value::Object(members) = &mut report {
        // The beginning of a history moves with the clock.
        members.remove("since");
    }
    remove_times(&mut report);
    let tag = tag_of(report.to_string().as_bytes());
    unless_known(headers, &tag, (JSON, text.into()))
}

fn remove_times(value: &mut Value) {
    match value {
        Value::Object(members) => {
            members.retain(|name, _| !OF_THE_TIME.contains(&name.as_str()));
            members.values_mut().for_each(remove_times);
        }
        Value::Array(elements) => elements.iter_mut().for_each(remove_times),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {}
    }
}

/// A response with a tag of its body, or 304 if the client has it.
pub fn tagged(headers: &HeaderMap, body: impl Into<Bytes>, media_type: &'static str) -> Response {
    let body = body.into();
    unless_known(headers, &tag_of(&body), (media_type, body))
}

/// Weak, since a compressed body has the same tag.
fn tag_of(text: &[u8]) -> String {
    let digest = digest(&SHA256, text);
    let start = digest.as_ref().iter().take(12);
    let start: String = start.map(|byte| format!("{byte:02x}")).collect();
    format!("W/\"{start}\"")
}

fn unless_known(
    headers: &HeaderMap,
    tag: &str,
    (media_type, body): (&'static str, Bytes),
) -> Response {
    let known = headers.get_all(header::IF_NONE_MATCH).iter();
    let mut known = known
        .filter_map(|value| value.to_str().ok())
        .flat_map(|value| value.split(','))
        .map(str::trim);
    // `If-None-Match` compares weakly (RFC 9110): a strong tag of the same text is the same.
    let opaque = |tag: &str| tag.trim_start_matches("W/").to_owned();
    let is_known = known.any(|known| known == "*" || opaque(known) == opaque(tag));
    let etag = [(header::ETAG, tag.to_owned())];
    if is_known {
        // As the response with the body has it.
        let vary = [(header::VARY, "accept-encoding")];
        return (StatusCode::NOT_MODIFIED, etag, vary).into_response();
    }
    (etag, [(header::CONTENT_TYPE, media_type)], body).into_response()
}

pub fn json_text(value: &impl Serialize) -> Response {
    let text = serde_json::to_string(value).unwrap_or_default();
    ([(header::CONTENT_TYPE, JSON)], text).into_response()
}
