//! What a week of hourly runs of the shipped jobs takes to forecast, in seconds of the processor: the fastest of some tries, so that
//! other programs on the same cores hardly count. How it grows with the regions is measured by `growth`.
//!
//! `cargo bench --bench forecast [-- REGIONS…]`; without numbers 8, 30, 90 and 250.
#![allow(missing_docs, clippy::unwrap_used, clippy::indexing_slicing)]

mod place;

use std::process::Command;

use comfy_table::Table;
use place::{code, measured, shipped};

/// The seconds that are wanted, at so many regions.
const WANTED: (usize, f64) = (250, 2.0);
/// The fastest of so many tries is what a forecast takes.
const TRIES: usize = 3;

fn main() {
    let sizes = std::env::args()
        .skip(1)
        .filter_map(|regions| regions.parse().ok());
    let mut sizes: Vec<usize> = sizes.collect();
    if sizes.is_empty() {
        sizes = vec![8, 30, 90, WANTED.0];
    }
    measure(&sizes, "7");
}

/// The same over one region and a day: whether it still works.
#[allow(dead_code, reason = "the tests call it")]
pub fn shortened() {
    measure(&[1], "1");
}

fn measure(sizes: &[usize], days: &str) {
    let mut table = Table::new();
    table.set_header(["regions", "seconds of the processor", "wanted"]);
    for regions in sizes {
        let tries = (0..TRIES).map(|_| forecast(*regions, days));
        let fastest = tries.min_by(f64::total_cmp).unwrap();
        let wanted = match *regions == WANTED.0 {
            true => format!("{:.1}", WANTED.1),
            false => String::new(),
        };
        table.add_row([regions.to_string(), format!("{fastest:.2}"), wanted]);
    }
    println!("{table}");
}

/// Forecasts from an empty state, and returns the seconds of the processor that it took.
fn forecast(regions: usize, days: &str) -> f64 {
    let directory = tempfile::tempdir().unwrap();
    let codes: Vec<String> = (0..regions)
        .map(|number| format!("{:?}", code(number)))
        .collect();
    let mut command = Command::new(env!("CARGO_BIN_EXE_ingest"));
    command
        .args(["forecast", "--region", "all", "--schedule", "hourly"])
        .args(["--days", days, "--set"])
        .arg(format!("regions=[{}]", codes.join(",")))
        .arg("--config")
        .arg(shipped())
        .arg("--state-dir")
        .arg(directory.path())
        .env("YOUTUBE_API_KEY", "k");
    let measured = measured(&mut command);
    assert_eq!(measured.exit, "0");
    measured.computed.as_secs_f64()
}
