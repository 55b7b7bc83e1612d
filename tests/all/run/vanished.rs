//! Files of the state directory that are deleted or replaced while a run has them open.

use std::fs;
use std::process::{Child, Stdio};
use std::thread::sleep;
use std::time::{Duration, Instant};

use serde_json::json;

use crate::support::world::{Ran, World};
use ingest_testing::redis_server::RedisServer;

const QUOTA: u64 = 16;
const LIMIT: &str = "credentials.youtube.limits.daily={ quota = 16, window = \"24h\" }";
const LISTING: &str = "jobs.trending.steps=[{ call = \"videos.list\", params = { chart = \"mostPopular\", regionCode = \"{region}\" }, max_pages = 4 }]";
const FREE: [&str; 2] = ["jobs.trending.leave={}", "jobs.discover.leave={}"];
const CHEAP: &str =
    "jobs.discover.steps=[{ call = \"videos.list\", params = { chart = \"mostPopular\" } }]";

/// A world of sixteen units where each answer takes a while.
fn slow() -> World {
    let mut world = World::new();
    for set in [LIMIT, LISTING, CHEAP, FREE[0], FREE[1]] {
        world.set(set);
    }
    world.faults(&json!({ "delay_ms": 150, "after": 0, "times": 1000 }));
    world
}

fn start(world: &World) -> Child {
    let run = ["--region", "all", "--job", "trending", "--concurrency", "2"];
    let mut command = world.command(&run);
    command
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap()
}

fn end(run: Child) -> Ran {
    Ran::of(run.wait_with_output().unwrap())
}

fn wait_for_requests(world: &World, requests: u64) {
    let begun = Instant::now();
    while world.requests() < requests {
        assert!(begun.elapsed() < Duration::from_secs(60), "no request");
        sleep(Duration::from_millis(2));
    }
}

/// Deletes a file and what SQLite has beside it.
fn delete(world: &World, name: &str) {
    for suffix in ["", "-wal", "-shm"] {
        let _ = fs::remove_file(world.state_dir().join(format!("{name}{suffix}")));
    }
}

/// The run failed, and says which file is gone and what to do.
fn assert_said(ran: &Ran, name: &str) {
    assert_eq!(ran.code, 1, "{ran:?}");
    let said = format!("{}{}", ran.stdout, ran.stderr);
    let said: String = said.split_whitespace().collect::<Vec<_>>().join(" ");
    for words in [name, "was deleted, moved or replaced", "run again"] {
        assert!(said.contains(words), "{words}: {said}");
    }
}

#[test]
fn a_ledger_that_is_deleted_while_another_run_begins_grants_no_unit_twice() {
    for name in ["ledger.db", "ledger.db-wal"] {
        let world = slow();
        let first = start(&world);
        wait_for_requests(&world, 5);
        match name {
            "ledger.db" => delete(&world, name),
            only => fs::remove_file(world.state_dir().join(only)).unwrap(),
        }
        let second = start(&world);
        let (first, second) = (end(first), end(second));
        assert_said(&first, "ledger.db");
        assert!(
            world.requests() <= QUOTA,
            "{name}: {} of {QUOTA}: {first:?} {second:?}",
            world.requests()
        );
        assert_eq!(end(start(&world)).code, 0);
        assert_eq!(world.requests(), QUOTA, "{name}: the rest is spent later");
    }
}

#[test]
fn a_catalog_that_is_deleted_or_replaced_ends_the_run_before_the_next_request() {
    for replaced in [false, true] {
        let world = slow();
        let run = start(&world);
        wait_for_requests(&world, 4);
        let path = world.state_dir().join("catalog.db");
        if replaced {
            fs::copy(&path, path.with_extension("copy")).unwrap();
            fs::rename(path.with_extension("copy"), &path).unwrap();
        } else {
            delete(&world, "catalog.db");
        }
        let at_most = world.requests() + 2;
        assert_said(&end(run), "catalog.db");
        assert!(
            world.requests() <= at_most,
            "{} > {at_most}",
            world.requests()
        );
        delete(&world, "catalog.db");
        assert_eq!(end(start(&world)).code, 0, "the next run creates it");
    }
}

#[test]
fn a_journal_that_is_deleted_ends_the_run_before_the_next_request() {
    let server = RedisServer::start();
    let mut world = slow();
    world.ledger_at(server.port()).set("ledger.timeout=5s");
    let run = start(&world);
    wait_for_requests(&world, 4);
    delete(&world, "journal.db");
    let at_most = world.requests() + 2;
    assert_said(&end(run), "journal.db");
    assert!(
        world.requests() <= at_most,
        "{} > {at_most}",
        world.requests()
    );
    assert_eq!(end(start(&world)).code, 0);
    assert!(world.requests() <= QUOTA);
}
