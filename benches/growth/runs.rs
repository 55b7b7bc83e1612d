//! Whole runs over once, twice, four and eight times of one thing, on every pair of catalog and ledger.

use std::process::{Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use comfy_table::Table;
use ingest_testing::postgres::PostgresServer;
use ingest_testing::redis_server::RedisServer;
use ingest_testing::stub_upstream::{StubAnswer, StubRequest, StubUpstream};
use serde_json::json;

use super::place::{code, measured};
use super::{FIGURES, Grown, taken};

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
             [jobs.things]\ncredential = \"key\"\n{slices}steps = {steps}\n",
            regions.join(", ")
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

/// Where the catalog and the ledger are.
#[derive(Clone, Copy)]
struct Stores<'a> {
    name: &'static str,
    postgres: Option<&'a PostgresServer>,
    redis: Option<&'a RedisServer>,
}

impl Stores<'_> {
    fn sets(&self, account: usize) -> Vec<String> {
        let mut sets = vec![format!("credentials.key.account=account{account}")];
        if let Some(server) = self.postgres {
            let schema = server.schema();
            sets.push(format!("catalog.url=\"{}\"", schema.reached_at()));
            sets.push(format!("catalog.schema={}", schema.name));
        }
        if let Some(server) = self.redis {
            sets.push(format!("ledger.url=\"{}\"", server.url().expose()));
        }
        sets
    }
}

/// Prints how long runs take, and returns those that grow faster than their input.
pub fn measure(times: &[usize]) -> Vec<String> {
    let (postgres, redis) = (PostgresServer::shared(), RedisServer::start());
    let stores = [
        Stores {
            name: "files",
            postgres: None,
            redis: None,
        },
        Stores {
            name: "file and Redis",
            postgres: None,
            redis: Some(&redis),
        },
        Stores {
            name: "PostgreSQL and file",
            postgres: Some(postgres),
            redis: None,
        },
        Stores {
            name: "PostgreSQL and Redis",
            postgres: Some(postgres),
            redis: Some(&redis),
        },
    ];
    let mut too_fast = Vec::new();
    let mut table = Table::new();
    table.set_header(
        ["a run over more", "catalog and ledger"]
            .into_iter()
            .chain(FIGURES),
    );
    for work in WORKS {
        let name = work(1).name;
        // Machines without a common ledger know nothing of one another.
        let stores = stores
            .iter()
            .filter(|one| work(1).machines == 0 || one.redis.is_some());
        for stores in stores {
            let taken: Vec<(f64, f64)> = times
                .iter()
                .map(|times| run(&work(*times), *stores))
                .collect();
            let grown = Grown::new(times, &taken);
            if grown.is_too_fast {
                too_fast.push(format!("a run with {name} over {}", stores.name));
            }
            let names = [name, stores.name].map(str::to_owned);
            table.add_row(names.into_iter().chain(grown.cells));
        }
    }
    println!("{table}");
    too_fast
}

/// Every run once, over little: whether it still works.
pub fn shortened() {
    let files = Stores {
        name: "files",
        postgres: None,
        redis: None,
    };
    for work in WORKS {
        let little = Work {
            regions: work(1).regions.min(2),
            pages: work(1).pages.min(2),
            ids: work(1).ids.min(5),
            slices: work(1).slices.min(2),
            machines: work(1).machines.min(1),
            ..work(1)
        };
        run(&little, files);
    }
}

/// Returns seconds above those of a program that does nothing, and megabytes.
fn run(work: &Work, stores: Stores<'_>) -> (f64, f64) {
    static ACCOUNTS: AtomicUsize = AtomicUsize::new(0);
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("quotas.toml");
    std::fs::write(&file, work.config()).unwrap();
    let is_broken = Arc::new(AtomicBool::new(work.is_left));
    let upstream = work.upstream(&is_broken);
    let mut sets = stores.sets(ACCOUNTS.fetch_add(1, Ordering::Relaxed));
    sets.push(format!("upstreams.things.base_url=\"{}\"", upstream.url()));
    let command = |region: &str, machine: &str| {
        let mut command = Command::new(env!("CARGO_BIN_EXE_ingest"));
        command.args(["--region", region, "--quiet", "--config"]);
        command
            .arg(&file)
            .arg("--state-dir")
            .arg(directory.path().join(machine));
        command.args(sets.iter().flat_map(|set| ["--set", set]));
        command.env("KEY_API_KEY", "k").stdin(Stdio::null());
        command
    };
    for machine in 0..work.machines {
        let measured = measured(&mut command(&code(machine), &format!("machine-{machine}")));
        assert_eq!(measured.exit, "0");
    }
    if work.is_left {
        let stopped = measured(command("all", "state").stderr(Stdio::null()));
        assert_eq!(stopped.exit, "1");
        is_broken.store(false, Ordering::Relaxed);
    }
    let measured = measured(&mut command("all", "state"));
    assert_eq!(measured.exit, "0", "a run with {}", work.name);
    taken(&measured)
}
