//! How a run is told to end: no new request, the page in flight is landed.

use std::sync::Arc;
use std::time::Duration;

use tokio::sync::watch;

use crate::clock::Clock;

/// Which signal asked for the end.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Signal {
    /// SIGINT: Ctrl-C.
    Interrupt,
    /// SIGTERM.
    Terminate,
}

/// Where a run looks whether it should end.
#[derive(Debug, Clone)]
pub struct Stop {
    signalled: watch::Receiver<Option<Signal>>,
}

/// Where the signal is put.
#[derive(Debug, Clone)]
pub struct StopSender(Arc<watch::Sender<Option<Signal>>>);

/// A pair of ends: one for whoever catches signals, one for the run.
#[must_use]
pub fn channel() -> (StopSender, Stop) {
    let (sender, signalled) = watch::channel(None);
    (StopSender(Arc::new(sender)), Stop { signalled })
}

impl StopSender {
    /// Asks the run to end. The first signal counts.
    pub fn send(&self, signal: Signal) {
        self.0.send_modify(|sent| {
            sent.get_or_insert(signal);
        });
    }
}

impl Stop {
    /// The signal, once there was one.
    #[must_use]
    pub fn signal(&self) -> Option<Signal> {
        *self.signalled.borrow()
    }

    /// Waits for the signal.
    pub async fn wait(&mut self) {
        let _ = self.signalled.wait_for(Option::is_some).await;
    }

    /// Lets time pass, but ends early when the run should end.
    pub async fn sleep(&self, clock: &dyn Clock, span: Duration) {
        let mut signalled = self.signalled.clone();
        tokio::select! {
            () = clock.sleep(span) => {}
            Ok(_) = signalled.wait_for(Option::is_some) => {}
        }
    }
}
