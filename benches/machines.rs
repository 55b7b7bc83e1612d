//! What several machines with one catalog in PostgreSQL add: `cargo bench --bench machines`.
//!
//! One, two and four machines, each a process with a state directory of its own, walk the same regions at the same time. They
//! share a catalog and a ledger in Redis; an answer of the upstream takes 50 ms. Beside it, one machine with a catalog in a
//! SQLite file.
#![allow(missing_docs, clippy::unwrap_used, clippy::indexing_slicing)]

#[path = "place/figures.rs"]
#[allow(dead_code, reason = "each benchmark uses a part of it")]
mod figures;
#[path = "../tests/all/support/shared_world.rs"]
#[allow(dead_code, reason = "it is the tests', which use the rest")]
mod shared_world;
#[path = "../tests/all/support/world.rs"]
#[allow(
    dead_code,
    clippy::panic,
    clippy::expect_used,
    reason = "it is the tests', which use the rest"
)]
mod world;

use std::process::Stdio;
use std::time::{Duration, Instant};

use comfy_table::Table;
use ingest_testing::postgres::PostgresServer;
use ingest_testing::redis_server::RedisServer;
use serde_json::Value;

use self::figures::{ratio, table};
use self::shared_world::SharedWorld;
use self::world::{Ran, World};

/// How much is walked.
#[derive(Clone, Copy)]
struct Plan {
    regions: usize,
    latency: Duration,
    machines: &'static [usize],
}

fn main() {
    measure(&Plan {
        regions: 1_000,
        latency: Duration::from_millis(50),
        machines: &[1, 2, 4],
    });
}

/// The same over little: whether it still works.
#[allow(dead_code, reason = "the tests call it")]
pub fn shortened() {
    measure(&Plan {
        regions: 4,
        latency: Duration::ZERO,
        machines: &[2],
    });
}

fn measure(plan: &Plan) {
    let server = PostgresServer::with(&[
        "fsync=on",
        "full_page_writes=on",
        "autovacuum=on",
        "shared_buffers=256MB",
    ]);
    println!("{}", machines(plan, &server));
}

/// Regions of one page each, whose records are new.
fn world(plan: &Plan) -> World {
    let codes: Vec<String> = (0..plan.regions).map(|at| format!("\"r{at}\"")).collect();
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
fn walk(world: &World, machines: usize) -> (Duration, Vec<u64>) {
    let begun = Instant::now();
    let children: Vec<_> = (0..machines)
        .map(|machine| {
            let arguments = "--region all --format json --concurrency 8";
            let mut command = world.command(&arguments.split(' ').collect::<Vec<_>>());
            command
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
        let mut world = world(plan);
        let catalog = if at == 0 { "SQLite" } else { "PostgreSQL" };
        redis.tell("FLUSHALL");
        world.set(&format!("ledger.url={}", redis.url().expose()));
        if at > 0 {
            server.schema().in_world(&mut world);
        }
        let (took, pages) = walk(&world, *count);
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
        let of_one = one.map_or_else(String::new, |one| ratio(took, one));
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
