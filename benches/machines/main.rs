//! What several machines with one catalog in PostgreSQL add: `cargo bench --bench machines`.
//!
//! One, two and four machines, each a process with a state directory of its own, walk the same regions at the same time. They
//! share a catalog and a ledger in Redis; an answer of the upstream takes 50 ms. Beside it, one machine with a catalog in a
//! SQLite file. Then what one page costs the database, at several round trips.
#![allow(missing_docs, clippy::unwrap_used, clippy::indexing_slicing)]

#[path = "../../tests/all/support/shared_world.rs"]
#[allow(dead_code, reason = "it is the tests', which use the rest")]
mod shared_world;
mod slow_link;
#[path = "../../tests/all/support/world.rs"]
#[allow(
    dead_code,
    clippy::panic,
    clippy::expect_used,
    reason = "it is the tests', which use the rest"
)]
mod world;

use std::process::Stdio;
use std::time::{Duration, Instant};

use comfy_table::presets::ASCII_MARKDOWN;
use comfy_table::{CellAlignment, Table};
use serde_json::Value;

use self::slow_link::SlowLink;
use self::world::{Ran, World};
use ingest_testing::postgres::PostgresServer;
use ingest_testing::redis_server::RedisServer;

use self::shared_world::SharedWorld;

/// How much is walked.
#[derive(Clone, Copy)]
struct Plan {
    regions: usize,
    latency: Duration,
    machines: &'static [usize],
    round_trips: &'static [u64],
    /// The regions that one machine walks, one after the other, to see what a page costs.
    pages: usize,
}

fn main() {
    measure(&Plan {
        regions: 1_000,
        latency: Duration::from_millis(50),
        machines: &[1, 2, 4],
        round_trips: &[0, 1, 10],
        pages: 200,
    });
}

/// The same over little: whether it still works.
#[allow(dead_code, reason = "the tests call it")]
pub fn shortened() {
    measure(&Plan {
        regions: 4,
        latency: Duration::ZERO,
        machines: &[2],
        round_trips: &[0],
        pages: 2,
    });
}

fn measure(plan: &Plan) {
    let server = PostgresServer::with(&[
        "shared_preload_libraries=pg_stat_statements",
        "fsync=on",
        "full_page_writes=on",
        "autovacuum=on",
        "shared_buffers=256MB",
    ]);
    server.rows("create extension pg_stat_statements");
    println!("{}", machines(plan, &server));
    println!("{}", pages(plan, &server));
}

/// Regions of one page each, whose records are new.
fn world(plan: &Plan, regions: usize) -> World {
    let codes: Vec<String> = (0..regions).map(|at| format!("\"r{at}\"")).collect();
    let text = format!(
        r#"
regions = [{}]
[upstreams.shop]
base_url = "https://shop.example.com"
[upstreams.shop.calls.orders]
path = "orders/{{region}}"
cost = 1
records = {{ at = "/items", kind = "order", id = ["{{region}}", "/id"], text = ["/name"] }}
[credentials.shop]
upstream = "shop"
limits = {{ daily = {{ quota = 1000000, window = "24h" }} }}
[jobs.orders]
credential = "shop"
steps = [{{ call = "orders" }}]
"#,
        codes.join(", ")
    );
    World::written_with(&text, &[], |options| options.latency = plan.latency)
}

/// Walks all regions with `machines` processes at once. Returns the time, and the pages that each landed.
fn walk(world: &World, machines: usize, concurrency: usize) -> (Duration, Vec<u64>) {
    let begun = Instant::now();
    let children: Vec<_> = (0..machines)
        .map(|machine| {
            let arguments = ["--region", "all", "--format", "json", "--concurrency"];
            let mut command = world.command(&arguments);
            command
                .arg(concurrency.to_string())
                .env(
                    "INGEST_STATE_DIR",
                    world.directory.path().join(format!("machine{machine}")),
                )
                .stdout(Stdio::piped())
                .stderr(Stdio::inherit());
            command.spawn().unwrap()
        })
        .collect();
    let ran: Vec<Ran> = children
        .into_iter()
        .map(|child| Ran::of(child.wait_with_output().unwrap()))
        .collect();
    let took = begun.elapsed();
    let landed = |ran: &Ran| -> u64 {
        assert_eq!(ran.code, 0, "{ran:?}");
        let passes = ran.json()["passes"].as_array().cloned().unwrap_or_default();
        passes
            .iter()
            .filter_map(|pass: &Value| pass["pages"].as_u64())
            .sum()
    };
    (took, ran.iter().map(landed).collect())
}

