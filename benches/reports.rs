//! What it takes to look at a large installation: `status`, `--dry-run`, searches of every kind and a forecast, by the real program,
//! where there are 10,000 charges in the window and 1,000,000 records.
//!
//! `cargo bench --bench reports [-- RECORDS]`
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

/// A report, its arguments, and the milliseconds that it may take.
type Report<'a> = (&'a str, &'a [&'a str], u64);

const REPORTS: &[Report<'_>] = &[
    ("status", &["status"], 50),
    ("--dry-run, all due", &["--region", "all", "--dry-run"], 50),
    ("search, one hit", &["search", "rare123"], 300),
    ("search, a thousand hits", &["search", "word17"], 300),
    ("search, every record", &["search", "common"], 300),
    ("search, two words of all", &["search", "common about"], 300),
    (
        "search, words never together",
        &["search", "word1 word2"],
        300,
    ),
    ("search, a beginning of all", &["search", "r*"], 300),
    ("search, three of them", &["search", "r* c* a*"], 300),
    (
        "search, in a region",
        &["search", "common", "--region", "AB"],
        300,
    ),
    (
        "search, since",
        &["search", "common", "--since", "92m"],
        300,
    ),
    (
        "search, a kind without records",
        &["search", "common", "--kind", "channel"],
        300,
    ),
];

/// The milliseconds that a forecast of a week of hourly runs may take, over so many regions.
const FORECAST: (usize, u64) = (250, 8_000);

fn main() {
    let given = std::env::args().skip(1).find_map(|word| word.parse().ok());
    measure(given.unwrap_or(1_000_000), 10_000, (FORECAST.0, "7"), 21);
}

/// The same over little, once: whether it still works.
#[allow(dead_code, reason = "the tests call it")]
pub fn shortened() {
    measure(400, 100, (2, "1"), 1);
}

fn measure(records: usize, charges: i64, (regions, days): (usize, &str), times: usize) {
    let _ = rustls::crypto::ring::default_provider().install_default();
    let runtime = tokio::runtime::Runtime::new().unwrap();
    let filled = |regions, records| {
        runtime.block_on(Place::filled(Size {
            regions,
            records,
            charges,
            ..Size::default()
        }))
    };
    let mut table = Table::new();
    let title = format!("{charges} charges, {records} records");
    table.load_style(ASCII_MARKDOWN).set_header([
        title.as_str(),
        "wanted ms",
        "median ms",
        "worst ms",
        "MB",
    ]);
    for column in table.column_iter_mut().skip(1) {
        column.set_cell_alignment(CellAlignment::Right);
    }
    let place = filled(8, records);
    for report in REPORTS {
        table.add_row(row(&place, report, times));
    }
    let name = format!("forecast of {days} days, {regions} regions");
    let forecast: &[&str] = &[
        "forecast",
        "--region",
        "all",
        "--schedule",
        "hourly",
        "--days",
        days,
        "--set",
        "credentials.youtube.limits.daily.quota=10000",
    ];
    let [_, cells @ ..] = row(
        &filled(regions, regions),
        &("", forecast, FORECAST.1),
        times.min(3),
    );
    table.add_row([name].into_iter().chain(cells));
    println!("{table}");
}

fn row(place: &Place, (name, arguments, wanted): &Report<'_>, times: usize) -> [String; 5] {
    let mut runs: Vec<Measured> = (0..times).map(|_| place.measure(arguments)).collect();
    runs.sort_by_key(|run| run.took);
    let (median, worst) = (&runs[times / 2], &runs[times - 1]);
    assert!(
        runs.iter().all(|run| run.exit == "0"),
        "{arguments:?}: {runs:?}"
    );
    [
        (*name).to_owned(),
        wanted.to_string(),
        millis(median.took),
        millis(worst.took),
        format!("{:.0}", median.megabytes),
    ]
}

fn millis(time: Duration) -> String {
    format!("{:.1}", time.as_secs_f64() * 1e3)
}
