//! A large installation, for benchmarks of the real program.
#![allow(dead_code, reason = "each benchmark uses a part of it")]

pub mod figures;
pub mod server;

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::time::Duration;

use ingest_base::clock::SystemClock;
use ingest_base::list_so_far::ListSoFar;
use ingest_base::record::Record;
use ingest_catalog::{AtKnown, Catalog, Landing, PassEnd, PassRef};
use ingest_config::{Config, Job, Sources};
use ingest_ledger::SqliteLedger;
use ingest_quota::{Cost, Timestamp, Units};
use ingest_sandbox::{Options, Sandbox};
use rusqlite::Connection;
use serde_json::json;

use figures::{Measured, measured};

const PAGE: usize = 50;
/// The records of a pass, unless there are less.
const A_PASS: usize = 200;

/// How much there is.
#[derive(Debug, Clone, Copy, Default)]
pub struct Size {
    /// Regions that the jobs walk.
    pub regions: usize,
    /// Records in the catalog, each listed once, by passes over one region after the other.
    pub records: usize,
    /// Charges in the window.
    pub charges: i64,
    /// Regions whose last pass a run left after its first page.
    pub open: usize,
    /// Complete passes without a page, a minute apart, the last one so many days ago.
    pub before: (i64, u32),
}

/// A state directory that is as full as that, and the stand-in that its upstreams are.
pub struct Place {
    directory: tempfile::TempDir,
    sets: Vec<String>,
    _sandbox: Sandbox,
}

impl Place {
    /// A directory whose records were landed page by page, as runs do it.
    pub async fn filled(size: Size) -> Self {
        let codes: Vec<String> = (0..size.regions)
            .map(|number| format!("{:?}", code(number)))
            .collect();
        let quota = "{ quota = 100000000, headroom = 500, window = \"24h\", resets = \"America/Los_Angeles\" }";
        let mut sets = vec![
            format!("regions=[{}]", codes.join(",")),
            format!("credentials.youtube.limits.daily={quota}"),
            "upstreams.youtube.calls.\"search.list\".cost=1".to_owned(),
        ];
        let config = shipped_with(&sets);
        let options = Options {
            listen: "127.0.0.1:0".parse().unwrap(),
            seed: 1,
            ..Options::default()
        };
        let sandbox = Sandbox::start(&config, options, Arc::new(SystemClock));
        let sandbox = sandbox.await.unwrap();
        let base_url = sandbox.base_url("youtube");
        sets.push(format!("upstreams.youtube.base_url=\"{base_url}\""));
        let directory = tempfile::tempdir().unwrap();
        fill_catalog(directory.path(), &trending(&config), size).await;
        fill_ledger(directory.path(), size.charges);
        Self {
            directory,
            sets,
            _sandbox: sandbox,
        }
    }

    /// The program, over this directory.
    pub fn command(&self) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_ingest"));
        command
            .arg("--config")
            .arg(shipped())
            .arg("--state-dir")
            .arg(self.directory.path());
        for set in &self.sets {
            command.args(["--set", set]);
        }
        command.env("YOUTUBE_API_KEY", "k");
        command
    }

    /// The configuration of the program over this directory.
    pub fn config(&self) -> Config {
        shipped_with(&self.sets)
    }

    /// Configures something else for the commands that follow.
    pub fn set(&mut self, set: String) {
        self.sets.push(set);
    }

    /// Runs the program to its end.
    pub fn measure(&self, arguments: &[&str]) -> Measured {
        let mut command = self.command();
        measured(command.args(arguments).stderr(Stdio::null()))
    }
}

