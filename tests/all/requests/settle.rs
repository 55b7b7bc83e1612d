//! Costs that the answer tells.

use serde_json::json;

use super::limit;
use crate::support::world::World;
use ingest_testing::redis_server::RedisServer;

const METER: &str = r#"
regions = ["US", "GB", "DE"]
[upstreams.meter]
base_url = "https://meter.example.com/v1"
[upstreams.meter.calls.report]
path = "reports/{region}"
cost = { tokens = 400 }
settle = { tokens = "/usage/tokens" }
records = { at = "/rows", kind = "row", id = "/id" }
[credentials.meter]
upstream = "meter"
limits = { tokens = { quota = 100_000, window = "1h" } }
[jobs.reports]
credential = "meter"
steps = [{ call = "report" }]
"#;

const SERIAL: [&str; 3] = ["--region", "all", "--concurrency=1"];

#[test]
fn a_true_cost_above_the_estimate_is_charged_in_full_and_the_next_request_is_refused() {
    let server = RedisServer::start();
    beyond_the_limit("ledger.url=sqlite");
    beyond_the_limit(&format!(
        "ledger.url=\"redis://127.0.0.1:{}\"",
        server.port()
    ));
}

fn beyond_the_limit(ledger: &str) {
    let mut world = World::written(METER, &[]);
    world.set(ledger).set("ledger.timeout=2s");
    world
        .set("upstreams.meter.calls.report.cost.tokens=2")
        .set("credentials.meter.limits.tokens.quota=100");
    let run = world.json(&SERIAL);
    assert_eq!(
        (run["outcome"].as_str(), world.requests()),
        (Some("stopped"), 1),
        "{run}"
    );
    let truth = world.counted("tokens");
    assert!(truth > 100, "beyond the limit: {truth}");
    assert_eq!(world.charged("tokens"), truth);
    assert_eq!(
        run["passes"]
            .as_array()
            .unwrap()
            .iter()
            .map(|pass| pass["units"]["tokens"].as_u64().unwrap_or(0))
            .sum::<u64>(),
        truth
    );
    assert_eq!(limit(&run, "tokens")["remaining"], 0);
    let again = world.json(&SERIAL);
    assert_eq!(
        (again["outcome"].as_str(), world.requests()),
        (Some("stopped"), 1),
        "{again}"
    );
}

#[test]
fn a_true_cost_below_the_estimate_gives_the_rest_back() {
    let server = RedisServer::start();
    gives_back("ledger.url=sqlite");
    gives_back(&format!(
        "ledger.url=\"redis://127.0.0.1:{}\"",
        server.port()
    ));
}

fn gives_back(ledger: &str) {
    let mut world = World::written(METER, &[]);
    world.set(ledger).set("ledger.timeout=2s");
    world.set("upstreams.meter.calls.report.cost.tokens=20000");
    let run = world.json(&SERIAL);
    assert_eq!(run["outcome"], "complete", "{run}");
    assert_eq!(world.charged("tokens"), world.counted("tokens"));
    assert!(world.charged("tokens") < 20_000);
}

#[test]
fn the_next_estimate_is_learned_from_answers_and_previews_and_forecasts_know_it() {
    let mut world = World::written(METER, &[]);
    world.set("upstreams.meter.calls.report.cost.tokens=2");
    let expected = |world: &World| {
        limit(&world.json(&["--region", "US", "--dry-run"]), "tokens")["expected"].as_u64()
    };
    assert_eq!(expected(&world), Some(2));
    assert_eq!(world.json(&["--region", "US"])["outcome"], "complete");
    let truth = world.counted("tokens");
    assert_eq!(expected(&world), Some(truth), "it rises at once");
    let hourly = [
        "forecast",
        "--region",
        "US",
        "--schedule",
        "hourly",
        "--days",
        "1",
    ];
    let forecast = world.json(&hourly);
    assert_eq!(
        limit(&forecast, "tokens")["units"],
        24 * truth,
        "{forecast}"
    );
    // What was learned is more than the limit could ever grant: the most that it can is asked for.
    world.set("credentials.meter.limits.tokens.quota=50");
    assert_eq!(expected(&world), Some(50));
    world
        .set("credentials.meter.limits.tokens.quota=100_000")
        .set("upstreams.meter.calls.report.cost.tokens=9000");
    assert_eq!(
        expected(&world),
        Some(truth),
        "what was learned goes before what was guessed"
    );
}

#[test]
fn what_no_call_charges_is_not_settled() {
    let world = World::written(METER, &[]);
    let wrong = world.ingest(&[
        "check",
        "--set",
        "upstreams.meter.calls.report.settle.hourly=/usage/hourly",
    ]);
    assert_eq!(wrong.code, 2);
    assert!(
        wrong.stderr.contains("the call does not charge this limit"),
        "{wrong:?}"
    );
}

#[test]
fn a_true_cost_that_a_refusal_tells_counts_where_it_is_more() {
    for (status, body) in [
        (500, json!({ "usage": { "tokens": 900 }, "error": "busy" })),
        (200, json!({ "usage": { "tokens": 900 }, "rows": "none" })),
        (200, json!({ "usage": { "tokens": 900 }, "error": "no" })),
    ] {
        let mut world = World::written(METER, &[]);
        world.set("upstreams.meter.attempts=1");
        world.faults(&json!({ "status": status, "body": body, "times": 1 }));
        let run = world.ingest(&["--region", "US", "--format", "json"]).json();
        assert_eq!(
            (
                &run["passes"][0]["outcome"],
                &run["passes"][0]["units"]["tokens"]
            ),
            (&"failed".into(), &900.into())
        );
        assert_eq!(world.charged("tokens"), 900);
    }
    let world = World::written(METER, &["upstreams.meter.attempts=1"]);
    world.faults(&json!({ "status": 500, "body": { "usage": { "tokens": 1 } }, "times": 1 }));
    world.ingest(&["--region", "US"]);
    assert_eq!(
        world.charged("tokens"),
        400,
        "that a failure cost less is not believed"
    );
}
