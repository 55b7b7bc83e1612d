//! What an upstream refuses: what it counts of it, how long to wait after it, and what it says.

use std::time::{Duration, Instant};

use serde_json::{Value, json};

use crate::support::world::{Ran, World};
use ingest_testing::stub_upstream::{StubAnswer, StubUpstream};

const CAPPED: &str = r#"
regions = ["US"]
[upstreams.posts]
base_url = "https://posts.example.com"
auth = { bearer = true }
attempts = 2
errors = [
  { status = 403, at = "/reason", is = "*api_key*", class = "denied" },
  { status = 429, class = "slow_down", free = ["monthly"] },
  { status = 503, class = "transient", pause = "300ms" },
]
[upstreams.posts.calls.list]
path = "posts"
cost = { quarter = 1, monthly = 10 }
records = { at = "/items", kind = "post", id = "/id" }
[credentials.posts]
upstream = "posts"
secret = { env = "POSTS_TOKEN" }
[credentials.posts.limits]
quarter = { quota = 100, window = "15min" }
monthly = { quota = 1000, window = "30d" }
[jobs.posts]
credential = "posts"
steps = [{ call = "list" }]
"#;

fn refusing(times: u64, status: u16) -> World {
    let world = World::written(CAPPED, &[]);
    world.faults(&json!({ "times": times, "status": status, "body": { "message": "no" } }));
    world
}

#[test]
fn a_refusal_that_is_free_for_one_limit_counts_in_the_others() {
    let world = refusing(2, 429);
    let run = world.json(&["--region", "US"]);
    assert_eq!(run["outcome"], "failed", "{run}");
    let units = &run["passes"][0]["units"];
    assert_eq!(
        (&units["quarter"], &units["monthly"]),
        (&json!(2), &Value::Null),
        "{run}"
    );
    assert_eq!((world.charged("quarter"), world.charged("monthly")), (2, 0));
    assert_eq!((world.counted("quarter"), world.counted("monthly")), (2, 0));
    world.json(&["--region", "US"]);
    assert_eq!(
        (world.charged("quarter"), world.charged("monthly")),
        (3, 10)
    );
    assert_eq!(
        (world.counted("quarter"), world.counted("monthly")),
        (3, 10)
    );
}

#[test]
fn a_rule_states_how_long_to_wait_before_the_next_attempt() {
    let world = refusing(1, 503);
    let began = Instant::now();
    let run = world.json(&["--region", "US"]);
    assert_eq!(run["outcome"], "complete", "{run}");
    assert!(began.elapsed() >= Duration::from_millis(300));
}

fn tried(world: &World, status: u16, body: &Value) -> Ran {
    let file = world.directory.path().join("answer.http");
    let text = format!("HTTP/1.1 {status} No\r\ncontent-type: application/json\r\n\r\n{body}");
    std::fs::write(&file, text).unwrap();
    let file = file.to_string_lossy().into_owned();
    world.ingest(&[
        "try", "posts", "list", "--answer", &file, "--format", "json",
    ])
}

#[test]
fn a_value_with_two_stars_matches_in_the_middle() {
    let world = World::written(CAPPED, &[]);
    let report = tried(&world, 403, &json!({ "reason": "the api_key is wrong" })).json();
    assert_eq!(report["rule"], 1, "{report}");
    let report = tried(&world, 403, &json!({ "reason": "the key is wrong" })).json();
    assert_eq!(report["rule"], Value::Null, "{report}");
}

#[test]
fn the_words_of_the_upstream_are_shown_wherever_it_puts_them() {
    let world = World::written(CAPPED, &[]);
    let said = [
        (
            json!({ "error": "RecordInvalid", "description": "Record is too old" }),
            "RecordInvalid: Record is too old",
        ),
        (
            json!({ "error": { "type": "AUTHENTICATION_REQUIRED", "message": "" } }),
            "AUTHENTICATION_REQUIRED",
        ),
        (
            json!([{ "message": [{ "id": "120", "value": "Invalid value" }] }]),
            "Invalid value",
        ),
    ];
    for (body, words) in said {
        let report = tried(&world, 400, &body).json();
        assert_eq!(
            report["message"],
            format!("400 Bad Request: {words}"),
            "{report}"
        );
    }
}

