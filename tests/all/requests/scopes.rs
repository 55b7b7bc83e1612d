//! A limit whose quota belongs to a value of the regions, of which there are very many.

use std::fmt::Write as _;

use serde_json::{Value, json};
use tempfile::TempDir;

use super::limit;
use crate::support::world::World;
use ingest_testing::redis_server::RedisServer;

/// Each property grants one request a month.
const PROPERTIES: &str = r#"
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
    let text = format!("{PROPERTIES}\n[regions]\nfile = {file:?}\n");
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
    assert_eq!(limit(&status, "daily")["used"], PLACES as u64);
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
