//! Whether a file is whole.

use std::path::Path;

use rusqlite::{Connection, OpenFlags};

/// What became of a file that was looked at from its first page to its last.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Integrity {
    /// Nothing is wrong with it.
    Whole,
    /// Its indices did not fit its tables, and were made anew from them.
    Mended,
    /// This is wrong with its tables themselves: only a backup helps.
    Damaged(Vec<String>),
}

/// More than anybody reads.
const COMPLAINTS: u32 = 10;

/// Looks at every page of a file, and makes its indices anew where they do not fit. What its tables hold stays as it is.
///
/// # Errors
/// When SQLite cannot even look.
pub fn mend(path: &Path) -> rusqlite::Result<Integrity> {
    let mut connection = Connection::open_with_flags(path, OpenFlags::SQLITE_OPEN_READ_WRITE)?;
    super::wait_while_busy(&mut connection)?;
    if complaints(&connection)?.is_empty() {
        return Ok(Integrity::Whole);
    }
    let remade = connection.execute_batch("reindex");
    match complaints(&connection)? {
        left if left.is_empty() => remade.map(|()| Integrity::Mended),
        left => Ok(Integrity::Damaged(left)),
    }
}

fn complaints(connection: &Connection) -> rusqlite::Result<Vec<String>> {
    let mut statement = connection.prepare(&format!("pragma integrity_check({COMPLAINTS})"))?;
    let lines = statement
        .query_map([], |row| row.get::<_, String>(0))?
        .collect::<rusqlite::Result<Vec<_>>>()?;
    Ok(lines.into_iter().filter(|line| line != "ok").collect())
}
