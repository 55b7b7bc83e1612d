//! Many runs of the real program under everything that goes wrong, and what must hold after each: `bash tests/soak.sh`.
//!
//! What is chosen follows from the seed alone; when the machine gets to what, does not.
#![allow(
    missing_docs,
    clippy::unwrap_used,
    clippy::indexing_slicing,
    clippy::expect_used,
    clippy::panic,
    clippy::print_stderr
)]

mod chance;
mod invariants;
mod redis;
mod rig;

use std::time::{Duration, Instant};

use chance::Chance;
use rig::{Rig, Tally};

fn main() {
    let [minutes, seed, program] = arguments();
    let seed: u64 = seed.parse().expect("the seed is a number");
    let minutes: f64 = minutes.parse().expect("minutes are a number");
    eprintln!("seed {seed}, {minutes} minutes");
    let mut chance = Chance::of(seed);
    let mut rigs = vec![Rig::local(&program)];
    match Rig::shared(&program) {
        Some(rig) => rigs.push(rig),
        None => eprintln!("redis-server is not installed: one machine's ledger alone is tried"),
    }
    let end = Instant::now() + Duration::from_secs_f64(minutes * 60.0);
    let mut tally = Tally::default();
    while Instant::now() < end {
        let number = chance.below(rigs.len());
        rigs.get_mut(number).unwrap().round(&mut chance, &mut tally);
        if tally.rounds.is_multiple_of(20) {
            eprintln!("{tally}");
        }
    }
    println!("{tally}; nothing was over, nothing lost; seed {seed}");
}

fn arguments() -> [String; 3] {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    arguments.try_into().expect("soak MINUTES SEED PROGRAM")
}
