//! Where time is read. Everything below is given it.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use async_trait::async_trait;
use rustix::time::{ClockId, Timespec, clock_gettime};

use crate::quota::Timestamp;

/// What time it is: the machine's clock in the program, a hand-moved one in tests.
#[async_trait]
pub trait Clock: Send + Sync {
    /// Now.
    fn now(&self) -> Timestamp;

    /// Lets time pass.
    async fn sleep(&self, span: Duration);
}

/// The machine's clock.
#[derive(Debug, Clone, Copy, Default)]
pub struct SystemClock;

#[async_trait]
impl Clock for SystemClock {
    fn now(&self) -> Timestamp {
        // A clock before 1970 was never set.
        let since = SystemTime::now()
            .duration_since(UNIX_EPOCH)
            .unwrap_or_default();
        Timestamp::from_micros(i64::try_from(since.as_micros()).unwrap_or(i64::MAX))
    }

    async fn sleep(&self, span: Duration) {
        tokio::time::sleep(span).await;
    }
}

/// An instant of a clock that nobody sets and that goes on while the machine sleeps.
#[derive(Debug, Clone, Copy)]
pub struct Monotonic(Timespec);

#[cfg(target_os = "linux")]
const MONOTONIC: ClockId = ClockId::Boottime;
#[cfg(not(target_os = "linux"))]
const MONOTONIC: ClockId = ClockId::Monotonic;

impl Monotonic {
    /// Now.
    #[must_use]
    pub fn now() -> Self {
        Self(clock_gettime(MONOTONIC))
    }

    /// How long ago this was.
    #[must_use]
    pub fn elapsed(&self) -> Duration {
        let span = clock_gettime(MONOTONIC).checked_sub(self.0);
        span.and_then(|span| Duration::try_from(span).ok())
            .unwrap_or_default()
    }
}

/// Until when something may be done: so long after an instant.
#[derive(Debug, Clone, Copy)]
pub struct Deadline {
    from: Monotonic,
    within: Duration,
}

impl Deadline {
    /// So long after `from`.
    #[must_use]
    pub const fn new(from: Monotonic, within: Duration) -> Self {
        Self { from, within }
    }

    /// Whether it is too late.
    #[must_use]
    pub fn is_past(&self) -> bool {
        self.from.elapsed() >= self.within
    }
}
