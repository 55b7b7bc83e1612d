//! Interrupts a read when its caller gives up.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use rusqlite::{Connection, InterruptHandle, ffi};

/// One read, perhaps over several connections, that can be interrupted.
#[derive(Clone, Default)]
pub struct Interruptible(Arc<Mutex<State>>);

#[derive(Default)]
struct State {
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
        let mut state = self.state();
        if state.given_up {
            return Err(interrupted());
        }
        state.running.push(connection.get_interrupt_handle());
        Ok(Running(self))
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for Wanted {
    fn drop(&mut self) {
        let mut state = self.0.state();
        state.given_up = true;
        state.running.iter().for_each(InterruptHandle::interrupt);
    }
}

impl Drop for Running<'_> {
    fn drop(&mut self) {
        // The connections of one read are nested: the last to begin is the first to end.
        self.0.state().running.pop();
    }
}

fn interrupted() -> rusqlite::Error {
    rusqlite::Error::SqliteFailure(ffi::Error::new(ffi::SQLITE_INTERRUPT), None)
}
