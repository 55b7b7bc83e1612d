//! `max_concurrency`: how many requests an upstream gets at the same time.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use serde_json::json;

use crate::support::world::World;
use ingest_testing::stub_upstream::{StubAnswer, StubUpstream};

const TEXT: &str = r#"
regions = ["US", "GB", "DE", "FR", "IN", "BR"]
[upstreams.list]
base_url = "https://list.example.com"
pause = "1ms"
[upstreams.list.calls.list]
path = "list"
cost = 1
records = { at = "/items", kind = "item", id = "/id" }
[credentials.list]
upstream = "list"
limits = { daily = { quota = 100, window = "24h" } }
[jobs.list]
credential = "list"
leave = { daily = 0 }
[[jobs.list.steps]]
call = "list"
params = { region = "{region}" }
"#;

/// The most requests that the upstream had at the same time, in a run of six regions.
fn most_at_once(sets: &[&str]) -> usize {
    let (now, most) = (AtomicUsize::new(0), Arc::new(AtomicUsize::new(0)));
    let seen = Arc::clone(&most);
    let upstream = StubUpstream::start(move |_| {
        seen.fetch_max(now.fetch_add(1, Ordering::SeqCst) + 1, Ordering::SeqCst);
        std::thread::sleep(Duration::from_millis(150));
        now.fetch_sub(1, Ordering::SeqCst);
        StubAnswer::json(&json!({ "items": [] }))
    });
    let mut world = World::upon(&upstream, TEXT);
    for set in sets {
        world.set(set);
    }
    let run = world.json(&["--region", "all", "--concurrency", "6"]);
    assert_eq!(run["outcome"], "complete", "{run}");
    assert_eq!(upstream.requests().len(), 6);
    assert_eq!(world.recorded("daily"), 6);
    most.load(Ordering::SeqCst)
}

#[test]
fn an_upstream_gets_no_more_requests_at_the_same_time_than_max_concurrency() {
    assert_eq!(most_at_once(&["upstreams.list.max_concurrency=2"]), 2);
    assert!(most_at_once(&[]) > 2);
}
