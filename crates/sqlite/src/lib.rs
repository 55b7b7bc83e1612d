//! SQLite files: ledger, catalog and journal are opened, checked, copied and restored here.
//!
//! A [`Schema`] is what a file holds, and by what it is known; [`open`] makes a new one, [`open_read_only`] writes nothing.
//! A [`Database`] notices that its file was deleted or replaced. Errors of SQLite are explained by what to do.
//!
//! Never knows a table. Begin with [`open`].

mod backup;
mod database;
mod integrity;
mod interrupt;
mod json;
mod reading;
mod schema;
mod state;
mod written;

use std::cell::Cell;
use std::fs;
use std::hash::{BuildHasher, RandomState};
use std::io;
use std::mem;
use std::ops::Deref;
use std::path::{Path, PathBuf};
use std::thread;
use std::time::{Duration, Instant};

use rusqlite::config::DbConfig;
use rusqlite::{Connection, ErrorCode, OpenFlags};
use rustix::fs::{Access, access};
use rustix::io::Errno;
use rustix::process::{Resource, getrlimit};
use thiserror::Error;

use ingest_base::plain::plain;
use ingest_base::private;

pub use backup::{Restored, copy, note_restored, restored};
pub use database::Database;
pub use integrity::{Integrity, confirmed, mend};
pub use interrupt::{Advance, Interruptible};
pub use json::Json;
use schema::FoundTables;
pub use schema::{Identity, Schema};
pub use state::Files;
use written::WrittenHere;

/// How long a writer waits for another process to finish its transaction. Transactions take well under a millisecond
/// each; only a queue of very many processes gets near this.
const BUSY_TIMEOUT: Duration = Duration::from_secs(60);
/// A longer wait is logged.
const LONG_WAIT: Duration = Duration::from_secs(2);

/// More than any kind of file has statements, so that each is prepared once.
const STATEMENTS: usize = 64;

