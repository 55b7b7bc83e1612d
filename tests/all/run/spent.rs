use std::time::Duration;

use chrono::{DateTime, Utc};
use serde_json::json;

use crate::support::world::World;

#[test]
fn a_limit_that_the_upstream_calls_spent_is_closed_until_its_reset_and_can_be_reopened() {
    let world = World::new();
    world.faults(&json!({ "answer": "spent", "after": 2, "times": 100 }));
    let ran = world.ingest(&["--region", "US", "--job", "trending", "--format", "json"]);
    assert_eq!(ran.code, 0, "{ran:?}");
    let report = ran.json();
    assert_eq!(report["outcome"], "stopped");
    assert_eq!(report["stopped_by"]["limit"], "daily");
    assert!(
        ran.stderr.contains("another client is using this quota"),
        "{ran:?}"
    );
    assert_eq!(world.requests(), 3, "a spent limit was asked again");

    let closed = world.json(&["status"])["limits"][0]["closed_until"].clone();
    assert!(closed.is_string(), "{closed}");
    let next = world.json(&["--region", "all"]);
    assert_eq!(next["outcome"], "stopped");
    assert_eq!(next["stopped_by"]["retry_at"], closed);
    assert_eq!(world.requests(), 3, "a closed limit was asked");

    assert_eq!(world.ingest(&["reopen", "youtube", "daily"]).code, 0);
    world.json(&["--region", "US", "--job", "trending"]);
    assert_eq!(world.requests(), 4);
}

#[test]
fn slow_down_is_not_taken_for_spent() {
    let world = World::new();
    world.faults(&json!({ "answer": "slow_down", "times": 2 }));
    let report = world.json(&["--region", "US", "--job", "trending"]);
    assert_eq!(report["passes"][0]["outcome"], "complete", "{report}");
    assert_eq!(report["passes"][0]["requests"], 6, "{report}");
    assert!(world.json(&["status"])["limits"][0]["closed_until"].is_null());
}

#[test]
fn a_key_that_is_not_taken_is_named_and_not_tried_again() {
    let world = World::new();
    let denied = world
        .command(&["--region", "US", "--job", "trending"])
        .env("YOUTUBE_API_KEY", "wrong")
        .output()
        .unwrap();
    assert_eq!(denied.status.code(), Some(1));
    assert_eq!(world.requests(), 1);
    assert!(
        String::from_utf8(denied.stdout)
            .unwrap()
            .contains("rejected the credential")
    );
}

#[test]
fn a_key_that_is_missing_is_named_before_anything_is_charged() {
    let world = World::new();
    let missing = world
        .command(&["--region", "all"])
        .env_remove("YOUTUBE_API_KEY")
        .output()
        .unwrap();
    assert_eq!(missing.status.code(), Some(2));
    let said = String::from_utf8(missing.stderr).unwrap();
    assert!(said.contains("set YOUTUBE_API_KEY"), "{said}");
    assert_eq!((world.requests(), world.charged("daily")), (0, 0));
}

#[test]
fn each_call_that_a_spent_limit_stops_is_told_by_its_own_cost_and_when_just_that_fits() {
    let world = World::configured(
        &[
            "jobs.trending.leave={ daily = 1 }",
            "jobs.discover.leave={}",
        ],
        |_| {},
    );
    world.ingest(&["charge", "youtube", "videos.list", "--times", "9450"]);
    world.faults(&json!({ "call": "videos.list", "answer": "spent", "after": 2, "times": 1 }));
    for _ in 0..2 {
        let report = world.json(&["--region", "all", "--concurrency", "1"]);
        for pass in report["passes"]
            .as_array()
            .unwrap()
            .iter()
            .filter(|pass| pass["job"] == "discover")
        {
            let detail = pass["detail"].as_str().unwrap();
            assert!(
                detail.contains("search.list needs 100 daily") && !detail.contains("reserved for"),
                "{detail}"
            );
            let by_hand = world.json(&["charge", "youtube", "search.list"])["retry_at"]
                .as_str()
                .unwrap()
                .to_owned();
            // The detail rounds up to a second.
            let retry_at: DateTime<Utc> = by_hand.parse().unwrap();
            let rounded = retry_at + Duration::from_micros(999_999);
            let minute = rounded.format("%Y-%m-%d %H:%M").to_string();
            assert!(detail.contains(&minute), "{detail}, not {by_hand}");
        }
    }
}

#[test]
fn the_batches_of_a_job_are_one_row_however_many_waves_ask_for_them() {
    let quota = "credentials.youtube.limits.daily={ quota = 20, window = \"24h\", wait = \"0s\" }";
    let search = "upstreams.youtube.calls.\"search.list\".cost=1";
    let world = World::configured(
        &[
            quota,
            search,
            "jobs.trending.leave={}",
            "jobs.discover.leave={}",
        ],
        |_| {},
    );
    let report = world.json(&["--region", "all", "--job", "trending"]);
    let passes = report["passes"].as_array().unwrap();
    let shared: Vec<_> = passes.iter().filter(|pass| pass["region"] == "*").collect();
    assert_eq!(shared.len(), 1, "{report}");
    let requests: u64 = passes
        .iter()
        .map(|pass| pass["requests"].as_u64().unwrap())
        .sum();
    assert_eq!(report["requests"], requests);
}
