//! What it takes to look: `status`, `--dry-run` and `search` by the real program, where there are 10,000 charges in the
//! window and 1,000,000 records. Each is to answer within 50 ms.
//!
//! `cargo bench --bench reading [-- RECORDS]`
#![allow(
    missing_docs,
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing
)]

mod place;

use std::time::Duration;

use comfy_table::presets::ASCII_MARKDOWN;
use comfy_table::{CellAlignment, Table};
use place::{Measured, Place, Size};

const WANTED: Duration = Duration::from_millis(50);

const COMMANDS: &[(&str, &[&str])] = &[
    ("status", &["status"]),
    ("--dry-run, all due", &["--region", "all", "--dry-run"]),
    ("search, one hit", &["search", "rare123"]),
    ("search, a thousand hits", &["search", "word17"]),
    ("search, every record", &["search", "common"]),
    (
        "search, in a region, every record",
        &["search", "common", "--region", "AB"],
    ),
];

fn main() {
    let records = std::env::args()
        .skip(1)
        .find_map(|records| records.parse().ok())
        .unwrap_or(1_000_000);
    measure(records, 10_000, 21);
}

/// The same over little, once: whether it still works.
#[allow(dead_code, reason = "the tests call it")]
pub fn shortened() {
    measure(400, 100, 1);
}

fn measure(records: usize, charges: i64, times: usize) {
    let _ = rustls::crypto::ring::default_provider().install_default();
    let runtime = tokio::runtime::Runtime::new().unwrap();
    let place = runtime.block_on(Place::filled(Size {
        regions: 8,
        records,
        charges,
        ..Size::default()
    }));
    let mut table = Table::new();
    table.load_style(ASCII_MARKDOWN).set_header([
        format!("{charges} charges, records:"),
        "best ms".into(),
        "median ms".into(),
        "within 50 ms".into(),
        "MB".into(),
    ]);
    table
        .column_iter_mut()
        .skip(1)
        .for_each(|column| column.set_cell_alignment(CellAlignment::Right));
    for (name, arguments) in COMMANDS {
        let mut runs: Vec<Measured> = (0..times).map(|_| place.measure(arguments)).collect();
        runs.sort_by_key(|run| run.took);
        let (best, median) = (&runs[0], &runs[times / 2]);
        assert_eq!(median.exit, "0", "{name}");
        let kept = if median.took < WANTED { "yes" } else { "no" };
        let megabytes = format!("{:.0}", median.megabytes);
        table.add_row([
            &format!("{name}, {records}"),
            &millis(best.took),
            &millis(median.took),
            kept,
            &megabytes,
        ]);
    }
    println!("{table}");
}

fn millis(time: Duration) -> String {
    format!("{:.1}", time.as_secs_f64() * 1e3)
}
