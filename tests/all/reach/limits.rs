//! What responses report about limits.

use serde_json::{Value, json};

use super::{Api, run};
use crate::support::stub_upstream::{StubAnswer, StubUpstream};

const LIST: &str = r#"records = { at = "/data", kind = "row", id = "/id" }"#;

/// The `daily` limit after a run whose response was `answer`.
fn limit_after(answer: StubAnswer, limit: &str) -> Value {
    let stub = StubUpstream::answering([answer]);
    let world = Api {
        call: LIST,
        limit,
        ..Api::default()
    }
    .world(&stub);
    let report = run(&world);
    assert_eq!(report["outcome"], "complete", "{report}");
    world.json(&["status"])["limits"][0].clone()
}

#[test]
fn a_body_reports_the_remaining_units() {
    let body = json!({ "data": [], "rate": { "left": 40 } });
    let limit = limit_after(
        StubAnswer::json(&body),
        r#"reported = { remaining = "/rate/left" }"#,
    );
    assert_eq!(limit["remaining"], 40, "{limit}");
}

#[test]
fn a_header_reports_the_cost() {
    let answer = StubAnswer::json(&json!({ "data": [] })).header("x-cost", "7");
    let stub = StubUpstream::answering([answer]);
    let world = Api {
        call: &format!("{LIST}\nsettle = {{ daily = \"X-Cost\" }}"),
        ..Api::default()
    }
    .world(&stub);
    let report = run(&world);
    assert_eq!(report["passes"][0]["units"]["daily"], 7, "{report}");
    assert_eq!(world.charged("daily"), 7);
    assert!(report["passes"][0]["detail"].is_null(), "{report}");
}

#[test]
fn a_cost_that_no_header_reports_is_noted() {
    let stub = StubUpstream::answering([StubAnswer::json(&json!({ "data": [] }))]);
    let world = Api {
        call: &format!("{LIST}\nsettle = {{ daily = \"x-cost\" }}"),
        ..Api::default()
    }
    .world(&stub);
    let note = "does not report the cost for the limit `daily` in the header `x-cost`";
    assert!(run(&world).to_string().contains(note));
}

#[test]
fn a_reset_is_a_time_or_a_number_of_seconds() {
    let soon = std::time::SystemTime::now() + std::time::Duration::from_secs(3000);
    let epoch = soon
        .duration_since(std::time::UNIX_EPOCH)
        .unwrap()
        .as_secs();
    let written = chrono::DateTime::<chrono::Utc>::from(soon);
    let resets = [
        written.to_rfc3339(),
        written.to_rfc2822(),
        epoch.to_string(),
        (epoch * 1000).to_string(),
        "3000".to_owned(),
    ];
    for reset in resets {
        let answer = StubAnswer::json(&json!({ "data": [] }))
            .header("x-left", "40")
            .header("x-reset", &reset);
        let limit = limit_after(
            answer,
            r#"reported = { remaining = "x-left", reset = "x-reset" }"#,
        );
        assert_eq!(limit["remaining"], 40, "{reset}: {limit}");
        // The units that were charged on the upstream's word return at its reset.
        let returns: Vec<Value> = limit["returns"].as_array().cloned().unwrap_or_default();
        let within_the_hour = returns.iter().any(|one| {
            let at = one["at"].as_str().unwrap();
            let at = chrono::DateTime::parse_from_rfc3339(at).unwrap();
            (at.timestamp() - written.timestamp()).abs() < 120
        });
        assert!(within_the_hour, "{reset}: {limit}");
    }
}

/// Discord's shape: a fraction of a second too early is refused again.
#[test]
fn a_body_says_when_to_retry() {
    let refused = || StubAnswer::error(429, &json!({ "message": "slow", "retry_after": 1.337 }));
    let stub = StubUpstream::answering([refused(), StubAnswer::json(&json!({ "data": [] }))]);
    let world = Api {
        upstream: r#"errors = [{ status = 429, class = "slow_down", until_at = "/retry_after" }]"#,
        call: LIST,
        ..Api::default()
    }
    .world(&stub);
    let began = std::time::Instant::now();
    assert_eq!(run(&world)["outcome"], "complete");
    assert!(began.elapsed() >= std::time::Duration::from_millis(1337));
    assert_eq!(stub.requests().len(), 2);
}
