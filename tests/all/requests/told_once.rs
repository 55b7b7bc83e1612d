//! What an upstream, or the disk, said once need not be heard again: nothing more is paid to hear it.

use serde_json::{Value, json};

use crate::support::world::World;
use ingest_testing::stub_upstream::{StubAnswer, StubUpstream};

const RUN: [&str; 5] = ["--region", "all", "--concurrency", "1", "--format=json"];

/// Six regions of one list, and a limit that starts anew at midnight.
fn world(upstream: &StubUpstream) -> World {
    let text = r#"
regions = ["US", "GB", "DE", "FR", "IN", "BR"]
[upstreams.list]
base_url = "https://list.example.com"
pause = "1ms"
attempts = 2
errors = [{ status = 403, class = "spent" }, { status = 429, class = "slow_down" }]
[upstreams.list.calls.list]
path = "list"
cost = 1
records = { at = "/items", kind = "item", id = "/id" }
[credentials.list]
upstream = "list"
limits = { daily = { quota = 100, window = "24h", resets = "UTC" } }
[jobs.list]
credential = "list"
[[jobs.list.steps]]
call = "list"
params = { region = "{region}" }
"#;
    let mut world = World::written(text, &[]);
    world.set(&format!("upstreams.list.base_url={}", upstream.url()));
    world
}

fn refusing(status: u16, retry_after: Option<&'static str>) -> StubUpstream {
    StubUpstream::start(move |_| {
        let answer = StubAnswer::error(status, &json!({}));
        match retry_after {
            Some(pause) => answer.header("retry-after", pause),
            None => answer,
        }
    })
}

#[test]
fn a_long_pause_closes_the_limit_alone_that_the_rule_names() {
    let upstream = refusing(429, Some("120"));
    let mut world = world(&upstream);
    world.set("credentials.list.limits.pace={ quota = 100, window = \"1h\" }");
    world.set("upstreams.list.calls.list.cost={ daily = 1, pace = 1 }");
    world.set("upstreams.list.errors=[{ status = 429, class = \"slow_down\", limit = \"pace\" }]");
    let run = world.ingest(&RUN).json();
    let is_closed = |limit: &Value| limit["closed_until"].is_string();
    let limits = run["limits"].as_array().unwrap();
    let closed: Vec<bool> = limits.iter().map(is_closed).collect();
    assert_eq!(closed, [false, true], "{run}");
    assert_eq!(run["stopped_by"]["limit"], "pace", "{run}");
}

#[test]
fn an_account_that_is_slowed_down_for_all_its_attempts_asks_no_more_in_the_run() {
    let upstream = refusing(429, None);
    let ran = world(&upstream).ingest(&RUN);
    assert_eq!((ran.code, upstream.requests().len()), (1, 2), "{ran:?}");
}

#[test]
fn a_limit_that_is_spent_opens_at_its_reset_however_short_or_long_the_upstream_asks_to_wait() {
    for pause in ["2", "99999999999"] {
        let upstream = refusing(403, Some(pause));
        let world = world(&upstream);
        let run = world.ingest(&RUN).json();
        let closed = run["limits"][0]["closed_until"]
            .as_str()
            .unwrap_or_else(|| panic!("{run}"));
        assert!(closed.contains("T00:01:26"), "a grace past midnight: {run}");
        world.ingest(&RUN);
        assert_eq!(upstream.requests().len(), 1, "{pause}");
    }
}

#[test]
fn what_cannot_be_landed_is_not_paid_for_by_the_other_regions() {
    let upstream = StubUpstream::start(|_| {
        StubAnswer::json(&json!({ "items": [{ "id": "a", "text": "x".repeat(500_000) }] }))
    });
    let world = world(&upstream);
    std::fs::create_dir_all(world.state_dir()).unwrap();
    let command = world.command(&RUN);
    let mut limited = std::process::Command::new("bash");
    limited
        .arg("-c")
        .arg("ulimit -f 300; trap '' XFSZ; exec \"$@\"")
        .arg("bash")
        .arg(command.get_program());
    limited.args(command.get_args());
    limited.envs(
        command
            .get_envs()
            .filter_map(|(name, value)| Some((name, value?))),
    );
    let ran = crate::support::world::Ran::of(limited.output().unwrap());
    assert_eq!((ran.code, upstream.requests().len()), (1, 1), "{ran:?}");
}
