//! Limits whose quota belongs to a value of the regions, and limits that credentials share by their account.

use std::fmt::Write as _;

use serde_json::{Value, json};
use tempfile::TempDir;

use super::limit;
use crate::support::world::World;
use ingest_testing::redis_server::RedisServer;
use ingest_testing::stub_upstream::{StubAnswer, StubUpstream};

const RUN: [&str; 4] = ["--region", "all", "--concurrency", "1"];

/// Three regions of two properties. Each property grants one request a month.
const PROPERTIES: &str = r#"
[regions]
NORTH = { property = 1 }
EAST = { property = 1 }
SOUTH = { property = 2 }
[upstreams.site]
base_url = "https://site.example.com"
pause = "1ms"
attempts = 1
auth = { bearer = true }
errors = [{ status = 403, class = "spent", limit = "monthly" }]
[upstreams.site.calls.report]
path = "properties/{property}/report"
cost = { monthly = 1, daily = 1 }
records = { at = "/items", kind = "item", id = "/id" }
[credentials.site]
upstream = "site"
secret = { env = "KEY" }
[credentials.site.limits]
monthly = { quota = 1, resets = "UTC", period = "month", scope = "{property}", wait = "0s" }
daily = { quota = 100, window = "24h" }
[jobs.site]
credential = "site"
steps = [{ call = "report" }]
"#;

fn outcomes(run: &Value) -> Vec<(&str, &str)> {
    let passes = run["passes"].as_array().unwrap().iter();
    let mut outcomes: Vec<_> = passes
        .map(|pass| {
            (
                pass["region"].as_str().unwrap(),
                pass["outcome"].as_str().unwrap(),
            )
        })
        .collect();
    outcomes.sort_unstable();
    outcomes
}

fn used(report: &Value, name: &str) -> u64 {
    limit(report, name)["used"].as_u64().unwrap()
}

#[test]
fn each_value_of_a_scope_has_a_quota_of_its_own() {
    let world = World::written(PROPERTIES, &[]);
    let run = world.json(&RUN);
    let expected = [
        ("EAST", "stopped"),
        ("NORTH", "complete"),
        ("SOUTH", "complete"),
    ];
    assert_eq!(outcomes(&run), expected, "{run}");
    assert_eq!(run["stopped_by"]["limit"], "monthly/1", "{run}");
    for (name, units) in [("monthly/1", 1), ("monthly/2", 1), ("daily", 2)] {
        assert_eq!(world.counted(name), units, "{name}");
        assert_eq!(world.recorded(name), units, "{name}");
        assert_eq!(used(&run, name), units, "{name}");
        assert_eq!(used(&world.json(&["status"]), name), units, "{name}");
    }
    let again = world.json(&["--region", "EAST"]);
    assert_eq!(
        (&again["outcome"], &again["requests"]),
        (&json!("stopped"), &json!(0))
    );
}

#[test]
fn previews_and_forecasts_count_each_value_of_a_scope_apart() {
    let world = World::written(PROPERTIES, &[]);
    let preview = world.json(&["--region", "all", "--dry-run"]);
    let fits = |name| limit(&preview, name)["fits"].as_str().unwrap();
    assert_eq!(
        (fits("monthly/1"), fits("monthly/2")),
        ("part", "all"),
        "{preview}"
    );
    assert_eq!(limit(&preview, "monthly/1")["expected"], 2, "{preview}");
    assert_eq!(limit(&preview, "monthly/2")["expected"], 1, "{preview}");
    assert_eq!(limit(&preview, "daily")["expected"], 3, "{preview}");
    let forecast = world.json(&["forecast", "--schedule", "hourly", "--days", "2"]);
    assert_eq!(limit(&forecast, "monthly/1")["units"], 1, "{forecast}");
    assert_eq!(limit(&forecast, "monthly/2")["units"], 1, "{forecast}");
}

#[test]
fn a_ledger_that_is_lost_is_refilled_with_what_each_value_spent() {
    let world = World::written(PROPERTIES, &[]);
    world.json(&RUN);
    std::fs::remove_file(world.state_dir().join("ledger.db")).unwrap();
    let again = world.json(&["--region", "EAST"]);
    assert_eq!(
        (&again["outcome"], &again["requests"]),
        (&json!("stopped"), &json!(0)),
        "{again}"
    );
    assert_eq!(
        (used(&again, "monthly/1"), used(&again, "daily")),
        (1, 2),
        "{again}"
    );
}

