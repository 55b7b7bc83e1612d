//! The first request with a secret goes alone: the others of the run wait for what the upstream says of it.

use std::process::{Child, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use rustix::process::{Pid, Signal, kill_process};
use serde_json::{Value, json};

use crate::support::world::{PATIENCE, World, ends_within};
use ingest_testing::stub_upstream::{StubAnswer, StubRequest, StubUpstream};

const RUN: [&str; 2] = ["--region", "all"];

/// Two jobs over eight regions with one key in a file. A request costs 50 units.
fn world(stub: &StubUpstream, every: &str) -> World {
    let text = format!(
        r#"
regions = ["US", "GB", "DE", "FR", "ES", "IT", "NL", "SE"]
[upstreams.things]
base_url = "https://things.example.com"
auth = {{ query = "key" }}
[upstreams.things.calls.list]
path = "list/{{region}}"
cost = 50
records = {{ at = "/items", kind = "named", id = "/id" }}
[upstreams.things.calls.other]
path = "other/{{region}}"
cost = 50
records = {{ at = "/items", kind = "other", id = "/id" }}
[credentials.things]
upstream = "things"
secret = {{ env = "KEY" }}
limits = {{ daily = {{ quota = 10000, window = "24h" }} }}
[jobs.things]
credential = "things"
{every}
steps = [{{ call = "list" }}]
[jobs.others]
credential = "things"
{every}
steps = [{{ call = "other" }}]
"#
    );
    World::upon(stub, &text)
}

fn page() -> StubAnswer {
    StubAnswer::json(&json!({ "items": [{ "id": "1" }] }))
}

fn outcomes(report: &Value) -> Vec<&str> {
    let passes = report["passes"].as_array().unwrap().iter();
    passes
        .map(|pass| pass["outcome"].as_str().unwrap())
        .collect()
}

/// Counts the requests that the upstream has at the same time at most.
fn crowded() -> (StubUpstream, Arc<AtomicUsize>) {
    let (now, most) = (Arc::new(AtomicUsize::new(0)), Arc::new(AtomicUsize::new(0)));
    let seen = Arc::clone(&most);
    let stub = StubUpstream::start(move |_: &StubRequest| {
        let count = now.fetch_add(1, Ordering::SeqCst) + 1;
        seen.fetch_max(count, Ordering::SeqCst);
        std::thread::sleep(Duration::from_millis(300));
        now.fetch_sub(1, Ordering::SeqCst);
        page()
    });
    (stub, most)
}

#[test]
fn the_first_request_of_a_secret_goes_alone_in_the_first_run_only() {
    let (stub, most) = crowded();
    let world = world(&stub, "every = \"1us\"");
    let child = start(&world);
    while stub.requests().is_empty() {
        std::thread::sleep(Duration::from_millis(5));
    }
    std::thread::sleep(Duration::from_millis(200));
    assert_eq!(stub.requests().len(), 1);
    let ran = ends_within(child, PATIENCE);
    assert_eq!(outcomes(&ran.json()), ["complete"; 16], "{ran:?}");
    assert!(most.load(Ordering::SeqCst) > 1);
    assert_eq!(stub.requests().len(), 16);
    most.store(0, Ordering::SeqCst);
    let child = start(&world);
    while stub.requests().len() < 18 {
        std::thread::sleep(Duration::from_millis(5));
    }
    std::thread::sleep(Duration::from_millis(100));
    let side_by_side = most.load(Ordering::SeqCst);
    assert_eq!(ends_within(child, PATIENCE).code, 0);
    assert!(side_by_side > 2, "{side_by_side}");
}

fn start(world: &World) -> Child {
    let mut command = world.command(&[&RUN[..], &["--format", "json"]].concat());
    let command = command.stdout(Stdio::piped()).stderr(Stdio::piped());
    command.spawn().unwrap()
}

#[test]
fn a_signal_ends_the_wait_for_the_first_answer_and_what_waited_is_not_charged() {
    let stub = StubUpstream::start(|_| page().after(Duration::from_secs(2)));
    let world = world(&stub, "every = \"6h\"");
    let child = start(&world);
    while stub.requests().is_empty() {
        std::thread::sleep(Duration::from_millis(5));
    }
    std::thread::sleep(Duration::from_millis(300));
    kill_process(Pid::from_child(&child), Signal::TERM).unwrap();
    let ran = ends_within(child, PATIENCE);
    assert_eq!(ran.code, 143, "{ran:?}");
    assert_eq!((stub.requests().len(), world.charged("daily")), (1, 50));
}

#[test]
fn a_secret_that_the_token_endpoint_rejects_is_sent_there_once() {
    let stub = StubUpstream::start(|_| page());
    let tokens =
        StubUpstream::start(|_| StubAnswer::error(400, &json!({ "error": "invalid_client" })));
    let mut world = world(&stub, "every = \"6h\"");
    let oauth = format!(
        r#"{{ oauth = {{ kind = "client_credentials", token_url = "{}", client_id = "me", client_secret = "{{secret}}" }} }}"#,
        tokens.url()
    );
    world.set(&format!("upstreams.things.auth={oauth}"));
    for _ in 0..3 {
        let ran = world.ingest(&RUN);
        assert_eq!(ran.code, 1, "{ran:?}");
        assert!(ran.stdout.contains("it is asked again at"), "{ran:?}");
    }
    assert_eq!((tokens.requests().len(), stub.requests().len()), (1, 0));
    let status = world.ingest(&["status"]);
    assert!(status.stdout.contains("credential rejected"), "{status:?}");
}
