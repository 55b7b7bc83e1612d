//! Stops a run on a signal: it sends no new request, and lands the page in flight.

use std::sync::Arc;
use std::time::Duration;

use tokio::sync::watch;

use ingest_base::clock::Clock;

/// The signal that stops a run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Signal {
    /// SIGHUP: the terminal closed.
    HangUp,
    /// SIGINT: Ctrl-C.
    Interrupt,
    /// SIGTERM.
    Terminate,
}

/// Tells a run whether to stop.
#[derive(Debug, Clone)]
pub struct Stop {
    signalled: watch::Receiver<Option<Signal>>,
}

/// Stops a run.
#[derive(Debug, Clone)]
pub struct StopSender(Arc<watch::Sender<Option<Signal>>>);

/// Returns a sender for the signal handler and a receiver for the run.
#[must_use]
pub fn channel() -> (StopSender, Stop) {
    let (sender, signalled) = watch::channel(None);
    (StopSender(Arc::new(sender)), Stop { signalled })
}

impl StopSender {
    /// Stops the run. The first signal counts.
    pub fn send(&self, signal: Signal) {
        self.0.send_modify(|sent| {
            sent.get_or_insert(signal);
        });
    }
}

impl Stop {
    /// Returns the signal; `None` while there was none.
    #[must_use]
    pub fn signal(&self) -> Option<Signal> {
        *self.signalled.borrow()
    }

    /// Waits for the signal; for ever, where nothing is left that could send one.
    pub async fn wait(&mut self) {
        if self.signalled.wait_for(Option::is_some).await.is_err() {
            std::future::pending().await
        }
    }

    /// Sleeps, and wakes early when the run should stop.
    pub async fn sleep(&self, clock: &dyn Clock, span: Duration) {
        let mut signalled = self.signalled.clone();
        tokio::select! {
            () = clock.sleep(span) => {}
            Ok(_) = signalled.wait_for(Option::is_some) => {}
        }
    }
}