/// Why a file cannot be used.
#[derive(Debug, Error)]
pub enum OpenError {
    /// This release did not write it, and so leaves it as it is.
    #[error("{path}: this {name} has {why}")]
    Foreign {
        /// The file.
        path: PathBuf,
        /// What it holds.
        name: &'static str,
        /// What it has in place of the version of this release, and what to do.
        why: String,
    },
    /// The system did not let us have it, or see whether it is there.
    #[error("{path}: cannot open the {name}: {why}")]
    Denied {
        /// The file.
        path: PathBuf,
        /// What it holds.
        name: &'static str,
        /// What the system said, and what to do about it.
        why: String,
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

impl OpenError {
    fn denied(path: &Path, name: &'static str, why: impl Into<String>) -> Self {
        Self::Denied {
            path: path.to_owned(),
            name,
            why: why.into(),
        }
    }

    fn sqlite(path: &Path, name: &'static str, source: rusqlite::Error) -> Self {
        Self::Sqlite {
            path: path.to_owned(),
            name,
            source,
        }
    }
}

/// Opens a file for writing, readable by its owner alone, created as needed, its directory too.
/// Any number of processes may do so at once.
///
/// # Errors
/// When the file cannot be opened, is damaged, or was written by another version.
pub fn open(path: &Path, schema: Schema) -> Result<Database, OpenError> {
    let name = schema.name;
    private::create_file(path)
        .map_err(|error| OpenError::denied(path, name, explain_making(&error)))?;
    refuse_other_than_files(path, name)?;
    let began = Instant::now();
    loop {
        match open_once(path, schema) {
            Err(OpenError::Sqlite { source, .. })
                if is_busy(&source) && began.elapsed() < BUSY_TIMEOUT =>
            {
                thread::sleep(pause(10));
            }
            opened => return opened,
        }
    }
}

/// Whether there is a file. One that cannot be looked for is not taken for one that is not there.
///
/// # Errors
/// When the system does not say, or something else is in its place; `name` is what the file holds.
pub fn is_there(path: &Path, name: &'static str) -> Result<bool, OpenError> {
    refuse_other_than_files(path, name)?;
    let why = match fs::metadata(path) {
        Ok(_) => return Ok(true),
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(false),
        Err(error) => explain_looking(path, &error),
    };
    Err(OpenError::denied(path, name, why))
}

/// Rejects what is no file in place of a file or of a side file of it: SQLite would follow a link, wait for a pipe, and say nothing
/// of either.
fn refuse_other_than_files(path: &Path, name: &'static str) -> Result<(), OpenError> {
    match other_than_file(path) {
        None => Ok(()),
        Some((path, why)) => Err(OpenError::denied(&path, name, why)),
    }
}

fn other_than_file(path: &Path) -> Option<(PathBuf, &'static str)> {
    let files = ["", "-wal", "-shm"].map(|suffix| beside(path, suffix));
    files.into_iter().find_map(|file| {
        let found = fs::symlink_metadata(&file).ok()?;
        Some((file, private::no_file(found.file_type())?))
    })
}

/// The same, where SQLite opens a file once more.
fn expect_file(path: &Path) -> rusqlite::Result<()> {
    other_than_file(path).map_or(Ok(()), |(file, why)| {
        let code = rusqlite::ffi::Error::new(rusqlite::ffi::SQLITE_ERROR);
        let why = format!("{}: {why}", file.display());
        Err(rusqlite::Error::SqliteFailure(code, Some(why)))
    })
}

/// Opens a connection to a file. SQLite follows no link to it.
fn connect(path: &Path, flags: OpenFlags) -> rusqlite::Result<Connection> {
    expect_file(path)?;
    let flags = flags | OpenFlags::SQLITE_OPEN_NO_MUTEX | OpenFlags::SQLITE_OPEN_NOFOLLOW;
    Connection::open_with_flags(located(path), flags)
}

/// The path of a file for SQLite: absolute, since SQLite takes a relative one that begins with `file:` for a URI; and without the
/// links that lead to its directory, since SQLite is to refuse any link.
fn located(path: &Path) -> PathBuf {
    let directory = path.parent().filter(|above| !above.as_os_str().is_empty());
    let directory = directory.unwrap_or(Path::new(".")).canonicalize();
    match (directory, path.file_name()) {
        (Ok(directory), Some(name)) => directory.join(name),
        _ => std::path::absolute(path).unwrap_or_else(|_| path.to_owned()),
    }
}

/// Opens a file for reading and writes nothing, not even the side files of a write-ahead log; `None` where there is no
/// file yet.
///
/// # Errors
/// When the file cannot be opened, is damaged, or has another version than this release.
pub fn open_read_only(path: &Path, schema: Schema) -> Result<Option<Database>, OpenError> {
    if !is_there(path, schema.name)? {
        return Ok(None);
    }
    let mut database = Database::to_read(path).map_err(|error| refused(path, schema, error))?;
    let found = database.read(|connection| schema.recognize(connection));
    match found.map_err(|error| refused(path, schema, error))? {
        FoundTables::Current | FoundTables::Restored => Ok(Some(database)),
        FoundTables::Empty => Ok(None),
        FoundTables::Other(found) => Err(schema.refuse(path, found, schema.remedy)),
        FoundTables::Another => Err(schema.refuse_another(path)),
    }
}

/// What a file holds that is not there yet: everything in place, nothing in it, and none of it on the disk.
///
/// # Errors
/// When SQLite has no memory for it.
pub fn open_empty(schema: Schema) -> Result<Database, OpenError> {
    let empty = in_memory(schema)?;
    empty
        .pragma_update(None, "query_only", true)
        .map_err(|error| OpenError::sqlite(Path::new(":memory:"), schema.name, error))?;
    Ok(empty)
}

/// The same, to be written: what is written is gone with it.
///
/// # Errors
/// When SQLite has no memory for it.
pub fn in_memory(schema: Schema) -> Result<Database, OpenError> {
    let path = Path::new(":memory:");
    let failed = |error| OpenError::sqlite(path, schema.name, error);
    let mut connection = Connection::open_in_memory().map_err(failed)?;
    schema.establish(&mut connection, path)?;
    keep_plans(&connection).map_err(failed)?;
    Ok(Database::of_its_own(path, connection))
}

/// What SQLite said, and what to do about it.
pub fn explain(error: &rusqlite::Error) -> String {
    let advice = match error.sqlite_error_code() {
        _ if state::is_displaced(error) => {
            "; nothing more is charged or stored; leave the files of the state directory in place \
            during a run, and run again to recreate a missing file"
        }
        Some(ErrorCode::DiskFull) => "; free some space on its disk",
        Some(ErrorCode::SystemIoFailure) if getrlimit(Resource::Fsize).current.is_some() => {
            "; free some space on its disk, or raise the limit of the size of files (`ulimit -f`)"
        }
        Some(ErrorCode::SystemIoFailure) => "; check its disk and the system log",
        Some(ErrorCode::CannotOpen) if is_shortage_now() => {
            return format!("{}; {NO_FILES}", plain(&error.to_string()));
        }
        Some(ErrorCode::ReadOnly) => "; make the file and its directory writable for this user",
        Some(ErrorCode::CannotOpen | ErrorCode::PermissionDenied) => {
            "; check that its directory exists and is writable for this user"
        }
        Some(ErrorCode::DatabaseCorrupt | ErrorCode::NotADatabase) => {
            "; the file is damaged: move it away, or restore it from a backup"
        }
        Some(ErrorCode::DatabaseBusy | ErrorCode::DatabaseLocked) => {
            "; another program locks the file: find it with `fuser`"
        }
        _ => "",
    };
    // What SQLite says of a damaged file can hold some of its bytes.
    format!("{}{advice}", plain(&error.to_string()))
}

/// The same, found out by opening as many files as a database has: SQLite does not say why it cannot open one, and has closed the
/// others by then.
fn is_shortage_now() -> bool {
    let opened: io::Result<Vec<fs::File>> = (0..4).map(|_| fs::File::open("/dev/null")).collect();
    opened.is_err_and(|error| is_shortage(&error))
}

/// Whether this process, or the machine, has no file left to open.
fn is_shortage(error: &io::Error) -> bool {
    matches!(
        Errno::from_io_error(error),
        Some(Errno::MFILE | Errno::NFILE)
    )
}

/// What to do where no file can be opened.
pub const NO_FILES: &str = "raise the limit of open files (`ulimit -n`, or LimitNOFILE= of a unit)";

/// Whether this user may write a file, or make it where it is not there. Nothing is written to find out.
///
/// # Errors
/// Why not, and what to do about it.
pub fn can_be_written(path: &Path) -> Result<(), String> {
    let refused = |place: &Path| access(place, Access::WRITE_OK).err().map(io::Error::from);
    if path.exists()
        && let Some(error) = refused(path)
    {
        return Err(format!("{error}; make the file writable for this user"));
    }
    let directory = path.ancestors().skip(1).find(|above| above.exists());
    match directory.and_then(refused) {
        Some(error) => Err(explain_making(&error)),
        None => Ok(()),
    }
}

/// Why a file cannot be looked for, and what to do about it.
fn explain_looking(path: &Path, error: &io::Error) -> String {
    if let Some(file) = file_above(path) {
        return format!(
            "{} is a file, not a directory; set --state-dir to a directory",
            file.display()
        );
    }
    match error.kind() {
        io::ErrorKind::PermissionDenied => {
            format!("{error}; make the directory readable for this user, or set --state-dir")
        }
        _ => format!("{error}; set --state-dir to another directory"),
    }
}

/// Why a file cannot be made, and what to do about it.
pub fn explain_making(error: &io::Error) -> String {
    let advice = match error.kind() {
        _ if is_shortage(error) => return format!("{error}; {NO_FILES}"),
        io::ErrorKind::PermissionDenied | io::ErrorKind::ReadOnlyFilesystem => {
            "; make its directory writable for this user, or set --state-dir"
        }
        io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded => {
            "; free some space on its disk"
        }
        _ => "",
    };
    format!("{error}{advice}")
}

/// What is in the way of a path: something above its end that is no directory.
pub fn file_above(path: &Path) -> Option<&Path> {
    path.ancestors()
        .skip(1)
        .find(|above| fs::metadata(above).is_ok_and(|found| !found.is_dir()))
}

/// SQLite did not open a file, and does not say that it was not let. The file is not opened to find out: closing it would
/// drop the locks that this process may have on it.
fn refused(path: &Path, schema: Schema, source: rusqlite::Error) -> OpenError {
    let files = ["", "-wal", "-shm"].map(|suffix| beside(path, suffix));
    let is_closed = |file: &PathBuf| access(file, Access::READ_OK) == Err(Errno::ACCESS);
    if source.sqlite_error_code() == Some(ErrorCode::CannotOpen) && files.iter().any(is_closed) {
        let why = format!(
            "{}; make the file readable for this user",
            io::Error::from(Errno::ACCESS)
        );
        return OpenError::denied(path, schema.name, why);
    }
    OpenError::sqlite(path, schema.name, source)
}

/// The path of a file's side file, such as its log: `-wal`.
pub fn beside(path: &Path, suffix: &str) -> PathBuf {
    let mut side = path.as_os_str().to_owned();
    side.push(suffix);
    PathBuf::from(side)
}

fn open_once(path: &Path, schema: Schema) -> Result<Database, OpenError> {
    let failed = |error| OpenError::sqlite(path, schema.name, confirmed(path, error));
    let before = Files::beside(path);
    let written = WrittenHere::new(&before);
    let flags = OpenFlags::SQLITE_OPEN_READ_WRITE;
    let mut connection = connect(path, flags).map_err(|error| refused(path, schema, error))?;
    configure(&mut connection).map_err(failed)?;
    schema.establish(&mut connection, path)?;
    Database::to_write(path, connection, &before, written).map_err(failed)
}

fn configure(connection: &mut Connection) -> rusqlite::Result<()> {
    wait_while_busy(connection)?;
    keep_plans(connection)?;
    connection.pragma_update(None, "journal_mode", "wal")?;
    connection.pragma_update(None, "synchronous", "normal")?;
    connection.pragma_update(None, "foreign_keys", true)
}

/// Keeps query plans. Otherwise SQLite plans a statement again whenever its parameters change, which takes twenty times as long
/// as our statements take to run.
fn keep_plans(connection: &Connection) -> rusqlite::Result<()> {
    connection.set_prepared_statement_cache_capacity(STATEMENTS);
    connection
        .set_db_config(DbConfig::SQLITE_DBCONFIG_ENABLE_QPSG, true)
        .map(drop)
}

thread_local! {
    /// Whether this thread waits for a file that another process holds.
    static WAITS: Cell<bool> = const { Cell::new(true) };
}

/// Acts; `None` if that would have to wait for another process.
fn at_once<T>(act: impl FnOnce() -> rusqlite::Result<T>) -> rusqlite::Result<Option<T>> {
    WAITS.set(false);
    let done = act();
    WAITS.set(true);
    match done {
        Err(error) if is_busy(&error) => Ok(None),
        done => done.map(Some),
    }
}

/// A transaction that writes, undone unless it is committed. Its statements are kept: to prepare them each time takes as long
/// as a statement of a charge.
#[derive(Debug)]
pub struct Writing<'c> {
    connection: &'c Connection,
}

impl<'c> Writing<'c> {
    /// Begins one; waits for other processes.
    ///
    /// # Errors
    /// When SQLite cannot begin it.
    pub fn begin(connection: &'c Connection) -> rusqlite::Result<Self> {
        connection.prepare_cached("BEGIN IMMEDIATE")?.execute([])?;
        Ok(Self { connection })
    }

