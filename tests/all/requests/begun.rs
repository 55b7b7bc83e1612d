//! Batches of ids that take several pages, or that the upstream refuses.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use serde_json::{Value, json};

use crate::support::world::World;
use ingest_testing::stub_upstream::{StubAnswer, StubRequest, StubUpstream};

const RUN: [&str; 2] = ["--region", "all"];

/// A list of parents, and of each batch of them a list of children.
fn world(upstream: &StubUpstream, batch: u64, quota: &str) -> World {
    let text = format!(
        r#"
regions = ["US"]
[upstreams.tree]
base_url = "https://tree.example.com"
attempts = 1
[upstreams.tree.calls.parents]
path = "parents"
cost = 1
records = {{ at = "/items", kind = "parent", id = "/id" }}
[upstreams.tree.calls.children]
path = "children"
cost = 1
page = {{ kind = "token", param = "page", next = "/next" }}
records = {{ at = "/items", kind = "child", id = "/id" }}
[credentials.tree]
upstream = "tree"
limits = {{ daily = {quota} }}
[jobs.tree]
credential = "tree"
[[jobs.tree.steps]]
call = "parents"
[[jobs.tree.steps]]
call = "children"
params = {{ parents = "{{ids}}" }}
ids = {{ from = "parents", at = "/id", batch = {batch}, fresh_for = "1d" }}
"#
    );
    let mut world = World::written(&text, &[]);
    world.set(&format!("upstreams.tree.base_url={}", upstream.url()));
    world
}

fn items(ids: impl IntoIterator<Item = String>, next: Option<u64>) -> StubAnswer {
    let items: Vec<Value> = ids.into_iter().map(|id| json!({ "id": id })).collect();
    StubAnswer::json(&json!({ "items": items, "next": next.map(|next| format!("T{next}")) }))
}

fn page_of(request: &StubRequest) -> u64 {
    request
        .param("page")
        .map_or(1, |page| page.trim_start_matches('T').parse().unwrap())
}

/// Six pages of children of one parent; the fourth is refused while it is told to be.
fn six_pages(broken: Arc<AtomicBool>) -> StubUpstream {
    StubUpstream::start(move |request| match page_of(request) {
        _ if request.path.ends_with("parents") => items(["p".to_owned()], None),
        4 if broken.load(Ordering::SeqCst) => StubAnswer::error(500, &json!({})),
        page => items([format!("c{page}")], (page < 6).then_some(page + 1)),
    })
}

/// The pages of children that were asked for.
fn pages(upstream: &StubUpstream) -> Vec<u64> {
    let asked = upstream.requests();
    asked
        .iter()
        .filter(|request| request.path.ends_with("children"))
        .map(page_of)
        .collect()
}

fn batches(run: &Value) -> &Value {
    run["passes"]
        .as_array()
        .unwrap()
        .iter()
        .find(|pass| pass["region"] == "*")
        .unwrap_or_else(|| panic!("{run}"))
}

#[test]
fn a_batch_longer_than_the_limit_is_finished_over_several_windows() {
    let upstream = six_pages(Arc::default());
    let world = world(
        &upstream,
        1,
        "{ quota = 3, window = \"1s\", wait = \"0s\" }",
    );
    let mut runs = 0;
    while world.json(&RUN)["outcome"] != "complete" {
        runs += 1;
        assert!(runs < 50, "{:?}", pages(&upstream));
        std::thread::sleep(std::time::Duration::from_millis(500));
    }
    assert_eq!(pages(&upstream), [1, 2, 3, 4, 5, 6]);
}

/// Parents `p0` to `p7`; whatever holds one of these is refused.
fn refusing(bad: &'static [&'static str]) -> StubUpstream {
    StubUpstream::start(move |request| {
        let parents: Vec<&str> = request
            .param("parents")
            .map(|ids| ids.split(',').collect())
            .unwrap_or_default();
        if request.path.ends_with("parents") {
            items((0..8).map(|number| format!("p{number}")), None)
        } else if parents.iter().any(|parent| bad.contains(parent)) {
            StubAnswer::error(400, &json!({ "error": "one of these is no parent" }))
        } else {
            items(
                parents.iter().map(|parent| format!("child of {parent}")),
                None,
            )
        }
    })
}

fn children(world: &World) -> i64 {
    world.count("select count(*) from record where kind = 'child'")
}

#[test]
fn ids_of_which_none_is_served_fail_their_run_and_are_asked_for_again() {
    let upstream = refusing(&["p0", "p1", "p2", "p3", "p4", "p5", "p6", "p7"]);
    let world = world(&upstream, 8, "{ quota = 100, window = \"24h\" }");
    for _ in 0..2 {
        let before = upstream.requests().len();
        let ran = world.ingest(&[&RUN[..], &["--format", "json"]].concat());
        assert_eq!(
            (ran.code, &batches(&ran.json())["outcome"]),
            (1, &"failed".into()),
            "{ran:?}"
        );
        assert!(
            batches(&ran.json())["detail"]
                .as_str()
                .unwrap()
                .contains("refused"),
            "{ran:?}"
        );
        assert!(
            upstream.requests().len() <= before + 4,
            "the list, the batch and its halves"
        );
    }
    assert_eq!(world.count("select count(*) from absent"), 0);
}

#[test]
fn batches_of_one_id_of_which_none_is_served_are_no_absent_ids() {
    let upstream = refusing(&["p0", "p1", "p2", "p3", "p4", "p5", "p6", "p7"]);
    let world = world(&upstream, 1, "{ quota = 100, window = \"24h\" }");
    let ran = world.ingest(&[&RUN[..], &["--format", "json"]].concat());
    assert_eq!(
        (ran.code, &batches(&ran.json())["outcome"]),
        (1, &"failed".into()),
        "{ran:?}"
    );
    assert_eq!(world.count("select count(*) from absent"), 0);
}

#[test]
fn batches_of_one_id_of_which_some_are_served_leave_the_others_out() {
    let upstream = refusing(&["p2", "p5"]);
    let world = world(&upstream, 1, "{ quota = 100, window = \"24h\" }");
    let run = world.json(&RUN);
    assert_eq!(run["outcome"], "complete", "{run}");
    assert_eq!(
        (children(&world), &run["requests"]),
        (6, &9.into()),
        "{run}"
    );
    assert!(
        batches(&run)["detail"]
            .as_str()
            .unwrap()
            .contains("`p2` was refused"),
        "{run}"
    );
}
