//! What one charge costs at every ledger: `cargo bench --bench ledger [-- sqlite|redis]`.
#![allow(missing_docs, clippy::unwrap_used, clippy::panic)]

mod books;
#[path = "../place/figures.rs"]
#[allow(dead_code, reason = "each benchmark uses a part of it")]
mod figures;
mod redis;

use comfy_table::Table;
use ingest_testing::redis_server::RedisServer;

use books::{Books, Room, Store};
use figures::{median, ratio, table};

/// How much is measured.
struct Plan {
    /// Charges in the window of a file, and units in that of Redis.
    held: &'static [u32],
    /// Charges of 1 in Redis, each of which expires another.
    expiring: &'static [u32],
    /// Charges of 1 in Redis whose bytes are measured.
    weighed: &'static [u32],
    /// What is compared takes turns, so that whatever else the machine does slows all of it alike. The first turn warms up.
    turns: usize,
    /// Charges in a row, as a run makes them: the first of them find cold caches.
    burst: usize,
}

const FULL: Plan = Plan {
    held: &[0, 1_000, 9_000, 100_000],
    expiring: &[1_000, 10_000],
    weighed: &[8, 130, 1_000, 10_000, 100_000],
    turns: 61,
    burst: 50,
};

/// Enough to run every line once.
const SHORTENED: Plan = Plan {
    held: &[0, 200],
    expiring: &[20],
    weighed: &[20],
    turns: 2,
    burst: 2,
};

fn main() {
    let only = std::env::args().nth(1).unwrap_or_default();
    measure(&only, &FULL);
}

/// The same over little: whether it still works.
#[allow(dead_code, reason = "the tests call it")]
pub fn shortened() {
    measure("-", &SHORTENED);
}

fn measure(only: &str, plan: &'static Plan) {
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .enable_all()
        .build()
        .unwrap();
    if "sqlite".contains(only) || only.starts_with('-') {
        println!("{}", runtime.block_on(in_a_file(plan)));
    }
    if "redis".contains(only) || only.starts_with('-') {
        let server = RedisServer::start();
        for table in runtime.block_on(redis::beside_a_set(plan, server)) {
            println!("{table}");
        }
    }
}

/// The median of a charge in a file at every fill.
async fn in_a_file(plan: &Plan) -> Table {
    let mut scenarios = Vec::new();
    for (room, what) in [(Room::Free, "granted"), (Room::None, "rejected")] {
        for cost in [1, 100] {
            for &held in plan.held {
                // What is to be rejected needs something in its way.
                let filled = if room == Room::None {
                    held.max(1)
                } else {
                    held
                };
                let books = Books::filled(Store::file(), filled, cost, room).await;
                scenarios.push(((what, cost, held), books, Vec::new()));
            }
        }
    }
    for turn in 0..plan.turns {
        for (_, books, times) in &mut scenarios {
            for _ in 0..plan.burst {
                let took = books.charge().await;
                if turn > 0 {
                    times.push(took);
                }
            }
        }
    }
    let mut table = table(&[
        "One SQLite charge",
        "cost",
        "charges in the window",
        "median µs",
        "against empty",
    ]);
    let mut empty = None;
    for ((what, cost, held), _, times) in &scenarios {
        let median = median(times);
        if *held == 0 {
            empty = Some(median);
        }
        table.add_row([
            (*what).to_owned(),
            cost.to_string(),
            held.to_string(),
            format!("{:.1}", median.as_secs_f64() * 1e6),
            empty.map_or_else(String::new, |empty| ratio(median, empty)),
        ]);
    }
    table
}
