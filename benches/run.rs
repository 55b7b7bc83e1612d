//! What a whole run costs, through the binary: `cargo bench --bench run [-- CHECKOUT]`. With the directory of another checkout, whose
//! release build stands in its `target`, that program takes turns with this one.
//!
//! Eight regions of four pages at 50 ms an answer, against the longest chain of requests that wait for one another: the
//! four pages of a region, then a batch of ids. What computing costs is in that ratio, on few processors most of all; a run
//! of one region, which waits for the same chain, stands beside it. And a run with nothing due.
#![allow(missing_docs, clippy::unwrap_used, clippy::indexing_slicing)]

#[path = "place/figures.rs"]
#[allow(dead_code, reason = "each benchmark uses a part of it")]
mod figures;

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use comfy_table::Table;
use ingest_testing::stub_upstream::{StubAnswer, StubRequest, StubUpstream};
use serde_json::json;

use figures::{measured, median, millis, ratio, table};

/// After them comes a batch, unless its ids are fresh.
const PAGES: usize = 4;
/// The records of a page.
const PAGE: usize = 50;

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
        Self::of("", env!("CARGO_BIN_EXE_ingest").into(), checkout)
    }

    fn of(name: &'static str, binary: PathBuf, checkout: &Path) -> Self {
        Self {
            name,
            binary,
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
    let upstream = upstream(plan.answer);
    let other = other.map(|checkout| {
        let binary = checkout.join("target/release/ingest");
        Program::of(", the other", binary, &checkout)
    });
    let programs: Vec<Program> = [Program::this()].into_iter().chain(other).collect();
    println!("{}", walks(&upstream.url(), &programs, plan));
    println!("{}", idle(&upstream.url(), &programs, plan));
}

/// An upstream that costs next to nothing, so that what is timed is the program: it has all answers in memory.
fn upstream(answer: Duration) -> StubUpstream {
    let body = |kind: &str, id: &str, channel: &str| {
        json!({
            "kind": kind, "etag": format!("etag-{id}"), "id": id,
            "snippet": {
                "publishedAt": "2026-03-01T08:00:00Z", "channelId": channel, "title": format!("The title of {id}"),
                "description": "word ".repeat(200), "channelTitle": channel, "tags": ["one", "two", "three"],
            },
            "contentDetails": { "duration": "PT4M13S", "dimension": "2d", "definition": "hd", "caption": "false" },
            "statistics": { "viewCount": "7654321", "likeCount": "4821", "commentCount": "77" },
        })
    };
    let records = move |page: usize| {
        let records = page * PAGE..(page + 1) * PAGE;
        let record =
            |nth: usize| body("video", &format!("REGION{nth}"), &format!("UC{}", nth % 40));
        let next = (page + 1 < PAGES).then(|| (page + 1).to_string());
        let items: Vec<_> = records.map(record).collect();
        json!({ "items": items, "nextPageToken": next }).to_string()
    };
    let pages: Vec<String> = (0..PAGES).map(records).collect();
    let channel = body("channel", "CHANNEL", "CHANNEL").to_string();
    StubUpstream::start(move |request: &StubRequest| {
        let text = if let Some(ids) = request.param("id") {
            let channels = ids.split(',').map(|id| channel.replace("CHANNEL", id));
            let items = channels.collect::<Vec<_>>().join(",");
            format!("{{\"items\":[{items}]}}")
        } else {
            let token = request.param("pageToken");
            let page: usize = token.map_or(0, |token| token.parse().unwrap());
            pages[page].replace("REGION", request.param("regionCode").unwrap())
        };
        StubAnswer::text(200, &text)
            .header("content-type", "application/json")
            .after(answer)
    })
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
    let of = |at: usize| median(&turns.iter().map(|turn| turn[at]).collect::<Vec<_>>());
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
    let mut add = |name: &str, requests: usize, medians: Vec<Duration>| {
        // The longest chain of requests that wait for one another.
        let chain = plan.answer * requests as u32;
        for (program, median) in programs.iter().zip(medians) {
            table.add_row([
                format!("{name}{}", program.name),
                millis(chain),
                millis(median),
                ratio(median, chain),
            ]);
        }
    };
    for (regions, concurrency) in [("US", "8"), ("all", "8"), ("all", "4")] {
        let medians = in_turns(programs, plan.walks, |program| {
            let _ = fs::remove_file(program.state.path().join("catalog.db"));
            timed(program.run(upstream, regions, concurrency))
        });
        let name = format!("first, --region {regions} --concurrency {concurrency}");
        add(&name, PAGES + 1, medians);
    }
    let medians = in_turns(programs, plan.walks, |program| {
        let mut command = program.run(upstream, "all", "8");
        command.args(["--set", "jobs.trending.every=1us"]);
        timed(command)
    });
    add("again, --region all --concurrency 8", PAGES, medians);
    table
}

fn idle(upstream: &str, programs: &[Program], plan: Plan) -> Table {
    let mut table = table(&[
        "nothing due",
        "median ms",
        "peak MB",
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
        let peak = measured(&mut program.run(upstream, "all", "4")).megabytes;
        let name = format!("a run{}", program.name);
        table.add_row([name, millis(run), format!("{peak:.1}"), millis(version)]);
    }
    table
}
