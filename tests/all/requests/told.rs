//! Limits that an answer's headers tell: the ledger believes the lower of the two.

use serde_json::{Value, json};

use crate::support::world::World;
use ingest_testing::redis_server::RedisServer;

/// 35 records a region, ten a page: twelve requests.
const FORGE: &str = r#"
regions = ["US", "GB", "DE"]
[upstreams.forge]
base_url = "https://forge.example.com"
auth = { bearer = true }
errors = [{ status = [403, 429], header = "x-ratelimit-remaining", header_is = "0", class = "spent", until_header = "x-ratelimit-reset" }]
[upstreams.forge.calls.list]
path = "things/{region}"
cost = { core = 1 }
page = { kind = "link", size = 10 }
records = { at = "/items", kind = "thing", id = "/id" }
[credentials.forge]
upstream = "forge"
secret = { env = "FORGE_TOKEN" }
[credentials.forge.limits]
core = { quota = 20, headroom = 2, window = "1h", reported = { remaining = "x-ratelimit-remaining", reset = "x-ratelimit-reset", resource = "x-ratelimit-resource" } }
[jobs.things]
credential = "forge"
steps = [{ call = "list" }]
"#;

fn all_answered_well(world: &World) -> bool {
    world
        .sandbox_says("requests")
        .as_array()
        .unwrap()
        .iter()
        .all(|request| request["status"] == 200)
}

/// Of twenty, thirteen are gone.
fn somebody_else(world: &World) {
    for _ in 0..13 {
        assert_eq!(world.somebody_else_asks("forge", "things/US"), 200);
    }
}

fn after_somebody_else(sets: &[&str]) -> (World, Value) {
    let world = World::written(FORGE, sets);
    somebody_else(&world);
    let run = world.json(&["--region", "all", "--concurrency", "1"]);
    (world, run)
}

#[test]
fn what_somebody_else_spent_is_believed_and_the_headroom_stays_free() {
    let (world, run) = after_somebody_else(&[]);
    assert_eq!(run["outcome"], "stopped", "{run}");
    assert_eq!(
        run["requests"], 5,
        "of twenty, thirteen are gone and two are kept free: {run}"
    );
    assert_eq!(world.charged("core"), 18);
    assert_eq!(world.counted("core"), 18);
    assert!(all_answered_well(&world), "nothing was refused upstream");
}

/// What refuses a request, and leaves the others alone.
fn refusals() -> [Value; 3] {
    [404, 429, 503].map(|status| json!({ "call": "list", "times": 1, "status": status, "body": { "message": "no" } }))
}

#[test]
fn a_refusal_tells_what_is_left_as_well_as_a_page_does() {
    for refusal in refusals() {
        let mut world = World::written(FORGE, &["upstreams.forge.attempts=1"]);
        somebody_else(&world);
        world.faults(&refusal);
        let run = world.json(&["--region", "US", "--concurrency", "1"]);
        assert_eq!(
            (run["outcome"].as_str(), world.requests()),
            (Some("failed"), 14),
            "{run}"
        );
        assert_eq!(world.charged("core"), 14, "{refusal}");
        world.set("jobs.things.every=1us");
        let run = world.json(&["--region", "all", "--concurrency", "1"]);
        assert_eq!(
            (run["outcome"].as_str(), run["requests"].as_u64()),
            (Some("stopped"), Some(4)),
            "{run}"
        );
    }
}

#[test]
fn a_limit_that_a_refusal_calls_spent_is_full_until_the_reset_that_it_told() {
    let world = World::written(
        FORGE,
        &["upstreams.forge.errors=[]", "upstreams.forge.attempts=4"],
    );
    let reset = std::time::SystemTime::now()
        .duration_since(std::time::UNIX_EPOCH)
        .unwrap()
        .as_secs()
        + 600;
    let headers = json!({ "x-ratelimit-remaining": "0", "x-ratelimit-reset": reset.to_string(), "x-ratelimit-resource": "core" });
    world.faults(
        &json!({ "call": "list", "times": 1, "status": 429, "body": {}, "headers": headers }),
    );
    let run = world.json(&["--region", "all", "--concurrency", "1"]);
    assert_eq!(
        (run["outcome"].as_str(), world.requests()),
        (Some("stopped"), 1),
        "no rule says that it is spent: {run}"
    );
    let wait = run["stopped_by"]["retry_after_seconds"].as_f64().unwrap();
    assert!((590.0..610.0).contains(&wait), "{run}");
    let again = world.json(&["--region", "all"]);
    assert_eq!(
        (again["outcome"].as_str(), world.requests()),
        (Some("stopped"), 1),
        "{again}"
    );
}

