//! The edge at which time is read. Everything below takes it as an argument.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use async_trait::async_trait;
use parking_lot::{Mutex, MutexGuard};
use rustix::time::{ClockId, Timespec, clock_gettime};

use ingest_quota::Timestamp;

/// A clock: the machine's in the program, one that is moved by hand in tests.
#[async_trait]
pub trait Clock: Send + Sync {
    /// Returns the current time.
    fn now(&self) -> Timestamp;

    /// Waits for a duration.
    async fn sleep(&self, span: Duration);
}

/// The machine's clock.
#[derive(Debug, Clone, Copy, Default)]
pub struct SystemClock;

#[async_trait]
impl Clock for SystemClock {
    fn now(&self) -> Timestamp {
        // A clock before 1970 has never been set.
        let since = SystemTime::now()
            .duration_since(UNIX_EPOCH)
            .unwrap_or_default();
        Timestamp::from_micros(i64::try_from(since.as_micros()).unwrap_or(i64::MAX))
    }

    async fn sleep(&self, span: Duration) {
        tokio::time::sleep(span).await;
    }
}

/// Returns how long this thread has computed. The time that it waited does not count.
#[must_use]
pub fn computed() -> Duration {
    let time = clock_gettime(ClockId::ThreadCPUTime);
    Duration::try_from(time).unwrap_or_default()
}

/// The machine's clock, or the time of another clock, which runs on from when it was read.
#[derive(Debug, Default)]
pub struct CorrectedClock {
    correction: Mutex<Correction>,
}

#[derive(Debug, Default)]
struct Correction {
    /// The other clock's time, and the monotonic instant at which it was read; `None` while the machine's clock is right.
    time: Option<(Timestamp, Monotonic)>,
    checked: Option<Monotonic>,
}

impl CorrectedClock {
    /// Returns when the machine's clock was last compared with another one; `None` if it never was.
    pub fn checked(&self) -> Option<Monotonic> {
        self.correction().checked
    }

    /// Goes by the time that another clock tells now; `None`: by the machine's clock.
    pub fn correct(&self, time: Option<Timestamp>) {
        let now = Monotonic::now();
        *self.correction() = Correction {
            time: time.map(|time| (time, now)),
            checked: Some(now),
        };
    }

    fn correction(&self) -> MutexGuard<'_, Correction> {
        self.correction.lock()
    }
}

#[async_trait]
impl Clock for CorrectedClock {
    fn now(&self) -> Timestamp {
        match self.correction().time {
            Some((time, at)) => time + at.elapsed(),
            None => SystemClock.now(),
        }
    }

    async fn sleep(&self, span: Duration) {
        SystemClock.sleep(span).await;
    }
}

/// An instant of the monotonic clock that also counts while the machine is suspended.
#[derive(Debug, Clone, Copy)]
pub struct Monotonic(Timespec);

// On Linux the usual one stands still while the machine is suspended, and the lease of a database does not.
#[cfg(target_os = "linux")]
const MONOTONIC: ClockId = ClockId::Boottime;
#[cfg(not(target_os = "linux"))]
const MONOTONIC: ClockId = ClockId::Monotonic;

impl Monotonic {
    /// Returns the current time.
    #[must_use]
    pub fn now() -> Self {
        Self(clock_gettime(MONOTONIC))
    }

    /// Returns the time since this instant.
    #[must_use]
    pub fn elapsed(&self) -> Duration {
        let span = clock_gettime(MONOTONIC).checked_sub(self.0);
        span.and_then(|span| Duration::try_from(span).ok())
            .unwrap_or_default()
    }
}

/// A deadline: a duration after an instant.
#[derive(Debug, Clone, Copy)]
pub struct Deadline {
    from: Monotonic,
    within: Duration,
}

impl Deadline {
    /// The deadline that is `within` after `from`.
    #[must_use]
    pub const fn new(from: Monotonic, within: Duration) -> Self {
        Self { from, within }
    }

    /// The deadline that is over first.
    #[must_use]
    pub fn sooner(self, other: Self) -> Self {
        let left = |one: &Self| one.within.saturating_sub(one.from.elapsed());
        if left(&other) < left(&self) {
            other
        } else {
            self
        }
    }

    /// Whether the deadline is over.
    #[must_use]
    pub fn is_past(&self) -> bool {
        self.from.elapsed() >= self.within
    }
}
