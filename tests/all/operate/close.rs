//! `ingest close`: a limit that is closed by hand.

use std::fs;

use serde_json::Value;

use crate::support::world::World;
use ingest_testing::redis_server::RedisServer;

const CHARGE: [&str; 3] = ["charge", "youtube", "videos.list"];
const REOPEN: [&str; 3] = ["reopen", "youtube", "daily"];
const RUN: [&str; 4] = ["--region", "US", "--job", "trending"];

fn closing(until: &str) -> [&str; 5] {
    ["close", "youtube", "daily", "--until", until]
}

fn daily(world: &World) -> Value {
    world.json(&["status"])["limits"][0].clone()
}

/// The same with a ledger in a file, and in Redis.
fn each(check: impl Fn(&World)) {
    check(&World::new());
    let redis = RedisServer::start();
    check(&over(&redis));
}

fn over(redis: &RedisServer) -> World {
    let url = format!("ledger.url=\"redis://127.0.0.1:{}\"", redis.port());
    World::configured(&[&url, "ledger.timeout=2s"], |_| {})
}

#[test]
fn a_limit_that_is_closed_by_hand_grants_nothing_until_it_is_reopened() {
    each(|world| {
        let closed = world.ingest(&closing("6h"));
        assert_eq!(closed.code, 0, "{closed:?}");
        assert!(
            closed.stdout.contains("youtube/daily is closed until ")
                && closed.stdout.contains("`ingest reopen youtube daily`"),
            "{closed:?}"
        );
        let metrics = world.directory.path().join("metrics");
        let metrics = metrics.to_str().unwrap();
        let run = world.json(&[&RUN[..], &["--metrics-file", metrics]].concat());
        assert_eq!(
            (run["outcome"].as_str(), world.requests()),
            (Some("stopped"), 0),
            "{run}"
        );
        let measured = fs::read_to_string(metrics).unwrap();
        let gauge = measured
            .lines()
            .find(|line| line.starts_with("ingest_limit_closed_until_timestamp_seconds{"));
        assert!(!gauge.unwrap().ends_with(" 0"), "{measured}");
        let preview = world.json(&[&RUN[..], &["--dry-run"]].concat());
        let previewed = &preview["limits"][0];
        assert_eq!(
            (&previewed["fits"], &previewed["remaining"]),
            (&"none".into(), &0.into())
        );
        assert!(daily(world)["closed_until"].is_string());
        let status = world.ingest(&["status"]).stdout;
        assert!(status.contains("closed until "), "{status}");

        let reopened = world.json(&REOPEN);
        assert_eq!(reopened["reopened"], true, "{reopened}");
        assert_eq!(daily(world)["closed_until"], Value::Null);
        assert_eq!(world.ingest(&CHARGE).code, 0);
    });
}

#[test]
fn a_charge_does_not_wait_for_a_closed_limit() {
    each(|world| {
        world.ingest(&closing("20s"));
        let rejected = world.json(&[&CHARGE[..], &["--wait", "1h"]].concat());
        assert_eq!(rejected["decision"], "rejected", "{rejected}");
        assert_eq!(rejected["waited_seconds"], 0.0, "{rejected}");
        let detail = rejected["detail"].as_str().unwrap();
        assert!(detail.contains("daily is closed until "), "{rejected}");
    });
}

#[test]
fn of_two_closings_the_later_holds() {
    each(|world| {
        let first = world.json(&closing("9h"));
        let second = world.json(&closing("1h"));
        assert_eq!(first["closed_until"], second["closed_until"], "{second}");
        let said = world.ingest(&closing("1h"));
        assert!(said.stdout.contains("closed for longer"), "{said:?}");
        let third = world.json(&closing("10h"));
        assert!(third["closed_until"].as_str() > first["closed_until"].as_str());
    });
}

#[test]
fn until_is_a_span_a_date_an_instant_or_tomorrow_and_ahead() {
    let world = World::new();
    for (until, closed) in [
        ("2030-05-01", "2030-05-01T00:00:00.000000Z"),
        ("2030-05-02T12:30:00Z", "2030-05-02T12:30:00.000000Z"),
        ("2030-05-03T00:00:00+02:00", "2030-05-02T22:00:00.000000Z"),
    ] {
        assert_eq!(world.json(&closing(until))["closed_until"], closed);
    }
    world.ingest(&REOPEN);
    let tomorrow = world.json(&closing("tomorrow"));
    let midnight = tomorrow["closed_until"].as_str().unwrap();
    assert!(midnight.ends_with("T00:00:00.000000Z"), "{tomorrow}");
    world.ingest(&REOPEN);
    for (wrong, why) in [
        ("2020-01-01", "is not in the future"),
        ("0s", "is not in the future"),
        ("2126-01-01", "more than 10 years ahead"),
        ("999999999y", "more than 10 years ahead"),
        ("noon", "expected a span"),
        ("2026-13-01", "expected a span"),
    ] {
        let refused = world.ingest(&closing(wrong));
        assert_eq!(refused.code, 2, "{wrong}: {refused:?}");
        assert!(refused.stderr.contains(why), "{wrong}: {refused:?}");
    }
    assert_eq!(daily(&world)["closed_until"], Value::Null);
}

#[test]
fn a_name_that_is_mistyped_is_suggested() {
    let world = World::new();
    for (account, limit, meant) in [
        ("yuotube", "daily", "did you mean `youtube`?"),
        ("youtube", "dialy", "did you mean `daily`?"),
    ] {
        let refused = world.ingest(&["close", account, limit, "--until", "1h"]);
        assert_eq!(refused.code, 2, "{refused:?}");
        assert!(refused.stderr.contains(meant), "{refused:?}");
    }
}

#[test]
fn a_ledger_that_cannot_be_reached_is_said_and_hears_of_the_closing_later() {
    let mut redis = RedisServer::start();
    let (here, elsewhere) = (over(&redis), over(&redis));
    for world in [&here, &elsewhere] {
        assert_eq!(world.ingest(&CHARGE).code, 0);
    }
    redis.kill();
    let closed = here.ingest(&closing("6h"));
    assert_eq!(closed.code, 1, "{closed:?}");
    assert!(
        closed.stdout.contains("of this machine alone"),
        "{closed:?}"
    );
    let json = here.json(&closing("6h"));
    assert!(json["unreachable"].is_string(), "{json}");
    let unmetered = here.ingest(&CHARGE);
    assert_ne!(unmetered.code, 0, "closed here already: {unmetered:?}");
    redis.restart();
    assert_eq!(elsewhere.ingest(&CHARGE).code, 0, "it has not heard of it");
    assert_eq!(here.ingest(&CHARGE).code, 75);
    assert_eq!(elsewhere.ingest(&CHARGE).code, 75, "now it has");
}

#[test]
fn a_limit_is_not_said_to_be_open_while_the_ledger_cannot_be_reached() {
    let mut redis = RedisServer::start();
    let world = over(&redis);
    assert_eq!(world.ingest(&closing("6h")).code, 0);
    redis.kill();
    let reopen = ["reopen", "youtube", "daily"];
    let reopened = world.ingest(&reopen);
    assert_eq!(reopened.code, 1, "{reopened:?}");
    assert!(
        reopened.stdout.contains("of this machine alone"),
        "{reopened:?}"
    );
    let json = world.json(&reopen);
    assert_eq!(json["reopened"], false, "{json}");
    assert!(json["unreachable"].is_string(), "{json}");
    redis.restart();
    assert_eq!(world.ingest(&reopen).code, 0);
    assert_eq!(world.ingest(&CHARGE).code, 0);
}
