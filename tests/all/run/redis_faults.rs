//! Two machines, two processes each, spend one quota over a Redis to which something happens on the way.
//!
//! Whatever it is: no window is overspent, and in the end the ledger counts what the sandbox counted.

use std::process::{Child, Stdio};
use std::time::Duration;

use crate::support::redis_server::RedisServer;
use crate::support::world::World;

const QUOTA: u64 = 60;
const HEADROOM: u64 = 12;
const MACHINES: [&str; 2] = ["one", "two"];

/// Every call is refused while the ledger is away, so that nothing at all may go beyond the limit.
const SETS: &[&str] = &[
    "jobs.trending.steps=[{ call = \"videos.list\", params = { part = \"snippet\", chart = \"mostPopular\", regionCode = \"{region}\" }, max_pages = 4 }]",
    "jobs.trending.leave={}",
    "jobs.trending.every=1us",
    "jobs.discover.leave={}",
    "jobs.discover.steps=[{ call = \"videos.list\", params = { part = \"snippet\", chart = \"mostPopular\", regionCode = \"{region}\" } }]",
    "ledger.cheap_max=0",
];

fn world(server: &RedisServer) -> World {
    let limit =
        format!("credentials.youtube.limits.daily={{ quota = {QUOTA}, headroom = {HEADROOM}, window = \"24h\" }}");
    let latency = |options: &mut ingest::sandbox::Options| options.latency = Duration::from_millis(15);
    let mut world = World::configured(&[SETS, &[&limit]].concat(), latency);
    world.set(&format!("ledger.url=\"redis://127.0.0.1:{}\"", server.port()));
    world
}

fn spawn(world: &World, machine: &str) -> Child {
    let mut command = world.command(&["--region", "all", "--job", "trending", "-q"]);
    command.env("INGEST_STATE_DIR", world.directory.path().join(machine)).stdout(Stdio::null()).stderr(Stdio::null());
    command.spawn().unwrap()
}

/// Both machines run twice at once.
fn run_all(world: &World) -> Vec<Child> {
    MACHINES.iter().flat_map(|machine| [spawn(world, machine), spawn(world, machine)]).collect()
}

fn wait(children: Vec<Child>) {
    for mut child in children {
        child.wait().unwrap();
    }
}

/// Lets the machines spend, does something to the Redis on the way, and looks at what came of it.
fn survives(mut server: RedisServer, fault: impl FnOnce(&mut RedisServer), recover: impl FnOnce(&mut RedisServer)) {
    let world = world(&server);
    let running = run_all(&world);
    while world.requests() < 12 {
        std::thread::sleep(Duration::from_millis(2));
    }
    fault(&mut server);
    wait(running);
    recover(&mut server);
    for _ in 0..3 {
        wait(run_all(&world));
    }
    let counted = world.counted("daily");
    assert!(counted <= QUOTA, "overspent: {counted} of {QUOTA}");
    let status = world
        .command(&["status", "--format", "json"])
        .env("INGEST_STATE_DIR", world.directory.path().join("one"))
        .output()
        .unwrap();
    let status: serde_json::Value = serde_json::from_slice(&status.stdout).unwrap();
    let charged = status["limits"][0]["used"].as_u64().unwrap();
    assert!(charged >= counted, "the ledger counts {charged} where the sandbox counted {counted}");
    assert!(charged >= QUOTA - HEADROOM, "it did not go on after the fault: {charged}");
}

#[test]
fn a_redis_that_is_killed_and_comes_back_empty() {
    survives(
        RedisServer::start(),
        |server| {
            server.kill();
            server.restart();
        },
        |_| {},
    );
}

#[test]
fn a_redis_that_is_wiped() {
    survives(RedisServer::start(), |server| server.tell("FLUSHALL"), |_| {});
}

#[test]
fn a_redis_that_forgets_its_scripts() {
    survives(RedisServer::start(), |server| server.tell("SCRIPT FLUSH"), |_| {});
}

#[test]
fn a_redis_that_hangs() {
    survives(
        RedisServer::start(),
        |server| {
            server.hang();
            std::thread::sleep(Duration::from_millis(800));
            server.resume();
        },
        |_| {},
    );
}

#[test]
fn a_redis_that_is_out_of_memory() {
    survives(
        RedisServer::start(),
        |server| server.tell("CONFIG SET maxmemory 1"),
        |server| server.tell("CONFIG SET maxmemory 0"),
    );
}

#[test]
fn a_redis_that_is_made_a_replica_of_nobody_who_answers() {
    survives(
        RedisServer::start(),
        |server| server.tell("REPLICAOF 127.0.0.1 1"),
        |server| server.tell("REPLICAOF NO ONE"),
    );
}

#[test]
fn a_redis_that_wants_a_password_for_a_while() {
    survives(
        RedisServer::start(),
        |server| server.tell("CONFIG SET requirepass word"),
        |server| {
            let mut login = server.connect();
            redis::cmd("AUTH").arg("word").exec(&mut login).unwrap();
            redis::cmd("CONFIG").arg("SET").arg("requirepass").arg("").exec(&mut login).unwrap();
        },
    );
}