    /// Begins one; `None` if it would have to wait for another process.
    ///
    /// # Errors
    /// When SQLite cannot begin it for another reason.
    pub fn begin_at_once(connection: &'c Connection) -> rusqlite::Result<Option<Self>> {
        at_once(|| Self::begin(connection))
    }

    /// Writes what was changed.
    ///
    /// # Errors
    /// When SQLite cannot write it; nothing is changed then.
    pub fn commit(self) -> rusqlite::Result<()> {
        self.connection.prepare_cached("COMMIT")?.execute([])?;
        Ok(())
    }
}

impl Drop for Writing<'_> {
    fn drop(&mut self) {
        // A failure can have ended it already. SQLite undoes what is left of it when the connection closes.
        if !self.connection.is_autocommit() {
            let _ = self.connection.execute_batch("ROLLBACK");
        }
    }
}

impl Deref for Writing<'_> {
    type Target = Connection;

    fn deref(&self) -> &Connection {
        self.connection
    }
}

/// Waits for other processes. SQLite's own handler soon retries only every tenth of a second, which starves some of many
/// processes.
fn wait_while_busy(connection: &mut Connection) -> rusqlite::Result<()> {
    let (mut began, mut is_told) = (Instant::now(), false);
    let file = connection.path().unwrap_or_default().to_owned();
    connection.busy_handler(Some(move |attempt: i32| {
        if !WAITS.get() {
            return false;
        }
        if attempt == 0 {
            (began, is_told) = (Instant::now(), false);
        }
        thread::sleep(pause(attempt));
        let waited = began.elapsed();
        if waited > LONG_WAIT && !mem::replace(&mut is_told, true) {
            let most = BUSY_TIMEOUT.as_secs();
            tracing::warn!("{file} is locked by another process; waiting for it, {most} s at most");
        }
        waited < BUSY_TIMEOUT
    }))
}

/// A pause from a few hundred microseconds to some ten milliseconds. It is random, so that waiting processes do not retry at
/// the same time.
fn pause(attempt: i32) -> Duration {
    let longest = 500_u64 << attempt.clamp(0, 5);
    let chance = RandomState::new().hash_one(attempt);
    Duration::from_micros(longest / 2 + chance % longest)
}

/// An error that says that the file was in use, and how.
fn busy(how: &str) -> rusqlite::Error {
    let code = rusqlite::ffi::Error::new(rusqlite::ffi::SQLITE_BUSY);
    rusqlite::Error::SqliteFailure(code, Some(how.to_owned()))
}

/// Whether the file was in use in a way for which SQLite does not wait by itself: while another process switches it to
/// the write-ahead log or recovers it.
pub fn is_busy(error: &rusqlite::Error) -> bool {
    let code = error.sqlite_error_code();
    matches!(
        code,
        Some(
            ErrorCode::DatabaseBusy
                | ErrorCode::DatabaseLocked
                | ErrorCode::FileLockingProtocolFailed
        )
    )
}
