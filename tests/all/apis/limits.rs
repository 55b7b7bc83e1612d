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
