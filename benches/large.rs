//! What a large installation costs: 249 regions, and a catalog and a ledger at a tenth, at one and at ten times 1,000,000
//! records and 100,000 charges in the window. Time and memory of the real program.
//!
//! `cargo bench --bench large [-- TIMES…]`; without sizes a tenth and one: ten times wants 15 GB of disk and half an hour.
//! `$PROGRAM` is measured instead of what cargo built, where it is set.
#![allow(missing_docs, clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::indexing_slicing)]

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::time::{Duration, Instant};

use comfy_table::Table;
use ingest::catalog::{Catalog, Landing, PassEnd, PassRef, SqliteCatalog};
use ingest::clock::SystemClock;
use ingest::config::{Config, Sources};
use ingest::ledger::SqliteLedger;
use ingest::quota::{Cost, Timestamp, Units};
use ingest::record::Record;
use ingest::sandbox::{Options, Sandbox};
use rusqlite::Connection;
use serde_json::json;

const REGIONS: usize = 249;
const RECORDS: f64 = 1_000_000.0;
const CHARGES: f64 = 100_000.0;
const PAGE: usize = 50;
const PAGES_A_PASS: usize = 4;

fn main() {
    let sizes: Vec<f64> = std::env::args().skip(1).filter_map(|size| size.parse().ok()).collect();
    let sizes = if sizes.is_empty() { vec![0.1, 1.0] } else { sizes };
    let _ = rustls::crypto::ring::default_provider().install_default();
    let runtime = tokio::runtime::Runtime::new().unwrap();
    let mut table = Table::new();
    table.set_header(["command", "times", "seconds", "grows", "memory, MB", "grows", "exit"]);
    let mut before: Option<(f64, Vec<Measured>)> = None;
    for size in sizes {
        let place = runtime.block_on(Place::filled(size));
        let now: Vec<Measured> = COMMANDS.iter().map(|(_, arguments)| place.measure(arguments)).collect();
        for (index, ((name, _), one)) in COMMANDS.iter().zip(&now).enumerate() {
            let earlier = before.as_ref().map(|(earlier, all)| (size / earlier, &all[index]));
            let grows = |of: fn(&Measured) -> f64| {
                earlier.map_or("", |(data, earlier)| growth(of(one) / of(earlier).max(f64::MIN_POSITIVE), data))
            };
            let (time, memory) = (grows(|one| one.seconds), grows(|one| one.megabytes));
            let (seconds, megabytes) = (format!("{:.3}", one.seconds), format!("{:.0}", one.megabytes));
            table.add_row([*name, &size.to_string(), &seconds, time, &megabytes, memory, &one.exit]);
        }
        before = Some((size, now));
    }
    println!("{table}");
}

/// How a figure grew while the data grew so many times.
fn growth(figure: f64, data: f64) -> &'static str {
    match figure.ln() / data.ln() {
        power if power < 0.15 => "not",
        power if power < 0.75 => "slower than the data",
        power if power < 1.2 => "with the data",
        _ => "faster than the data",
    }
}

/// What one command took.
struct Measured {
    seconds: f64,
    megabytes: f64,
    exit: String,
}

const COMMANDS: &[(&str, &[&str])] = &[
    ("status", &["status", "--format", "json"]),
    ("search, rare", &["search", "word17", "rare123", "--format", "json"]),
    ("search, common", &["search", "common", "--format", "json"]),
    ("preview", &["--region", "all", "--dry-run", "--format", "json"]),
    ("run", &["--region", "all", "--job", "trending", "--format", "json"]),
    ("run, nothing due", &["--region", "all", "--job", "trending", "--format", "json"]),
];

struct Place {
    directory: tempfile::TempDir,
    sets: Vec<String>,
    _sandbox: Sandbox,
}

impl Place {
    async fn filled(size: f64) -> Self {
        let directory = tempfile::tempdir().unwrap();
        let codes: Vec<String> = (0..REGIONS).map(|number| format!("{:?}", code(number))).collect();
        let quota = "{ quota = 100000000, headroom = 500, window = \"24h\", resets = \"America/Los_Angeles\" }";
        let mut sets = vec![
            format!("regions=[{}]", codes.join(",")),
            format!("credentials.youtube.limits.daily={quota}"),
            "upstreams.youtube.calls.\"search.list\".cost=1".to_owned(),
        ];
        let sources = Sources { path: Some(shipped()), sets: sets.clone() };
        let config = Config::load(&sources).unwrap();
        let listen = "127.0.0.1:0".parse().unwrap();
        let options = Options { listen, latency: Duration::ZERO, failure_rate: 0.0, quota: None, seed: 1 };
        let sandbox = Sandbox::start(&config, options, Arc::new(SystemClock)).await.unwrap();
        sets.push(format!("upstreams.youtube.base_url=\"{}\"", sandbox.base_url("youtube")));
        fill_catalog(directory.path(), &config, (RECORDS * size) as usize).await;
        fill_ledger(directory.path(), (CHARGES * size) as i64);
        Self { directory, sets, _sandbox: sandbox }
    }

