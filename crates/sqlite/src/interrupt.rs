//! Interrupts a read when its caller gives up.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc::{RecvTimeoutError, channel};
use std::thread;
use std::time::Duration;

use parking_lot::Mutex;
use rusqlite::{Connection, ErrorCode, InterruptHandle, ffi};

use ingest_base::clock::computed;

/// One read, perhaps over several connections, that can be interrupted.
#[derive(Clone, Default)]
pub struct Interruptible(Arc<Mutex<InterruptState>>);

#[derive(Default)]
struct InterruptState {
    given_up: bool,
    running: Vec<InterruptHandle>,
}

/// The wish for the result of a read: dropping it interrupts the read where that is still running.
pub struct Wanted(Interruptible);

/// A connection at work. Dropping it ends the work: a later interruption does not reach the next user of the connection.
pub struct Running<'a>(&'a Interruptible);

impl Interruptible {
    /// Returns the wish for the result, which the caller keeps while it waits.
    #[must_use]
    pub fn wanted(&self) -> Wanted {
        Wanted(self.clone())
    }

    /// Notes that a connection works on the read from now on.
    ///
    /// # Errors
    /// `SQLITE_INTERRUPT` when the caller has given up.
    pub fn runs_on(&self, connection: &Connection) -> rusqlite::Result<Running<'_>> {
        let mut state = self.0.lock();
        if state.given_up {
            return Err(interrupted());
        }
        state.running.push(connection.get_interrupt_handle());
        Ok(Running(self))
    }

    /// Reads; `None` if the read computes for longer than `time` without a call of [`Advance::note`]. What it waits for a disk or a
    /// processor does not count: an answer must not depend on what else the machine does. `read` is repeated where it was
    /// interrupted while it waited.
    ///
    /// # Errors
    /// When `read` fails, or the caller has given up.
    pub fn within<T>(
        &self,
        time: Duration,
        connection: &Connection,
        read: impl Fn(&Advance) -> rusqlite::Result<T>,
    ) -> rusqlite::Result<Option<T>> {
        let mut patience = time;
        loop {
            let advance = Advance::default();
            let began = computed();
            let read = || read(&advance);
            match interrupted_after((patience, &advance), connection, read) {
                Err(error) if is_interrupted(&error) && !self.0.lock().given_up => {}
                read => return read.map(Some),
            }
            if computed().saturating_sub(began) >= time / 2 || patience > time * MOST_PATIENCE {
                return Ok(None);
            }
            patience *= 2;
        }
    }
}

impl Drop for Wanted {
    fn drop(&mut self) {
        let mut state = self.0.0.lock();
        state.given_up = true;
        state.running.iter().for_each(InterruptHandle::interrupt);
    }
}

impl Drop for Running<'_> {
    fn drop(&mut self) {
        // The connections of one read are nested: the last to begin is the first to end.
        self.0.0.lock().running.pop();
    }
}

/// How many times longer than it may compute a read may take.
const MOST_PATIENCE: u32 = 32;

/// What a read has found so far.
#[derive(Default)]
pub struct Advance(AtomicUsize);

impl Advance {
    /// Notes that the read found something more, so that it is worth its time.
    pub fn note(&self) {
        self.0.fetch_add(1, Ordering::Relaxed);
    }

    fn count(&self) -> usize {
        self.0.load(Ordering::Relaxed)
    }
}

/// Reads, and interrupts the connection after `time` without an advance.
fn interrupted_after<T>(
    (time, advance): (Duration, &Advance),
    connection: &Connection,
    read: impl Fn() -> rusqlite::Result<T>,
) -> rusqlite::Result<T> {
    let handle = connection.get_interrupt_handle();
    let (done, is_done) = channel::<()>();
    thread::scope(|scope| {
        let alarm = thread::Builder::new().name("alarm".to_owned());
        // Without a thread for it the read is not bounded, but it is answered.
        let _ = alarm.spawn_scoped(scope, move || {
            let mut before = None;
            while is_done.recv_timeout(time) == Err(RecvTimeoutError::Timeout) {
                let now = advance.count();
                if before.replace(now).unwrap_or_default() == now {
                    return handle.interrupt();
                }
            }
        });
        let read = read();
        drop(done);
        read
    })
}

fn is_interrupted(error: &rusqlite::Error) -> bool {
    error.sqlite_error_code() == Some(ErrorCode::OperationInterrupted)
}

fn interrupted() -> rusqlite::Error {
    rusqlite::Error::SqliteFailure(ffi::Error::new(ffi::SQLITE_INTERRUPT), None)
}
