//! Several processes of the main job while their Redis is in trouble. The sandbox keeps its own count: no window holds
//! more than its limit, and the ledger never counts less than the sandbox.

use std::process::{Child, Stdio};
use std::thread::sleep;
use std::time::{Duration, Instant};

use super::LISTING;
use crate::support::world::World;
use ingest_testing::redis_server::RedisServer;

const QUOTA: u64 = 60;
const LIMIT: &str = "credentials.youtube.limits.daily={ quota = 60, window = \"24h\" }";
const RUN: &[&str] = &["--region", "all", "--job", "trending", "-q"];
/// What every call does without the ledger: these tests tell overspending apart from what is allowed.
const STRICT: &str = "ledger.cheap_max=0";
const PROCESSES: usize = 3;
const MACHINES: [&str; 2] = ["one", "other"];

fn world_over(server: &RedisServer) -> World {
    world_with(server, LIMIT)
}

fn world_with(server: &RedisServer, limit: &str) -> World {
    let mut world = World::configured(
        &[&LISTING[..], &[limit, "ledger.timeout=250ms"]].concat(),
        |options| options.latency = Duration::from_millis(25),
    );
    world.ledger_at(server.port()).set(STRICT);
    world
}

fn start(world: &World, machine: &str) -> Child {
    let mut command = world.command(RUN);
    command.env("INGEST_STATE_DIR", world.directory.path().join(machine));
    command
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .unwrap()
}

/// A status within the runs' short timeout would show nothing on a busy machine.
fn charged(world: &World, machine: &str) -> u64 {
    let mut command = world.command(&["status", "--format", "json"]);
    command.args(["--set", "ledger.timeout=20s"]);
    command.env("INGEST_STATE_DIR", world.directory.path().join(machine));
    let status: serde_json::Value =
        serde_json::from_slice(&command.output().unwrap().stdout).unwrap();
    let limits = status["limits"].as_array().unwrap();
    limits
        .iter()
        .find(|limit| limit["limit"] == "daily")
        .unwrap()["used"]
        .as_u64()
        .unwrap()
}

/// Runs of these machines while there is trouble, and when it is over as many as could spend all of the quota.
fn endure(world: &World, machines: &[&str], trouble: impl FnOnce()) {
    let starts = machines
        .iter()
        .flat_map(|machine| std::iter::repeat_n(machine, PROCESSES));
    let mut runs: Vec<Child> = starts.map(|machine| start(world, machine)).collect();
    while world.counted("daily") < 8 && runs.iter_mut().any(|run| run.try_wait().unwrap().is_none())
    {
        sleep(Duration::from_millis(2));
    }
    trouble();
    for mut run in runs {
        run.wait().unwrap();
    }
    for machine in machines.iter().chain(machines) {
        start(world, machine).wait().unwrap();
    }
    let (counted, used) = (world.counted("daily"), charged(world, machines[0]));
    assert!(
        world.most_in_window("daily") <= QUOTA,
        "{} of {QUOTA} in a window",
        world.most_in_window("daily")
    );
    assert!(used >= counted, "{used} in the ledger of {counted} counted");
    assert!(counted >= 8, "only {counted} were spent at all");
}

/// Nothing was lost, so that the count is exact and all is spent in the end.
fn is_exact(world: &World) {
    assert_eq!(
        (world.counted("daily"), charged(world, MACHINES[0])),
        (QUOTA, QUOTA)
    );
}

#[test]
fn redis_is_killed_and_comes_back_empty() {
    let mut server = RedisServer::start();
    let world = world_over(&server);
    endure(&world, &MACHINES[..1], || server.restart());
}

#[test]
fn everything_is_flushed() {
    let server = RedisServer::start();
    let world = world_over(&server);
    endure(&world, &MACHINES[..1], || server.tell("FLUSHALL"));
}

/// What the other machine charged since this one last heard of it is what the headroom is for.
#[test]
fn everything_is_lost_beneath_two_machines_with_headroom() {
    let limit = "credentials.youtube.limits.daily={ quota = 60, headroom = 12, window = \"24h\" }";
    let mut server = RedisServer::start();
    let world = world_with(&server, limit);
    endure(&world, &MACHINES, || server.tell("FLUSHALL"));
    endure(&world, &MACHINES, || server.restart());
    assert!(
        charged(&world, MACHINES[0]) >= 48,
        "it did not go on after the loss"
    );
}