fn machines(plan: &Plan, server: &PostgresServer) -> Table {
    let mut table = table(&[
        "machines",
        "catalog",
        "seconds",
        "pages/s",
        "of one machine",
        "pages of each",
    ]);
    let mut one = None;
    let redis = RedisServer::start();
    for (at, count) in [1].iter().chain(plan.machines).enumerate() {
        let mut world = world(plan, plan.regions);
        let catalog = if at == 0 { "SQLite" } else { "PostgreSQL" };
        redis.tell("FLUSHALL");
        world.set(&format!("ledger.url={}", redis.url().expose()));
        if at > 0 {
            server.schema().in_world(&mut world);
        }
        let (took, pages) = walk(&world, *count, 8);
        assert_eq!(
            pages.iter().sum::<u64>(),
            plan.regions as u64,
            "a page is missing or twice"
        );
        assert_eq!(
            world.requests(),
            plan.regions as u64,
            "a page was requested twice"
        );
        if at == 1 {
            one = Some(took);
        }
        let of_one = one.map_or_else(String::new, |one| {
            format!("{:.2}", took.as_secs_f64() / one.as_secs_f64())
        });
        table.add_row([
            count.to_string(),
            catalog.to_owned(),
            format!("{:.2}", took.as_secs_f64()),
            format!("{:.0}", plan.regions as f64 / took.as_secs_f64()),
            of_one,
            format!("{pages:?}"),
        ]);
    }
    table
}

/// One machine walks region after region. Everything of a run counts, divided by its pages.
fn pages(plan: &Plan, server: &PostgresServer) -> Table {
    let mut table = table(&[
        "round trip ms",
        "ms a page",
        "statements a page",
        "WAL bytes a page",
    ]);
    let plan = &Plan {
        latency: Duration::ZERO,
        ..*plan
    };
    for &round_trip in plan.round_trips {
        let mut world = world(plan, plan.pages);
        let link = SlowLink::to(server.port(), Duration::from_millis(round_trip));
        let schema = server.schema();
        schema.in_world(&mut world);
        world.set(&format!(
            "catalog.url=\"postgres://postgres@127.0.0.1:{}/postgres\"",
            link.port()
        ));
        // The schema is created before.
        let created = world.ingest(&["status"]);
        assert_eq!(created.code, 0, "{created:?}");
        let before = counters(server);
        let (took, _) = walk(&world, 1, 1);
        let after = counters(server);
        let a_page = |all: f64| all / plan.pages as f64;
        table.add_row([
            round_trip.to_string(),
            format!("{:.1}", a_page(took.as_secs_f64() * 1e3)),
            format!("{:.1}", a_page((after.0 - before.0) as f64)),
            format!("{:.0}", a_page((after.1 - before.1) as f64)),
        ]);
    }
    table
}

/// The statements and the bytes of write-ahead log since the server started.
fn counters(server: &PostgresServer) -> (i64, i64) {
    let sql = "select (select sum(calls)::bigint from pg_stat_statements),
        pg_wal_lsn_diff(pg_current_wal_lsn(), '0/0')::bigint";
    let rows = server.rows(sql);
    (rows[0].get(0), rows[0].get(1))
}

fn table(header: &[&str]) -> Table {
    let mut table = Table::new();
    table.load_style(ASCII_MARKDOWN).set_header(header);
    table
        .column_iter_mut()
        .for_each(|column| column.set_cell_alignment(CellAlignment::Right));
    table
}
