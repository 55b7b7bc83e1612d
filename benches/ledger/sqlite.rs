//! One SQLite charge, as a run makes it: through the trait, in a file that it shares.

use std::sync::Arc;

use comfy_table::Table;
use ingest_ledger::{Ledger, SqliteLedger};
use tempfile::TempDir;

use super::books::{Books, Room};
use super::table::{Plan, Times, micros, ratio, table};

const COSTS: [u64; 2] = [1, 100];

struct Scenario {
    fill: u32,
    cost: u64,
    room: Room,
    books: Books,
    times: Times,
    _directory: TempDir,
}

/// Median and 99th percentile at every fill. The scenarios take turns, so that whatever else the machine does slows all
/// of them alike.
pub(crate) async fn charges(plan: &Plan) -> Table {
    let mut scenarios = Vec::new();
    for room in [Room::Free, Room::None] {
        for cost in COSTS {
            for &fill in plan.fills {
                scenarios.push(scenario(fill, cost, room).await);
            }
        }
    }
    for _ in 0..plan.sqlite_turns {
        for scenario in &mut scenarios {
            for _ in 0..plan.sqlite_burst {
                scenario.times.add(scenario.books.charge().await);
            }
        }
    }
    written(&scenarios)
}

async fn scenario(fill: u32, cost: u64, room: Room) -> Scenario {
    let directory = TempDir::new().unwrap();
    let ledger: Arc<dyn Ledger> =
        Arc::new(SqliteLedger::open(&directory.path().join("ledger.db")).unwrap());
    // What is to be rejected needs something in its way.
    let filled = if room == Room::None {
        fill.max(1)
    } else {
        fill
    };
    let books = Books::filled(ledger, filled, cost, room).await;
    Scenario {
        fill,
        cost,
        room,
        books,
        times: Times::default(),
        _directory: directory,
    }
}

fn written(scenarios: &[Scenario]) -> Table {
    let mut table = table([
        "One SQLite charge",
        "cost",
        "charges in the window",
        "median µs",
        "p99 µs",
        "median against empty",
    ]);
    for row in scenarios {
        let empty = scenarios
            .iter()
            .find(|other| other.fill == 0 && other.cost == row.cost && other.room == row.room);
        let base = empty.map(|empty| empty.times.median()).unwrap_or_default();
        let what = match row.room {
            Room::Free => "granted",
            Room::None => "rejected",
        };
        table.add_row([
            what.to_owned(),
            row.cost.to_string(),
            row.fill.to_string(),
            micros(row.times.median()),
            micros(row.times.p99()),
            ratio(row.times.median(), base),
        ]);
    }
    table
}