#[test]
fn over_redis_what_is_told_is_believed_and_survives_too() {
    let server = RedisServer::start();
    let mut world = World::written(FORGE, &[]);
    world
        .set(&format!(
            "ledger.url=\"redis://127.0.0.1:{}\"",
            server.port()
        ))
        .set("ledger.timeout=2s");
    somebody_else(&world);
    for (outcome, requests) in [("stopped", 18), ("stopped", 18)] {
        let run = world.json(&["--region", "all", "--concurrency", "1"]);
        assert_eq!(
            (run["outcome"].as_str(), world.requests()),
            (Some(outcome), requests),
            "{run}"
        );
        assert_eq!((world.charged("core"), world.counted("core")), (18, 18));
    }
    assert!(all_answered_well(&world));
}

#[test]
fn what_was_believed_survives_a_restart() {
    let (world, _) = after_somebody_else(&[]);
    let requests = world.requests();
    for _ in 0..3 {
        let run = world.json(&["--region", "all"]);
        assert_eq!(
            (run["outcome"].as_str(), world.requests()),
            (Some("stopped"), requests),
            "{run}"
        );
    }
    let charge = world.ingest(&["charge", "forge", "list", "--format", "json"]);
    assert_eq!(
        (charge.code, charge.json()["decision"].as_str()),
        (75, Some("rejected"))
    );
}

#[test]
fn several_regions_at_once_take_no_more_than_was_told_either() {
    let world = World::written(FORGE, &[]);
    somebody_else(&world);
    let run = world.json(&["--region", "all", "--concurrency", "3"]);
    assert_eq!(run["outcome"], "stopped", "{run}");
    assert!(all_answered_well(&world));
    assert!(world.counted("core") <= 18, "{}", world.counted("core"));
    assert!(world.charged("core") >= world.counted("core"));
}

#[test]
fn an_answer_that_tells_of_another_limit_changes_nothing() {
    let (world, run) = after_somebody_else(&["credentials.forge.limits.core.quota=40"]);
    assert_eq!(run["outcome"], "complete", "{run}");
    let mut world = world;
    world.set("credentials.forge.limits.core.upstream_name=another");
    let run = world.json(&["--region", "US"]);
    assert_eq!(run["outcome"], "complete", "{run}");
}

#[test]
fn alone_the_ledger_knows_as_much_as_it_is_told() {
    let world = World::written(FORGE, &[]);
    let run = world.json(&["--region", "all", "--concurrency", "3"]);
    assert_eq!(run["outcome"], "complete", "{run}");
    assert_eq!((world.charged("core"), world.counted("core")), (12, 12));
}

/// What the ledger holds back after an answer with these headers, and when all of it is back.
fn after_being_told(remaining: &str, reset: &str) -> (u64, f64) {
    let world = World::written(FORGE, &[]);
    let headers = json!({ "x-ratelimit-remaining": remaining, "x-ratelimit-reset": reset, "x-ratelimit-resource": "core" });
    let body = json!({ "items": [{ "id": "a" }] });
    world.faults(&json!({ "status": 200, "body": body, "headers": headers, "times": 1 }));
    world.json(&["--region", "US"]);
    let status = world.json(&["status"]);
    let limit = &status["limits"][0];
    let back = limit["returns"].as_array().unwrap().last().unwrap()["at"]
        .as_str()
        .unwrap();
    let back = ingest_quota::Timestamp::parse(back).unwrap();
    let now = ingest_base::clock::Clock::now(&ingest_base::clock::SystemClock);
    (
        limit["remaining"].as_u64().unwrap(),
        back.since(now).as_secs_f64(),
    )
}

#[test]
fn less_than_a_unit_and_less_than_nothing_are_nothing() {
    for remaining in ["0", "0.9", "-1", "-0.5"] {
        assert_eq!(after_being_told(remaining, "").0, 0, "{remaining}");
    }
    assert_eq!(after_being_told("10.9", "").0, after_being_told("10", "").0);
}

#[test]
fn a_reset_is_told_in_seconds_from_now_or_as_an_instant() {
    let (_, back) = after_being_told("5", "600");
    assert!(
        (3_000.0..3_700.0).contains(&back),
        "the last of what was charged: {back}"
    );
    let world = World::written(FORGE, &[]);
    let refused = json!({ "x-ratelimit-remaining": "0", "x-ratelimit-reset": "600", "x-ratelimit-resource": "core" });
    world.faults(&json!({ "status": 429, "body": {}, "headers": refused, "times": 1 }));
    let run = world.json(&["--region", "US"]);
    let after = run["stopped_by"]["retry_after_seconds"].as_f64().unwrap();
    assert!(
        (590.0..=605.0).contains(&after),
        "the reset, and the grace of what is held back until then: {run}"
    );
}
