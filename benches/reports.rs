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

use place::figures::{Measured, millis, table};
use place::{Place, Size};

/// The arguments of a report, and the milliseconds that it may take.
const REPORTS: &[(&str, u64)] = &[
    ("status", 50),
    ("--region all --dry-run", 50),
    // One hit, a thousand hits, every record, two words of all, words that are never together, beginnings of all.
    ("search rare123", 300),
    ("search word17", 300),
    ("search common", 300),
    ("search common about", 300),
    ("search word1 word2", 300),
    ("search r*", 300),
    ("search r* c* a*", 300),
    ("search common --region AB", 300),
    ("search common --since 92m", 300),
    ("search common --kind channel", 300),
];

const FORECAST: &str = "forecast --region all --schedule hourly --set credentials.youtube.limits.daily.quota=10000 --days";
/// The milliseconds that a forecast of a week of hourly runs may take, over so many regions.
const FORECAST_WANTED: (usize, u64) = (250, 8_000);

fn main() {
    let given = std::env::args().skip(1).find_map(|word| word.parse().ok());
    let forecast = (FORECAST_WANTED.0, "7");
    measure(given.unwrap_or(1_000_000), 10_000, forecast, 21);
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
    let title = format!("{charges} charges, {records} records");
    let mut table = table(&[&title, "wanted ms", "median ms", "worst ms", "MB"]);
    let place = filled(8, records);
    for (report, wanted) in REPORTS {
        table.add_row(row(&place, report, *wanted, times));
    }
    let place = filled(regions, regions);
    let forecast = format!("{FORECAST} {days}");
    let [_, cells @ ..] = row(&place, &forecast, FORECAST_WANTED.1, times.min(3));
    let name = format!("forecast of {days} days, {regions} regions");
    table.add_row([name].into_iter().chain(cells));
    println!("{table}");
}

fn row(place: &Place, report: &str, wanted: u64, times: usize) -> [String; 5] {
    let arguments: Vec<&str> = report.split(' ').collect();
    let mut runs: Vec<Measured> = (0..times).map(|_| place.measure(&arguments)).collect();
    runs.sort_by_key(|run| run.took);
    let (median, worst) = (&runs[times / 2], &runs[times - 1]);
    let are_fine = runs.iter().all(|run| run.exit == "0");
    assert!(are_fine, "{report}: {runs:?}");
    [
        report.to_owned(),
        wanted.to_string(),
        millis(median.took),
        millis(worst.took),
        format!("{:.0}", median.megabytes),
    ]
}
