//! How answers are told apart.

use std::borrow::Cow;
use std::collections::BTreeMap;

use ingest_config::{Class, Rule, RuleBody, Until, classify};
use serde_json::{Value, json};

use super::{SMALL, right};

fn rules(toml: &str) -> Vec<Rule> {
    right(SMALL, &[&format!("upstreams.things.errors={toml}")]).upstreams["things"]
        .errors
        .clone()
}

/// The rules of the shipped configuration, which know what many APIs of one company answer.
fn shipped() -> Vec<Rule> {
    let text = include_str!("../../../../quotas.toml");
    right(text, &[]).upstreams["youtube"].errors.clone()
}

fn class(rules: &[Rule], status: u16, headers: &[(&str, &str)], body: &Value) -> Option<Class> {
    let headers: BTreeMap<&str, &str> = headers.iter().copied().collect();
    let body = RuleBody {
        document: body,
        text: &body.to_string(),
    };
    classify(
        rules,
        status,
        |name| headers.get(name).copied().map(Cow::from),
        body,
    )
    .map(|rule| rule.class)
}

/// A refusal with a reason, as most are written.
fn reason(code: u16, reason: &str) -> Value {
    json!({ "error": { "code": code, "message": "no", "errors": [{ "message": "no", "domain": "any", "reason": reason }] } })
}

/// A refusal with the details that newer ones have.
fn details(code: u16, why: &str, detail: &str, metadata: Value) -> Value {
    let mut body = reason(code, why);
    body["error"]["details"] = json!([
        { "@type": "type.example/Help", "links": [] },
        { "@type": "type.example/ErrorInfo", "reason": detail, "metadata": metadata },
    ]);
    body
}

#[test]
fn the_shipped_rules_tell_every_known_refusal() {
    let rules = shipped();
    let quota = |limit: &str, unit: &str| json!({ "quota_limit": limit, "quota_unit": unit });
    let cases = [
        (
            400,
            details(400, "badRequest", "API_KEY_INVALID", json!({})),
            Class::Denied,
        ),
        (400, reason(400, "keyInvalid"), Class::Denied),
        (400, reason(400, "keyExpired"), Class::Denied),
        (401, reason(401, "authError"), Class::Denied),
        (403, reason(403, "accessNotConfigured"), Class::Denied),
        (
            403,
            details(403, "accessNotConfigured", "SERVICE_DISABLED", json!({})),
            Class::Denied,
        ),
        (403, reason(403, "forbidden"), Class::Denied),
        (400, reason(400, "invalidPageToken"), Class::BadCursor),
        (400, reason(400, "invalidRegionCode"), Class::Skip),
        (400, reason(400, "missingRequiredParameter"), Class::Skip),
        (400, reason(400, "videoChartNotFound"), Class::Skip),
        (403, reason(403, "commentsDisabled"), Class::Skip),
        (404, reason(404, "videoNotFound"), Class::Skip),
        (403, reason(403, "quotaExceeded"), Class::Spent),
        (403, reason(403, "dailyLimitExceeded"), Class::Spent),
        (403, reason(403, "rateLimitExceeded"), Class::SlowDown),
        (403, reason(403, "userRateLimitExceeded"), Class::SlowDown),
        (429, reason(429, "rateLimitExceeded"), Class::SlowDown),
        (429, json!("Too Many Requests"), Class::SlowDown),
        (500, reason(500, "backendError"), Class::Transient),
        (503, json!("<html>down</html>"), Class::Transient),
        (
            429,
            details(
                429,
                "rateLimitExceeded",
                "RATE_LIMIT_EXCEEDED",
                quota("defaultPerMinutePerProject", "1/min/{project}"),
            ),
            Class::SlowDown,
        ),
        (
            429,
            details(
                429,
                "rateLimitExceeded",
                "RATE_LIMIT_EXCEEDED",
                quota("someSearchPerDayPerProject", "1/d/{project}"),
            ),
            Class::Spent,
        ),
        (
            403,
            details(
                403,
                "rateLimitExceeded",
                "RATE_LIMIT_EXCEEDED",
                quota("defaultPerDayPerProject", ""),
            ),
            Class::Spent,
        ),
    ];
    for (status, body, expected) in cases {
        assert_eq!(
            class(&rules, status, &[], &body),
            Some(expected),
            "{status} {body}"
        );
    }
}

