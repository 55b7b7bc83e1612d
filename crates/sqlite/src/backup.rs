//! Copies of files that other processes may be writing.

use std::path::Path;

use rusqlite::{Connection, OpenFlags, OptionalExtension};

/// In a copy alone: when it was made, in microseconds since 1970.
const MARK: &str =
    "create table if not exists backup (made_at integer not null); delete from backup;";
const IS_MARKED: &str = "select exists (select 1 from sqlite_schema where name = 'backup')";

/// Copies one state of a file to an empty one, while other processes may write. The copy stores when it was made.
///
/// # Errors
/// When SQLite cannot read the one or write the other.
pub fn copy(from: &Path, to: &Path, made_at: i64) -> rusqlite::Result<()> {
    let mut source = super::connect(from, OpenFlags::SQLITE_OPEN_READ_WRITE)?;
    super::wait_while_busy(&mut source)?;
    source.execute("vacuum into ?1", [super::located(to).to_string_lossy()])?;
    let copy = super::connect(to, OpenFlags::SQLITE_OPEN_READ_WRITE)?;
    copy.execute_batch(MARK)?;
    copy.execute("insert into backup (made_at) values (?1)", [made_at])
        .map(drop)
}

/// When the backup was made that a file was restored from, in microseconds since 1970; `None` for one that was not restored.
///
/// # Errors
/// When SQLite cannot read it.
pub fn restored_from(connection: &Connection) -> rusqlite::Result<Option<i64>> {
    if !connection.query_row(IS_MARKED, [], |row| row.get::<_, bool>(0))? {
        return Ok(None);
    }
    connection
        .query_row("select max(made_at) from backup", [], |row| row.get(0))
        .optional()
        .map(Option::flatten)
}
