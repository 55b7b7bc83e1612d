use std::process::Stdio;
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};
use serde_json::json;

use crate::support::world::{SECRET, World};
use ingest_testing::stub_upstream::{StubAnswer, StubUpstream};

/// A world that pings `/start`, `/success`, `/stopped` and `/failure` of the stub.
fn pinging(stub: &StubUpstream, events: &[&str]) -> World {
    let mut world = World::new();
    for event in events {
        world.set(&format!(
            "notify.{event}={}/secret-uuid/{event}",
            stub.url()
        ));
    }
    world
}

fn pinged(stub: &StubUpstream) -> Vec<String> {
    let last = |path: String| path.rsplit('/').next().unwrap().to_owned();
    stub.requests()
        .into_iter()
        .map(|request| last(request.path))
        .collect()
}

const ALL: [&str; 4] = ["start", "success", "stopped", "failure"];
const US: [&str; 4] = ["--region", "US", "--job", "trending"];

#[test]
fn a_run_pings_as_it_begins_and_as_it_ends() {
    let stub = StubUpstream::answering([StubAnswer::text(200, "OK")]);
    let world = pinging(&stub, &ALL);
    assert_eq!(world.ingest(&US).code, 0);
    assert_eq!(pinged(&stub), ["start", "success"]);
    let body = String::from_utf8(stub.requests()[1].body.clone()).unwrap();
    assert!(body.starts_with("Complete: 1 region,"), "{body}");
    world.ingest(&US);
    assert_eq!(
        pinged(&stub),
        ["start", "success", "start", "success"],
        "nothing due is well"
    );
}

#[test]
fn a_failure_pings_failure_with_what_happened() {
    let stub = StubUpstream::answering([StubAnswer::text(200, "OK")]);
    let mut world = pinging(&stub, &ALL);
    world.set("upstreams.youtube.attempts=1");
    world.faults(&json!({ "call": "videos.list", "status": 500, "times": 10 }));
    assert_eq!(world.ingest(&US).code, 1);
    assert_eq!(pinged(&stub), ["start", "failure"]);
    let body = String::from_utf8(stub.requests()[1].body.clone()).unwrap();
    assert!(
        body.contains("trending US: ") && body.contains("500"),
        "{body}"
    );
    assert!(!body.contains("see below"), "{body}");
    assert!(!body.contains(SECRET), "{body}");
}

#[test]
fn an_interrupted_run_pings_failure_and_says_that_it_was_interrupted() {
    let stub = StubUpstream::answering([StubAnswer::text(200, "OK")]);
    let world = pinging(&stub, &ALL);
    world.faults(&json!({ "call": "videos.list", "delay_ms": 1500, "times": 1 }));
    let child = world.command(&US).stdout(Stdio::piped()).spawn().unwrap();
    let began = Instant::now();
    while world.requests() == 0 && began.elapsed() < Duration::from_secs(20) {
        std::thread::sleep(Duration::from_millis(10));
    }
    let pid = Pid::from_raw(child.id().try_into().unwrap()).unwrap();
    kill_process(pid, Signal::TERM).unwrap();
    assert_eq!(child.wait_with_output().unwrap().status.code(), Some(143));
    assert_eq!(pinged(&stub), ["start", "failure"]);
    let body = String::from_utf8(stub.requests()[1].body.clone()).unwrap();
    assert!(body.starts_with("Interrupted after"), "{body}");
}

#[test]
fn a_run_that_cannot_even_begin_pings_failure() {
    let stub = StubUpstream::answering([StubAnswer::text(200, "OK")]);
    let world = pinging(&stub, &ALL);
    std::fs::write(world.state_dir(), "no directory").unwrap();
    assert_eq!(world.ingest(&US).code, 1);
    assert_eq!(pinged(&stub), ["start", "failure"]);
}

#[test]
fn a_stop_at_a_limit_pings_stopped_or_else_success() {
    for (events, expected) in [(&ALL[..], "stopped"), (&["success", "failure"], "success")] {
        let stub = StubUpstream::answering([StubAnswer::text(200, "OK")]);
        let mut world = pinging(&stub, events);
        world.set("credentials.youtube.limits.daily={ quota = 1002, window = \"24h\" }");
        world.set("jobs.discover.leave={}");
        world.set("jobs.discover.steps=[{ call = \"videos.list\", params = { chart = \"mostPopular\" } }]");
        assert_eq!(world.ingest(&US).code, 0);
        assert_eq!(pinged(&stub).last().unwrap(), expected);
    }
}

#[test]
fn a_ping_that_fails_fails_no_run_and_shows_no_url() {
    let stub = StubUpstream::answering([
        StubAnswer::redirect(302, "http://127.0.0.1:9/"),
        StubAnswer::status(404),
    ]);
    let world = pinging(&stub, &ALL);
    let ran = world.ingest(&US);
    assert_eq!(ran.code, 0);
    assert_eq!(
        stub.requests().len(),
        2,
        "a redirect is not followed, a ping not repeated"
    );
    assert_eq!(
        ran.stderr.matches("cannot ping the [notify] URL").count(),
        2,
        "{ran:?}"
    );
    assert!(!ran.stderr.contains("secret-uuid"), "{ran:?}");
}

#[test]
fn a_service_that_never_answers_holds_a_run_up_for_seconds_only() {
    let stub =
        StubUpstream::answering([StubAnswer::text(200, "OK").after(Duration::from_secs(60))]);
    let world = pinging(&stub, &["success"]);
    let began = Instant::now();
    assert_eq!(world.ingest(&US).code, 0);
    assert!(began.elapsed() < Duration::from_secs(30));
}

#[test]
fn practice_and_previews_ping_nobody() {
    let stub = StubUpstream::answering([StubAnswer::text(200, "OK")]);
    let world = pinging(&stub, &ALL);
    assert_eq!(world.ingest(&[&US[..], &["--dry-run"]].concat()).code, 0);
    assert_eq!(world.ingest(&[&US[..], &["--sandbox"]].concat()).code, 0);
    assert_eq!(pinged(&stub), Vec::<String>::new());
}

#[test]
fn a_wrong_url_is_refused_and_not_shown() {
    let mut world = World::new();
    world.set("notify.start=hxxps://hc-ping.com/secret-uuid");
    let ran = world.ingest(&["status"]);
    assert_eq!(ran.code, 2);
    assert!(
        ran.stderr
            .contains("notify.start: expected an http or https URL"),
        "{ran:?}"
    );
    assert!(!ran.stderr.contains("secret-uuid"), "{ran:?}");
}
