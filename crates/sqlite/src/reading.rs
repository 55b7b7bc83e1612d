//! Opens a file for reading, depending on the side files that its writer left or is using.

use std::fs;
use std::path::Path;

use percent_encoding::{AsciiSet, CONTROLS, percent_encode};
use rusqlite::backup::Backup;
use rusqlite::config::DbConfig;
use rusqlite::{Connection, ErrorCode, OpenFlags};
use rustix::fs::{Access, access};

use super::state::Files;
use super::written::is_written_here;
use super::{beside, expect_file, keep_plans, located, wait_while_busy};

/// What keeps a reader from mixing two states of a file.
#[derive(Debug)]
pub enum Protection {
    /// SQLite's locks, or no other process has the file.
    Locks,
    /// Nothing: a read is valid only if the files did not change meanwhile.
    Unchanged(Box<Files>),
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Mode {
    /// There is no write-ahead log. SQLite would create one, unless the file is opened as immutable.
    Closed,
    /// There is a log and the shared memory that indexes it: a writer is working or was killed. SQLite locks the log. Or this
    /// process writes the file.
    InUse,
    /// There is a log without its index, as in a copy, or an empty log. SQLite would create the index, unless it has the file
    /// exclusively, and a user without write permission cannot lock the file.
    Orphaned,
}

/// The bytes of a log's header. A log that has no more has no index either.
const HEADER: u64 = 32;

impl Mode {
    fn find(path: &Path) -> Self {
        match fs::metadata(beside(path, "-wal")) {
            Err(_) => Self::Closed,
            Ok(log) if log.len() > HEADER && beside(path, "-shm").exists() => Self::InUse,
            Ok(_) => Self::Orphaned,
        }
    }

    const fn parameters(self) -> &'static str {
        match self {
            Self::Closed => "immutable=1",
            Self::InUse => "mode=ro&readonly_shm=1",
            Self::Orphaned => "mode=ro&vfs=unix-none",
        }
    }

    fn open(self, path: &Path) -> rusqlite::Result<Connection> {
        let flags = OpenFlags::SQLITE_OPEN_READ_ONLY
            | OpenFlags::SQLITE_OPEN_URI
            | OpenFlags::SQLITE_OPEN_NOFOLLOW
            | OpenFlags::SQLITE_OPEN_NO_MUTEX;
        let mut connection = Connection::open_with_flags(uri(path, self.parameters()), flags)?;
        wait_while_busy(&mut connection)?;
        keep_plans(&connection)?;
        // SQLite deletes an empty log when it closes: a log without its index can be that of a writer who just begins.
        connection.set_db_config(DbConfig::SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, true)?;
        if self == Self::Orphaned {
            connection.pragma_update(None, "locking_mode", "exclusive")?;
        }
        Ok(connection)
    }
}

/// Opens a file that is there, and writes nothing, not even the side files of a log.
pub fn open(path: &Path) -> rusqlite::Result<(Connection, Protection)> {
    expect_file(path)?;
    let files = Files::settled(path);
    let is_written_here = is_written_here(&files);
    let mode = if is_written_here {
        Mode::InUse
    } else {
        Mode::find(path)
    };
    if mode == Mode::InUse {
        let opened = mode.open(path).and_then(|connection| {
            super::database::schema_version(&connection)?;
            Ok(connection)
        });
        match opened {
            Err(error) if is_written_here => return Err(error),
            // The writer that created the log was killed before it created the index.
            Err(error) if is_code(&error, ErrorCode::FileLockingProtocolFailed) => {}
            // The process that had the file open has closed it since.
            Err(error)
                if is_code(&error, ErrorCode::CannotOpen) && Mode::find(path) != Mode::InUse =>
            {
                return open(path);
            }
            opened => return opened.map(|connection| (connection, Protection::Locks)),
        }
        return Ok((
            Mode::Orphaned.open(path)?,
            Protection::Unchanged(Box::new(files)),
        ));
    }
    Ok((mode.open(path)?, Protection::Unchanged(Box::new(files))))
}

/// Opens a file so that nothing changes what one transaction reads from it, however long that takes: with the locks of a
/// writer where this user may have them, else as a copy.
pub fn hold(path: &Path) -> rusqlite::Result<Connection> {
    if let (connection, Protection::Locks) = open(path)? {
        return Ok(connection);
    }
    match lock(path) {
        Ok(Some(connection)) => Ok(connection),
        Ok(None) | Err(_) => copy(path),
    }
}

/// Opens the file with the locks of a writer, which creates the log and its index as needed; the last process that closes the
/// file removes them. `None` if this user may not write, or if the file has no log: its lock would keep a run from creating
/// one.
fn lock(path: &Path) -> rusqlite::Result<Option<Connection>> {
    let directory = path.parent().unwrap_or(path);
    let may_write = [path, directory]
        .iter()
        .all(|path| access(*path, Access::WRITE_OK).is_ok());
    // A log that lacks its index would be recovered, and so written.
    let is_copied = fs::metadata(beside(path, "-wal")).is_ok_and(|log| log.len() > HEADER);
    if is_copied || !may_write {
        return Ok(None);
    }
    let flags = OpenFlags::SQLITE_OPEN_READ_WRITE
        | OpenFlags::SQLITE_OPEN_URI
        | OpenFlags::SQLITE_OPEN_NOFOLLOW
        | OpenFlags::SQLITE_OPEN_NO_MUTEX;
    let mut connection = Connection::open_with_flags(uri(path, "mode=rw"), flags)?;
    wait_while_busy(&mut connection)?;
    keep_plans(&connection)?;
    connection.pragma_update(None, "query_only", true)?;
    let journal: String = connection.pragma_query_value(None, "journal_mode", |row| row.get(0))?;
    Ok((journal == "wal").then_some(connection))
}

/// Copies a file into a temporary one of SQLite's, which is gone with the connection. Fails as busy where the file changed
/// meanwhile.
fn copy(path: &Path) -> rusqlite::Result<Connection> {
    let (source, protection) = open(path)?;
    let mut copy = Connection::open("")?;
    let copied = Backup::new(&source, &mut copy)?.step(-1);
    if let Protection::Unchanged(files) = &protection
        && !files.are_unchanged()
    {
        return Err(super::busy("the file changed while it was copied"));
    }
    copied?;
    Ok(copy)
}

fn is_code(error: &rusqlite::Error, code: ErrorCode) -> bool {
    error.sqlite_error_code() == Some(code)
}

fn uri(path: &Path, parameters: &str) -> String {
    let path = located(path);
    let path = percent_encode(path.as_os_str().as_encoded_bytes(), URI_PATH);
    format!("file://{path}?{parameters}")
}

/// What has a meaning of its own in SQLite's URIs.
const URI_PATH: &AsciiSet = &CONTROLS.add(b'%').add(b'?').add(b'#');
