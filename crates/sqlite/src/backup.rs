//! Copies of files that other processes may be writing.

use std::path::Path;

use rusqlite::{Connection, OpenFlags, OptionalExtension};

use super::integrity::of_disk;

/// In a copy alone: when it was made, in microseconds since 1970.
const MARK: &str =
    "create table if not exists backup (made_at integer not null); delete from backup;";
const IS_MARKED: &str = "select exists (select 1 from sqlite_schema where name = 'backup')";
const IS_NOTED: &str =
    "select exists (select 1 from pragma_table_info('backup') where name = 'used_from')";

/// Copies one state of a file to an empty one, while other processes may write. The copy stores when it was made.
///
/// # Errors
/// When SQLite cannot read the one or write the other.
pub fn copy(from: &Path, to: &Path, made_at: i64) -> rusqlite::Result<()> {
    copied(from, to, made_at).map_err(|error| of_disk(to, error))
}

fn copied(from: &Path, to: &Path, made_at: i64) -> rusqlite::Result<()> {
    let mut source = super::connect(from, OpenFlags::SQLITE_OPEN_READ_WRITE)?;
    super::wait_while_busy(&mut source)?;
    source.execute("vacuum into ?1", [super::located(to).to_string_lossy()])?;
    let copy = super::connect(to, OpenFlags::SQLITE_OPEN_READ_WRITE)?;
    copy.execute_batch(MARK)?;
    copy.execute("insert into backup (made_at) values (?1)", [made_at])
        .map(drop)
}

/// A file that was restored from a backup. Times are microseconds since 1970.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Restored {
    /// When the backup was made.
    pub made_at: i64,
    /// When the restored file was first written; `None` before that.
    pub used_from: Option<i64>,
}

/// The backup that a file was restored from; `None` for one that was not restored.
///
/// # Errors
/// When SQLite cannot read it.
pub fn restored(connection: &Connection) -> rusqlite::Result<Option<Restored>> {
    if !says(connection, IS_MARKED)? {
        return Ok(None);
    }
    let select = match says(connection, IS_NOTED)? {
        true => "select made_at, used_from from backup order by made_at desc limit 1",
        false => "select made_at, null from backup order by made_at desc limit 1",
    };
    let read = connection.query_row(select, [], |row| {
        Ok(Restored {
            made_at: row.get(0)?,
            used_from: row.get(1)?,
        })
    });
    read.optional()
}

/// Notes when a restored file is first written: what was charged before that may be missing in it.
///
/// # Errors
/// When SQLite cannot write it.
pub fn note_restored(connection: &Connection, used_from: i64) -> rusqlite::Result<()> {
    if !says(connection, IS_NOTED)? {
        connection.execute_batch("alter table backup add column used_from integer")?;
    }
    connection
        .execute(
            "update backup set used_from = ?1 where used_from is null",
            [used_from],
        )
        .map(drop)
}

fn says(connection: &Connection, question: &str) -> rusqlite::Result<bool> {
    connection.query_row(question, [], |row| row.get(0))
}
