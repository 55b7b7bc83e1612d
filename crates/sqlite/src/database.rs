//! An open file, which is read while other processes write it, and written only while it is in place.

use std::ops::Deref;
use std::path::{Path, PathBuf};
use std::thread;
use std::time::{Duration, Instant};

use rusqlite::backup::{Backup, StepResult};
use rusqlite::{Connection, ErrorCode};

use super::reading::{self, Protection};
use super::state::Files;
use super::written::WrittenHere;
use super::{BUSY_TIMEOUT, at_once, busy, confirmed, is_busy, keep_plans, pause};

/// How long a reader tries again after an error that passes when a writer has opened or closed the file.
const TRANSIENT: Duration = Duration::from_secs(5);

/// An open file.
#[derive(Debug)]
pub struct Database {
    path: PathBuf,
    connection: Connection,
    access: Access,
    /// Dropped after the connection, which is declared before it.
    _written: Option<WrittenHere>,
}

#[derive(Debug)]
enum Access {
    /// Written, while these files are in place.
    Writing(Box<Files>),
    /// Read only.
    Reading(Protection),
}

impl Deref for Database {
    type Target = Connection;

    fn deref(&self) -> &Connection {
        &self.connection
    }
}

impl Database {
    /// A file that was opened for writing, and was `before` that.
    pub fn to_write(
        path: &Path,
        connection: Connection,
        before: &Files,
        written: WrittenHere,
    ) -> rusqlite::Result<Self> {
        let files = Files::beside(path);
        if !files.is_same_file(before) {
            before.in_place()?;
        }
        Ok(Self {
            access: Access::Writing(Box::new(files)),
            _written: Some(written),
            ..Self::of_its_own(path, connection)
        })
    }

    /// Opens a file that is there, for reading.
    pub fn to_read(path: &Path) -> rusqlite::Result<Self> {
        let (connection, protection) = with_patience(|| reading::open(path))?;
        Ok(Self {
            access: Access::Reading(protection),
            ..Self::of_its_own(path, connection)
        })
    }

    /// A file that no other process has.
    pub fn of_its_own(path: &Path, connection: Connection) -> Self {
        Self {
            path: path.to_owned(),
            connection,
            access: Access::Reading(Protection::Locks),
            _written: None,
        }
    }

    /// A copy of one state of the file, in memory: what is written to it is gone with it.
    ///
    /// # Errors
    /// When the file cannot be read.
    pub fn in_memory(&mut self) -> rusqlite::Result<Self> {
        let connection = self.read(|source| {
            let mut copy = Connection::open_in_memory()?;
            keep_plans(&copy)?;
            match Backup::new(source, &mut copy)?.step(-1)? {
                StepResult::Done => Ok(()),
                _ => Err(restless()),
            }?;
            Ok(copy)
        })?;
        Ok(Self::of_its_own(Path::new(":memory:"), connection))
    }

    /// The files, to find out later whether they are still in place; `None` where nothing is written.
    pub fn files(&self) -> Option<&Files> {
        match &self.access {
            Access::Writing(files) => Some(files),
            Access::Reading(_) => None,
        }
    }

    /// Fails where what was written went to a file that is no longer in place.
    ///
    /// # Errors
    /// Names the file that was moved, deleted or replaced.
    pub fn in_place(&self) -> rusqlite::Result<()> {
        self.files().map_or(Ok(()), Files::in_place)
    }

    /// Changes the file, and fails where it was not in place at the end.
    ///
    /// # Errors
    /// When `act` fails, or the file was moved, deleted or replaced.
    pub fn change<T, E: From<rusqlite::Error>>(
        &mut self,
        act: impl FnOnce(&mut Connection) -> Result<T, E>,
    ) -> Result<T, E> {
        let done = act(&mut self.connection)?;
        self.in_place()?;
        Ok(done)
    }

    /// Reads from one state of the file, whatever others write meanwhile. `act` is repeated where the file changed under it.
    ///
    /// # Errors
    /// Fails if `act` fails on a file that did not change meanwhile. Reports damage only if `pragma integrity_check` finds it too.
    pub fn read<T>(
        &mut self,
        act: impl Fn(&Connection) -> rusqlite::Result<T>,
    ) -> rusqlite::Result<T> {
        self.read_unconfirmed(act)
            .map_err(|error| confirmed(&self.path, error))
    }