#[test]
fn a_spent_bucket_is_named_as_the_upstream_names_it() {
    let rules = shipped();
    let metadata =
        json!({ "quota_limit": "searchPerDayPerProject", "quota_unit": "1/d/{project}" });
    let body = details(429, "rateLimitExceeded", "RATE_LIMIT_EXCEEDED", metadata);
    let seen = RuleBody {
        document: &body,
        text: &body.to_string(),
    };
    let rule = classify(&rules, 429, |_| None, seen).unwrap();
    assert_eq!(
        rule.limit_at.as_ref().unwrap().text_in(&body).as_deref(),
        Some("searchPerDayPerProject")
    );
}

#[test]
fn what_no_rule_matches_is_left_to_the_status() {
    assert_eq!(class(&shipped(), 418, &[], &json!({})), None);
    assert_eq!(
        class(
            &right(SMALL, &[]).upstreams["things"].errors,
            403,
            &[],
            &json!({})
        ),
        None
    );
}

#[test]
fn the_first_rule_that_matches_decides() {
    let rules = rules(
        r#"[{ status = 403, class = "spent" }, { status = [401, 403], class = "denied" }, { status = 418, class = "skip" }]"#,
    );
    assert_eq!(
        class(&rules, 403, &[], &reason(403, "forbidden")),
        Some(Class::Spent)
    );
    assert_eq!(class(&rules, 401, &[], &json!({})), Some(Class::Denied));
    assert_eq!(class(&rules, 418, &[], &json!({})), Some(Class::Skip));
}

#[test]
fn headers_tell_a_limit_that_is_spent_and_until_when() {
    let rules = rules(
        r#"[{ status = [403, 429], header = "X-RateLimit-Remaining", header_is = "0", class = "spent",
             until_header = "X-RateLimit-Reset" }, { status = [403, 429], header = "retry-after", class = "slow_down" }]"#,
    );
    assert_eq!(
        rules[0].until,
        Some(Until::EpochHeader("x-ratelimit-reset".to_owned()))
    );
    assert_eq!(
        class(&rules, 403, &[("x-ratelimit-remaining", "0")], &json!({})),
        Some(Class::Spent)
    );
    assert_eq!(
        class(&rules, 429, &[("x-ratelimit-remaining", "10")], &json!({})),
        None
    );
    assert_eq!(
        class(&rules, 429, &[("retry-after", "7")], &json!({})),
        Some(Class::SlowDown)
    );
    assert_eq!(
        class(&rules, 404, &[("retry-after", "7")], &json!({})),
        None
    );
}

#[test]
fn all_that_a_rule_names_must_hold() {
    let rules = rules(
        r#"[{ all = [{ at = "/status", is = "EXHAUSTED" }, { at = "/code", is = 8 }], text = "per day", class = "spent" }]"#,
    );
    let body = |status: &str, code: u16, message: &str| json!({ "status": status, "code": code, "m": [message] });
    assert_eq!(
        class(&rules, 400, &[], &body("EXHAUSTED", 8, "tokens per day")),
        Some(Class::Spent)
    );
    assert_eq!(
        class(&rules, 400, &[], &body("EXHAUSTED", 9, "tokens per day")),
        None
    );
    assert_eq!(
        class(&rules, 400, &[], &body("FINE", 8, "tokens per day")),
        None
    );
    assert_eq!(
        class(&rules, 400, &[], &body("EXHAUSTED", 8, "tokens per hour")),
        None
    );
}

#[test]
fn a_star_stands_for_what_begins_or_ends_so() {
    let rules = rules(
        r#"[{ at = "/a", is = ["begin*", "*end"], class = "skip" }, { text = "down", class = "transient" }]"#,
    );
    for (text, expected) in [
        ("beginning", true),
        ("the end", true),
        ("begin", true),
        ("a begin", false),
        ("ends", false),
    ] {
        assert_eq!(
            class(&rules, 400, &[], &json!({ "a": text })).is_some(),
            expected,
            "{text}"
        );
    }
    assert_eq!(
        class(&rules, 502, &[], &json!("<p>down</p>")),
        Some(Class::Transient)
    );
}

#[test]
fn a_rule_without_a_status_is_about_every_answer_that_is_no_success() {
    let rules = rules(r#"[{ at = "/error", is = "limit", class = "slow_down" }]"#);
    for (status, expected) in [
        (200, None),
        (204, None),
        (302, Some(Class::SlowDown)),
        (503, Some(Class::SlowDown)),
    ] {
        assert_eq!(
            class(&rules, status, &[], &json!({ "error": "limit" })),
            expected,
            "{status}"
        );
    }
}
