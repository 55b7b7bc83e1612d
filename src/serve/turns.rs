//! Turns that a few take at once, and work away from the threads that answer.

use std::sync::Arc;
use std::time::Duration;

use tokio::runtime::Handle;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::task::{JoinHandle, spawn_blocking};
use tokio::time::timeout;

use super::problem::Problem;

/// How long a request waits for its turn, before its own time begins: many clients at once wait a little, and are not refused.
pub const WAIT: Duration = Duration::from_secs(10);

/// The turns.
pub struct Turns(Arc<Semaphore>);

impl Turns {
    pub fn of(most: usize) -> Self {
        Self(Arc::new(Semaphore::new(most)))
    }

    /// Waits for a turn, which ends when it is dropped.
    ///
    /// # Errors
    /// It does not come in time.
    pub async fn take(&self) -> Result<OwnedSemaphorePermit, Problem> {
        let turn = timeout(WAIT, Arc::clone(&self.0).acquire_owned()).await;
        // Nothing closes the semaphore.
        turn.ok().and_then(Result::ok).ok_or_else(Problem::busy)
    }
}

/// Works away from the threads that answer, since a file waits for its disk and its writers. A client that hangs up ends its
/// request, but not this.
pub fn apart<T, F>(work: impl FnOnce() -> F + Send + 'static) -> JoinHandle<T>
where
    T: Send + 'static,
    F: Future<Output = T>,
{
    let runtime = Handle::current();
    spawn_blocking(move || runtime.block_on(async { work().await }))
}
