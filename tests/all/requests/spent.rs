//! A bucket that is spent is not asked again, whatever status says so; one that is too fast is.

use serde_json::{Value, json};

use crate::support::world::World;

const DISCOVER: [&str; 5] = ["--region", "all", "--job", "discover", "--concurrency=1"];

/// The form that newer buckets have: the day's and the minute's differ in their details alone.
fn rate_limit(unit: &str, limit: &str) -> Value {
    let details = json!([{ "reason": "RATE_LIMIT_EXCEEDED", "metadata": { "quota_unit": unit, "quota_limit": limit } }]);
    let errors = json!([{ "domain": "global", "reason": "rateLimitExceeded" }]);
    json!({ "error": { "code": 429, "status": "RESOURCE_EXHAUSTED", "errors": errors, "details": details } })
}

fn asked(world: &World, call: &str) -> usize {
    world
        .sandbox_says("requests")
        .as_array()
        .unwrap()
        .iter()
        .filter(|request| request["call"] == call)
        .count()
}

#[test]
fn a_bucket_that_is_spent_for_the_day_is_asked_once_and_the_others_go_on() {
    for preset in ["youtube", "youtube-granular"] {
        for (status, body) in [
            (
                429,
                rate_limit("1/d/{project}", "defaultSearchListPerDayPerProject"),
            ),
            (
                403,
                rate_limit("1/d/{project}", "defaultSearchListPerDayPerProject"),
            ),
            (429, rate_limit("", "defaultSearchListPerDayPerProject")),
        ] {
            let world = World::preset(preset, &[]);
            world.faults(
                &json!({ "call": "search.list", "times": 99, "status": status, "body": body }),
            );
            for _ in 0..2 {
                let run = world.json(&DISCOVER);
                assert_eq!(
                    (run["outcome"].as_str(), asked(&world, "search.list")),
                    (Some("stopped"), 1),
                    "{run}"
                );
                assert_eq!(run["stopped_by"]["limit"], "search", "{run}");
            }
            let others = world.json(&["--region", "US", "--job", "trending"]);
            assert_eq!(others["outcome"], "complete", "{others}");
            for limit in ["daily", "search"] {
                assert_eq!(
                    world.charged(limit),
                    world.counted(limit),
                    "{preset} {limit}"
                );
            }
        }
    }
}

#[test]
fn a_bucket_that_is_asked_too_fast_is_asked_again() {
    let world = World::preset("youtube-granular", &[]);
    let body = rate_limit("1/min/{project}", "defaultPerMinutePerProject");
    world.faults(&json!({ "call": "search.list", "times": 2, "status": 429, "body": body }));
    let run = world.json(&["--region", "US", "--job", "discover"]);
    assert_eq!(
        (run["outcome"].as_str(), asked(&world, "search.list")),
        (Some("complete"), 3),
        "{run}"
    );
    assert_eq!(
        (world.charged("search"), world.counted("search")),
        (3, 3),
        "each attempt is charged"
    );
}
