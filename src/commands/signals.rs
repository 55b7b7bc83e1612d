//! SIGINT, SIGTERM and SIGHUP stop the run after the page in flight. A second signal of any kind ends it at once, and so does a run
//! that does not stop by itself in time.

use std::time::Duration;

use rustix::process::Signal as Number;
use tokio::signal::unix::{Signal as Listener, SignalKind, signal};

use super::Error;
use crate::exit::Exit;
use crate::run::{Signal, Stop, Waits, channel};

/// How long a process has to stop by itself after a signal. What is in flight then stays charged, as after a kill.
// A signal ends a run within 10 s (ARCHITECTURE.md, invariant 11), its last message included.
const TIME_TO_STOP: Duration = Duration::from_secs(9);

/// Listens from now on. `first` is printed at the first signal, and what `waits` lists if the process does not stop in time.
pub fn listen(first: &'static str, waits: Waits) -> Result<Stop, Error> {
    let (sender, stop) = channel();
    let (mut interrupt, mut terminate) = (
        listener(SignalKind::interrupt())?,
        listener(SignalKind::terminate())?,
    );
    let mut hang_up = hang_up()?;
    let mut next = async move || {
        tokio::select! {
            _ = interrupt.recv() => Signal::Interrupt,
            _ = terminate.recv() => Signal::Terminate,
            () = received(&mut hang_up) => Signal::HangUp,
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
        let exit = Exit::from(last.unwrap_or(reason));
        std::process::exit(i32::from(exit.code()));
    });
    Ok(stop)
}

impl From<Signal> for Exit {
    fn from(signal: Signal) -> Self {
        match signal {
            Signal::HangUp => Self::HungUp,
            Signal::Interrupt => Self::Interrupted,
            Signal::Terminate => Self::Terminated,
        }
    }
}

/// Listens to one signal from now on.
pub fn listener(kind: SignalKind) -> Result<Listener, Error> {
    signal(kind).map_err(Error::io("cannot install signal handlers"))
}

/// Listens to SIGHUP; `None` where this process was started to ignore it, as by `nohup`.
pub fn hang_up() -> Result<Option<Listener>, Error> {
    match is_ignored(Number::HUP) {
        true => Ok(None),
        false => listener(SignalKind::hangup()).map(Some),
    }
}

/// Waits for a signal; for ever, where it is ignored.
pub async fn received(listener: &mut Option<Listener>) {
    match listener {
        Some(listener) => drop(listener.recv().await),
        None => std::future::pending().await,
    }
}

/// Whether a signal is ignored, by the system's mask of ignored signals; `false` where the system shows none.
fn is_ignored(signal: Number) -> bool {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let mask = status.lines().find_map(|line| line.strip_prefix("SigIgn:"));
    let mask = mask.and_then(|mask| u64::from_str_radix(mask.trim(), 16).ok());
    let bit = u32::try_from(signal.as_raw().saturating_sub(1)).unwrap_or_default();
    mask.is_some_and(|mask| mask.checked_shr(bit).unwrap_or_default() & 1 == 1)
}
