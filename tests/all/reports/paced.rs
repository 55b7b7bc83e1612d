//! Limits whose `wait` covers their window: they pace the requests of a run, and decide nothing else.

use std::time::Duration;

use serde_json::{Value, json};

use crate::support::world::World;
use ingest_testing::stub_upstream::{StubAnswer, StubRequest, StubUpstream};

/// Lists of thirty ids, of which every other one is of all regions, and batches of fifty.
const LISTS: &str = r#"
regions = ["US", "GB", "DE", "FR", "IN", "BR", "JP", "KR"]
[upstreams.paced]
base_url = "https://paced.example.com"
pause = "1ms"
[upstreams.paced.calls.list]
path = "list/{region}"
cost = { pace = 1 }
page = { kind = "token", param = "after", next = "/next" }
records = { at = "/items", kind = "item", id = "/id" }
[upstreams.paced.calls.detail]
path = "detail"
cost = { pace = 1 }
records = { at = "/items", kind = "detail", id = "/id" }
[credentials.paced]
upstream = "paced"
[credentials.paced.limits]
pace = { quota = 5, window = "500ms", wait = "10s" }
[jobs.lists]
credential = "paced"
[[jobs.lists.steps]]
call = "list"
max_pages = 10
[[jobs.lists.steps]]
call = "detail"
params = { id = "{ids}" }
ids = { from = "list", at = "/id", batch = 50 }
"#;

fn answer(request: &StubRequest) -> StubAnswer {
    let items: Vec<Value> = match request.path.strip_prefix("/list/") {
        Some(region) => (0..30)
            .map(|n| json!({ "id": format!("{region}{n}") }))
            .collect(),
        None => {
            let ids = request.param("id").unwrap().split(',');
            ids.map(|id| json!({ "id": id })).collect()
        }
    };
    StubAnswer::json(&json!({ "items": items })).after(Duration::from_millis(20))
}

fn world(stub: &StubUpstream) -> World {
    World::upon(stub, LISTS)
}

const RUN: [&str; 4] = ["--region", "all", "--concurrency", "8"];
const PREVIEW: [&str; 5] = ["--region", "all", "--concurrency", "8", "--dry-run"];

#[test]
fn a_limit_that_is_waited_for_lets_all_regions_walk_together_and_fill_batches_together() {
    let stub = StubUpstream::start(answer);
    let world = world(&stub);
    let preview = world.json(&PREVIEW);
    let run = world.json(&RUN);
    assert_eq!(run["outcome"], "complete", "{run}");
    // Eight lists, and 240 ids in batches of fifty.
    assert_eq!(stub.requests().len(), 13, "{run}");
    assert_eq!(preview["limits"][0]["fits"], "all", "{preview}");
    assert_eq!(
        preview["limits"][0]["first_unfit"],
        Value::Null,
        "{preview}"
    );
    let passes = preview["passes"].as_array().unwrap();
    assert!(passes.iter().all(|pass| pass["fits"] == "all"), "{preview}");
    // The second run lists as many pages as the first, and finds every id requested again.
    let preview = world.json(&PREVIEW);
    assert_eq!(preview["limits"][0]["expected"], 13, "{preview}");
    assert_eq!(preview["limits"][0]["spends"], 13, "{preview}");
    assert_eq!(world.json(&RUN)["requests"], 13);
}

#[test]
fn a_limit_with_a_longer_window_than_its_wait_still_decides_which_regions_walk() {
    let stub = StubUpstream::start(answer);
    let mut world = world(&stub);
    world.set("upstreams.paced.calls.list.cost={ pace = 1, daily = 1 }");
    world.set("upstreams.paced.calls.detail.cost={ pace = 1, daily = 1 }");
    let daily = |quota: u64| {
        format!(
            "credentials.paced.limits.daily={{ quota = {quota}, window = \"1h\", wait = \"10s\" }}"
        )
    };
    world.set(&daily(999));
    assert_eq!(world.json(&RUN)["outcome"], "complete");
    // Five more units: three lists, and their 90 ids in two batches.
    world.set(&daily(18));
    let preview = world.json(&PREVIEW);
    let run = world.json(&RUN);
    assert_eq!(run["outcome"], "stopped", "{run}");
    let complete = |passes: &Value, key: &str, word: &str| {
        let passes = passes.as_array().unwrap().iter();
        passes
            .filter(|pass| pass["region"] != "*" && pass[key] == word)
            .count()
    };
    assert_eq!(complete(&run["passes"], "outcome", "complete"), 3, "{run}");
    assert_eq!(complete(&preview["passes"], "fits", "all"), 3, "{preview}");
    let limits = preview["limits"].as_array().unwrap();
    let fits: Vec<&Value> = limits.iter().map(|limit| &limit["fits"]).collect();
    assert_eq!(fits, ["part", "all"], "{preview}");
}

#[test]
fn a_forecast_counts_no_pause_as_a_refusal() {
    let stub = StubUpstream::start(answer);
    let world = world(&stub);
    world.json(&RUN);
    let arguments = [
        "forecast",
        "--region",
        "all",
        "--schedule",
        "hourly",
        "--days",
        "1",
    ];
    let forecast = world.json(&arguments);
    assert_eq!(forecast["stopped_runs"], 0, "{forecast}");
    assert_eq!(
        forecast["limits"][0]["first_hit"],
        Value::Null,
        "{forecast}"
    );
    assert_eq!(forecast["limits"][0]["units"], 24 * 13, "{forecast}");
    assert_eq!(forecast["jobs"][0]["most_regions"], 8, "{forecast}");
}
