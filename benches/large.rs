//! What a large installation costs: 249 regions, and a catalog and a ledger at a tenth, at one and at ten times 1,000,000
//! records and 100,000 charges in the window. Time and memory of the real program.
//!
//! `cargo bench --bench large [-- TIMES…]`; without sizes a tenth and one: ten times wants 7 GB of disk and a quarter of an hour.
#![allow(
    missing_docs,
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing
)]

mod place;

use comfy_table::Table;
use place::{Measured, Place, Size};

const RECORDS: f64 = 1_000_000.0;
const CHARGES: f64 = 100_000.0;

fn main() {
    let sizes: Vec<f64> = std::env::args()
        .skip(1)
        .filter_map(|size| size.parse().ok())
        .collect();
    let sizes = if sizes.is_empty() {
        vec![0.1, 1.0]
    } else {
        sizes
    };
    measure(&sizes, 249);
}

/// The same over little: whether it still works.
#[allow(dead_code, reason = "the tests call it")]
pub fn shortened() {
    measure(&[0.0002, 0.0004], 2);
}

fn measure(sizes: &[f64], regions: usize) {
    let _ = rustls::crypto::ring::default_provider().install_default();
    let runtime = tokio::runtime::Runtime::new().unwrap();
    let mut table = Table::new();
    table.set_header([
        "command",
        "times",
        "seconds",
        "grows",
        "memory, MB",
        "grows",
        "exit",
    ]);
    let mut before: Option<(f64, Vec<Measured>)> = None;
    for &size in sizes {
        let place = runtime.block_on(Place::filled(Size {
            regions,
            records: (RECORDS * size) as usize,
            charges: (CHARGES * size) as i64,
            ..Size::default()
        }));
        let now: Vec<Measured> = COMMANDS
            .iter()
            .map(|(_, arguments)| place.measure(arguments))
            .collect();
        for (index, ((name, _), one)) in COMMANDS.iter().zip(&now).enumerate() {
            let earlier = before
                .as_ref()
                .map(|(earlier, all)| (size / earlier, &all[index]));
            let grows = |of: fn(&Measured) -> f64| {
                earlier.map_or("", |(data, earlier)| {
                    growth(of(one) / of(earlier).max(f64::MIN_POSITIVE), data)
                })
            };
            let (time, memory) = (
                grows(|one| one.took.as_secs_f64()),
                grows(|one| one.megabytes),
            );
            let (seconds, megabytes) = (
                format!("{:.3}", one.took.as_secs_f64()),
                format!("{:.0}", one.megabytes),
            );
            table.add_row([
                *name,
                &size.to_string(),
                &seconds,
                time,
                &megabytes,
                memory,
                &one.exit,
            ]);
        }
        before = Some((size, now));
    }
    println!("{table}");
}

/// Names how `figure` grew while the data grew `data` times.
fn growth(figure: f64, data: f64) -> &'static str {
    match figure.ln() / data.ln() {
        power if power < 0.15 => "not",
        power if power < 0.75 => "slower than the data",
        power if power < 1.2 => "with the data",
        _ => "faster than the data",
    }
}

const COMMANDS: &[(&str, &[&str])] = &[
    ("status", &["status", "--format", "json"]),
    (
        "search, rare",
        &["search", "word17", "rare123", "--format", "json"],
    ),
    ("search, common", &["search", "common", "--format", "json"]),
    (
        "preview",
        &["--region", "all", "--dry-run", "--format", "json"],
    ),
    (
        "run",
        &["--region", "all", "--job", "trending", "--format", "json"],
    ),
    (
        "run, nothing due",
        &["--region", "all", "--job", "trending", "--format", "json"],
    ),
];
