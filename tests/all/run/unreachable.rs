//! A machine without a network: nothing is spent, and it does not take minutes to find out.

use std::fs;
use std::net::TcpListener;
use std::process::Command;
use std::time::{Duration, Instant};

use crate::support::world::World;

/// A port of this machine where nobody listens.
fn closed_port() -> u16 {
    TcpListener::bind("127.0.0.1:0")
        .unwrap()
        .local_addr()
        .unwrap()
        .port()
}

fn world() -> World {
    let mut world = World::new();
    world.set(&format!(
        "upstreams.youtube.base_url=\"http://127.0.0.1:{}\"",
        closed_port()
    ));
    world.set("upstreams.youtube.pause=\"1ms\"");
    world
}

/// Runs everything; returns the exit code, the report, and the number of requests that failed.
fn run(world: &World, more: &[&str]) -> (i32, serde_json::Value, usize) {
    let arguments = ["--region", "all", "--format", "json", "-vv"];
    let ran = world.ingest(&[&arguments, more].concat());
    let failed = ran.stderr.matches("request failed").count();
    (ran.code, serde_json::from_str(&ran.stdout).unwrap(), failed)
}

#[test]
fn an_upstream_that_no_attempt_reaches_is_given_up_for_the_whole_run_and_costs_nothing() {
    let world = world();
    let (code, report, attempts) = run(&world, &["--concurrency", "1"]);
    assert_eq!(code, 1, "{report}");
    let passes = report["passes"].as_array().unwrap();
    assert_eq!(passes.len(), 16);
    assert!(
        passes.iter().all(|pass| pass["outcome"] == "failed"),
        "{report}"
    );
    assert!(
        report.to_string().contains("cannot connect to 127.0.0.1"),
        "{report}"
    );
    assert_eq!(attempts, 4, "one page had its attempts");
    assert_eq!(world.charged("daily"), 0);
}

#[test]
fn without_ledger_and_upstream_only_the_pages_under_way_have_their_attempts() {
    let mut world = world();
    world.ledger_at(closed_port());
    let (code, report, attempts) = run(&world, &["--job", "trending", "--concurrency", "2"]);
    assert_eq!(code, 1, "{report}");
    assert!((4..=2 * 4).contains(&attempts), "{attempts}: {report}");
}

/// A name server that drops what it is asked keeps a thread busy for as long as the system is patient.
#[test]
fn a_name_that_nobody_answers_for_does_not_keep_a_run_from_ending() {
    let mut world = World::new();
    world.set("ledger.url=\"redis://slow.example:6379\"");
    let [source, library] = ["slow.c", "slow.so"].map(|name| world.directory.path().join(name));
    let slow = "#include <unistd.h>\nint getaddrinfo(const char *a, const char *b, const void *c, void **d) { sleep(60); return -2; }\n";
    fs::write(&source, slow).unwrap();
    let built = Command::new("cc")
        .args(["-shared", "-fPIC", "-o"])
        .arg(&library)
        .arg(&source)
        .status()
        .unwrap();
    assert!(built.success());
    let begun = Instant::now();
    let charge = world
        .command(&["charge", "youtube", "videos.list"])
        .env("LD_PRELOAD", &library)
        .output()
        .unwrap();
    assert!(
        String::from_utf8_lossy(&charge.stdout).contains("Unmetered"),
        "{charge:?}"
    );
    assert!(
        begun.elapsed() < Duration::from_secs(30),
        "{:?}",
        begun.elapsed()
    );
}

#[test]
fn an_exhausted_limit_stops_a_run_cleanly_though_the_upstream_cannot_be_reached() {
    let mut world = world();
    world.set("credentials.youtube.limits.daily={ quota = 600, headroom = 50, window = \"1d\" }");
    world.set("jobs.trending.leave={}");
    world.set("jobs.discover.leave={}");
    let spend = ["charge", "youtube", "videos.list", "--times", "550", "-q"];
    assert_eq!(world.ingest(&spend).code, 0);
    let (code, report, _) = run(&world, &["--job", "trending"]);
    assert_eq!(
        (code, &report["outcome"]),
        (0, &"stopped".into()),
        "{report}"
    );
    assert_eq!(report["stopped_by"]["limit"], "daily", "{report}");
    assert_eq!(report["requests"], 0, "{report}");
}
