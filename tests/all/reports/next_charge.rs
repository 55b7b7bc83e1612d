//! What `status` and `--dry-run` show of a ledger that lacks charges: what the next charge will find, and nothing is
//! written.

use std::fs;

use serde_json::Value;

use super::promises::LISTING_ONLY;
use crate::support::world::{Ran, World};
use ingest_testing::redis_server::RedisServer;

const RUN: [&str; 4] = ["--region", "US,GB", "--job", "trending"];
const PREVIEW: [&str; 3] = ["--region", "all", "--dry-run"];
const CHARGE: [&str; 3] = ["charge", "youtube", "videos.list"];

/// A world that has run once and has one charge by hand.
fn spent(sets: &[String]) -> World {
    let mut world = World::configured(&LISTING_ONLY, |_| {});
    sets.iter().for_each(|set| {
        world.set(set);
    });
    world.json(&RUN);
    world.json(&["charge", "youtube", "search.list"]);
    world
}

fn over(server: &RedisServer) -> String {
    format!("ledger.url=\"redis://127.0.0.1:{}\"", server.port())
}

fn remaining(world: &World) -> Value {
    let preview = world.json(&PREVIEW);
    let limits = preview["limits"].as_array().unwrap();
    let daily = limits.iter().find(|one| one["limit"] == "daily").unwrap();
    daily["remaining"].clone()
}

/// Status and preview show what was spent, none of them writes, and the next charge adds its own unit alone.
fn assert_shown(world: &World, used: u64, left: &Value) {
    let files = || -> Vec<_> {
        let entries = fs::read_dir(world.state_dir()).unwrap();
        let mut names: Vec<_> = entries.map(|entry| entry.unwrap().file_name()).collect();
        names.sort();
        names
    };
    let before = files();
    let status = world.json(&["status"]);
    assert_eq!(status["limits"][0]["used"], used, "{status}");
    assert_eq!(remaining(world), *left);
    let returns = status["limits"][0]["returns"].as_array().unwrap();
    let returning: u64 = returns
        .iter()
        .map(|one| one["units"].as_u64().unwrap())
        .sum();
    assert_eq!(returning, used, "{status}");
    assert_eq!(files(), before);
    world.json(&CHARGE);
    assert_eq!(world.charged("daily"), used + 1);
}

#[test]
fn a_ledger_file_that_was_lost_is_shown_as_the_next_charge_refills_it() {
    let world = spent(&[]);
    // What was charged by hand is lost with the file.
    let used = world.charged("daily") - 100;
    let left = remaining(&world).as_u64().unwrap() + 100;
    for suffix in ["", "-wal", "-shm"] {
        let _ = fs::remove_file(world.state_dir().join(format!("ledger.db{suffix}")));
    }
    assert_shown(&world, used, &left.into());
}

#[test]
fn a_change_to_redis_shows_what_this_machine_charged_in_its_file() {
    let mut world = spent(&[]);
    let (used, left) = (world.charged("daily"), remaining(&world));
    let server = RedisServer::start();
    world.set(&over(&server));
    assert_shown(&world, used, &left);
}

#[test]
fn a_change_back_to_a_file_shows_what_this_machine_charged_in_redis() {
    let server = RedisServer::start();
    let mut world = spent(&[over(&server)]);
    let (used, left) = (world.charged("daily"), remaining(&world));
    world.set("ledger.url=sqlite");
    assert_shown(&world, used, &left);
}

#[test]
fn a_ledger_file_from_before_the_last_passes_is_shown_with_what_they_spent() {
    let world = World::configured(&LISTING_ONLY, |_| {});
    world.json(&["--region", "US", "--job", "trending"]);
    let (ledger, copy) = (
        world.state_dir().join("ledger.db"),
        world.directory.path().join("copy"),
    );
    fs::copy(&ledger, &copy).unwrap();
    world.json(&["--region", "GB", "--job", "trending"]);
    let (used, left) = (world.charged("daily"), remaining(&world));
    fs::copy(&copy, &ledger).unwrap();
    assert_shown(&world, used, &left);
}

fn charge(world: &World) -> Ran {
    let charged = world.ingest(&CHARGE);
    assert_eq!(charged.code, 0, "{charged:?}");
    charged
}

#[test]
fn another_redis_is_named_as_such_and_not_reported_as_lost_data() {
    let (first, second) = (RedisServer::start(), RedisServer::start());
    let mut world = World::configured(&LISTING_ONLY, |_| {});
    world.set(&over(&first));
    charge(&world);
    for server in [&second, &first] {
        world.set(&over(server));
        let said = charge(&world).stderr;
        assert!(said.contains("names another Redis"), "{said}");
        assert!(said.contains("were copied to it"), "{said}");
        assert!(!said.contains("lost data"), "{said}");
        assert!(
            said.contains(&format!("127.0.0.1:{}", second.port())),
            "{said}"
        );
    }
    assert_eq!(world.charged("daily"), 3);
}
