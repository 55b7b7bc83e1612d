//! Lists that the sandbox serves in the order of a feed, and from where the last pass ended.

use serde_json::json;

use crate::support::json::has;
use crate::support::world::World;

/// A feed that is paged in this way, whose step has more keys.
fn world(page: &str, step: &str) -> World {
    let text = format!(
        r#"
regions = ["US"]
[upstreams.feed]
base_url = "https://feed.example.com"
errors = [{{ status = 400, at = "/error/code", is = "syncStateNotFound", class = "old_cursor" }}]
[upstreams.feed.calls.list]
path = "posts"
cost = 1
page = {{ {page} }}
records = {{ at = "/items", kind = "post", id = "/id", removed = {{ at = "/status", is = "cancelled" }} }}
[jobs.posts]
credential = "feed"
steps = [{{ call = "list"{step} }}]
[credentials.feed]
upstream = "feed"
limits = {{ daily = {{ quota = 10_000, window = "24h" }} }}
"#
    );
    World::written(&text, &[])
}

/// The requests and the records of the next run.
fn run(world: &World) -> (u64, u64) {
    let pass = world.json(&["--region", "US"])["passes"][0].clone();
    has(&pass, &json!({ "outcome": "complete" }));
    let number = |name: &str| pass[name].as_u64().unwrap();
    (number("requests"), number("records"))
}

#[test]
fn lists_go_on_where_the_last_one_ended() {
    let by_token =
        r#"kind = "token", param = "page", next = "/next", size_param = "limit", size = 3"#;
    // Where an empty page ends the list, each pass has one.
    for (page, empty) in [
        (
            format!(r#"{by_token}, lasting = "/sync", lasting_param = "sync""#),
            0,
        ),
        (format!(r#"{by_token}, lasting = "last""#), 1),
        (
            format!(r#"{by_token}, done = "/done", lasting = "last""#),
            0,
        ),
        (
            r#"kind = "next_url", next = "/next", lasting = "/delta""#.to_owned(),
            0,
        ),
    ] {
        let world = world(&page, "");
        let (requests, records) = run(&world);
        for _ in 0..6 {
            assert_eq!(run(&world), (1 + empty, 1), "{page}");
        }
        let gone = "select count(*) from record where gone_at is not null";
        assert!(world.count(gone) > 0, "{page}");
        assert_eq!(run(&world), (1 + requests, records), "too old: {page}");
        assert_eq!(run(&world), (1 + empty, 1), "{page}");
    }
}

#[test]
fn the_newest_records_of_a_feed_come_first() {
    let page =
        r#"kind = "number", param = "page", size_param = "size", size = 10, total = "/total""#;
    let world = world(page, ", stop_at_known = { complete_every = \"7d\" }");
    world.totals(&json!({ "list": 45 }));
    assert_eq!(run(&world), (5, 45));
    assert_eq!(run(&world), (1, 10));
    world.totals(&json!({ "list": 57 }));
    assert_eq!(run(&world), (3, 30), "twelve are new");
    assert_eq!(world.count("select count(*) from record"), 57);
    let dry = world.json(&["--region", "US", "--dry-run"]);
    assert_eq!(dry["limits"][0]["expected"], 1, "{dry}");
    assert_eq!(run(&world), (1, 10));
}
