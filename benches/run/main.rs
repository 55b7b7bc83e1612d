//! What a whole run costs, through the binary: `cargo bench --bench run [-- CHECKOUT]`. With the directory of another checkout, whose
//! release build stands in its `target`, that program takes turns with this one.
//!
//! Eight regions of four pages at 50 ms an answer, against the longest chain of requests that wait for one another: the
//! four pages of a region, then a batch of ids. What computing costs is in that ratio, on few processors most of all; a run
//! of one region, which waits for the same chain, stands beside it. And a run with nothing due.
#![allow(missing_docs, clippy::unwrap_used, clippy::indexing_slicing)]

mod recorded;

use std::fs;
use std::io::{Write, pipe};
use std::path::{Path, PathBuf};
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
    let other = std::env::args().skip(1).find(|word| !word.starts_with('-'));
    let plan = Plan {
        answer: Duration::from_millis(50),
        walks: 15,
        idle_runs: 51,
    };
    measure(plan, other.map(PathBuf::from));
}

/// The same, each once: whether it still works.
#[allow(dead_code, reason = "the tests call it")]
pub fn shortened() {
    let plan = Plan {
        answer: Duration::from_millis(1),
        walks: 1,
        idle_runs: 1,
    };
    measure(plan, None);
}

/// A program that is measured.
struct Program {
    name: &'static str,
    binary: PathBuf,
    config: PathBuf,
    /// Its state: another version may write other files.
    state: tempfile::TempDir,
}

impl Program {
    fn this() -> Self {
        let checkout = Path::new(env!("CARGO_MANIFEST_DIR"));
        Self {
            name: "",
            binary: env!("CARGO_BIN_EXE_ingest").into(),
            config: checkout.join("quotas.toml"),
            state: tempfile::tempdir().unwrap(),
        }
    }

    fn of(checkout: &Path) -> Self {
        Self {
            name: ", the other",
            binary: checkout.join("target/release/ingest"),
            config: checkout.join("quotas.toml"),
            state: tempfile::tempdir().unwrap(),
        }
    }

    fn run(&self, upstream: &str, regions: &str, concurrency: &str) -> Command {
        let mut command = Command::new(&self.binary);
        let base_url = format!("upstreams.youtube.base_url={upstream}");
        command
            .env("YOUTUBE_API_KEY", "benchmark")
            .stdout(Stdio::null())
            .args(["--region", regions, "--job", "trending"])
            .args(["--concurrency", concurrency, "--set", &base_url])
            .arg("--config")
            .arg(&self.config)
            .arg("--state-dir")
            .arg(self.state.path());
        command
    }
}

fn measure(plan: Plan, other: Option<PathBuf>) {
    let _ = rustls::crypto::ring::default_provider().install_default();
    let runtime = tokio::runtime::Runtime::new().unwrap();
    let shipped = Path::new(env!("CARGO_MANIFEST_DIR")).join("quotas.toml");
    let config = Config::load(&Sources {
        path: Some(shipped),
        sets: Vec::new(),
    })
    .unwrap();
    let sandbox = runtime
        .block_on(Sandbox::start(
            &config,
            Options::default(),
            Arc::new(SystemClock),
        ))
        .unwrap();
    let programs: Vec<Program> = [Program::this()]
        .into_iter()
        .chain(other.map(|checkout| Program::of(&checkout)))
        .collect();
    for program in &programs {
        timed(program.run(sandbox.base_url("youtube").as_str(), "all", "8"));
    }
    let catalog = programs[0].state.path().join("catalog.db");
    let recorded = runtime.block_on(recorded::serve(&catalog, plan.answer));
    let upstream = format!("http://{recorded}");
    println!("{}", walks(&upstream, &programs, plan));
    println!("{}", idle(&upstream, &programs, plan));
}

/// Runs each program so often, in turns, so that whatever else the machine does meets all of them. Returns the median of each.
fn in_turns(
    programs: &[Program],
    times: usize,
    run: impl Fn(&Program) -> Duration,
) -> Vec<Duration> {
    let turns: Vec<Vec<Duration>> = (0..times)
        .map(|_| programs.iter().map(&run).collect())
        .collect();
    let of = |at: usize| median(turns.iter().map(|turn| turn[at]).collect());
    (0..programs.len()).map(of).collect()
}

fn timed(mut command: Command) -> Duration {
    let begun = Instant::now();
    assert!(command.status().unwrap().success());
    begun.elapsed()
}

/// First runs of the job, each with a catalog of its own; and runs in which the same records come again, as most do.
fn walks(upstream: &str, programs: &[Program], plan: Plan) -> Table {
    let mut table = table(&["4 pages a region", "chain ms", "median ms", "ratio"]);
    let mut add = |name: &str, chain: Duration, medians: Vec<Duration>| {
        for (program, median) in programs.iter().zip(medians) {
            table.add_row(row(format!("{name}{}", program.name), chain, median));
        }
    };
    for (regions, concurrency) in [("US", "8"), ("all", "8"), ("all", "4")] {
        let medians = in_turns(programs, plan.walks, |program| {
            let _ = fs::remove_file(program.state.path().join("catalog.db"));
            timed(program.run(upstream, regions, concurrency))
        });
        let name = format!("first, --region {regions} --concurrency {concurrency}");
        add(&name, plan.answer * (PAGES + 1), medians);
    }
    let medians = in_turns(programs, plan.walks, |program| {
        let mut command = program.run(upstream, "all", "8");
        command.args(["--set", "jobs.trending.every=1us"]);
        timed(command)
    });
    add(
        "again, --region all --concurrency 8",
        plan.answer * PAGES,
        medians,
    );
    table
}

/// Against the longest chain of requests that wait for one another.
fn row(name: String, chain: Duration, median: Duration) -> [String; 4] {
    let ratio = median.as_secs_f64() / chain.as_secs_f64();
    [name, millis(chain), millis(median), format!("{ratio:.2}")]
}

fn idle(upstream: &str, programs: &[Program], plan: Plan) -> Table {
    let mut table = table(&[
        "nothing due",
        "median ms",
        "peak MiB",
        "--version, median ms",
    ]);
    let runs = in_turns(programs, plan.idle_runs, |program| {
        timed(program.run(upstream, "all", "4"))
    });
    let versions = in_turns(programs, plan.idle_runs, |program| {
        let mut command = Command::new(&program.binary);
        command.arg("--version").stdout(Stdio::null());
        timed(command)
    });
    for (program, (run, version)) in programs.iter().zip(runs.into_iter().zip(versions)) {
        let peak = idle_peak(program.run(upstream, "all", "4"))
            .map_or_else(|| "-".to_owned(), |peak| format!("{:.1}", peak / 1024.0));
        let name = format!("a run{}", program.name);
        table.add_row([name, millis(run), peak, millis(version)]);
    }
    table
}

/// The most memory that a run with nothing due held, in KiB: read while it waits to print its summary into a full pipe.
fn idle_peak(mut command: Command) -> Option<f64> {
    let (reading, mut writing) = pipe().unwrap();
    writing.write_all(&[0; PIPE_BYTES]).unwrap();
    let mut run = command.stdout(writing).spawn().unwrap();
    drop(command);
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
