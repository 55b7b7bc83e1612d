//! Limits that an answer's headers tell: the ledger believes the lower of the two.

use serde_json::Value;

use crate::support::world::World;

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
core = { quota = 20, headroom = 2, window = "1h", told = { remaining = "x-ratelimit-remaining", reset = "x-ratelimit-reset", resource = "x-ratelimit-resource" } }
[jobs.things]
credential = "forge"
steps = [{ call = "list" }]
"#;

fn all_answered_well(world: &World) -> bool {
    world.sandbox_says("requests").as_array().unwrap().iter().all(|request| request["status"] == 200)
}

fn after_somebody_else(sets: &[&str]) -> (World, Value) {
    let world = World::written(FORGE, sets);
    for _ in 0..13 {
        assert_eq!(world.somebody_else_asks("forge", "things/US"), 200);
    }
    let run = world.json(&["--region", "all", "--concurrency", "1"]);
    (world, run)
}

#[test]
fn what_somebody_else_spent_is_believed_and_the_headroom_stays_free() {
    let (world, run) = after_somebody_else(&[]);
    assert_eq!(run["outcome"], "stopped", "{run}");
    assert_eq!(run["requests"], 5, "of twenty, thirteen are gone and two are kept free: {run}");
    assert_eq!(world.charged("core"), 18);
    assert_eq!(world.counted("core"), 18);
    assert!(all_answered_well(&world), "nothing was refused upstream");
}

#[test]
fn what_was_believed_survives_a_restart() {
    let (world, _) = after_somebody_else(&[]);
    let requests = world.requests();
    for _ in 0..3 {
        let run = world.json(&["--region", "all"]);
        assert_eq!((run["outcome"].as_str(), world.requests()), (Some("stopped"), requests), "{run}");
    }
    let charge = world.ingest(&["charge", "forge", "list", "--format", "json"]);
    assert_eq!((charge.code, charge.json()["decision"].as_str()), (75, Some("rejected")));
}

#[test]
fn several_regions_at_once_take_no_more_than_was_told_either() {
    let world = World::written(FORGE, &[]);
    for _ in 0..13 {
        world.somebody_else_asks("forge", "things/US");
    }
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