/// The world of an upstream that does what a test says.
fn answered(upstream: &StubUpstream, sets: &[&str]) -> World {
    let mut world = World::written(PROPERTIES, &[]);
    world.set(&format!("upstreams.site.base_url={}", upstream.url()));
    world.set("credentials.site.limits.monthly.quota=50");
    for set in sets {
        world.set(set);
    }
    world
}

#[test]
fn a_refusal_closes_the_limit_of_its_value_alone() {
    let upstream = StubUpstream::start(|request| match request.path.contains("/1/") {
        true => StubAnswer::error(403, &json!({})),
        false => StubAnswer::json(&json!({ "items": [] })),
    });
    let run = answered(&upstream, &[]).json(&RUN);
    let expected = [
        ("EAST", "stopped"),
        ("NORTH", "stopped"),
        ("SOUTH", "complete"),
    ];
    assert_eq!(outcomes(&run), expected, "{run}");
    assert_eq!(upstream.requests().len(), 2, "{run}");
    let closed = |name| limit(&run, name)["closed_until"].is_string();
    assert_eq!(
        ["monthly/1", "monthly/2", "daily"].map(closed),
        [true, false, false],
        "{run}"
    );
}

#[test]
fn what_a_response_reports_is_about_its_value_alone() {
    let upstream = StubUpstream::start(|request| {
        let left = if request.path.contains("/1/") {
            "5"
        } else {
            "30"
        };
        let page = json!({ "items": [], "cost": 3 });
        StubAnswer::json(&page).header("x-left", left)
    });
    let sets = [
        "credentials.site.limits.monthly.reported={ remaining = \"x-left\" }",
        "upstreams.site.calls.report.settle={ monthly = \"/cost\" }",
    ];
    let world = answered(&upstream, &sets);
    let run = world.json(&["--region", "NORTH,SOUTH", "--concurrency", "1"]);
    assert_eq!(run["outcome"], "complete", "{run}");
    assert_eq!(
        (used(&run, "monthly/1"), used(&run, "monthly/2")),
        (45, 20),
        "{run}"
    );
    assert_eq!(used(&run, "daily"), 2, "{run}");
    let north = &run["passes"][0];
    assert_eq!(
        north["units"],
        json!({ "monthly/1": 3, "daily": 1 }),
        "{run}"
    );
}

#[test]
fn a_charge_by_hand_names_the_region_of_a_scope() {
    let world = World::written(PROPERTIES, &[]);
    let nameless = world.ingest(&["charge", "site", "report"]);
    assert_eq!(nameless.code, 2, "{nameless:?}");
    assert!(nameless.stderr.contains("--region"), "{nameless:?}");
    let unknown = world.ingest(&["charge", "site", "report", "--region", "SUOTH"]);
    assert!(unknown.stderr.contains("SOUTH"), "{unknown:?}");
    let charged = world.json(&["charge", "site", "report", "--region", "EAST"]);
    assert_eq!(
        charged["units"],
        json!({ "monthly/1": 1, "daily": 1 }),
        "{charged}"
    );
    let again = world.ingest(&["charge", "site", "report", "--region", "NORTH"]);
    assert_eq!(again.code, 75, "{again:?}");
}

/// Two credentials of one account.
const TOGETHER: &str = r#"
regions = ["US", "GB", "DE"]
[upstreams.list]
base_url = "https://list.example.com"
pause = "1ms"
auth = { bearer = true }
[upstreams.list.calls.list]
path = "list"
cost = { all = 1 }
params = { region = "{region}" }
records = { at = "/items", kind = "item", id = "/id" }
[credentials.first]
upstream = "list"
secret = { env = "KEY" }
account = "list"
limits = { all = { quota = 4, window = "24h" } }
[credentials.second]
upstream = "list"
secret = { env = "KEY" }
account = "list"
[jobs.first]
credential = "first"
steps = [{ call = "list" }]
[jobs.second]
credential = "second"
steps = [{ call = "list" }]
"#;

