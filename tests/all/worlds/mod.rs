//! Random worlds: a generated configuration, and what happens in it: runs that end, stop or are killed, lists that change,
//! time that passes. After each event all that `ingest` reports is compared with the sandbox's own count.
//!
//! Each world is a function of its seed. A test runs `WORLDS` of them; `INGEST_WORLDS` sets how many, and
//! `INGEST_WORLDS_SEED` the first seed:
//!
//! ```sh
//! INGEST_WORLDS=5000 INGEST_WORLDS_SEED=1000 cargo test --test all -- worlds
//! ```
//!
//! A world that fails is shrunk, and printed with its seed: stored as a file in `stored`, it is lived through again by every run
//! of the tests. With `INGEST_WORLDS_SURVEY=1` none is shrunk: all seeds that fail are listed with why.

mod checks;
mod life;
mod plan;
mod witness;

use std::fs;
use std::path::{Path, PathBuf};

use crate::support::seeds::Variables;

const VARIABLES: Variables = Variables {
    count: "INGEST_WORLDS",
    seed: "INGEST_WORLDS_SEED",
    survey: "INGEST_WORLDS_SURVEY",
};
/// How many worlds a test runs unless it is told otherwise.
const WORLDS: u64 = 25;
/// And of those with everything.
const RICH_WORLDS: u64 = 20;

#[test]
fn what_is_reported_is_what_the_sandbox_counted() {
    VARIABLES.live(WORLDS, &plan::plans(), life::live);
}

#[test]
fn so_it_is_with_backfills_several_credentials_and_limits_of_regions() {
    VARIABLES.live(RICH_WORLDS, &plan::rich_plans(), life::live);
}

/// The worlds themselves are stored, not their seeds: a change of the generator makes other worlds of those.
#[test]
fn a_world_that_failed_once_holds() {
    let stored = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/all/worlds/stored");
    let mut names: Vec<PathBuf> = fs::read_dir(stored)
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .collect();
    names.sort();
    assert!(!names.is_empty());
    for name in names {
        let plan = serde_json::from_str(&fs::read_to_string(&name).unwrap()).unwrap();
        life::live(&plan).unwrap_or_else(|why| panic!("{}: {why}", name.display()));
    }
}
