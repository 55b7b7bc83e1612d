//! How the time and the memory of commands grow with what they read: once, twice, four and eight times of one thing, all else as
//! it is. Prints the exponent between each two sizes, and fails where the last one says that a command grows faster than its input.
//!
//! Commands over a filled state directory, and whole runs (`runs.rs`): `cargo bench --bench growth [-- [runs] TIMES…]`, with `runs`
//! the runs alone. How the statements of a catalog on a server grow is counted by the tests, in `tests/all/postgres/growth.rs`.
#![allow(
    missing_docs,
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing
)]

#[path = "../place/mod.rs"]
mod place;
mod runs;

use comfy_table::Table;
use place::{Measured, Place, Size};

/// The largest exponent: the logarithm that a search in a tree adds is below it.
const MOST: f64 = 1.15;
/// The program takes this long for nothing, in seconds.
const NOTHING: f64 = 0.005;
/// The fastest of so many tries is what a command takes.
const TRIES: usize = 3;

/// What grows, and the size at so many times of it.
type Dimension = (&'static str, fn(usize) -> Size);

const DIMENSIONS: &[Dimension] = &[
    ("regions", |times| Size {
        regions: 30 * times,
        records: 6_000 * times,
        charges: 100,
    }),
    ("records and passes", |times| Size {
        regions: 8,
        records: 8_000 * times,
        charges: 100,
    }),
    ("charges", |times| Size {
        regions: 8,
        records: 1_600,
        charges: 10_000 * i64::try_from(times).unwrap(),
    }),
];

const COMMANDS: &[(&str, &[&str])] = &[
    ("status", &["status"]),
    ("history", &["history", "--since", "30d"]),
    ("search", &["search", "common"]),
    ("preview", &["--region", "all", "--dry-run"]),
    (
        "forecast",
        &[
            "forecast",
            "--region",
            "all",
            "--schedule",
            "hourly",
            "--days",
            "2",
        ],
    ),
    (
        // A tenth of the regions completes, and a limit stops the others.
        "forecast at a limit",
        &[
            "forecast",
            "--region",
            "all",
            "--schedule",
            "hourly",
            "--days",
            "2",
            "--set",
            "credentials.youtube.limits.daily.quota=3000",
        ],
    ),
];

fn main() {
    let times = std::env::args()
        .skip(1)
        .filter_map(|times| times.parse().ok());
    let times: Vec<usize> = times.collect();
    let times = if times.is_empty() {
        vec![1, 2, 4, 8]
    } else {
        times
    };
    let dimensions = match std::env::args().any(|word| word == "runs") {
        true => &[],
        false => DIMENSIONS,
    };
    let mut too_fast = measure(&times, dimensions);
    too_fast.extend(runs::measure(&times));
    assert!(
        too_fast.is_empty(),
        "grow faster than their input: {too_fast:?}"
    );
}

/// The same over little: whether it still works.
#[allow(dead_code, reason = "the tests call it")]
pub fn shortened() {
    let little: fn(usize) -> Size = |times| Size {
        regions: times,
        records: 200 * times,
        charges: 1,
    };
    measure(&[1, 2], &[("regions", little)]);
    runs::shortened();
}

/// Prints what each command takes at each size, and returns those whose last exponent is too large.
fn measure(times: &[usize], dimensions: &[Dimension]) -> Vec<String> {
    let _ = rustls::crypto::ring::default_provider().install_default();
    let runtime = tokio::runtime::Runtime::new().unwrap();
    let mut too_fast = Vec::new();
    for (dimension, size) in dimensions {
        let places = times
            .iter()
            .map(|times| runtime.block_on(Place::filled(size(*times))));
        let places: Vec<Place> = places.collect();
        let mut table = Table::new();
        table.set_header([*dimension].into_iter().chain(FIGURES));
        for (name, arguments) in COMMANDS {
            let taken: Vec<(f64, f64)> = places
                .iter()
                .map(|place| fastest(place, arguments))
                .collect();
            let grown = Grown::new(times, &taken);
            if grown.is_too_fast {
                too_fast.push(format!("{name} with {dimension}"));
            }
            table.add_row([(*name).to_owned()].into_iter().chain(grown.cells));
        }
        println!("{table}");
    }
    too_fast
}

/// The fastest of some tries.
fn fastest(place: &Place, arguments: &[&str]) -> (f64, f64) {
    let tries = (0..TRIES).map(|_| place.measure(arguments));
    let fastest = tries.min_by_key(|one| one.took).unwrap();
    assert_eq!(fastest.exit, "0", "{arguments:?}");
    taken(&fastest)
}

/// Seconds above those of a program that does nothing, and megabytes.
fn taken(measured: &Measured) -> (f64, f64) {
    let seconds = measured.took.as_secs_f64() - NOTHING;
    (seconds.max(NOTHING), measured.megabytes)
}

const FIGURES: [&str; 4] = ["ms, at each size", "exponents", "memory, MB", "exponents"];

/// What something takes at each size.
struct Grown {
    /// The cells below `FIGURES`.
    cells: [String; 4],
    is_too_fast: bool,
}

impl Grown {
    fn new(times: &[usize], taken: &[(f64, f64)]) -> Self {
        let (seconds, megabytes): (Vec<f64>, Vec<f64>) = taken.iter().copied().unzip();
        let [grows, memory_grows] = [&seconds, &megabytes].map(|all| exponents(times, all));
        let all = |figures: &[f64], unit: f64, digits: usize| {
            let shown = figures.iter().map(|one| format!("{:.digits$}", one * unit));
            shown.collect::<Vec<_>>().join(", ")
        };
        Self {
            is_too_fast: [&grows, &memory_grows]
                .iter()
                .any(|all| all.last().is_some_and(|last| *last > MOST)),
            cells: [
                all(&seconds, 1e3, 0),
                all(&grows, 1.0, 2),
                all(&megabytes, 1.0, 0),
                all(&memory_grows, 1.0, 2),
            ],
        }
    }
}

fn exponents(times: &[usize], figures: &[f64]) -> Vec<f64> {
    let sizes = times.windows(2).map(|pair| pair[1] as f64 / pair[0] as f64);
    let figures = figures.windows(2).map(|pair| pair[1] / pair[0]);
    sizes
        .zip(figures)
        .map(|(size, figure)| figure.ln() / size.ln())
        .collect()
}