    /// Runs the program to its end.
    fn measure(&self, arguments: &[&str]) -> Measured {
        let program = std::env::var_os("PROGRAM").unwrap_or_else(|| env!("CARGO_BIN_EXE_ingest").into());
        let mut command = Command::new(program);
        command.arg("--config").arg(shipped()).arg("--state-dir").arg(self.directory.path());
        for set in &self.sets {
            command.args(["--set", set]);
        }
        command.args(arguments).env("YOUTUBE_API_KEY", "k").stdout(Stdio::null()).stderr(Stdio::null());
        let began = Instant::now();
        let mut child = command.spawn().unwrap();
        let status_file = format!("/proc/{}/status", child.id());
        let mut megabytes = 0.0;
        loop {
            if let Ok(status) = std::fs::read_to_string(&status_file)
                && let Some(line) = status.lines().find_map(|line| line.strip_prefix("VmHWM:"))
            {
                let kilobytes: f64 = line.trim().trim_end_matches(" kB").parse().unwrap();
                megabytes = kilobytes / 1024.0;
            }
            if let Some(ended) = child.try_wait().unwrap() {
                let exit = ended.code().unwrap_or(-1).to_string();
                return Measured { seconds: began.elapsed().as_secs_f64(), megabytes, exit };
            }
            std::thread::sleep(Duration::from_millis(1));
        }
    }
}

/// Passes of the job over all regions, again and again, an hour apart, the last one an hour and more ago.
async fn fill_catalog(directory: &Path, config: &Config, records: usize) {
    let catalog = SqliteCatalog::open(&directory.join("catalog.db")).unwrap();
    let job = config.jobs.iter().find(|job| job.name == "trending").unwrap();
    let kind = job.steps[0].call.records.as_ref().unwrap();
    let units = Cost::from_iter([("daily".to_owned(), Units::new(1))]);
    let passes = records.div_ceil(PAGE * PAGES_A_PASS);
    let now = Timestamp::from(chrono::Utc::now());
    for number in 0..passes {
        let ago = Duration::from_secs(3600 * (1 + (passes - 1 - number) / REGIONS) as u64 + 1800);
        let (region, at) = (code(number % REGIONS), now.before(ago));
        let mut reference = PassRef::New { job: job.name.clone(), region, started_at: at };
        for page in 0..PAGES_A_PASS {
            let first = (number * PAGES_A_PASS + page) * PAGE;
            let records: Vec<Record> = (first..first + PAGE).map(record).collect();
            let next = (page + 1 < PAGES_A_PASS).then(|| page.to_string());
            let landing = Landing {
                pass: &reference,
                step: 0,
                upstream: "youtube",
                call: "videos.list",
                kind,
                records: &records,
                next: next.as_deref(),
                asked: &[],
                requests: 1,
                units: &units,
                now: at,
            };
            reference = PassRef::Open(catalog.land(landing).await.unwrap().pass);
        }
        catalog.finish(&reference, PassEnd::Complete, at).await.unwrap();
    }
}

/// A region's code, as upstreams know them.
fn code(number: usize) -> String {
    [number / 26, number % 26].map(|letter| char::from(b'A' + letter as u8)).iter().collect()
}

fn record(number: usize) -> Record {
    let title = format!("common word{} rare{number} about a thing", number % 1000);
    let body = json!({ "id": format!("v{number}"), "snippet": { "title": title, "channelId": format!("c{}", number % 20_000), "description": "x".repeat(200) } });
    Record { id: format!("v{number}"), body }
}

/// Charges of one unit, evenly over the last 23 hours.
fn fill_ledger(directory: &Path, charges: i64) {
    let path = directory.join("ledger.db");
    drop(SqliteLedger::open(&path).unwrap());
    let connection = Connection::open(path).unwrap();
    let now = Timestamp::from(chrono::Utc::now()).micros();
    let step = 23 * 3600 * 1_000_000 / charges;
    let fill = format!(
        "begin;
         with recursive n(i) as (select 1 union all select i + 1 from n where i < {charges})
         insert into charge (account, at, n, id, job, region, call)
         select 'youtube', {now} - ({charges} - i + 1) * {step}, 0, 'filled-' || i, 'trending', 'AB', 'videos.list' from n;
         insert into taken (account, limit_name, at, n, units, total)
         select account, 'daily', at, n, 1, row_number() over (order by at) from charge;
         commit;"
    );
    connection.execute_batch(&fill).unwrap();
}

fn shipped() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("quotas.toml")
}
