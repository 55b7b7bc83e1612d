//! What a fresh record costs, in units: the shipped jobs against the sandbox over eight regions whose charts overlap, set
//! beside the least that arithmetic allows, in the first run and in the tenth; and beside a loop that walks the same lists
//! and asks for one channel at a time, region by region, which is run against a sandbox of its own.
//!
//! `cargo bench --bench economy`. It counts units, so that any profile says the same: `--profile dev` builds faster.
#![allow(
    missing_docs,
    clippy::unwrap_used,
    clippy::indexing_slicing,
    clippy::panic
)]

use std::collections::{BTreeSet, HashMap};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};
use std::time::Duration;

use async_trait::async_trait;
use comfy_table::Table;
use ingest::review::RegionalRecords;
use ingest::run::{Blocked, Context, InFlight, LearnedCosts, RequestStats, Silent, channel, run};
use ingest_base::clock::{Clock, Deadline, Monotonic};
use ingest_catalog::{LockFiles, SqliteCatalog};
use ingest_config::{Config, Job};
use ingest_ledger::{LocalClient, SqliteLedger};
use ingest_quota::{Timestamp, Units};
use ingest_sandbox::{Options, Sandbox};
use ingest_upstream::{Client, PageRequest, Secret, Upstream};
use rusqlite::Connection;
use serde_json::Value;
use tempfile::TempDir;

/// Units at most, as a share of the least that arithmetic allows.
const MOST: f64 = 1.05;
/// 2026-11-20T12:00:00Z
const NOON: i64 = 1_795_176_000_000_000;
/// Records a page, ids a batch.
const PAGE: u64 = 50;

fn main() {
    measure(10, usize::MAX);
}

/// The same in two runs, and the loop over one region: whether it still works.
#[allow(dead_code, reason = "the tests call it")]
pub fn shortened() {
    measure(2, 1);
}

fn measure(runs: usize, regions_of_loop: usize) {
    let _ = rustls::crypto::ring::default_provider().install_default();
    let runtime = tokio::runtime::Runtime::new().unwrap();
    let mut table = Table::new();
    table.set_header([
        "job",
        "run",
        "fresh records",
        "units",
        "least",
        "units / least",
        "units a fresh record",
        "the loop (each)",
    ]);
    let mut worst: f64 = 0.0;
    for job in &shipped(&[]).jobs {
        let loops = runtime.block_on(one_at_a_time(&job.name, regions_of_loop));
        for (number, round) in runtime
            .block_on(rounds(&job.name, runs))
            .into_iter()
            .enumerate()
        {
            worst = worst.max(round.units as f64 / round.least as f64);
            if number == 0 || number + 1 == runs {
                table.add_row(row(&job.name, number, &round, loops));
            }
        }
    }
    println!("{table}\nat worst {worst:.3} of the least, in any of {runs} runs");
    assert!(worst <= MOST, "more than {MOST} of the least");
}

fn row(job: &str, number: usize, round: &Round, loops: u64) -> [String; 8] {
    let each = |units: u64| format!("{:.4}", units as f64 / round.fresh as f64);
    [
        job.to_owned(),
        (number + 1).to_string(),
        round.fresh.to_string(),
        round.units.to_string(),
        round.least.to_string(),
        format!("{:.3}", round.units as f64 / round.least as f64),
        each(round.units),
        format!("{loops} ({})", each(loops)),
    ]
}

/// What one run took.
struct Round {
    fresh: u64,
    units: u64,
    least: u64,
}

/// A clock that is moved by hand.
struct Hand(AtomicI64);

#[async_trait]
impl Clock for Hand {
    fn now(&self) -> Timestamp {
        Timestamp::from_micros(self.0.load(Ordering::SeqCst))
    }

    async fn sleep(&self, span: Duration) {
        self.0
            .fetch_add(i64::try_from(span.as_micros()).unwrap(), Ordering::SeqCst);
    }
}

fn shipped(sets: &[String]) -> Config {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("quotas.toml");
    Config::parse(&std::fs::read_to_string(&path).unwrap(), &path, sets).unwrap()
}

