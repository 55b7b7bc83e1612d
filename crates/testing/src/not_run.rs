//! What is not checked here since a tool is missing.

use std::fs::OpenOptions;
use std::io::Write;

/// Says that this test, or a part of it, did not run, and lists it where `tests/all.sh` shows it at its end.
pub fn not_run(why: &str) {
    let test = std::thread::current();
    let line = format!("{}: {why}\n", test.name().unwrap_or("a test"));
    eprint!("NOT TESTED: {line}");
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../target/not-run.txt");
    if let Ok(mut list) = OpenOptions::new().create(true).append(true).open(path) {
        let _ = list.write_all(line.as_bytes());
    }
}
