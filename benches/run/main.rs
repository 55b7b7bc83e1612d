//! What a whole run costs, through the binary: `cargo bench --bench run`.
//!
//! Eight regions of four pages at 50 ms an answer, against the longest chain of requests that wait for one another: the
//! four pages of a region, then a batch of ids. What computing costs is in that ratio, on few processors most of all; a run
//! of one region, which waits for the same chain, stands beside it. And a run with nothing due.
#![allow(missing_docs, clippy::unwrap_used, clippy::indexing_slicing)]

mod recorded;

use std::fs;
use std::io::{Write, pipe};
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::time::{Duration, Instant};

use comfy_table::presets::ASCII_MARKDOWN;
use comfy_table::{CellAlignment, Table};
use ingest_base::clock::SystemClock;
use ingest_config::{Config, Sources};
use ingest_sandbox::{Options, Sandbox};

/// After them comes a batch, unless its ids are fresh.
const PAGES: u32 = 4;
/// What a pipe holds on Linux.
const PIPE_BYTES: usize = 64 * 1024;

/// How long an answer takes, and how often what is measured.
#[derive(Clone, Copy)]
struct Plan {
    answer: Duration,
    walks: usize,
    idle_runs: usize,
}

fn main() {
    measure(Plan {
        answer: Duration::from_millis(50),
        walks: 7,
        idle_runs: 51,
    });
}

/// The same, each once: whether it still works.
#[allow(dead_code, reason = "the tests call it")]
pub fn shortened() {
    measure(Plan {
        answer: Duration::from_millis(1),
        walks: 1,
        idle_runs: 1,
    });
}

fn measure(plan: Plan) {
    let _ = rustls::crypto::ring::default_provider().install_default();
    let runtime = tokio::runtime::Runtime::new().unwrap();
    let shipped = Path::new(env!("CARGO_MANIFEST_DIR")).join("quotas.toml");
    let config = Config::load(&Sources {
        path: Some(shipped),
        sets: Vec::new(),
        ..Sources::default()
    })
    .unwrap();
    let sandbox = runtime
        .block_on(Sandbox::start(
            &config,
            Options::default(),
            Arc::new(SystemClock),
        ))
        .unwrap();
    let state = tempfile::tempdir().unwrap();
    timed(ingest(
        sandbox.base_url("youtube").as_str(),
        state.path(),
        "all",
        "8",
    ));
    let recorded = runtime.block_on(recorded::serve(
        &state.path().join("catalog.db"),
        plan.answer,
    ));
    let upstream = format!("http://{recorded}");
    println!("{}", walks(&upstream, state.path(), plan));
    println!("{}", idle(&upstream, state.path(), plan));
}

fn ingest(upstream: &str, state: &Path, regions: &str, concurrency: &str) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_ingest"));
    let base_url = format!("upstreams.youtube.base_url={upstream}");
    let config = Path::new(env!("CARGO_MANIFEST_DIR")).join("quotas.toml");
    command
        .env("YOUTUBE_API_KEY", "benchmark")
        .stdout(Stdio::null());
    command.args([
        "--region",
        regions,
        "--job",
        "trending",
        "--concurrency",
        concurrency,
        "--set",
        &base_url,
    ]);
    command
        .arg("--config")
        .arg(config)
        .arg("--state-dir")
        .arg(state);
    command
}

fn timed(mut command: Command) -> Duration {
    let begun = Instant::now();
    assert!(command.status().unwrap().success());
    begun.elapsed()
}

/// First runs of the job, each with a catalog of its own; and runs in which the same records come again, as most do.
fn walks(upstream: &str, state: &Path, plan: Plan) -> Table {
    let mut table = table(&["4 pages a region", "chain ms", "median ms", "ratio"]);
    for (regions, concurrency) in [("US", "8"), ("all", "8"), ("all", "4")] {
        let walk = |_| {
            let _ = fs::remove_file(state.join("catalog.db"));
            timed(ingest(upstream, state, regions, concurrency))
        };
        let median = median((0..plan.walks).map(walk).collect());
        let name = format!("first, --region {regions} --concurrency {concurrency}");
        table.add_row(row(name, plan.answer * (PAGES + 1), median));
    }
    let again = |_| {
        let mut command = ingest(upstream, state, "all", "8");
        command.args(["--set", "jobs.trending.every=1us"]);
        timed(command)
    };
    let median = median((0..plan.walks).map(again).collect());
    table.add_row(row(
        "again, --region all --concurrency 8".to_owned(),
        plan.answer * PAGES,
        median,
    ));
    table
}

/// Against the longest chain of requests that wait for one another.
fn row(name: String, chain: Duration, median: Duration) -> [String; 4] {
    let ratio = median.as_secs_f64() / chain.as_secs_f64();
    [name, millis(chain), millis(median), format!("{ratio:.2}")]
}

fn idle(upstream: &str, state: &Path, plan: Plan) -> Table {
    let mut table = table(&["nothing due", "median ms", "peak MiB"]);
    let median = median(
        (0..plan.idle_runs)
            .map(|_| timed(ingest(upstream, state, "all", "4")))
            .collect(),
    );
    let peak = idle_peak(upstream, state)
        .map_or_else(|| "-".to_owned(), |peak| format!("{:.1}", peak / 1024.0));
    table.add_row(["a run".to_owned(), millis(median), peak]);
    table
}

/// The most memory that a run with nothing due held, in KiB: read while it waits to print its summary into a full pipe.
fn idle_peak(upstream: &str, state: &Path) -> Option<f64> {
    let (reading, mut writing) = pipe().unwrap();
    writing.write_all(&[0; PIPE_BYTES]).unwrap();
    let mut run = ingest(upstream, state, "all", "4")
        .stdout(writing)
        .spawn()
        .unwrap();
    std::thread::sleep(Duration::from_millis(500));
    let status = fs::read_to_string(format!("/proc/{}/status", run.id()));
    drop(reading);
    run.wait().unwrap();
    let status = status.ok()?;
    let peak = status
        .lines()
        .find_map(|line| line.strip_prefix("VmHWM:"))?;
    peak.trim().strip_suffix("kB")?.trim().parse().ok()
}

fn median(mut times: Vec<Duration>) -> Duration {
    times.sort();
    times.get(times.len() / 2).copied().unwrap_or_default()
}

fn millis(time: Duration) -> String {
    format!("{:.1}", time.as_secs_f64() * 1e3)
}

fn table(header: &[&str]) -> Table {
    let mut table = Table::new();
    table.load_style(ASCII_MARKDOWN).set_header(header);
    table
        .column_iter_mut()
        .skip(1)
        .for_each(|column| column.set_cell_alignment(CellAlignment::Right));
    table
}
