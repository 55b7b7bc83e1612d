//! Whole runs over once, twice, four and eight times of one thing, on every pair of catalog and ledger.

use std::fmt::Write;
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Instant;

use comfy_table::Table;
use ingest_testing::postgres::PostgresServer;
use ingest_testing::redis_server::RedisServer;
use ingest_testing::stub_upstream::{StubAnswer, StubRequest, StubUpstream};
use serde_json::json;

use super::{MOST, NOTHING, exponents, listed};

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
    /// Whether an earlier run left each region after its first page.
    is_left: bool,
}

const NONE: Work = Work {
    name: "",
    regions: 1,
    pages: 1,
    ids: 0,
    slices: 0,
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
];

impl Work {
    fn config(&self) -> String {
        let mut regions = (0..self.regions).map(super::place::code);
        let regions: Vec<String> = regions.by_ref().map(|code| format!("{code:?}")).collect();
        let scope = "hourly = { quota = 1_000, window = \"1h\", scope = \"{region}\" }";
        let (cost, scoped) = match self.is_scoped {
            true => ("{ daily = 1, hourly = 1 }", format!(", {scope}")),
            false => ("{ daily = 1 }", String::new()),
        };
        let mut text = format!(
            "regions = [{}]\n[upstreams.things]\nbase_url = \"https://things.example.com\"\nattempts = 1\n\
             [upstreams.things.calls.list]\npath = \"list\"\ncost = {cost}\n\
             page = {{ kind = \"token\", param = \"page\", next = \"/next\" }}\n\
             records = {{ at = \"/items\", kind = \"thing\", id = \"/id\" }}\n\
             [upstreams.things.calls.details]\npath = \"details\"\ncost = {{ daily = 1 }}\n\
             records = {{ at = \"/items\", kind = \"detail\", id = \"/id\" }}\n\
             [credentials.key]\nupstream = \"things\"\nlimits = {{ daily = {{ quota = 1_000_000, window = \"24h\" }}{scoped} }}\n\
             [jobs.things]\ncredential = \"key\"\n",
            regions.join(", ")
        );
        match self.slices {
            0 => text.push_str("steps = [{ call = \"list\", params = { region = \"{region}\" } }"),
            days => {
                let end = chrono::NaiveDate::from_ymd_opt(2020, 1, 1).unwrap()
                    + chrono::Days::new(days as u64);
                write!(text, "slices = {{ from = \"2020-01-01\", to = \"{end}\", step = \"1d\" }}\nleave = 0\n").unwrap();
                text.push_str(
                    "steps = [{ call = \"list\", params = { region = \"{slice.from:%Y-%m-%d}\" } }",
                );
            }
        }
        if self.ids > 0 {
            text.push_str(", { call = \"details\", ids = { from = \"list\", at = \"/id\", batch = 4 }, params = { ids = \"{ids}\" } }");
        }
        text + "]\n"
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
    table.set_header([
        "a run over more",
        "catalog and ledger",
        "ms, at each size",
        "exponents",
    ]);
    for work in WORKS {
        for stores in stores {
            let seconds: Vec<f64> = times
                .iter()
                .map(|times| run(&work(*times), stores))
                .collect();
            let grows = exponents(times, &seconds);
            let name = work(1).name;
            if grows.last().is_some_and(|last| *last > MOST) {
                too_fast.push(format!("a run with {name} over {}", stores.name));
            }
            table.add_row([
                name.to_owned(),
                stores.name.to_owned(),
                listed(
                    seconds
                        .iter()
                        .map(|seconds| format!("{:.0}", seconds * 1e3)),
                ),
                listed(grows.iter().map(|one| format!("{one:.2}"))),
            ]);
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
            ..work(1)
        };
        run(&little, files);
    }
}

/// Seconds above those of a program that does nothing.
fn run(work: &Work, stores: Stores<'_>) -> f64 {
    static ACCOUNTS: std::sync::atomic::AtomicUsize = std::sync::atomic::AtomicUsize::new(0);
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("quotas.toml");
    std::fs::write(&file, work.config()).unwrap();
    let is_broken = Arc::new(AtomicBool::new(work.is_left));
    let upstream = work.upstream(&is_broken);
    let mut sets = stores.sets(ACCOUNTS.fetch_add(1, Ordering::Relaxed));
    sets.push(format!("upstreams.things.base_url=\"{}\"", upstream.url()));
    if work.is_left {
        ended(directory.path(), &file, &sets, 1);
        is_broken.store(false, Ordering::Relaxed);
    }
    let began = Instant::now();
    ended(directory.path(), &file, &sets, 0);
    (began.elapsed().as_secs_f64() - NOTHING).max(NOTHING)
}

fn ended(directory: &Path, file: &Path, sets: &[String], code: i32) {
    let mut command = Command::new(env!("CARGO_BIN_EXE_ingest"));
    command
        .args(["--region", "all", "--quiet", "--config"])
        .arg(file);
    command.arg("--state-dir").arg(directory.join("state"));
    for set in sets {
        command.args(["--set", set]);
    }
    let ended = command
        .env("KEY_API_KEY", "k")
        .stdin(Stdio::null())
        .output()
        .unwrap();
    let said = String::from_utf8_lossy(&ended.stderr);
    assert_eq!(ended.status.code(), Some(code), "{said}");
}
