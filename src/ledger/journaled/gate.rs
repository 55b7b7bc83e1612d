//! When to ask a ledger again that did not answer: at growing intervals, so that its silence is waited out once and not
//! for every call.

use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use crate::clock::Monotonic;

const FIRST_PAUSE: Duration = Duration::from_millis(250);
const LONGEST_PAUSE: Duration = Duration::from_secs(15);

/// Whether the ledger may be asked now.
#[derive(Debug, Default)]
pub struct Gate(Mutex<Option<Closed>>);

#[derive(Debug, Clone)]
struct Closed {
    since: Monotonic,
    pause: Duration,
    why: String,
}

impl Gate {
    /// Why the ledger is not to be asked now; `None` where it is.
    pub fn closed(&self) -> Option<String> {
        let closed = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        closed
            .as_ref()
            .filter(|closed| closed.since.elapsed() < closed.pause)
            .map(|closed| closed.why.clone())
    }

    /// It did not answer. Several that asked at once have failed once.
    pub fn failed(&self, why: &str) {
        let mut gate = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let pause = match &*gate {
            None => FIRST_PAUSE,
            Some(closed) if closed.since.elapsed() < closed.pause => return,
            Some(closed) => (closed.pause * 2).min(LONGEST_PAUSE),
        };
        if gate.is_none() {
            tracing::warn!("{why}");
        }
        *gate = Some(Closed {
            since: Monotonic::now(),
            pause,
            why: why.to_owned(),
        });
    }

    /// It answered.
    pub fn answered(&self) {
        if self
            .0
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .take()
            .is_some()
        {
            tracing::info!("the ledger responds again");
        }
    }
}