#[test]
fn credentials_share_the_limits_of_their_account() {
    let upstream = StubUpstream::start(|_| StubAnswer::json(&json!({ "items": [] })));
    let mut world = World::written(TOGETHER, &[]);
    world.set(&format!("upstreams.list.base_url={}", upstream.url()));
    let run = |job| world.json(&[&RUN[..], &["--job", job]].concat());
    let (first, second) = (run("first"), run("second"));
    assert_eq!(first["outcome"], "complete", "{first}");
    assert_eq!(second["outcome"], "stopped", "{second}");
    assert_eq!(second["stopped_by"]["limit"], "all", "{second}");
    assert_eq!(second["stopped_by"]["account"], "list", "{second}");
    assert_eq!(used(&world.json(&["status"]), "all"), 4);
    assert_eq!(upstream.requests().len(), 4);
}

#[test]
fn a_scope_that_applies_to_nothing_is_rejected() {
    let scope = "credentials.site.limits.monthly.scope";
    let batch = "jobs.site.steps=[{ call = \"report\" }, { call = \"report\", \
        params = { id = \"{ids}\" }, ids = { from = \"report\", at = \"/id\", batch = 5 } }]";
    let cases = [
        (format!("{scope}={{porperty}}"), "no region has values"),
        (format!("{scope}=monthly"), "expected {region} or values"),
        (format!("{scope}={{cursor}}"), "expected {region} or values"),
        ("regions.WEST={}".to_owned(), "region \"WEST\" has no value"),
        (batch.to_owned(), "a request for ids serves several regions"),
        (
            "credentials.site.limits.\"a/b\"={ quota = 1, window = \"1h\" }".to_owned(),
            "without `/`",
        ),
    ];
    for (set, expected) in cases {
        let world = World::written(PROPERTIES, &[]);
        let checked = world.ingest(&["check", "--set", &set]);
        assert_eq!(checked.code, 2, "{set}: {checked:?}");
        let said = format!("{}{}", checked.stdout, checked.stderr);
        assert!(said.contains(expected), "{set}: {checked:?}");
    }
}

/// More values than a script is sent limits of at once.
const PLACES: usize = 130;

/// As many regions in a file, each with a value of its own, over Redis.
fn places_over(server: &RedisServer) -> (World, TempDir) {
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("places.csv");
    let mut places = "code,property\n".to_owned();
    for place in 0..PLACES {
        writeln!(places, "P{place},{place}").unwrap();
    }
    std::fs::write(&file, places).unwrap();
    let (_, rest) = PROPERTIES.split_once("[upstreams.site]").unwrap();
    let text = format!("[regions]\nfile = {file:?}\n[upstreams.site]{rest}");
    let url = format!("redis://127.0.0.1:{}", server.port());
    let mut world = World::written(&text, &["credentials.site.limits.daily.quota=1000"]);
    world
        .set(&format!("ledger.url={url}"))
        .set("ledger.timeout=20s");
    (world, directory)
}

/// How many values have used as many units.
fn values_used(report: &Value, units: u64) -> usize {
    let limits = report["limits"].as_array().unwrap().iter();
    let values = limits.filter(|limit| limit["limit"] != "daily");
    values.filter(|limit| limit["used"] == units).count()
}

#[test]
fn two_runs_at_once_spend_the_quota_of_each_of_many_values_over_redis_once() {
    let server = RedisServer::start();
    let (world, _places) = places_over(&server);
    for run in world.ingest_at_once(2, &["--region", "all", "--format", "json"]) {
        assert_eq!(run.code, 0, "{run:?}");
    }
    let status = world.json(&["status"]);
    assert_eq!(values_used(&status, 1), PLACES, "{status}");
    assert_eq!(used(&status, "daily"), PLACES as u64);
    for place in 0..PLACES {
        assert_eq!(world.counted(&format!("monthly/{place}")), 1, "{place}");
    }
    for wipe in ["PING", "FLUSHALL"] {
        server.tell(wipe);
        let again = world.json(&["--region", "P7"]);
        assert_eq!(
            (&again["outcome"], &again["requests"]),
            (&json!("stopped"), &json!(0)),
            "{wipe}: {again}"
        );
        assert_eq!(again["stopped_by"]["limit"], "monthly/7", "{wipe}");
        assert_eq!(values_used(&again, 1), PLACES, "{wipe}: {again}");
    }
}