    /// The same, where the damage that `act` meets is not looked for.
    pub fn read_unconfirmed<T>(
        &mut self,
        act: impl Fn(&Connection) -> rusqlite::Result<T>,
    ) -> rusqlite::Result<T> {
        let began = Instant::now();
        loop {
            let read = in_transaction(&self.connection, &act);
            let changed = self.changed();
            let passes = read.as_ref().is_err_and(is_transient) && began.elapsed() < TRANSIENT;
            if !self.is_read_only() || !(changed || passes) {
                return read;
            }
            if began.elapsed() > BUSY_TIMEOUT {
                return read.and_then(|_| Err(restless()));
            }
            thread::sleep(pause(10));
            *self = Self::to_read(&self.path)?;
        }
    }

    /// Reads from a file that is open for writing; `None` where it is not, or that would have to wait for another process.
    ///
    /// # Errors
    /// As `read`.
    pub fn read_at_once<T>(
        &self,
        act: impl FnOnce(&Connection) -> rusqlite::Result<T>,
    ) -> rusqlite::Result<Option<T>> {
        match self.access {
            Access::Writing(_) => at_once(|| in_transaction(&self.connection, act))
                .map_err(|error| confirmed(&self.path, error)),
            Access::Reading(_) => Ok(None),
        }
    }

    /// Reads once, in a transaction that lasts: nothing is repeated, and however long `act` takes it sees one state.
    ///
    /// # Errors
    /// When `act` fails. Of damage only where `pragma integrity_check` finds it too.
    pub fn read_once<T>(
        &mut self,
        act: impl FnOnce(&Connection) -> rusqlite::Result<T>,
    ) -> rusqlite::Result<T> {
        if let Access::Reading(Protection::Unchanged(_)) = &self.access {
            self.connection = with_patience(|| reading::hold(&self.path))?;
            self.access = Access::Reading(Protection::Locks);
        }
        self.read_unconfirmed(schema_version)?;
        in_transaction(&self.connection, act).map_err(|error| confirmed(&self.path, error))
    }

    /// An error of this file, where it says that the file is damaged only if `pragma integrity_check` finds that too.
    pub fn confirmed(&self, error: rusqlite::Error) -> rusqlite::Error {
        confirmed(&self.path, error)
    }

    fn is_read_only(&self) -> bool {
        matches!(self.access, Access::Reading(_))
    }

    fn changed(&self) -> bool {
        match &self.access {
            Access::Reading(Protection::Unchanged(files)) => !files.are_unchanged(),
            _ => false,
        }
    }
}

fn in_transaction<T>(
    connection: &Connection,
    act: impl FnOnce(&Connection) -> rusqlite::Result<T>,
) -> rusqlite::Result<T> {
    let transaction = connection.unchecked_transaction()?;
    let read = act(&transaction)?;
    transaction.commit()?;
    Ok(read)
}

/// A number that SQLite keeps in the file, which is read to see whether the file can be.
pub fn schema_version(connection: &Connection) -> rusqlite::Result<i64> {
    connection.pragma_query_value(None, "schema_version", |row| row.get(0))
}

/// Opens what others are opening and closing: a log that was there may be gone at the next look.
fn with_patience<T>(open: impl Fn() -> rusqlite::Result<T>) -> rusqlite::Result<T> {
    let began = Instant::now();
    loop {
        match open() {
            Err(error) if is_transient(&error) && began.elapsed() < TRANSIENT => {
                thread::sleep(pause(10));
            }
            opened => return opened,
        }
    }
}

/// Whether a reader can meet this while another process opens, recovers or closes a healthy file. "Attempt to write a
/// readonly database" is what SQLite says of a log that only a writer may recover.
fn is_transient(error: &rusqlite::Error) -> bool {
    is_busy(error) || error.sqlite_error_code() == Some(ErrorCode::ReadOnly)
}

fn restless() -> rusqlite::Error {
    busy("the file changed each time it was read")
}
