//! Whether a file is whole.

use std::path::Path;

use rusqlite::{Connection, ErrorCode, OpenFlags, ffi};
use rustix::fs::statvfs;

use super::Database;
use super::schema::texts;

/// What became of a file that was looked at from its first page to its last.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Integrity {
    /// Nothing is wrong with it.
    Whole,
    /// Its indices did not match its tables and were rebuilt.
    Mended,
    /// This is wrong with its tables themselves: only a backup helps.
    Damaged(Vec<String>),
}

/// More than anybody reads.
const COMPLAINTS: u32 = 10;

/// Full-text indexes.
const TEXT_INDEXES: &str =
    "select 'insert into ' || name || ' (' || name || ') values (''rebuild'');' from sqlite_schema
    where sql like 'create virtual table % using fts5%'";

/// Checks every page of a file, and rebuilds its indices, also those of texts, if they do not match its tables. The tables do not
/// change.
///
/// # Errors
/// When SQLite cannot even look.
pub fn mend(path: &Path) -> rusqlite::Result<Integrity> {
    mended(path).map_err(|error| of_disk(path, error))
}

fn mended(path: &Path) -> rusqlite::Result<Integrity> {
    let mut connection = super::connect(path, OpenFlags::SQLITE_OPEN_READ_WRITE)?;
    super::wait_while_busy(&mut connection)?;
    if complaints(&connection)?.is_empty() {
        return Ok(Integrity::Whole);
    }
    let remade = remake_indexes(&connection);
    match complaints(&connection)? {
        left if left.is_empty() => remade.map(|()| Integrity::Mended),
        left => Ok(Integrity::Damaged(left)),
    }
}

fn remake_indexes(connection: &Connection) -> rusqlite::Result<()> {
    connection.execute_batch("reindex")?;
    for rebuild in texts(connection, TEXT_INDEXES)? {
        connection.execute_batch(&rebuild)?;
    }
    Ok(())
}

/// Less than this that is left of a disk is nothing: SQLite asks for more at once.
const NOTHING_LEFT: u64 = 64 * 1024;

/// An error of a file, which says that the disk is full where it is: SQLite says so of some operations alone.
pub fn of_disk(path: &Path, error: rusqlite::Error) -> rusqlite::Error {
    match error.sqlite_error_code() {
        Some(ErrorCode::SystemIoFailure) if is_on_full_disk(path) => {
            let said = "database or disk is full".to_owned();
            rusqlite::Error::SqliteFailure(ffi::Error::new(ffi::SQLITE_FULL), Some(said))
        }
        _ => error,
    }
}

/// The same, where it says that the file is damaged only if `pragma integrity_check` finds that too.
pub fn confirmed(path: &Path, error: rusqlite::Error) -> rusqlite::Error {
    if !says_damaged(&error) {
        return of_disk(path, error);
    }
    let found =
        Database::to_read(path).and_then(|mut database| database.read_unconfirmed(complaints));
    match found {
        Ok(complaints) if complaints.is_empty() => unconfirmed(
            &error,
            "but `pragma integrity_check` finds no damage; run the command again",
        ),
        Err(checking) if !says_damaged(&checking) => unconfirmed(
            &error,
            "and the file cannot be checked now; run the command again, and `ingest repair` if \
            the error recurs",
        ),
        Ok(_) | Err(_) => error,
    }
}

fn is_on_full_disk(path: &Path) -> bool {
    let directory = path.parent().filter(|above| !above.as_os_str().is_empty());
    let disk = statvfs(directory.unwrap_or(Path::new(".")));
    disk.is_ok_and(|disk| disk.f_bavail.saturating_mul(disk.f_frsize) < NOTHING_LEFT)
}

fn says_damaged(error: &rusqlite::Error) -> bool {
    matches!(
        error.sqlite_error_code(),
        Some(ErrorCode::DatabaseCorrupt | ErrorCode::NotADatabase)
    )
}

fn unconfirmed(error: &rusqlite::Error, result: &str) -> rusqlite::Error {
    rusqlite::Error::SqliteFailure(
        ffi::Error::new(ffi::SQLITE_ERROR),
        Some(format!("SQLite reported \"{error}\", {result}")),
    )
}

fn complaints(connection: &Connection) -> rusqlite::Result<Vec<String>> {
    let lines = texts(connection, &format!("pragma integrity_check({COMPLAINTS})"))?;
    Ok(lines.into_iter().filter(|line| line != "ok").collect())
}