/// A sandbox, and the shipped configuration that leads there.
async fn stand_in(options: Options, clock: &Arc<Hand>) -> (Sandbox, Config) {
    let sandbox = Sandbox::start(&shipped(&[]), options, Arc::clone(clock) as Arc<dyn Clock>)
        .await
        .unwrap();
    let urls = sandbox.base_urls();
    let sets: Vec<String> = urls
        .iter()
        .map(|(name, url)| format!("upstreams.{name}.base_url={url}"))
        .collect();
    (sandbox, shipped(&sets))
}

/// Runs a job so often, each time when it is due.
async fn rounds(name: &str, runs: usize) -> Vec<Round> {
    let directory = tempfile::tempdir().unwrap();
    let clock = Arc::new(Hand(AtomicI64::new(NOON)));
    let (sandbox, config) = stand_in(Options::default(), &clock).await;
    let job = config.jobs.iter().find(|job| job.name == name).unwrap();
    let mut rounds = Vec::new();
    for _ in 0..runs {
        rounds.push(round(job, &directory, &sandbox, &clock).await);
        clock.sleep(job.every.unwrap()).await;
    }
    sandbox.shutdown().await;
    rounds
}

async fn round(job: &Arc<Job>, directory: &TempDir, sandbox: &Sandbox, clock: &Arc<Hand>) -> Round {
    let (before, began) = (sandbox.requests(), clock.now());
    let fetched = fetched(directory, began, job);
    let report = run(
        &context(job, directory, clock),
        &vec![(Arc::clone(job), job.regions.clone())],
    )
    .await
    .unwrap();
    let requests: u64 = report.passes.iter().map(|pass| pass.requests).sum();
    assert_eq!(
        requests,
        sandbox.requests() - before,
        "the sandbox counted the same requests"
    );
    assert!(
        report.passes.iter().all(|pass| pass.detail.is_none()),
        "{report:?}"
    );
    let catalog = Connection::open(directory.path().join("catalog.db")).unwrap();
    let listed = listed(&catalog, job, began);
    let mut asked = BTreeSet::new();
    let mut pages = 0;
    for (records, ids) in &listed {
        pages += records.div_ceil(PAGE);
        asked.extend(ids.difference(&fetched).cloned());
    }
    let list_cost = job.steps[0].call.cost.of("daily").get();
    let fresh = catalog.query_row(
        "select count(*) from record where last_seen >= ?",
        [text(began)],
        |row| row.get::<_, i64>(0),
    );
    Round {
        fresh: fresh.unwrap().unsigned_abs(),
        units: report
            .passes
            .iter()
            .map(|pass| pass.units.of("daily").get())
            .sum(),
        least: pages * list_cost + (asked.len() as u64).div_ceil(PAGE),
    }
}

/// Units that a loop takes that asks for each id by itself, region by region, and remembers nothing.
async fn one_at_a_time(name: &str, regions: usize) -> u64 {
    let clock = Arc::new(Hand(AtomicI64::new(NOON)));
    let options = Options {
        quota: Some(Units::new(1_000_000)),
        ..Options::default()
    };
    let (sandbox, config) = stand_in(options, &clock).await;
    let job = config.jobs.iter().find(|job| job.name == name).unwrap();
    let (client, ids_at) = (client(job), &job.steps[1].ids.as_ref().unwrap().at);
    for region in job.regions.iter().take(regions) {
        let first = PageRequest {
            step: &job.steps[0],
            region,
            ids: &[],
            cursor: None,
            lasting: None,
            began: clock.now(),
            now: clock.now(),
            since: None,
            known: None,
        };
        let (mut named, mut cursor) = (BTreeSet::new(), None::<String>);
        for _ in 0..job.steps[0].max_pages.unwrap() {
            let page = client
                .fetch(
                    PageRequest {
                        cursor: cursor.as_deref(),
                        ..first
                    },
                    ingest_upstream::Connection::default(),
                    Deadline::new(Monotonic::now(), Duration::MAX),
                )
                .await
                .page
                .unwrap();
            named.extend(
                page.records
                    .iter()
                    .flat_map(|record| ids_at.texts_in(&record.body)),
            );
            cursor = page.next;
            if cursor.is_none() {
                break;
            }
        }
        for id in named {
            client
                .fetch(
                    PageRequest {
                        step: &job.steps[1],
                        ids: &[id],
                        ..first
                    },
                    ingest_upstream::Connection::default(),
                    Deadline::new(Monotonic::now(), Duration::MAX),
                )
                .await
                .page
                .unwrap();
        }
    }
    let used = sandbox
        .usage()
        .iter()
        .filter(|limit| limit.limit == "daily")
        .map(|limit| limit.used.get())
        .sum();
    sandbox.shutdown().await;
    used
}

