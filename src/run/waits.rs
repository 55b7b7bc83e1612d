//! What the tasks of a run wait for, so that a run that makes no progress can say why.

use std::collections::BTreeMap;
use std::fmt::{self, Display, Formatter};
use std::future::Future;
use std::sync::Arc;
use std::time::Duration;

use ingest_base::clock::Monotonic;
use ingest_config::Region;
use parking_lot::{Mutex, MutexGuard};

/// How long a run may make no progress before it says what it waits for.
const STALLED: Duration = Duration::from_secs(60);

/// The waits of a run. Clones share them. A wait that begins or ends is progress.
#[derive(Clone, Default)]
pub struct Waits(Listing);

#[derive(Clone)]
enum Listing {
    Listed(Arc<Mutex<State>>),
    /// In a simulation, which waits for nothing outside this process.
    Unlisted,
}

impl Default for Listing {
    fn default() -> Self {
        Self::Listed(Arc::default())
    }
}

#[derive(Default)]
struct State {
    next: u64,
    waiting: BTreeMap<u64, Wait>,
    /// When the last wait began or ended.
    progress: Option<Monotonic>,
    /// Whether the present stall was reported.
    is_reported: bool,
}

struct Wait {
    /// Who waits, such as `US of trending`.
    task: String,
    /// What it waits for, such as `the lease`.
    what: &'static str,
    since: Monotonic,
}

/// Something of something: `US of trending`.
pub struct TaskOf<'a, P>(pub P, pub &'a str);

impl Display for TaskOf<'_, &Region> {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        write!(f, "{} of {}", self.0.key(), self.1)
    }
}

impl Display for TaskOf<'_, &'static str> {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        write!(f, "{} of {}", self.0, self.1)
    }
}

impl Waits {
    /// Lists nothing.
    #[must_use]
    pub const fn unlisted() -> Self {
        Self(Listing::Unlisted)
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
    #[must_use]
    pub fn stall(&self, span: Duration) -> Option<String> {
        let stalled = {
            let mut state = self.locked()?;
            let stalled = !state.is_reported
                && !state.waiting.is_empty()
                && state.progress.is_some_and(|last| last.elapsed() >= span);
            state.is_reported |= stalled;
            stalled
        };
        stalled.then(|| self.to_string())
    }

    /// Lists a wait until what this returns is dropped.
    #[must_use]
    pub fn begin(&self, task: impl Display, what: &'static str) -> Listed {
        let number = self.locked().map_or(0, |mut state| {
            let (task, since) = (task.to_string(), Monotonic::now());
            let number = state.next;
            state.next += 1;
            state.progressed(since);
            state.waiting.insert(number, Wait { task, what, since });
            number
        });
        Listed {
            waits: self.clone(),
            number,
        }
    }

    /// The waits, unless none is listed.
    fn locked(&self) -> Option<MutexGuard<'_, State>> {
        match &self.0 {
            Listing::Listed(state) => Some(state.lock()),
            Listing::Unlisted => None,
        }
    }
}

impl State {
    fn progressed(&mut self, now: Monotonic) {
        self.progress = Some(now);
        self.is_reported = false;
    }
}

/// Shows every wait, oldest first: `US of trending waits for the lease (61 s)`.
impl Display for Waits {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        let state = self.locked().filter(|state| !state.waiting.is_empty());
        let Some(state) = state else {
            return f.write_str("no task waits for anything outside this process");
        };
        for (place, wait) in state.waiting.values().enumerate() {
            let (separator, Wait { task, what, since }) = (if place > 0 { "; " } else { "" }, wait);
            let seconds = since.elapsed().as_secs();
            write!(f, "{separator}{task} waits for {what} ({seconds} s)")?;
        }
        Ok(())
    }
}

/// Ends a wait when it is dropped.
pub struct Listed {
    waits: Waits,
    number: u64,
}

impl Drop for Listed {
    fn drop(&mut self) {
        if let Some(mut state) = self.waits.locked() {
            state.waiting.remove(&self.number);
            state.progressed(Monotonic::now());
        }
    }
}
