//! A credential that the upstream rejects costs one request, and no further one until its `every` is over or its secret changes.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::PathBuf;
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
secret = {{ file = "/nowhere" }}
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
    let mut world = World::written(&text, &[]);
    world.set(&format!("upstreams.things.base_url=\"{}\"", stub.url()));
    let secret = secret_file(&world).display().to_string();
    world.set(&format!("credentials.things.secret={{file=\"{secret}\"}}"));
    write_secret(&world, "wrong");
    world
}

fn secret_file(world: &World) -> PathBuf {
    world.directory.path().join("secret")
}

fn write_secret(world: &World, secret: &str) {
    let file = secret_file(world);
    fs::write(&file, secret).unwrap();
    fs::set_permissions(&file, fs::Permissions::from_mode(0o600)).unwrap();
}

fn page() -> StubAnswer {
    StubAnswer::json(&json!({ "items": [{ "id": "1" }] }))
}

/// Accepts the key `right` alone.
fn strict(status: u16) -> StubUpstream {
    StubUpstream::start(move |request| match request.param("key") {
        Some("right") => page(),
        _ => StubAnswer::error(status, &json!({ "message": "bad key" })),
    })
}

fn outcomes(report: &Value) -> Vec<&str> {
    let passes = report["passes"].as_array().unwrap().iter();
    passes
        .map(|pass| pass["outcome"].as_str().unwrap())
        .collect()
}

#[test]
fn a_night_of_ticks_with_a_wrong_key_costs_one_request() {
    for status in [401, 403] {
        for every in ["every = \"6h\"", ""] {
            let stub = strict(status);
            let world = world(&stub, every);
            for tick in 0..4 {
                let ran = world.ingest(&[&RUN[..], &["--format", "json"]].concat());
                assert_eq!(ran.code, 1, "{tick}: {ran:?}");
                let report = ran.json();
                assert_eq!(outcomes(&report), ["refused"; 16], "{tick}: {report}");
                for pass in report["passes"].as_array().unwrap() {
                    let detail = pass["detail"].as_str().unwrap();
                    assert!(detail.contains("rejected the credential"), "{detail}");
                    assert!(detail.contains("it is asked again at "), "{detail}");
                    assert!(detail.contains("or when its secret changes"), "{detail}");
                }
                assert_eq!(stub.requests().len(), 1, "{status}, {every:?}, {tick}");
                assert_eq!(world.charged("daily"), 50, "{status}, {every:?}, {tick}");
            }
        }
    }
}

#[test]
fn the_preview_and_the_status_name_a_credential_that_is_not_asked_until_its_secret_changes() {
    let stub = strict(403);
    let world = world(&stub, "every = \"6h\"");
    let preview = || world.json(&["--region", "all", "--dry-run"]);
    let would_spend = || preview()["limits"][0]["expected"].clone();
    let words = |arguments: &[&str]| world.ingest(arguments).stdout.replace('\n', " ");
    assert_eq!(would_spend(), 800);
    assert_eq!(preview().get("held_back"), None);
    assert_eq!(world.json(&["status"]).get("held_back"), None);
    assert_eq!(world.ingest(&RUN).code, 1);

    let held = preview();
    let (limit, held_back) = (&held["limits"][0], &held["held_back"][0]);
    for units in ["min", "expected", "max", "spends"] {
        assert_eq!(limit[units], 0, "{held}");
    }
    assert_eq!(held["steps"], json!([]), "{held}");
    assert_eq!(held_back["credential"], "things", "{held}");
    assert_eq!(held_back["jobs"], json!(["things", "others"]), "{held}");
    let why = held_back["why"].as_str().unwrap();
    assert!(why.contains("403 Forbidden: bad key"), "{held}");
    let said = "the upstream rejected the credential things: 403 Forbidden: bad key";
    let until = "or when its secret changes";
    let text = words(&["--region", "all", "--dry-run"]);
    for said in [
        "Nothing would be requested",
        "things, others: not requested",
        said,
        until,
    ] {
        assert!(text.contains(said), "{said}: {text}");
    }
    let status = world.json(&["status"]);
    assert_eq!(status["held_back"][0]["credential"], "things", "{status}");
    assert_eq!(
        status["held_back"][0]["asked_again_at"], held_back["asked_again_at"],
        "{status}"
    );
    let text = words(&["status"]);
    for said in ["1 credential rejected", said, until] {
        assert!(text.contains(said), "{said}: {text}");
    }
    assert_eq!(stub.requests().len(), 1);

    write_secret(&world, "right");
    assert_eq!(would_spend(), 800);
    assert_eq!(world.json(&["status"]).get("held_back"), None);
}

