//! Long work runs on threads of its own, so that requests in flight do not wait for it.

use std::sync::OnceLock;
use std::sync::mpsc::{Sender, channel};

use thiserror::Error;
use tokio::sync::oneshot;
use tokio::task::spawn_blocking;

/// The work did not finish: it panicked, or the program is ending.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
#[error("its worker thread ended")]
pub struct CutOff;

/// Work of any kind. It is boxed, so that the compiler generates the code of a task once and not for each closure.
type Work = Box<dyn FnOnce() + Send>;

/// Runs work that takes long, or waits for disks or other processes, away from the threads that have requests in flight.
///
/// # Errors
/// Fails if the work does not finish.
pub async fn apart<T: Send + 'static>(
    work: impl FnOnce() -> T + Send + 'static,
) -> Result<T, CutOff> {
    done(work, |work| drop(spawn_blocking(work))).await
}

/// Runs work that takes much memory on one thread: the allocator seldom reuses on one thread what another has freed.
///
/// # Errors
/// Fails if the work does not finish.
pub async fn apart_alone<T: Send + 'static>(
    work: impl FnOnce() -> T + Send + 'static,
) -> Result<T, CutOff> {
    done(work, |work| match alone() {
        // If the thread is gone, the send fails and the caller gets `CutOff`.
        Some(thread) => drop(thread.send(work)),
        None => drop(spawn_blocking(work)),
    })
    .await
}

async fn done<T: Send + 'static>(
    work: impl FnOnce() -> T + Send + 'static,
    begin: impl FnOnce(Work),
) -> Result<T, CutOff> {
    let (sender, result) = oneshot::channel();
    begin(Box::new(move || drop(sender.send(work()))));
    result.await.map_err(|_| CutOff)
}

/// The thread for work that takes much memory; `None` if the system cannot create one.
fn alone() -> Option<&'static Sender<Work>> {
    static ALONE: OnceLock<Option<Sender<Work>>> = OnceLock::new();
    let start = || {
        let (send, receive) = channel::<Work>();
        let thread = std::thread::Builder::new().name("large".to_owned());
        thread
            .spawn(move || receive.into_iter().for_each(|work| work()))
            .ok()?;
        Some(send)
    };
    ALONE.get_or_init(start).as_ref()
}