#[test]
fn functions_and_scripts_are_flushed() {
    let server = RedisServer::start();
    let world = world_over(&server);
    endure(&world, &MACHINES, || {
        server.tell("SCRIPT FLUSH");
        server.tell("FUNCTION FLUSH");
    });
    is_exact(&world);
}

#[test]
fn redis_hangs_for_a_while() {
    let server = RedisServer::start();
    let world = world_over(&server);
    endure(&world, &MACHINES, || {
        server.hang();
        sleep(Duration::from_secs(5));
        server.resume();
    });
    is_exact(&world);
}

#[test]
fn redis_runs_out_of_memory() {
    let server = RedisServer::start();
    let world = world_over(&server);
    endure(&world, &MACHINES, || {
        server.tell("CONFIG SET maxmemory 1");
        sleep(Duration::from_millis(300));
        server.tell("CONFIG SET maxmemory 0");
    });
    is_exact(&world);
}

#[test]
fn redis_becomes_a_read_only_replica_for_a_while() {
    let server = RedisServer::start();
    let world = world_over(&server);
    endure(&world, &MACHINES[..1], || {
        server.tell("REPLICAOF 127.0.0.1 1");
        sleep(Duration::from_millis(300));
        server.tell("REPLICAOF NO ONE");
    });
    is_exact(&world);
}

#[test]
fn redis_restarts_and_loads_for_a_while() {
    let mut server = RedisServer::with(&[
        "--appendonly",
        "yes",
        "--appendfsync",
        "always",
        "--save",
        "",
    ]);
    let world = world_over(&server);
    endure(&world, &MACHINES, || server.restart());
    is_exact(&world);
}

#[test]
fn redis_asks_for_a_password_for_a_while() {
    let server = RedisServer::start();
    let world = world_over(&server);
    endure(&world, &MACHINES, || {
        let mut connection = server.connect();
        let set = |connection: &mut redis::Connection, password: &str| {
            redis::cmd("CONFIG")
                .arg("SET")
                .arg("requirepass")
                .arg(password)
                .exec(connection)
                .unwrap();
        };
        set(&mut connection, "open-sesame");
        redis::cmd("CLIENT")
            .arg("KILL")
            .arg("TYPE")
            .arg("normal")
            .arg("SKIPME")
            .arg("yes")
            .exec(&mut connection)
            .unwrap();
        sleep(Duration::from_millis(300));
        set(&mut connection, "");
    });
    is_exact(&world);
}

#[test]
fn a_permission_lacks_for_a_while() {
    let server = RedisServer::start();
    let world = world_over(&server);
    endure(&world, &MACHINES, || {
        server.tell("ACL SETUSER default -zadd");
        sleep(Duration::from_millis(300));
        server.tell("ACL SETUSER default +zadd");
    });
    is_exact(&world);
}

#[test]
fn a_run_without_redis_ends_soon() {
    let mut server = RedisServer::start();
    let world = world_over(&server);
    server.kill();
    let begun = Instant::now();
    let ran = world.ingest(RUN);
    assert_eq!(ran.code, 1, "{ran:?}");
    assert!(
        begun.elapsed() < Duration::from_secs(5),
        "{:?}",
        begun.elapsed()
    );
    assert_eq!(world.counted("daily"), 0);
}

#[test]
fn a_run_whose_redis_hangs_ends_soon() {
    let server = RedisServer::start();
    let world = world_over(&server);
    server.hang();
    let begun = Instant::now();
    let ran = world.ingest(RUN);
    server.resume();
    assert_eq!(ran.code, 1, "{ran:?}");
    assert!(
        begun.elapsed() < Duration::from_secs(8),
        "{:?}",
        begun.elapsed()
    );
    assert_eq!(world.counted("daily"), 0);
}

#[test]
fn a_machine_that_is_cut_off_spends_its_allowance_and_repays_it() {
    let server = RedisServer::start();
    let mut world = world_over(&server);
    start(&world, MACHINES[0]).wait().unwrap();
    let before = world.counted("daily");
    world
        .set("ledger.url=\"redis://127.0.0.1:1\"")
        .set("ledger.cheap_max=5")
        .set("ledger.unmetered_max=4");
    start(&world, MACHINES[1]).wait().unwrap();
    assert_eq!(world.counted("daily"), before + 4);
    world.ledger_at(server.port());
    for machine in MACHINES {
        start(&world, machine).wait().unwrap();
    }
    assert!(world.most_in_window("daily") <= QUOTA + 4);
    assert_eq!(charged(&world, MACHINES[0]), world.counted("daily"));
}
