//! What a quota of 10,000,000 charges a day needs: counted exactly, and in 60 parts of the day.

use std::sync::Arc;
use std::time::Duration;

use comfy_table::Table;
use ingest_ledger::redis::{RedisLedger, ServerTime};
use ingest_ledger::{Ledger, SqliteLedger};
use ingest_quota::{Account, Cost, Counting, Decision, Limit, Timestamp, Units, Window};
use tempfile::TempDir;

use super::books::timed_charge;
use super::shared_as_ledger::SharedAsLedger;
use super::table::{Plan, Times, micros, table};
use ingest_testing::redis_server::{RedisServer, ledger_config};

const DAY: Duration = Duration::from_secs(24 * 3600);
const A_DAY: u32 = 10_000_000;
const PARTS: u32 = 60;
const TIMEOUT: Duration = Duration::from_secs(60);

enum Store {
    File(TempDir),
    Server(Box<RedisServer>),
}

struct Scenario {
    what: String,
    store: Store,
    ledger: Arc<dyn Ledger>,
    account: Account,
    now: Timestamp,
    /// Charges in the window whose bytes were measured.
    charges: u32,
    bytes: u64,
    /// Milliseconds in the server of a report of them, and of its longest call.
    report: Option<(f64, f64)>,
    times: Times,
    took: Duration,
}

pub(crate) async fn memory(plan: &'static Plan) -> Table {
    let mut scenarios = Vec::new();
    for is_file in [true, false] {
        for counting in [Counting::Exact, Counting::Buckets(PARTS)] {
            let mut scenario = Scenario::new(is_file, counting);
            scenario.fill(counting, plan).await;
            scenarios.push(scenario);
        }
    }
    for _ in 0..plan.counting_turns {
        for scenario in &mut scenarios {
            for _ in 0..plan.redis_burst {
                let took = scenario.charge(DAY / A_DAY).await;
                scenario.times.add(took);
                scenario.took += took;
            }
        }
    }
    written(&scenarios)
}

impl Scenario {
    fn new(is_file: bool, counting: Counting) -> Self {
        let (store, ledger): (Store, Arc<dyn Ledger>) = if is_file {
            let directory = TempDir::new().unwrap();
            let ledger = SqliteLedger::open(&directory.path().join("ledger.db")).unwrap();
            (Store::File(directory), Arc::new(ledger))
        } else {
            let server = RedisServer::start();
            let ledger =
                RedisLedger::new(&server.url(), &ledger_config(TIMEOUT, Duration::ZERO)).unwrap();
            let ledger = SharedAsLedger(ledger.with_time(ServerTime::Callers));
            (Store::Server(Box::new(server)), Arc::new(ledger))
        };
        let window = Window::new(Some(DAY), None).unwrap();
        let quota = Units::new(u64::from(A_DAY) * 10);
        let limit = Limit::new(quota, Units::ZERO, window.counted(counting).unwrap()).unwrap();
        let counted = match counting {
            Counting::Exact => "exact",
            Counting::Buckets(_) => "buckets",
        };
        Self {
            what: format!("{}, {counted}", if is_file { "file" } else { "Redis" }),
            store,
            ledger,
            account: Account {
                name: "bench".to_owned(),
                limits: [("daily".to_owned(), limit)].into(),
            },
            now: Timestamp::parse("2026-06-10T00:00:00.123457Z").unwrap(),
            charges: 0,
            bytes: 0,
            report: None,
            times: Times::default(),
            took: Duration::ZERO,
        }
    }

    /// Charges at the rate of the day. Counted in parts, the parts of a whole day come first: the bytes are then those of
    /// any later moment.
    async fn fill(&mut self, counting: Counting, plan: &Plan) {
        let empty = self.used_bytes().await;
        let (sparse, charges) = match counting {
            Counting::Exact => (0, plan.counted_exactly),
            Counting::Buckets(parts) => (2 * parts, plan.counted_in_buckets),
        };
        for _ in 0..sparse {
            self.charge(DAY / sparse).await;
        }
        for _ in 0..charges {
            self.charge(DAY / A_DAY).await;
        }
        (self.charges, self.bytes) = (charges, self.used_bytes().await - empty);
        self.report = self.reported().await;
    }

    /// What a report takes Redis, of the least disturbed of five; `None` of a file.
    async fn reported(&self) -> Option<(f64, f64)> {
        type Logged = (i64, i64, u32, Vec<redis::Value>, String, String);
        let Store::Server(server) = &self.store else {
            return None;
        };
        let is_call =
            |one: &&Logged| one.3.first() == Some(&redis::Value::BulkString(b"FCALL".to_vec()));
        let mut reports = Vec::new();
        server.tell("CONFIG SET slowlog-log-slower-than 0 slowlog-max-len 1000");
        for _ in 0..5 {
            server.tell("SLOWLOG RESET");
            self.ledger.usage(&self.account, self.now).await.unwrap();
            let calls: Vec<Logged> = server.ask("SLOWLOG GET 1000");
            let calls = calls.iter().filter(is_call);
            let times = calls.map(|one| f64::from(one.2) / 1000.0);
            reports.push(times.fold((0.0, 0.0), |(all, most), one| (all + one, one.max(most))));
        }
        server.tell("CONFIG SET slowlog-log-slower-than -1");
        reports
            .into_iter()
            .min_by(|one, other| f64::total_cmp(&one.1, &other.1))
    }

    async fn charge(&mut self, step: Duration) -> Duration {
        self.now += step;
        let cost: Cost = [("daily".to_owned(), Units::new(1))].into_iter().collect();
        let (took, decision) = timed_charge(&*self.ledger, &self.account, &cost, self.now).await;
        assert!(matches!(decision, Decision::Granted(_)), "{decision:?}");
        took
    }

    async fn used_bytes(&self) -> u64 {
        match &self.store {
            Store::File(directory) => std::fs::metadata(directory.path().join("ledger.db"))
                .unwrap()
                .len(),
            Store::Server(server) => {
                let client = redis::Client::open(server.url().expose().clone()).unwrap();
                let mut connection = client.get_multiplexed_async_connection().await.unwrap();
                let info: String = redis::cmd("INFO")
                    .arg("memory")
                    .query_async(&mut connection)
                    .await
                    .unwrap();
                let line = info
                    .lines()
                    .find_map(|line| line.strip_prefix("used_memory:"))
                    .unwrap();
                line.parse().unwrap()
            }
        }
    }
}

fn written(scenarios: &[Scenario]) -> Table {
    let mut table = table([
        "10,000,000 charges a day",
        "charges measured",
        "bytes measured",
        "MiB for a day",
        "server ms a report",
        "its longest call",
        "median µs",
        "mean µs",
        "p99 µs",
    ]);
    for one in scenarios {
        // What is counted in parts does not grow any more.
        let is_steady = one.account.forgets_ids();
        let days = if is_steady {
            1
        } else {
            u64::from(A_DAY / one.charges.max(1))
        };
        let mebibytes = (one.bytes * days) as f64 / f64::from(1 << 20);
        table.add_row([
            one.what.clone(),
            one.charges.to_string(),
            one.bytes.to_string(),
            format!("{mebibytes:.1}"),
            one.report
                .map_or_else(String::new, |(all, _)| format!("{all:.1}")),
            one.report
                .map_or_else(String::new, |(_, most)| format!("{most:.1}")),
            micros(one.times.median()),
            micros(one.took / one.times.count()),
            micros(one.times.p99()),
        ]);
    }
    table
}
