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
//! A world that fails is shrunk, and its seed is printed. With `INGEST_WORLDS_SURVEY=1` none is shrunk: all seeds that
//! fail are listed with why.

mod checks;
mod life;
mod plan;
mod witness;

use plan::Plan;
use proptest::strategy::{Strategy, ValueTree};
use proptest::test_runner::{Config, RngAlgorithm, TestRng, TestRunner};

/// How many worlds a test runs unless it is told otherwise.
const WORLDS: u64 = 25;
/// And of those with everything.
const RICH_WORLDS: u64 = 20;

fn number(name: &str, otherwise: u64) -> u64 {
    std::env::var(name).map_or(otherwise, |text| text.parse().unwrap())
}

fn runner(seed: u64) -> TestRunner {
    let config = Config {
        cases: 1,
        failure_persistence: None,
        max_shrink_iters: 400,
        ..Config::default()
    };
    let mut bytes = [0; 32];
    bytes[..8].copy_from_slice(&seed.to_le_bytes());
    TestRunner::new_with_rng(config, TestRng::from_seed(RngAlgorithm::ChaCha, &bytes))
}

#[test]
fn what_is_reported_is_what_the_sandbox_counted() {
    live(WORLDS, plan::plans());
}

#[test]
fn so_it_is_with_backfills_several_credentials_and_limits_of_regions() {
    live(RICH_WORLDS, plan::rich_plans());
}

#[test]
fn a_world_that_failed_once_holds() {
    // A run that a signal ended named the refusal of a credential after which another one was used.
    let world = plan::rich_plans().new_tree(&mut runner(136)).unwrap();
    life::live(&world.current()).unwrap();
    // All requests fit a limit, and another one stopped the run before they were made.
    let world = plan::plans().new_tree(&mut runner(33032)).unwrap();
    life::live(&world.current()).unwrap();
}

/// Lives through as many worlds as the environment says, otherwise `usual` ones.
fn live(usual: u64, plans: impl Strategy<Value = Plan>) {
    let first = number("INGEST_WORLDS_SEED", 0);
    let survey = std::env::var_os("INGEST_WORLDS_SURVEY").is_some();
    let mut failed = 0;
    for seed in first..first + number("INGEST_WORLDS", usual) {
        let mut runner = runner(seed);
        let world = plans.new_tree(&mut runner).unwrap();
        if survey {
            if let Err(why) = life::live(&world.current()) {
                failed += 1;
                let why = why.to_string();
                eprintln!("seed {seed}: {}", why.chars().take(400).collect::<String>());
            }
        } else if let Err(why) = runner.run_one(world, |plan| life::live(&plan)) {
            panic!("INGEST_WORLDS_SEED={seed} INGEST_WORLDS=1: {why}");
        }
    }
    assert_eq!(failed, 0, "worlds failed");
}
