//! SIGINT and SIGTERM ask the run to end. A second one, whichever it is, ends it at once.

use tokio::signal::unix::{SignalKind, signal};

use super::Error;
use crate::exit::Exit;
use crate::run::{Signal, Stop, channel};

/// Listens from now on. `first` is what comes before the end.
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
        let asked = next().await;
        tracing::warn!("stopping: {first}; press Ctrl-C again to quit immediately");
        sender.send(asked);
        let exit = if next().await == Signal::Interrupt {
            Exit::Interrupted
        } else {
            Exit::Terminated
        };
        std::process::exit(i32::from(exit.code()));
    });
    Ok(stop)
}