#[test]
fn another_secret_is_asked_at_once_and_an_accepted_one_lets_all_regions_go_side_by_side() {
    let stub = strict(403);
    let world = world(&stub, "every = \"6h\"");
    assert_eq!(world.ingest(&RUN).code, 1);
    assert_eq!(world.ingest(&RUN).code, 1);
    assert_eq!(stub.requests().len(), 1);
    write_secret(&world, "wrong too");
    assert_eq!(world.ingest(&RUN).code, 1);
    assert_eq!(world.ingest(&RUN).code, 1);
    assert_eq!(stub.requests().len(), 2);
    write_secret(&world, "right");
    let report = world.json(&RUN);
    assert_eq!(outcomes(&report), ["complete"; 16], "{report}");
    assert_eq!((stub.requests().len(), world.charged("daily")), (18, 900));
}

#[test]
fn a_rejected_credential_is_asked_once_after_every() {
    let stub = strict(401);
    let world = world(&stub, "every = \"1us\"");
    for tick in 1..=3 {
        assert_eq!(world.ingest(&RUN).code, 1);
        assert_eq!(stub.requests().len(), tick);
    }
}

#[test]
fn a_credential_that_a_try_shows_to_be_accepted_is_asked_again() {
    let repaired = Arc::new(AtomicUsize::new(0));
    let is_repaired = Arc::clone(&repaired);
    let stub = StubUpstream::start(move |_| match is_repaired.load(Ordering::SeqCst) {
        0 => StubAnswer::error(403, &json!({ "message": "not enabled" })),
        _ => page(),
    });
    let world = world(&stub, "every = \"6h\"");
    assert_eq!(world.ingest(&RUN).code, 1);
    let tries = ["try", "things", "list", "--region", "US"];
    assert_eq!(world.ingest(&tries).code, 1);
    assert_eq!(stub.requests().len(), 2);
    assert_eq!(world.ingest(&RUN).code, 1);
    assert_eq!(stub.requests().len(), 2);
    repaired.store(1, Ordering::SeqCst);
    assert_eq!(world.ingest(&tries).code, 0);
    let report = world.json(&RUN);
    assert_eq!(outcomes(&report), ["complete"; 16], "{report}");
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
fn what_waits_goes_on_when_the_first_request_ends_without_an_answer_about_the_credential() {
    let count = AtomicUsize::new(0);
    let stub = StubUpstream::start(move |_| match count.fetch_add(1, Ordering::SeqCst) {
        0 => StubAnswer::error(404, &json!({ "message": "no such region" })),
        1 => StubAnswer::dropped(),
        _ => page(),
    });
    let mut world = world(&stub, "every = \"6h\"");
    world.set("upstreams.things.attempts=1");
    let ran = world.ingest(&[&RUN[..], &["--format", "json"]].concat());
    let report = ran.json();
    let complete = outcomes(&report)
        .iter()
        .filter(|one| **one == "complete")
        .count();
    assert_eq!((complete, stub.requests().len()), (14, 16), "{report}");
}

#[test]
fn a_region_that_is_forbidden_does_not_go_first_again() {
    let stub = StubUpstream::start(|request| match request.path.as_str() {
        "/list/US" | "/other/US" => StubAnswer::error(403, &json!({ "message": "private" })),
        _ => page(),
    });
    let world = world(&stub, "every = \"1us\"");
    for _ in 0..3 {
        world.ingest(&[&RUN[..], &["--concurrency", "1"]].concat());
    }
    assert_eq!(
        world.count(
            "select count(distinct region) from pass where outcome = 'complete' and region <> '*'"
        ),
        7
    );
}

#[test]
fn the_file_with_what_is_known_is_private_and_shows_no_secret() {
    let stub = strict(401);
    let world = world(&stub, "every = \"6h\"");
    write_secret(&world, "1234-wrong-1234");
    assert_eq!(world.ingest(&RUN).code, 1);
    let file = world.state_dir().join("credentials.json");
    assert_eq!(file.metadata().unwrap().permissions().mode() & 0o777, 0o600);
    let text = fs::read_to_string(&file).unwrap();
    assert!(!text.contains("1234-wrong-1234"), "{text}");
    // Of what cannot be understood nothing is known.
    fs::write(&file, "{").unwrap();
    assert_eq!(world.ingest(&RUN).code, 1);
    assert_eq!(world.ingest(&RUN).code, 1);
    assert_eq!(stub.requests().len(), 2);
}
