//! Work that would keep requests in flight waiting, on threads of its own.

use std::sync::OnceLock;
use std::sync::mpsc::{Sender, channel};

use thiserror::Error;
use tokio::sync::oneshot;
use tokio::task::spawn_blocking;

/// The work ended in its middle: it panicked, or the program is ending.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
#[error("its worker thread ended")]
pub struct CutOff;

/// Work of any kind. Boxed, all of it is of one type: else the compiler makes a task's machinery anew for each.
type Work = Box<dyn FnOnce() + Send>;

/// Does what takes long, or waits for disks and for other processes, away from the threads that have requests in flight.
///
/// # Errors
/// When the work does not come to its end.
pub async fn apart<T: Send + 'static>(
    work: impl FnOnce() -> T + Send + 'static,
) -> Result<T, CutOff> {
    done(work, |work| drop(spawn_blocking(work))).await
}

/// The same for what takes much memory, all of it on one thread: what a thread gave back is seldom of use to another.
///
/// # Errors
/// As above.
pub async fn apart_alone<T: Send + 'static>(
    work: impl FnOnce() -> T + Send + 'static,
) -> Result<T, CutOff> {
    done(work, |work| match alone() {
        // Should it have ended, the work ends with it, and is missed.
        Some(thread) => drop(thread.send(work)),
        None => drop(spawn_blocking(work)),
    })
    .await
}

async fn done<T: Send + 'static>(
    work: impl FnOnce() -> T + Send + 'static,
    begin: impl FnOnce(Work),
) -> Result<T, CutOff> {
    let (tell, told) = oneshot::channel();
    begin(Box::new(move || drop(tell.send(work()))));
    told.await.map_err(|_| CutOff)
}

/// The thread for what takes much memory; `None` where the system has none left.
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
