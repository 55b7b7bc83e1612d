//! The fields of every response: what a client has left (draft-ietf-httpapi-ratelimit-headers-11), and what a browser may do
//! with the response.

use std::time::Duration;

use axum::http::{HeaderMap, HeaderName, HeaderValue, StatusCode, header};

use super::limiter::Usage;
use super::problem::{Problem, QUOTA};

const LIMIT: HeaderName = HeaderName::from_static("ratelimit");
const POLICY: HeaderName = HeaderName::from_static("ratelimit-policy");

/// No script, no frame, nothing of another server; one style sheet, one icon and forms of this one.
const CONTENT_POLICY: &str = "default-src 'none'; style-src 'self'; img-src 'self'; form-action 'self'; frame-ancestors 'none'; base-uri 'none'";

/// What a browser may do with any response.
const SAFETY: [(HeaderName, &str); 5] = [
    (header::CONTENT_SECURITY_POLICY, CONTENT_POLICY),
    (header::X_CONTENT_TYPE_OPTIONS, "nosniff"),
    (header::REFERRER_POLICY, "no-referrer"),
    (
        HeaderName::from_static("cross-origin-resource-policy"),
        "same-origin",
    ),
    (
        HeaderName::from_static("cross-origin-opener-policy"),
        "same-origin",
    ),
];

/// Adds the fields to a response.
pub fn add(headers: &mut HeaderMap, usage: &Usage) {
    for (name, value) in SAFETY {
        headers.insert(name, HeaderValue::from_static(value));
    }
    // What a response says of the state holds for its client, and only now.
    let now = HeaderValue::from_static("private, no-cache");
    headers.entry(header::CACHE_CONTROL).or_insert(now);
    for (name, value) in [(LIMIT, left(usage)), (POLICY, policy(usage))] {
        if let Ok(value) = HeaderValue::try_from(value) {
            headers.insert(name, value);
        }
    }
}

/// The response to a request beyond the limit.
pub fn too_many(usage: &Usage, retry_in: Duration) -> Problem {
    let (quota, seconds) = (usage.policy.limit.enforced(), whole_seconds(retry_in));
    let window = humantime::format_duration(usage.policy.limit.window().longest());
    Problem {
        r#type: QUOTA,
        title: "Request quota exceeded".to_owned(),
        violated_policies: vec![usage.policy.name],
        retry_after: Some(seconds),
        ..Problem::new(
            StatusCode::TOO_MANY_REQUESTS,
            format!(
                "this client has sent {quota} requests within {window}; send the next one in {seconds} s"
            ),
        )
    }
}

/// `"readers";r=59;t=12`
fn left(usage: &Usage) -> String {
    let (name, left) = (usage.policy.name, usage.remaining);
    match usage.retry_in.or(usage.more_in) {
        Some(span) => format!("\"{name}\";r={left};t={}", whole_seconds(span)),
        None => format!("\"{name}\";r={left}"),
    }
}

/// `"readers";q=60;w=60`; without `w` for a window that is no number of seconds.
fn policy(usage: &Usage) -> String {
    let (name, quota) = (usage.policy.name, usage.policy.limit.enforced());
    let window = usage.policy.limit.window().longest();
    match window.subsec_nanos() {
        0 => format!("\"{name}\";q={quota};w={}", window.as_secs()),
        _ => format!("\"{name}\";q={quota}"),
    }
}

/// A span in whole seconds, rounded up: nobody is sent back too early.
pub fn whole_seconds(span: Duration) -> u64 {
    span.as_secs() + u64::from(span.subsec_nanos() > 0)
}
