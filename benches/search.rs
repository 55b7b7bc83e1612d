//! Search in a large catalog, by the command and over HTTP: words that all records contain, words that never come together,
//! beginnings of any length, a phrase, and filters that pass few. Each is to answer within 300 ms, however large the catalog is.
//!
//! `cargo bench --bench search [-- RECORDS [DIRECTORY]]`; ten million records take 6 GB of disk. A directory is kept, and used again.
#![allow(
    missing_docs,
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing
)]

mod place;

use std::path::PathBuf;
use std::time::{Duration, Instant};

use comfy_table::presets::ASCII_MARKDOWN;
use comfy_table::{CellAlignment, Table};
use percent_encoding::{NON_ALPHANUMERIC, utf8_percent_encode};
use place::server::Server;
use place::{Place, Size};
use serde_json::Value;

const WANTED: Duration = Duration::from_millis(300);
const REGIONS: usize = 249;

/// What is searched for, and the filters.
const SEARCHES: &[(&str, &[(&str, &str)])] = &[
    ("common", &[]),
    ("common about", &[]),
    ("common rare123", &[]),
    ("common word17", &[]),
    ("even odd", &[]),
    ("even odd common", &[]),
    ("rare123*", &[]),
    ("word1*", &[]),
    ("common*", &[]),
    ("rare*", &[]),
    ("com*", &[]),
    ("ra*", &[]),
    ("r*", &[]),
    ("r* c* a*", &[]),
    ("rare123 common*", &[]),
    ("天気", &[]),
    ("気天", &[]),
    ("common", &[("kind", "channel")]),
    ("common", &[("region", "JO")]),
    ("common", &[("since", "92m")]),
    ("c*", &[("region", "JO")]),
    ("even odd", &[("region", "JO")]),
];

fn main() {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let mut given = arguments.iter().filter(|one| !one.starts_with('-'));
    let records = given.next().and_then(|records| records.parse().ok());
    measure(
        records.unwrap_or(1_000_000),
        given.next().map(PathBuf::from),
        11,
    );
}

/// The same over little, once: whether it still works.
#[allow(dead_code, reason = "the tests call it")]
pub fn shortened() {
    measure(2000, None, 1);
}

fn measure(records: usize, directory: Option<PathBuf>, times: usize) {
    let _ = rustls::crypto::ring::default_provider().install_default();
    let runtime = tokio::runtime::Runtime::new().unwrap();
    let began = Instant::now();
    let place = runtime.block_on(Place::written(
        directory,
        Size {
            regions: REGIONS,
            records,
            charges: 100,
            ..Size::default()
        },
    ));
    println!("{records} records after {:.0?}", began.elapsed());
    let server = Server::start(&place);
    let mut table = Table::new();
    table.load_style(ASCII_MARKDOWN).set_header([
        &format!("{records} records:"),
        "command ms",
        "API ms",
        "page ms",
        "worst ms",
        "hits",
        "ranked",
        "within 300 ms",
    ]);
    table
        .column_iter_mut()
        .skip(1)
        .for_each(|column| column.set_cell_alignment(CellAlignment::Right));
    for (words, filters) in SEARCHES {
        let mut arguments = vec!["search".to_owned(), (*words).to_owned()];
        let mut query = format!("q={}", utf8_percent_encode(words, NON_ALPHANUMERIC));
        for (name, value) in *filters {
            arguments.push(format!("--{name}={value}"));
            query.push_str(&format!("&{name}={value}"));
        }
        let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
        let command = timed(times, || {
            assert_eq!(place.measure(&arguments).exit, "0", "{words}");
        });
        let mut answer = String::new();
        let api = timed(times, || {
            answer = server.get(&format!("/api/v1/search?{query}"))
        });
        let page = timed(times, || drop(server.get(&format!("/search?{query}"))));
        let answer: Value = serde_json::from_str(&answer).unwrap();
        let worst = [command.1, api.1, page.1].into_iter().max().unwrap();
        let name = filters
            .iter()
            .fold((*words).to_owned(), |name, (filter, value)| {
                format!("{name}, {filter} {value}")
            });
        let ranked = match (&answer["only_newest"], &answer["searched_since"]) {
            (Value::Null, Value::Null) => "all".to_owned(),
            (matches, Value::Null) => format!("the newest {matches} matches"),
            (_, Value::String(since)) => format!("records since {since}"),
            (_, since) => panic!("searched_since is {since}"),
        };
        table.add_row([
            &name,
            &millis(command.0),
            &millis(api.0),
            &millis(page.0),
            &millis(worst),
            &answer["hits"].as_array().unwrap().len().to_string(),
            &ranked,
            &if worst < WANTED { "yes" } else { "no" }.to_owned(),
        ]);
    }
    println!("{table}");
}

/// The median and the longest time.
fn timed(times: usize, mut act: impl FnMut()) -> (Duration, Duration) {
    let mut took: Vec<Duration> = (0..times)
        .map(|_| {
            let began = Instant::now();
            act();
            began.elapsed()
        })
        .collect();
    took.sort();
    (took[times / 2], took[times - 1])
}

fn millis(time: Duration) -> String {
    format!("{:.0}", time.as_secs_f64() * 1e3)
}