fn text(at: Timestamp) -> String {
    at.to_utc()
        .to_rfc3339_opts(chrono::SecondsFormat::Micros, true)
}

/// The records that each region's pass of this run listed, and the ids that they name.
fn listed(catalog: &Connection, job: &Job, began: Timestamp) -> Vec<(u64, BTreeSet<String>)> {
    let at = &job.steps[1].ids.as_ref().unwrap().at;
    let question = "select pass.id, record.body from pass join listing on listing.pass = pass.id and step = 0
        join record on record.upstream = listing.upstream and record.kind = listing.kind and record.id = listing.id
        where pass.started_at >= ? and region != '*'";
    let mut statement = catalog.prepare(question).unwrap();
    let rows = statement
        .query_map([text(began)], |row| {
            Ok((row.get::<_, i64>(0)?, row.get::<_, String>(1)?))
        })
        .unwrap();
    let mut passes: HashMap<i64, (u64, BTreeSet<String>)> = HashMap::new();
    for (pass, body) in rows.map(Result::unwrap) {
        let body: Value = serde_json::from_str(&body).unwrap();
        let (records, ids) = passes.entry(pass).or_default();
        *records += 1;
        ids.extend(at.texts_in(&body));
    }
    passes.into_values().collect()
}

/// The ids that need not be asked for in a run that begins now: those that came, or were absent, lately.
fn fetched(directory: &TempDir, began: Timestamp, job: &Job) -> BTreeSet<String> {
    let path = directory.path().join("catalog.db");
    if !path.exists() {
        return BTreeSet::new();
    }
    let step = &job.steps[1];
    let fresh_since = text(began - step.ids.as_ref().unwrap().fresh_for.unwrap());
    let kind = &step.call.records.as_ref().unwrap().kind;
    let question = "select id from record where kind = ?1 and last_seen >= ?2
        union select id from absent where kind = ?1 and at >= ?2";
    let catalog = Connection::open(path).unwrap();
    let mut statement = catalog.prepare(question).unwrap();
    statement
        .query_map([kind, &fresh_since], |row| row.get(0))
        .unwrap()
        .map(Result::unwrap)
        .collect()
}

fn client(job: &Job) -> Client {
    let credential = &job.credential;
    let secret = Secret::given(
        &credential.name,
        Sandbox::secret_of(&credential.name).into(),
    );
    Client::new(Arc::clone(&credential.upstream), secret).unwrap()
}

fn context(job: &Job, directory: &TempDir, clock: &Arc<Hand>) -> Context {
    let (credential, client): (_, Arc<dyn Upstream>) = (&job.credential, Arc::new(client(job)));
    let ledger = SqliteLedger::open(&directory.path().join("ledger.db")).unwrap();
    Context {
        unlanded: None,
        catalog: Arc::new(SqliteCatalog::open(&directory.path().join("catalog.db")).unwrap()),
        ledger: Arc::new(LocalClient::new(
            Arc::new(ledger),
            Arc::clone(clock) as Arc<dyn Clock>,
        )),
        upstreams: [(credential.name.clone(), Ok(client))].into(),
        clock: Arc::clone(clock) as Arc<dyn Clock>,
        leases: Arc::new(LockFiles::open(directory.path()).unwrap()),
        stop: channel().1,
        known_calls: ingest::run::KnownCalls::default(),
        blocked: Blocked::default(),
        request_stats: RequestStats::default(),
        learned_costs: LearnedCosts::default(),
        waits: ingest::run::Waits::default(),
        in_flight: InFlight::default(),
        regional_records: Some(RegionalRecords::default()),
        progress: Arc::new(Silent),
        concurrency: 4,
        cheap_max: Units::new(5),
    }
}
