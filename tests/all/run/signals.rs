use std::io::{BufRead, BufReader};
use std::process::Stdio;
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;

use crate::support::world::{World, in_shell};
use ingest_testing::stub_upstream::{StubAnswer, StubUpstream};

/// Starts a slow run, signals it while its second request is under way, and waits for its end.
fn signalled(world: &World, signal: Signal) -> (i32, Value) {
    let child = world
        .command(&["--region", "US", "--job", "trending", "--format", "json"])
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    while world.requests() < 2 {
        std::thread::sleep(Duration::from_millis(5));
    }
    kill_process(Pid::from_child(&child), signal).unwrap();
    let output = child.wait_with_output().unwrap();
    (
        output.status.code().unwrap(),
        serde_json::from_slice(&output.stdout).unwrap(),
    )
}

#[test]
fn a_signal_ends_the_run_after_the_page_in_flight_was_landed() {
    for (signal, code) in [(Signal::INT, 130), (Signal::TERM, 143), (Signal::HUP, 129)] {
        let world = World::with(|options| options.latency = Duration::from_millis(200));
        let (exit, report) = signalled(&world, signal);
        assert_eq!(exit, code, "{report}");
        assert_eq!(report["outcome"], "interrupted");
        assert_eq!(
            report["passes"][0]["pages"].as_u64(),
            Some(world.requests())
        );
        let resumed = world.json(&["--region", "US", "--job", "trending"]);
        assert_eq!(resumed["outcome"], "complete");
        assert_eq!(resumed["passes"][0]["resumed"], true);
        let listed = resumed["passes"][0]["pages"].as_u64().unwrap()
            + report["passes"][0]["pages"].as_u64().unwrap();
        assert_eq!(listed, 4, "a page was requested twice or not at all");
    }
}

#[test]
fn a_second_signal_ends_the_run_at_once_whichever_it_is() {
    for (first, second, code) in [
        (Signal::INT, Signal::INT, 130),
        (Signal::INT, Signal::TERM, 143),
        (Signal::TERM, Signal::INT, 130),
        (Signal::HUP, Signal::HUP, 129),
    ] {
        let world = World::with(|options| options.latency = Duration::from_secs(20));
        let mut command = world.command(&["--region", "US", "--job", "trending"]);
        let mut child = command
            .stdout(Stdio::null())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        while world.requests() < 1 {
            std::thread::sleep(Duration::from_millis(5));
        }
        kill_process(Pid::from_child(&child), first).unwrap();
        let mut said = BufReader::new(child.stderr.take().unwrap()).lines();
        assert!(said.any(|line| line.unwrap().contains("again to quit immediately")));
        let asked = Instant::now();
        kill_process(Pid::from_child(&child), second).unwrap();
        let ended = child.wait().unwrap().code();
        assert!(
            asked.elapsed() < Duration::from_secs(10),
            "{first:?}, {second:?}: after {:?}",
            asked.elapsed()
        );
        assert_eq!(ended, Some(code), "{first:?}, {second:?}");
    }
}

#[test]
fn an_interrupted_run_tells_of_an_attempt_that_brought_no_page_and_stays_charged() {
    let stub = StubUpstream::start(|_| StubAnswer::dropped().after(Duration::from_millis(300)));
    let mut world = World::new();
    world.set(&format!("upstreams.youtube.base_url=\"{}\"", stub.url()));
    let child = world
        .command(&["--region", "US", "--job", "trending", "--format", "json"])
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    while stub.requests().is_empty() {
        std::thread::sleep(Duration::from_millis(5));
    }
    kill_process(Pid::from_child(&child), Signal::TERM).unwrap();
    let output = child.wait_with_output().unwrap();
    let report: Value = serde_json::from_slice(&output.stdout).unwrap();
    let pass = &report["passes"][0];
    assert_eq!(
        (output.status.code(), &pass["outcome"], &pass["requests"]),
        (Some(143), &"interrupted".into(), &1.into()),
        "{report}"
    );
    assert!(
        pass["detail"].as_str().unwrap().contains("stays charged"),
        "{report}"
    );
    assert_eq!(world.charged("daily"), 1);
}

#[test]
fn a_run_that_was_started_to_ignore_sighup_does() {
    let world = World::with(|options| options.latency = Duration::from_millis(200));
    let made = world.command(&["--region", "US", "--job", "trending", "--format", "json"]);
    let child = in_shell("trap '' HUP", &made)
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    while world.requests() < 1 {
        std::thread::sleep(Duration::from_millis(5));
    }
    kill_process(Pid::from_child(&child), Signal::HUP).unwrap();
    let output = child.wait_with_output().unwrap();
    assert_eq!(output.status.code(), Some(0));
}
