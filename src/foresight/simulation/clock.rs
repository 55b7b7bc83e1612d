//! The clock of a simulation, in which no time passes by itself.

use std::sync::atomic::{AtomicI64, Ordering};
use std::time::Duration;

use async_trait::async_trait;

use ingest_base::clock::Clock;
use ingest_quota::Timestamp;

/// A clock that moves only when something sleeps, and then at once.
#[derive(Debug)]
pub struct SimulatedClock(AtomicI64);

impl SimulatedClock {
    pub const fn at(now: Timestamp) -> Self {
        Self(AtomicI64::new(now.micros()))
    }

    /// Moves on to `now`, never back.
    pub fn reach(&self, now: Timestamp) {
        self.0.fetch_max(now.micros(), Ordering::SeqCst);
    }
}

#[async_trait]
impl Clock for SimulatedClock {
    fn now(&self) -> Timestamp {
        Timestamp::from_micros(self.0.load(Ordering::SeqCst))
    }

    /// Concurrent sleeps end at the same time.
    async fn sleep(&self, span: Duration) {
        self.reach(self.now() + span);
    }
}
