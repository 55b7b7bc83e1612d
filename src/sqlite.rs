//! How this program opens SQLite files, whatever is in them.

use std::fs::{DirBuilder, OpenOptions};
use std::io;
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::time::Duration;

use rusqlite::{Connection, ErrorCode, OpenFlags, TransactionBehavior};
use thiserror::Error;

/// How long a writer waits for another process to finish its transaction. Transactions take well under a millisecond
/// each; only a queue of very many processes gets near this.
const BUSY_TIMEOUT: Duration = Duration::from_secs(60);

/// A kind of file: the statements that take it from each version to the next.
#[derive(Debug, Clone, Copy)]
pub struct Schema {
    /// What the file holds, as a message calls it: `ledger`, `catalog`.
    pub name: &'static str,
    /// `migrations[n]` takes a file of version `n` to version `n + 1`. Released ones are never changed.
    pub migrations: &'static [&'static str],
}

impl Schema {
    fn newest(&self) -> i64 {
        i64::try_from(self.migrations.len()).unwrap_or(i64::MAX)
    }
}

/// Why a file cannot be used.
#[derive(Debug, Error)]
pub enum OpenError {
    /// A later release wrote it.
    #[error(
        "{path}: this {name} has version {found}, and this release knows up to {known}: upgrade ingest, or point --state-dir elsewhere"
    )]
    Newer {
        /// The file.
        path: PathBuf,
        /// What it holds.
        name: &'static str,
        /// Its version.
        found: i64,
        /// The newest version known here.
        known: i64,
    },
    /// The system did not let us have it.
    #[error("{path}: cannot open the {name}: {source}")]
    Io {
        /// The file.
        path: PathBuf,
        /// What it holds.
        name: &'static str,
        /// What the system said.
        source: io::Error,
    },
    /// SQLite did not take it.
    #[error("{path}: cannot open the {name}: {}", explain(source))]
    Sqlite {
        /// The file.
        path: PathBuf,
        /// What it holds.
        name: &'static str,
        /// What SQLite said.
        source: rusqlite::Error,
    },
}

/// Opens a file for writing, readable by its owner alone, created and brought up to date as needed.
///
/// # Errors
/// When the file cannot be opened, is damaged, or was written by a later release.
pub fn open(path: &Path, schema: Schema) -> Result<Connection, OpenError> {
    create_private(path).map_err(|source| OpenError::Io { path: path.to_owned(), name: schema.name, source })?;
    let failed = |source| OpenError::Sqlite { path: path.to_owned(), name: schema.name, source };
    let mut connection = Connection::open(path).map_err(failed)?;
    configure(&connection).map_err(failed)?;
    migrate(&mut connection, path, schema)?;
    Ok(connection)
}

/// Opens a file for reading and writes nothing, not even the side files of a write-ahead log; `None` where there is no
/// file yet.
///
/// # Errors
/// When the file cannot be opened, is damaged, or has another version than this release.
pub fn open_read_only(path: &Path, schema: Schema) -> Result<Option<Connection>, OpenError> {
    if !path.exists() {
        return Ok(None);
    }
    let failed = |source| OpenError::Sqlite { path: path.to_owned(), name: schema.name, source };
    let connection =
        Connection::open_with_flags(read_only_uri(path), OpenFlags::SQLITE_OPEN_READ_ONLY | OpenFlags::SQLITE_OPEN_URI)
            .map_err(failed)?;
    connection.busy_timeout(BUSY_TIMEOUT).map_err(failed)?;
    match version(&connection).map_err(failed)? {
        0 => Ok(None),
        found if found > schema.newest() => Err(newer(path, schema, found)),
        _ => Ok(Some(connection)),
    }
}

/// What SQLite said, and what to do about it.
#[must_use]
pub fn explain(error: &rusqlite::Error) -> String {
    let advice = match error.sqlite_error_code() {
        Some(ErrorCode::DiskFull) => "; free some space on its disk",
        Some(ErrorCode::ReadOnly) => "; make the file and its directory writable for this user",
        Some(ErrorCode::CannotOpen | ErrorCode::PermissionDenied) => {
            "; check that its directory exists and is writable for this user"
        }
        Some(ErrorCode::DatabaseCorrupt | ErrorCode::NotADatabase) => {
            "; it is damaged: move it away, or restore it from a backup"
        }
        Some(ErrorCode::DatabaseBusy | ErrorCode::DatabaseLocked) => {
            "; another program keeps it locked: find it with `fuser`"
        }
        _ => "",
    };
    format!("{error}{advice}")
}

/// Makes a directory, and those above it, that its owner alone can read.
///
/// # Errors
/// When the system does not let us.
pub fn create_private_dir(path: &Path) -> io::Result<()> {
    DirBuilder::new().recursive(true).mode(0o700).create(path)
}

fn create_private(path: &Path) -> io::Result<()> {
    OpenOptions::new().create(true).append(true).mode(0o600).open(path).map(drop)
}

fn configure(connection: &Connection) -> rusqlite::Result<()> {
    connection.busy_timeout(BUSY_TIMEOUT)?;
    connection.pragma_update(None, "journal_mode", "wal")?;
    connection.pragma_update(None, "synchronous", "normal")?;
    connection.pragma_update(None, "foreign_keys", true)
}

fn migrate(connection: &mut Connection, path: &Path, schema: Schema) -> Result<(), OpenError> {
    let failed = |source| OpenError::Sqlite { path: path.to_owned(), name: schema.name, source };
    let known = schema.newest();
    if version(connection).map_err(failed)? == known {
        return Ok(());
    }
    let transaction = connection.transaction_with_behavior(TransactionBehavior::Immediate).map_err(failed)?;
    let found = version(&transaction).map_err(failed)?;
    if found > known {
        return Err(newer(path, schema, found));
    }
    for migration in schema.migrations.iter().skip(usize::try_from(found).unwrap_or(0)) {
        transaction.execute_batch(migration).map_err(failed)?;
    }
    transaction.pragma_update(None, "user_version", known).map_err(failed)?;
    transaction.commit().map_err(failed)
}

fn newer(path: &Path, schema: Schema, found: i64) -> OpenError {
    OpenError::Newer { path: path.to_owned(), name: schema.name, found, known: schema.newest() }
}

fn version(connection: &Connection) -> rusqlite::Result<i64> {
    connection.pragma_query_value(None, "user_version", |row| row.get(0))
}

/// A file without a write-ahead log is opened as immutable: otherwise SQLite would create the log's side files.
fn read_only_uri(path: &Path) -> String {
    let mut url = url::Url::from_file_path(std::path::absolute(path).unwrap_or_else(|_| path.to_owned()))
        .unwrap_or_else(|()| url::Url::parse("file:///").unwrap_or_else(|_| unreachable!()));
    let mut wal = path.as_os_str().to_owned();
    wal.push("-wal");
    let mode = if Path::new(&wal).exists() { "mode=ro" } else { "immutable=1" };
    url.set_query(Some(mode));
    url.to_string()
}