#[test]
fn a_region_that_was_not_requested_after_a_refusal_names_no_attempts() {
    let mut world = World::written(CAPPED, &[]);
    world.set(r#"regions=["US", "GB", "DE"]"#);
    world.set(r#"upstreams.posts.calls.list.params={ region = "{region}" }"#);
    world.faults(&json!({ "times": 9, "status": 429, "body": { "message": "slow" } }));
    let run = world.json(&["--region", "all", "--concurrency", "1"]);
    let passes = run["passes"].as_array().unwrap();
    for pass in passes {
        let says = pass["detail"]
            .as_str()
            .unwrap_or_default()
            .contains("(2 attempts)");
        assert_eq!(says, pass["requests"] == 2, "{run}");
    }
}

#[test]
fn check_requests_an_access_token_only_with_connect() {
    let text = CAPPED.replace(
        "auth = { bearer = true }",
        "auth = { oauth = { kind = \"client_credentials\", token_url = \"http://127.0.0.1:9/token\", client_id = \"me\", client_secret = \"{secret}\" } }",
    );
    let world = World::written(&text, &["upstreams.posts.attempts=1"]);
    let ran = world.ingest(&["check"]);
    assert!(
        ran.stdout.contains("--connect requests an access token"),
        "{ran:?}"
    );
    let ran = world.ingest(&["check", "--connect"]);
    assert!(ran.stdout.contains("127.0.0.1:9"), "{ran:?}");
}

const OWN: &str = r#"
[upstreams.api]
base_url = "https://api.example.com"
attempts = 1
errors = [{ status = 404, class = "skip" }, { status = 403, class = "denied" }]
[upstreams.api.calls.list]
path = "list"
cost = { daily = 1 }
records = { at = "/items", kind = "thing", id = "/id" }
[upstreams.api.calls.detail]
path = "detail"
cost = { daily = 1 }
records = { kind = "detail", id = "/id" }
errors = [{ status = 404, class = "end", free = ["daily"] }]
[credentials.main]
upstream = "api"
limits = { daily = { quota = 10, window = "24h" } }
[jobs.list]
credential = "main"
steps = [{ call = "list" }]
[jobs.detail]
credential = "main"
steps = [{ call = "detail" }]
"#;

fn refusing_as(status: u16, sets: &[&str]) -> (StubUpstream, World) {
    let stub = StubUpstream::answering([StubAnswer::error(status, &json!({ "message": "no" }))]);
    let mut world = World::written(OWN, sets);
    world.set(&format!("upstreams.api.base_url=\"{}\"", stub.url()));
    (stub, world)
}

#[test]
fn error_rules_of_a_call_come_before_those_of_its_upstream() {
    let (_stub, world) = refusing_as(404, &[]);
    let run = world.json(&[]);
    let outcome = |job: &str| {
        let passes = run["passes"].as_array().unwrap();
        let pass = passes.iter().find(|pass| pass["job"] == job).unwrap();
        (pass["outcome"].clone(), pass["units"]["daily"].clone())
    };
    assert_eq!(outcome("list"), (json!("refused"), json!(1)), "{run}");
    assert_eq!(outcome("detail"), (json!("complete"), Value::Null), "{run}");
    assert_eq!(world.charged("daily"), 1);
}

#[test]
fn what_no_rule_of_the_call_matches_is_left_to_those_of_its_upstream() {
    let (_stub, world) = refusing_as(403, &[]);
    let tried = world.ingest(&["try", "main", "detail"]);
    assert!(
        tried
            .stdout
            .contains("class denied, by error rule 2 of 2 of the upstream"),
        "{tried:?}"
    );
    let (_stub, world) = refusing_as(404, &[]);
    let tried = world.ingest(&["try", "main", "detail"]);
    assert!(
        tried.stdout.contains("by error rule 1 of 1 of the call"),
        "{tried:?}"
    );
    let tried = world.ingest(&["try", "main", "list"]);
    assert!(tried.stdout.contains("by error rule 1 of 2"), "{tried:?}");
}

#[test]
fn the_sandbox_refuses_a_call_by_the_rules_of_the_call() {
    let own = r#"{ status = 418, at = "/why", is = "nowhere", class = "skip" }"#;
    let text = OWN.replace(r#"{ status = 404, class = "end", free = ["daily"] }"#, own);
    let text = text.replace(
        "attempts = 1",
        "attempts = 1\nparams = { region = \"{region}\" }",
    );
    let world = World::written(&format!("regions = [\"XX\"]\n{text}"), &[]);
    let run = world.json(&["--region", "all"]);
    let detail = |job: &str| {
        let passes = run["passes"].as_array().unwrap();
        let pass = passes.iter().find(|pass| pass["job"] == job).unwrap();
        pass["detail"].as_str().unwrap().to_owned()
    };
    assert!(detail("list").contains("404"), "{run}");
    assert!(detail("detail").contains("418"), "{run}");
}
