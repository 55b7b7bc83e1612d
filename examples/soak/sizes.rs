//! How much there is to walk, with how many hands, and how long that may take.

use std::time::Duration;

use super::chance::Chance;

/// How much longer than it should a run may take before it is taken to hang; and the bounds of that.
const TIMES: u32 = 10;
const LEAST: Duration = Duration::from_secs(20);
const MOST: Duration = Duration::from_secs(90);

/// What a request takes beside its answer, and a run beside its requests, on a busy machine.
const A_REQUEST: Duration = Duration::from_millis(20);
const A_RUN: Duration = Duration::from_secs(1);

/// Mostly few, at times as many as a large configuration has.
pub(crate) fn regions(chance: &mut Chance) -> usize {
    let most = chance.one_of(&[2, 8, 8, 8, 12, 40, 40, 250]);
    1 + chance.below(most)
}

pub(crate) fn concurrency(chance: &mut Chance) -> usize {
    let most = chance.one_of(&[4, 8, 32]);
    1 + chance.below(most)
}

/// How long a run of so many requests may take where each answer takes `delay`.
pub(crate) fn patience(requests: usize, concurrency: usize, delay: Duration) -> Duration {
    let one_after_another = requests.div_ceil(concurrency);
    let should = A_RUN + A_REQUEST * requests as u32 + delay * one_after_another as u32;
    (should * TIMES).clamp(LEAST, MOST)
}
