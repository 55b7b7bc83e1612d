use std::time::Duration;

use chrono::{DateTime, Utc};
use serde_json::json;

use crate::support::world::World;

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
