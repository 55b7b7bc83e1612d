//! SIGINT and SIGTERM ask the run to end. A second one ends it at once.

use tokio::signal::unix::{SignalKind, signal};

use super::Error;
use crate::exit::Exit;
use crate::run::{Signal, Stop, channel};

/// Listens from now on. `first` is what comes before the end.
pub(super) fn listen(first: &'static str) -> Result<Stop, Error> {
    let (sender, stop) = channel();
    for (kind, meaning) in [(SignalKind::interrupt(), Signal::Interrupt), (SignalKind::terminate(), Signal::Terminate)]
    {
        let mut signals = signal(kind).map_err(Error::io("cannot listen to signals"))?;
        let sender = sender.clone();
        tokio::spawn(async move {
            signals.recv().await;
            tracing::warn!("asked to end: {first}; once more ends at once");
            sender.send(meaning);
            signals.recv().await;
            let exit = if meaning == Signal::Interrupt { Exit::Interrupted } else { Exit::Terminated };
            std::process::exit(i32::from(exit.code()));
        });
    }
    Ok(stop)
}
