//! How the time, the memory and the statements of every command, every view of the server and every kind of run grow with what
//! they read: once, twice, four and eight times of one thing, all else as it is, over both catalogs and both ledgers. Prints the
//! exponent between each two sizes, and fails where the last one says that something grows faster than its input, or where the one
//! between the first size and the last says that something depends on what it must not depend on.
//!
//! Time is that of processors, and of what PostgreSQL executed: the least of some tries, so that other programs hardly count.
//! What varies by less than 5 ms or three statements is taken for noise.
//!
//! `cargo bench --bench growth [-- TIMES… PARTS…]`: a part is one of the things that there is more of, such as `records`, and
//! `runs` are those of `runs.rs`. A part takes some minutes.
#![allow(
    missing_docs,
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing
)]

mod commands;
mod grown;
#[path = "../place/mod.rs"]
mod place;
mod runs;
mod servers;

use std::process::Command;

use grown::Growth;
use place::figures::measured;
use servers::Servers;

fn main() {
    install();
    let words: Vec<String> = std::env::args()
        .skip(1)
        .filter(|word| !word.starts_with('-'))
        .collect();
    let (times, parts): (Vec<&String>, Vec<&String>) =
        words.iter().partition(|word| word.parse::<usize>().is_ok());
    let mut times: Vec<usize> = times.iter().map(|times| times.parse().unwrap()).collect();
    if times.is_empty() {
        times = vec![1, 2, 4, 8];
    }
    let is_part = |name: &str| parts.is_empty() || parts.iter().any(|part| *part == name);
    let servers = Servers::start();
    let mut growth = Growth::new(&times, nothing());
    commands::measure(&mut growth, &times, &servers, is_part);
    runs::measure(&mut growth, &times, &servers, is_part);
    growth.end();
}

/// Everything once, over little: whether it still works.
#[allow(dead_code, reason = "the tests call it")]
pub fn shortened() {
    install();
    let mut growth = Growth::new(&[1], nothing());
    commands::shortened(&mut growth);
    runs::shortened(&mut growth);
    growth.print();
}

fn install() {
    let _ = rustls::crypto::ring::default_provider().install_default();
}

/// The seconds that the program takes for nothing.
fn nothing() -> f64 {
    let tries = (0..9).map(|_| {
        let mut command = Command::new(env!("CARGO_BIN_EXE_ingest"));
        measured(command.arg("--version")).computed.as_secs_f64()
    });
    tries.min_by(f64::total_cmp).unwrap()
}
