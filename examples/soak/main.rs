//! Many runs of the real program under everything that goes wrong, and what must hold after each: `bash tests/soak.sh`.
//!
//! A soak is a row of chapters: each is a place of its own whose every choice follows from the seed and the chapter's
//! number alone, so that one can be had again by itself. When the machine gets to what, does not follow from it.
#![allow(
    missing_docs,
    clippy::unwrap_used,
    clippy::indexing_slicing,
    clippy::expect_used,
    clippy::panic,
    clippy::print_stderr,
    clippy::arithmetic_side_effects,
    clippy::string_slice
)]

mod calm;
mod chance;
mod chapter;
mod invariants;
mod machines;
mod place;
mod process;
mod redis;
mod sizes;
mod tally;
mod trouble;

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use chapter::Chapter;
use machines::Sizes;
use tally::Tally;

/// Chapters that go on side by side: most of a run's time is waiting.
const SIDE_BY_SIDE: usize = 5;

/// Rounds of a chapter of several machines.
const ROUNDS: usize = 24;

fn main() {
    let [minutes, seed, first, program, machines] = arguments();
    let seed: u64 = seed.parse().expect("the seed is a number");
    let minutes: f64 = minutes.parse().expect("minutes are a number");
    let first: u64 = first.parse().expect("the first chapter is a number");
    let machines = machines == "machines";
    let _ = rustls::crypto::ring::default_provider().install_default();
    eprintln!("seed {seed}, {minutes} minutes");
    let end = Instant::now() + Duration::from_secs_f64(minutes * 60.0);
    let (next, wrong, tally) = (AtomicU64::new(first), AtomicU64::new(0), Tally::default());
    let side_by_side = if machines { 3 } else { SIDE_BY_SIDE };
    std::thread::scope(|scope| {
        for _ in 0..side_by_side {
            scope.spawn(|| {
                while Instant::now() < end {
                    let number = next.fetch_add(1, Ordering::Relaxed);
                    let told = catch_unwind(AssertUnwindSafe(|| match machines {
                        true => machines::Chapter::new(seed, number, &program, Sizes::Any)
                            .tell(ROUNDS, end, &tally),
                        false => Chapter::new(seed, number, &program).tell(end, &tally),
                    }));
                    // The others go on.
                    if told.is_err() {
                        let mode = if machines { "--machines " } else { "" };
                        eprintln!(
                            "chapter {number} of seed {seed} went wrong; again: bash tests/soak.sh {mode}1 {seed} {number}"
                        );
                        wrong.fetch_add(1, Ordering::Relaxed);
                    }
                    eprintln!("{tally}");
                }
            });
        }
    });
    println!("{tally}");
    let wrong = wrong.load(Ordering::Relaxed);
    assert_eq!(wrong, 0, "chapters of seed {seed} that went wrong");
    println!("nothing was over, nothing lost, nothing disagreed; seed {seed}");
}

fn arguments() -> [String; 5] {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    arguments
        .try_into()
        .expect("soak MINUTES SEED CHAPTER PROGRAM MODE")
}
