//! Work that would keep requests in flight waiting, on threads of its own.

use thiserror::Error;
use tokio::sync::oneshot;
use tokio::task::spawn_blocking;

/// The work ended in its middle: it panicked, or the program is ending.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
#[error("its work was cut off")]
pub struct CutOff;

/// Does what takes long, or waits for disks and for other processes, away from the threads that have requests in flight.
///
/// # Errors
/// When the work does not come to its end.
pub async fn apart<T: Send + 'static>(work: impl FnOnce() -> T + Send + 'static) -> Result<T, CutOff> {
    let (tell, told) = oneshot::channel();
    // Boxed, all work is of one type: else the compiler makes a task's machinery anew for each.
    let work: Box<dyn FnOnce() + Send> = Box::new(move || drop(tell.send(work())));
    spawn_blocking(work);
    told.await.map_err(|_| CutOff)
}
