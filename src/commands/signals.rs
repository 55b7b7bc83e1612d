//! SIGINT and SIGTERM stop the run after the page in flight. A second signal of either kind ends it at once.

use tokio::signal::unix::{SignalKind, signal};

use super::Error;
use crate::exit::Exit;
use crate::run::{Signal, Stop, channel};

/// Listens from now on. `first` is printed at the first signal.
pub fn listen(first: &'static str) -> Result<Stop, Error> {
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
        let exit = if next().await == Signal::Interrupt {
            Exit::Interrupted
        } else {
            Exit::Terminated
        };
        std::process::exit(i32::from(exit.code()));
    });
    Ok(stop)
}
