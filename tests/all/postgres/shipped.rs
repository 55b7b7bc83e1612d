//! The shipped configuration over each pair of catalog and ledger, on one machine and on four at once: each run ends by itself,
//! and the upstream counts what the configuration costs.

use std::fs::File;
use std::path::{Path, PathBuf};
use std::process::Child;
use std::thread::sleep;
use std::time::{Duration, Instant};

use serde_json::json;

use crate::support::world::World;
use ingest_testing::pgbouncer::PgBouncer;
use ingest_testing::postgres::{PostgresServer, Schema};
use ingest_testing::redis_server::RedisServer;

/// How long a run may take: it needs a second or two.
const PATIENCE: Duration = Duration::from_secs(30);
/// Passes of the two jobs over the eight regions.
const PASSES: i64 = 16;
/// Units of one machine: 32 pages of lists, 8 searches of 100, and the batches of channels and videos.
const DAILY: u64 = 846;
const SEARCHES: u64 = 8;
const COMPLETE: &str = "select count(*) from pass where outcome = 'complete' and region <> '*'";

/// Machines with the shipped configuration.
struct Machines {
    world: World,
    schema: Option<Schema>,
    _redis: RedisServer,
}

/// A run that ends with its test at the latest.
struct Running {
    child: Child,
    said: PathBuf,
}

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

impl Running {
    fn ended(mut self) -> i32 {
        let began = Instant::now();
        loop {
            if let Some(status) = self.child.try_wait().unwrap() {
                return status.code().unwrap();
            }
            let said = || std::fs::read_to_string(&self.said).unwrap();
            assert!(began.elapsed() < PATIENCE, "it does not end: {}", said());
            sleep(Duration::from_millis(5));
        }
    }
}

impl Machines {
    fn with_redis() -> Self {
        let redis = RedisServer::start();
        // Four machines with catalogs of their own search more often than one in ten minutes may.
        let burst = "credentials.youtube.limits.search_burst.quota=99";
        let mut world = World::configured(&[burst], |_| {});
        world.ledger_at(redis.port()).set("ledger.timeout=5s");
        Self {
            world,
            schema: None,
            _redis: redis,
        }
    }

    /// With a catalog at this address of the shared server, or at its own.
    fn with_postgres(through: Option<&str>) -> Self {
        let mut made = Self::with_redis();
        let schema = PostgresServer::shared().schema();
        made.world
            .set(&format!(
                "catalog.url=\"{}\"",
                through.unwrap_or(&schema.url)
            ))
            .set(&format!("catalog.schema={}", schema.name));
        Self {
            schema: Some(schema),
            ..made
        }
    }

    fn state(&self, machine: usize) -> PathBuf {
        self.world
            .directory
            .path()
            .join(format!("machine-{machine}"))
    }

    fn start(&self, machine: usize, arguments: &[&str]) -> Running {
        let said = self.world.directory.path().join(format!("said-{machine}"));
        let mut command = self
            .world
            .command(&["--region", "all", "--concurrency", "8"]);
        command
            .args(arguments)
            .env("INGEST_STATE_DIR", self.state(machine));
        let out = File::create(&said).unwrap();
        let child = command
            .stdout(out.try_clone().unwrap())
            .stderr(out)
            .spawn()
            .unwrap();
        Running { child, said }
    }

    /// Runs `machines` machines at once.
    fn run(&self, machines: usize) {
        let runs: Vec<Running> = (0..machines)
            .map(|machine| self.start(machine, &[]))
            .collect();
        for run in runs {
            let said = run.said.clone();
            assert_eq!(run.ended(), 0, "{}", std::fs::read_to_string(said).unwrap());
        }
    }

    fn complete(&self, machine: usize) -> i64 {
        if let Some(schema) = &self.schema {
            return schema.count(COMPLETE);
        }
        let catalog: &Path = &self.state(machine).join("catalog.db");
        let catalog = rusqlite::Connection::open(catalog).unwrap();
        catalog.query_row(COMPLETE, [], |row| row.get(0)).unwrap()
    }

    /// Each of several machines that share no catalog pays for everything once.
    fn assert_each_paid(&self, machines: usize) {
        let counted = (self.world.counted("daily"), self.world.counted("search"));
        let times = machines as u64;
        assert_eq!(counted, (times * DAILY, times * SEARCHES));
        for machine in 0..machines {
            assert_eq!(self.complete(machine), PASSES);
        }
    }

    /// All machines together pay for everything once, and for batches that each of them could not fill.
    fn assert_paid_together(&self) {
        let counted = (self.world.counted("daily"), self.world.counted("search"));
        assert!((DAILY..=DAILY + 24).contains(&counted.0), "{counted:?}");
        assert_eq!((counted.1, self.complete(0)), (SEARCHES, PASSES));
        let schema = self.schema.as_ref().unwrap();
        let requests = schema.count("select sum(requests)::bigint from pass");
        assert_eq!(requests, self.world.requests() as i64);
    }
}

#[test]
fn four_machines_with_files_and_one_redis_end_and_pay_each() {
    let machines = Machines::with_redis();
    machines.run(4);
    machines.assert_each_paid(4);
}

#[test]
fn one_machine_ends_every_time_over_postgresql() {
    for _ in 0..4 {
        let machines = Machines::with_postgres(None);
        machines.run(1);
        machines.assert_each_paid(1);
    }
}

#[test]
fn four_machines_over_postgresql_end_and_pay_together() {
    for _ in 0..2 {
        let machines = Machines::with_postgres(None);
        machines.run(4);
        machines.run(1);
        machines.assert_paid_together();
    }
}

#[test]
fn machines_behind_a_pooler_end_as_well() {
    let pooler = PgBouncer::before(PostgresServer::shared());
    let one = Machines::with_postgres(Some(&pooler.url()));
    one.run(1);
    one.assert_each_paid(1);
    let four = Machines::with_postgres(Some(&pooler.url()));
    four.run(4);
    four.run(1);
    four.assert_paid_together();
}

/// What a pass has to say is stored while others end: both want connections.
#[test]
fn a_run_some_of_whose_passes_fail_ends_over_postgresql() {
    for _ in 0..3 {
        let machines = Machines::with_postgres(None);
        let sets = ["--set", "upstreams.youtube.attempts=1"];
        machines.world.faults(&json!({ "status": 500, "times": 3 }));
        let run = machines.start(0, &sets);
        let said = run.said.clone();
        let code = run.ended();
        assert_eq!(code, 1, "{}", std::fs::read_to_string(said).unwrap());
        assert!(machines.complete(0) > 0);
        machines.run(1);
        assert_eq!(machines.complete(0), PASSES);
    }
}
