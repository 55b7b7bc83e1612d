//! What a large installation costs: 249 regions, and a catalog and a ledger at a tenth, at one and at ten times 1,000,000
//! records and 100,000 charges in the window. Time and memory of the real program.
//!
//! `cargo bench --bench large [-- TIMES…]`; without sizes a tenth and one: ten times wants 15 GB of disk and half an hour.
#![allow(missing_docs, clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::indexing_slicing)]

mod place;

use comfy_table::Table;
use place::{Place, Size};

const RECORDS: f64 = 1_000_000.0;
const CHARGES: f64 = 100_000.0;

fn main() {
    let sizes: Vec<f64> = std::env::args().skip(1).filter_map(|size| size.parse().ok()).collect();
    let sizes = if sizes.is_empty() { vec![0.1, 1.0] } else { sizes };
    let _ = rustls::crypto::ring::default_provider().install_default();
    let runtime = tokio::runtime::Runtime::new().unwrap();
    let mut table = Table::new();
    table.set_header(["times", "command", "seconds", "memory, MB", "exit"]);
    for size in sizes {
        let place = runtime.block_on(Place::filled(Size {
            regions: 249,
            records: (RECORDS * size) as usize,
            charges: (CHARGES * size) as i64,
        }));
        for (name, arguments) in COMMANDS {
            let (took, memory, exit) = place.measure(arguments);
            let row = [size.to_string(), (*name).to_owned(), format!("{:.3}", took.as_secs_f64()), memory, exit];
            table.add_row(row);
        }
    }
    println!("{table}");
}

const COMMANDS: &[(&str, &[&str])] = &[
    ("status", &["status", "--format", "json"]),
    ("search, rare", &["search", "word17", "rare123", "--format", "json"]),
    ("search, common", &["search", "common", "--format", "json"]),
    ("preview", &["--region", "all", "--dry-run", "--format", "json"]),
    ("run", &["--region", "all", "--job", "trending", "--format", "json"]),
    ("run, nothing due", &["--region", "all", "--job", "trending", "--format", "json"]),
];
