//! SIGINT and SIGTERM stop the run after the page in flight. A second signal of either kind ends it at once, and so does a run
//! that does not stop by itself in time.

use std::time::Duration;

use tokio::signal::unix::{SignalKind, signal};

use super::Error;
use crate::exit::Exit;
use crate::run::{Signal, Stop, Waits, channel};

/// How long a process has to stop by itself after a signal. What is in flight then stays charged, as after a kill.
// A signal ends a run within 10 s (ARCHITECTURE.md, invariant 11), its last message included.
const TIME_TO_STOP: Duration = Duration::from_secs(9);

/// Listens from now on. `first` is printed at the first signal, and what `waits` lists if the process does not stop in time.
pub fn listen(first: &'static str, waits: Waits) -> Result<Stop, Error> {
    let (sender, stop) = channel();
    let signals = |kind| signal(kind).map_err(Error::io("cannot install signal handlers"));
    let (mut interrupt, mut terminate) = (
        signals(SignalKind::interrupt())?,
        signals(SignalKind::terminate())?,
    );
    let mut next = async move || {
        tokio::select! {
            _ = interrupt.recv() => Signal::Interrupt,
            _ = terminate.recv() => Signal::Terminate,
        }
    };
    tokio::spawn(async move {
        let reason = next().await;
        tracing::warn!("stopping: {first}; press Ctrl-C again to quit immediately");
        sender.send(reason);
        let last = tokio::time::timeout(TIME_TO_STOP, next()).await;
        if last.is_err() {
            tracing::error!(
                "not stopped within {} s, ending as after a kill: {waits}",
                TIME_TO_STOP.as_secs()
            );
        }
        let exit = match last.unwrap_or(reason) {
            Signal::Interrupt => Exit::Interrupted,
            Signal::Terminate => Exit::Terminated,
        };
        std::process::exit(i32::from(exit.code()));
    });
    Ok(stop)
}
