//! What the tasks of a run wait for, so that one that makes no progress, or is killed, can say why.

use std::collections::BTreeMap;
use std::fmt::{self, Display, Formatter};
use std::future::Future;
use std::sync::Arc;
use std::time::Duration;

use ingest_base::clock::Monotonic;
use parking_lot::Mutex;

/// How long a run may make no progress before it says what it waits for.
const STALLED: Duration = Duration::from_secs(60);

/// The waits of a run, oldest first. Clones share them. A wait that begins or ends is progress.
#[derive(Clone, Default)]
pub struct Waits {
    /// `None` in a simulation, which waits for nothing outside this process.
    state: Option<Arc<Mutex<State>>>,
}

#[derive(Default)]
struct State {
    next: u64,
    /// Who waits, such as `US of trending`; for what, such as `the lease`; and since when.
    waiting: BTreeMap<u64, (String, &'static str, Monotonic)>,
    /// When the last wait began or ended; `None` once the stall since then was reported.
    progress: Option<Monotonic>,
}

impl Waits {
    /// Lists them from now on.
    #[must_use]
    pub fn listed() -> Self {
        Self {
            state: Some(Arc::default()),
        }
    }

    /// Waits for a future, and lists it until it is done or dropped.
    pub async fn on<F: Future>(
        &self,
        task: impl Display,
        what: &'static str,
        future: F,
    ) -> F::Output {
        let _listed = self.begin(task, what);
        future.await
    }

    /// Lists a wait until what this returns is dropped.
    #[must_use]
    pub fn begin(&self, task: impl Display, what: &'static str) -> Option<Listed> {
        let shared = self.state.as_ref()?;
        let (task, since) = (task.to_string(), Monotonic::now());
        let mut state = shared.lock();
        let number = state.next;
        state.next += 1;
        state.progress = Some(since);
        state.waiting.insert(number, (task, what, since));
        Some(Listed(Arc::clone(shared), number))
    }

    /// Logs what each task waits for, once for each time without progress of a minute. Never returns.
    pub async fn report_stalls(self) {
        loop {
            tokio::time::sleep(STALLED / 12).await;
            if let Some(stall) = self.stall(STALLED) {
                tracing::info!("no progress for {} s: {stall}", STALLED.as_secs());
            }
        }
    }

    /// Returns what the tasks wait for where no wait began or ended for at least `span`; `None` otherwise, and where this was
    /// returned since the last progress.
    fn stall(&self, span: Duration) -> Option<String> {
        let mut state = self.state.as_ref()?.lock();
        let is_stalled = |last: &Monotonic| last.elapsed() >= span;
        if state.waiting.is_empty() || !state.progress.as_ref().is_some_and(is_stalled) {
            return None;
        }
        state.progress = None;
        drop(state);
        Some(self.to_string())
    }
}

/// Shows every wait: `US of trending waits for the lease (61 s)`.
impl Display for Waits {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        let state = self.state.as_ref().map(|state| state.lock());
        let Some(state) = state.filter(|state| !state.waiting.is_empty()) else {
            return f.write_str("no task waits for anything outside this process");
        };
        let said = state.waiting.values().map(|(task, what, since)| {
            let seconds = since.elapsed().as_secs();
            format!("{task} waits for {what} ({seconds} s)")
        });
        f.write_str(&said.collect::<Vec<_>>().join("; "))
    }
}

/// Ends a wait when it is dropped.
pub struct Listed(Arc<Mutex<State>>, u64);

impl Drop for Listed {
    fn drop(&mut self) {
        let mut state = self.0.lock();
        state.waiting.remove(&self.1);
        state.progress = Some(Monotonic::now());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_run_without_progress_says_once_what_its_tasks_wait_for() {
        let waits = Waits::listed();
        let stall = |span| waits.stall(span);
        assert_eq!(stall(Duration::ZERO), None);
        let lease = waits.begin("US of trending", "the lease");
        let ledger = waits.begin("GB of trending", "the ledger");
        assert_eq!(stall(Duration::MAX), None);
        let both =
            "US of trending waits for the lease (0 s); GB of trending waits for the ledger (0 s)";
        assert_eq!(stall(Duration::ZERO).as_deref(), Some(both));
        assert_eq!(stall(Duration::ZERO), None);
        drop(lease);
        let one = "GB of trending waits for the ledger (0 s)";
        assert_eq!(stall(Duration::ZERO).as_deref(), Some(one));
        drop(ledger);
        assert_eq!(stall(Duration::ZERO), None);
    }
}