/// Passes of the job over all regions, again and again, an hour apart, the last one an hour and more ago; and then open ones.
async fn fill_catalog(directory: &Path, job: &Job, size: Size) {
    let path = directory.join("catalog.db");
    let catalog = Catalog::open(&path).unwrap();
    let now = Timestamp::from(chrono::Utc::now());
    let a_pass = A_PASS.min(size.records.div_ceil(size.regions));
    let passes = size.records.div_ceil(a_pass.max(1));
    for number in 0..passes {
        let ago =
            Duration::from_secs(3600 * (1 + (passes - 1 - number) / size.regions) as u64 + 1800);
        let records = number * a_pass..(number + 1) * a_pass;
        let region = code(number % size.regions);
        let mut pass = land(&catalog, job, (region, now - ago), records, false).await;
        let end = catalog.finish(&mut pass, PassEnd::Complete, now - ago);
        end.await.unwrap();
    }
    for number in 0..size.open {
        let at = now - Duration::from_secs(600);
        land(&catalog, job, (code(number), at), 0..1, true).await;
    }
    let (before, days) = size.before;
    let at =
        format!("strftime('%Y-%m-%dT%H:%M:%f000Z', 'now', '-{days} days', '-' || i || ' minutes')");
    let regions: Vec<String> = (0..size.regions).map(code).collect();
    let fill = format!(
        "with recursive n(i) as (select 1 union all select i + 1 from n where i < {before})
         insert into pass (job, region, started_at, finished_at, outcome, pages, records, requests, units)
         select 'trending', substr('{}', 2 * (i % {}) + 1, 2), {at}, {at}, 'complete', 1, 0, 1, '{{\"daily\":1}}' from n
         where {before} > 0",
        regions.concat(),
        size.regions
    );
    Connection::open(path)
        .unwrap()
        .execute_batch(&fill)
        .unwrap();
}

/// Lands records page by page, and returns their pass. An open one has a cursor to more.
async fn land(
    catalog: &Catalog,
    job: &Job,
    (region, at): (String, Timestamp),
    records: std::ops::Range<usize>,
    is_open: bool,
) -> PassRef {
    let mut pass = PassRef::new(&job.name, &region, None, at);
    for first in records.clone().step_by(PAGE) {
        let end = records.end.min(first + PAGE);
        let landing = Landing {
            next: (is_open || end < records.end).then(|| end.to_string()),
            ..page(job, &pass, (first..end).map(record).collect(), at)
        };
        pass.confirm(&catalog.land(Arc::new(landing)).await.unwrap());
    }
    pass
}

/// A page of the first step of a job.
pub fn page(job: &Job, pass: &PassRef, records: Vec<Record>, at: Timestamp) -> Landing {
    let call = &job.steps[0].call;
    Landing {
        id: uuid::Uuid::now_v7(),
        pass: pass.clone(),
        step: 0,
        upstream: "youtube".into(),
        call: "videos.list".into(),
        kind: Arc::clone(call.records.as_ref().unwrap()),
        names: Vec::new(),
        records,
        request: "request".into(),
        next: None,
        list: ListSoFar::default(),
        at_known: AtKnown::Ignore,
        cut: false,
        removed: Vec::new(),
        lasting: None,
        greatest: None,
        empty_pages: 0,
        requested: Vec::new(),
        absent_at: None,
        batch: None,
        since: None,
        doubts: Vec::new(),
        if_repeats: None,
        relists: false,
        requests: 1,
        units: Cost::from_iter([("daily".to_owned(), Units::new(1))]),
        tag: None,
        now: at,
        latest: at,
    }
}

/// A region's code, as upstreams know them.
pub fn code(number: usize) -> String {
    [number / 26, number % 26]
        .map(|letter| char::from(b'A' + letter as u8))
        .iter()
        .collect()
}

fn record(number: usize) -> Record {
    let title = format!("common word{} rare{number} about a thing", number % 1000);
    let body = json!({ "id": format!("v{number}"), "snippet": { "title": title, "channelId": format!("c{}", number % 20_000), "description": "x".repeat(200) } });
    Record {
        id: format!("v{number}"),
        body,
    }
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

/// The configuration that is shipped.
pub fn shipped() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("quotas.toml")
}

/// The shipped configuration with some keys of its own.
pub fn shipped_with(sets: &[String]) -> Config {
    let sources = Sources {
        path: Some(shipped()),
        sets: sets.to_vec(),
    };
    Config::load(&sources).unwrap()
}

/// The shipped job that lists videos.
pub fn trending(config: &Config) -> Arc<Job> {
    let mut jobs = config.jobs.iter();
    jobs.find(|job| job.name == "trending").unwrap().clone()
}
