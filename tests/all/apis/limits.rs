//! What responses report about limits.

use serde_json::{Value, json};

use super::{Api, run};
use ingest_testing::stub_upstream::{StubAnswer, StubUpstream};

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

/// Stack Exchange's shape: a page that allows no further request for some seconds.
fn with_backoff(seconds: u64) -> StubUpstream {
    StubUpstream::start(move |request| {
        StubAnswer::json(&match request.param("page") {
            None | Some("1") => {
                json!({ "data": [{ "id": 1 }], "has_more": true, "backoff": seconds })
            }
            Some(_) => json!({ "data": [{ "id": 2 }], "has_more": false }),
        })
    })
}

const PAGED: &str = r#"page = { kind = "number", param = "page", more = "/has_more" }
records = { at = "/data", kind = "row", id = "/id" }"#;

#[test]
fn a_reset_without_remaining_units_closes_the_limit_until_then() {
    let stub = with_backoff(3_600);
    let world = Api {
        call: PAGED,
        limit: r#"reported = { reset = "/backoff" }"#,
        ..Api::default()
    }
    .world(&stub);
    for _ in 0..2 {
        let report = run(&world);
        assert_eq!(report["outcome"], "stopped", "{report}");
        assert_eq!(stub.requests().len(), 1);
        let wait = report["stopped_by"]["retry_after_seconds"].as_f64();
        assert!((3_500.0..3_601.0).contains(&wait.unwrap()), "{report}");
    }
    let reopened = world.json(&["reopen", "main", "daily"]);
    assert_eq!(reopened["reopened"], true, "{reopened}");
    let report = run(&world);
    assert_eq!(report["outcome"], "complete", "{report}");
    assert_eq!((stub.requests().len(), world.charged("daily")), (2, 2));
    assert!(report["passes"][0]["detail"].is_null(), "{report}");
}

#[test]
fn a_run_waits_for_a_short_reset_as_it_does_for_the_limit() {
    let stub = with_backoff(1);
    let world = Api {
        call: PAGED,
        limit: "reported = { reset = \"/backoff\" }\nwait = \"10s\"",
        ..Api::default()
    }
    .world(&stub);
    let began = std::time::Instant::now();
    assert_eq!(run(&world)["outcome"], "complete");
    assert!(began.elapsed() >= std::time::Duration::from_millis(900));
    let tried = world.json(&["try", "main", "list"]);
    assert_eq!(tried["reported"][0]["remaining"], Value::Null, "{tried}");
    assert!(tried["reported"][0]["reset"].is_string(), "{tried}");
}

/// X's shape: a refusal that reports nothing left, and when it resets.
fn exhausted_once(status: u16) -> StubUpstream {
    StubUpstream::start(move |request| {
        let answer = match request.number {
            0 if status != 200 => {
                StubAnswer::error(status, &json!({ "title": "Too Many Requests" }))
            }
            _ => StubAnswer::json(&json!({ "data": [{ "id": 1 }] })),
        };
        match request.number {
            0 => answer.header("x-left", "0").header("x-reset", "3000"),
            _ => answer.header("x-left", "400").header("x-reset", "3000"),
        }
    })
}

#[test]
fn reopen_opens_a_limit_of_which_a_refusal_or_a_page_reported_nothing_left() {
    for status in [429, 403, 200] {
        let stub = exhausted_once(status);
        let world = Api {
            upstream: r#"errors = [{ status = 429, class = "spent" }, { status = 403, class = "slow_down" }]"#,
            call: LIST,
            limit: r#"reported = { remaining = "x-left", reset = "x-reset" }"#,
            ..Api::default()
        }
        .world(&stub);
        run(&world);
        let report = run(&world);
        assert_eq!(report["outcome"], "stopped", "{report}");
        let wait = report["stopped_by"]["retry_after_seconds"].as_f64();
        assert!((2_900.0..3_100.0).contains(&wait.unwrap()), "{report}");
        assert_eq!(stub.requests().len(), 1, "{status}");
        let reopened = world.json(&["reopen", "main", "daily"]);
        assert_eq!(reopened["reopened"], true, "{status}: {reopened}");
        assert!(reopened["used"].is_null(), "{status}: {reopened}");
        assert_eq!(run(&world)["outcome"], "complete", "{status}");
        assert_eq!(stub.requests().len(), 2, "{status}");
    }
}
