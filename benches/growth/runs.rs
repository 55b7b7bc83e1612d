//! Whole runs, and what comes before and after them, over once, twice, four and eight times of one thing, on every pair of
//! catalog and ledger.

use std::process::{Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use ingest_ledger::fresh_id;
use ingest_testing::stub_upstream::{StubAnswer, StubRequest, StubUpstream};
use serde_json::json;

use super::grown::{Grows, Growth, Rule, Taken};
use super::place::code;
use super::place::figures::measured;
use super::servers::{FILES, Servers, Stores};

/// The records of a page.
const PAGE: usize = 20;

/// One thing of which there is more.
struct Work {
    name: &'static str,
    regions: usize,
    /// The pages of a list.
    pages: usize,
    /// The ids of the only page, which a second step requests four at a time.
    ids: usize,
    /// The days that a backfill fetches, each in a slice of its own.
    slices: usize,
    /// Whether each region has a limit of its own.
    is_scoped: bool,
    /// Machines that each walked one of the regions before.
    machines: usize,
    /// Whether an earlier run left each region after its first page.
    is_left: bool,
    /// Jobs, each with a call and a credential of its own.
    jobs: usize,
}

const NONE: Work = Work {
    name: "",
    regions: 1,
    pages: 1,
    ids: 0,
    slices: 0,
    machines: 0,
    is_scoped: false,
    is_left: false,
    jobs: 1,
};

const WORKS: &[fn(usize) -> Work] = &[
    |times| Work {
        name: "regions",
        regions: 30 * times,
        pages: 2,
        ..NONE
    },
    |times| Work {
        name: "open passes",
        regions: 30 * times,
        pages: 2,
        is_left: true,
        ..NONE
    },
    |times| Work {
        name: "pages",
        pages: 40 * times,
        ..NONE
    },
    |times| Work {
        name: "ids",
        ids: 200 * times,
        ..NONE
    },
    |times| Work {
        name: "slices",
        slices: 40 * times,
        ..NONE
    },
    |times| Work {
        name: "values of a scope",
        regions: 40 * times,
        is_scoped: true,
        ..NONE
    },
    |times| Work {
        name: "jobs",
        jobs: 40 * times,
        ..NONE
    },
    |times| Work {
        name: "machines",
        regions: 4 * times + 1,
        machines: 4 * times,
        ..NONE
    },
];

const SCOPED: &str = ", hourly = { quota = 1_000, window = \"1h\", scope = \"{region}\" }";
const LIST: &str = "{ call = \"list\", params = { region = \"{region}\" } }";
const LIST_OF_SLICE: &str = "{ call = \"list\", params = { region = \"{slice.from:%Y-%m-%d}\" } }";
const DETAILS: &str = ", { call = \"details\", ids = { from = \"list\", at = \"/id\", batch = 4 }, params = { ids = \"{ids}\" } }";

/// A job with a call and a credential of its own.
fn job(nth: usize) -> String {
    let account = fresh_id();
    format!(
        "[upstreams.things.calls.list{nth}]\npath = \"list\"\ncost = {{ daily = 1 }}\n\
         records = {{ at = \"/items\", kind = \"thing{nth}\", id = \"/id\" }}\n\
         [credentials.key{nth}]\nupstream = \"things\"\naccount = \"{account}\"\n\
         limits = {{ daily = {{ quota = 1_000_000, window = \"24h\" }} }}\n\
         [jobs.things{nth}]\ncredential = \"key{nth}\"\nevery = \"1d\"\n\
         steps = [{{ call = \"list{nth}\", params = {{ region = \"{{region}}\" }} }}]\n"
    )
}

/// A slice for each of so many days.
fn slices(days: usize) -> String {
    let from = chrono::NaiveDate::from_ymd_opt(2020, 1, 1).unwrap();
    let to = from + chrono::Days::new(days as u64);
    format!("slices = {{ from = \"{from}\", to = \"{to}\", step = \"1d\" }}\nleave = 0\n")
}

impl Work {
    fn config(&self) -> String {
        let regions: Vec<String> = (0..self.regions)
            .map(|nth| format!("{:?}", code(nth)))
            .collect();
        let (cost, scoped) = match self.is_scoped {
            true => ("{ daily = 1, hourly = 1 }", SCOPED),
            false => ("{ daily = 1 }", ""),
        };
        let details = if self.ids > 0 { DETAILS } else { "" };
        let (slices, steps) = match self.slices {
            0 => (String::new(), format!("[{LIST}{details}]")),
            days => (slices(days), format!("[{LIST_OF_SLICE}]")),
        };
        format!(
            "regions = [{}]\n[upstreams.things]\nbase_url = \"https://things.example.com\"\nattempts = 1\n\
             [upstreams.things.calls.list]\npath = \"list\"\ncost = {cost}\n\
             page = {{ kind = \"token\", param = \"page\", next = \"/next\" }}\n\
             records = {{ at = \"/items\", kind = \"thing\", id = \"/id\" }}\n\
             [upstreams.things.calls.details]\npath = \"details\"\ncost = {{ daily = 1 }}\n\
             records = {{ at = \"/items\", kind = \"detail\", id = \"/id\" }}\n\
             [credentials.key]\nupstream = \"things\"\n\
             limits = {{ daily = {{ quota = 1_000_000, window = \"24h\" }}{scoped} }}\n\
             [jobs.things]\ncredential = \"key\"\nevery = \"1d\"\n{slices}steps = {steps}\n{}",
            regions.join(", "),
            (1..self.jobs).map(job).collect::<String>()
        )
    }

    /// What the upstream answers, which can be broken behind the first page of a list.
    fn upstream(&self, is_broken: &Arc<AtomicBool>) -> StubUpstream {
        let (pages, ids, is_broken) = (self.pages, self.ids, Arc::clone(is_broken));
        StubUpstream::start(move |request: &StubRequest| {
            if let Some(ids) = request.param("ids") {
                let items: Vec<_> = ids.split(',').map(|id| json!({ "id": id })).collect();
                return StubAnswer::json(&json!({ "items": items }));
            }
            let page: usize = request
                .param("page")
                .map_or(0, |page| page.parse().unwrap());
            if page > 0 && is_broken.load(Ordering::Relaxed) {
                return StubAnswer::error(500, &json!({}));
            }
            let region = request.param("region").unwrap();
            let records = if ids > 0 { ids } else { PAGE };
            let record =
                |nth| json!({ "id": format!("{region}-{page}-{nth}"), "text": "x".repeat(200) });
            let items: Vec<_> = (0..records).map(record).collect();
            let next = (page + 1 < pages).then(|| (page + 1).to_string());
            StubAnswer::json(&json!({ "items": items, "next": next }))
        })
    }
}

/// What is measured of a run, in this order.
const ACTS: &[(&str, &[&str], Grows)] = &[
    (
        "preview of a run",
        &["--region", "all", "--dry-run"],
        Grows::Not,
    ),
    (
        "forecast of a day",
        &["forecast", "--schedule", "daily", "--days", "1"],
        Grows::Not,
    ),
    ("run", &["--region", "all"], Grows::With),
    ("run with nothing due", &["--region", "all"], Grows::Not),
    ("status after a run", &["status"], Grows::Not),
    ("history of a run", &["history"], Grows::Not),
];

/// Measures all acts over more of each thing.
pub fn measure(
    growth: &mut Growth,
    times: &[usize],
    servers: &Servers,
    is_part: impl Fn(&str) -> bool,
) {
    for work in WORKS {
        let name = work(1).name;
        if !is_part("runs") && !is_part(&format!("runs over {name}")) {
            continue;
        }
        // Machines without a common ledger know nothing of one another.
        let pairs = servers.pairs().into_iter();
        for stores in pairs.filter(|one| work(1).machines == 0 || one.redis.is_some()) {
            let works: Vec<Work> = times.iter().map(|times| work(*times)).collect();
            measure_over(growth, &works, stores);
        }
        growth.print();
    }
}

/// Every run once, over little: whether it still works.
pub fn shortened(growth: &mut Growth) {
    for work in WORKS {
        let little = Work {
            regions: work(1).regions.min(2),
            pages: work(1).pages.min(2),
            ids: work(1).ids.min(5),
            slices: work(1).slices.min(2),
            machines: work(1).machines.min(1),
            jobs: work(1).jobs.min(2),
            ..work(1)
        };
        measure_over(growth, &[little], FILES);
    }
}

fn measure_over(growth: &mut Growth, works: &[Work], stores: Stores<'_>) {
    let over = format!("{}, {}", works[0].name, stores.name);
    // What belongs to a job is asked for job by job.
    let has_jobs = works[0].jobs > 1;
    let rules = ACTS.iter().map(|(name, _, statements)| Rule {
        name,
        over: &over,
        time: Grows::With,
        statements: if has_jobs { Grows::With } else { *statements },
    });
    let rules: Vec<Rule<'_>> = rules.collect();
    growth.measure(&rules, 1, |at| run(&works[at], stores));
}

/// What each of the acts took.
fn run(work: &Work, stores: Stores<'_>) -> Vec<Taken> {
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("quotas.toml");
    std::fs::write(&file, work.config()).unwrap();
    let is_broken = Arc::new(AtomicBool::new(work.is_left));
    let upstream = work.upstream(&is_broken);
    let mut sets = stores.sets("key");
    sets.push(format!("upstreams.things.base_url=\"{}\"", upstream.url()));
    let command = |arguments: &[&str], machine: &str| {
        let mut command = Command::new(env!("CARGO_BIN_EXE_ingest"));
        command.args(arguments).args(["--quiet", "--config"]);
        command
            .arg(&file)
            .arg("--state-dir")
            .arg(directory.path().join(machine));
        command.args(sets.iter().flat_map(|set| ["--set", set]));
        command.env("KEY_API_KEY", "k").stdin(Stdio::null());
        command
    };
    for machine in 0..work.machines {
        let mut command = command(&["--region", &code(machine)], &format!("machine-{machine}"));
        assert_eq!(measured(&mut command).exit, "0");
    }
    if work.is_left {
        let mut command = command(&["--region", "all"], "state");
        assert_eq!(measured(command.stderr(Stdio::null())).exit, "1");
        is_broken.store(false, Ordering::Relaxed);
    }
    let acts = ACTS.iter().map(|(name, arguments, _)| {
        stores.taken(|| {
            let measured = measured(&mut command(arguments, "state"));
            assert_eq!(measured.exit, "0", "{name} with {}", work.name);
            measured
        })
    });
    acts.collect()
}
