//! The circuit breaker in front of a shared ledger: after a failure no call waits for the ledger until an interval is over,
//! so that an outage costs one timeout instead of one a call (L28).

use std::time::Duration;

use ingest_base::clock::Monotonic;
use parking_lot::Mutex;

const FIRST_INTERVAL: Duration = Duration::from_millis(250);
const LONGEST_INTERVAL: Duration = Duration::from_secs(15);

/// Whether calls to the ledger go through. Open means that none does, until its interval is over.
#[derive(Debug, Default)]
pub struct CircuitBreaker(Mutex<Option<Open>>);

#[derive(Debug)]
struct Open {
    since: Monotonic,
    interval: Duration,
    reason: String,
    /// Whether a call goes through to learn whether the ledger replies again. The others do not wait for its outcome.
    is_probed: bool,
}

impl Open {
    fn blocks(&self) -> bool {
        self.since.elapsed() < self.interval
    }
}

impl CircuitBreaker {
    /// Returns the last failure while no call may go through; `None` when one may.
    pub fn open_reason(&self) -> Option<String> {
        let state = self.0.lock();
        let open = state.as_ref().filter(|open| open.blocks())?;
        Some(open.reason.clone())
    }

    /// Whether the last call failed.
    pub fn is_open(&self) -> bool {
        self.0.lock().is_some()
    }

    /// Whether a call may go through. After an interval one may: the others would wait for a timeout each.
    pub fn admit_one(&self) -> bool {
        match &mut *self.0.lock() {
            None => true,
            Some(open) if open.blocks() => false,
            Some(open) => {
                open.since = Monotonic::now();
                open.is_probed = true;
                true
            }
        }
    }

    /// Records that a call failed. Calls that fail together open the breaker once: the interval doubles only when a call
    /// fails after the last interval.
    pub fn record_failure(&self, reason: &str) {
        let mut state = self.0.lock();
        let interval = match &*state {
            None => FIRST_INTERVAL,
            Some(open) if open.blocks() && !open.is_probed => return,
            Some(open) => (open.interval * 2).min(LONGEST_INTERVAL),
        };
        if state.is_none() {
            tracing::warn!("{reason}");
        }
        *state = Some(Open {
            since: Monotonic::now(),
            interval,
            reason: reason.to_owned(),
            is_probed: false,
        });
    }

    /// Records that the ledger replied: calls go through again.
    pub fn record_success(&self) {
        if self.0.lock().take().is_some() {
            tracing::info!("the ledger responds again");
        }
    }
}
