//! Whether a file and its log are still the opened ones, and unchanged.

use std::fs::{self, Metadata};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::thread;
use std::time::{Duration, SystemTime};

use rusqlite::ffi;

use super::beside;

/// File systems note the time of a change no finer than this; most of them do.
const TICK: Duration = Duration::from_millis(20);

/// What the system says of a database file, its log and the log's index. `None` in place of a file that is not there.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Files {
    paths: [PathBuf; 3],
    found: [Option<FileState>; 3],
}

/// The device and the inode of a file.
pub type Identity = (u64, u64);

/// One file: which it is, and when it was written last. Not when its owner was set, which SQLite does at each opening.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct FileState {
    device: u64,
    inode: u64,
    bytes: u64,
    modified: (i64, i64),
}

impl FileState {
    fn read(path: &Path) -> Option<Self> {
        fs::metadata(path).ok().map(|found| Self {
            device: found.dev(),
            inode: found.ino(),
            bytes: found.size(),
            modified: (found.mtime(), found.mtime_nsec()),
        })
    }

    const fn identity(self) -> Identity {
        (self.device, self.inode)
    }
}

impl Files {
    /// What is there now.
    pub fn beside(path: &Path) -> Self {
        let paths = ["", "-wal", "-shm"].map(|suffix| beside(path, suffix));
        let found = paths.each_ref().map(|path| FileState::read(path));
        Self { paths, found }
    }

    /// The same, once the last change is old enough that the next one gets another time.
    pub fn settled(path: &Path) -> Self {
        let age = fs::metadata(path)
            .and_then(|found: Metadata| found.modified())
            .ok()
            .and_then(|modified| SystemTime::now().duration_since(modified).ok());
        if let Some(rest) = age.and_then(|age| TICK.checked_sub(age)) {
            thread::sleep(rest);
        }
        Self::beside(path)
    }

    /// Whether neither the database nor its log changed. The index of a log is memory that readers share.
    pub fn are_unchanged(&self) -> bool {
        let mut files = self.paths.iter().zip(&self.found).take(2);
        files.all(|(path, found)| FileState::read(path) == *found)
    }

    /// Whether `other` has the same database file.
    pub fn is_same_file(&self, other: &Self) -> bool {
        self.database() == other.database()
    }

    /// Which file the database is; `None` if there is none.
    pub fn database(&self) -> Option<Identity> {
        self.found
            .first()
            .copied()
            .flatten()
            .map(FileState::identity)
    }

    /// Fails unless every file is still the one that was opened: what is written to a file that was deleted is lost,
    /// and another process does not see it.
    ///
    /// # Errors
    /// Names the file that was moved, deleted or replaced.
    pub fn in_place(&self) -> rusqlite::Result<()> {
        self.in_place_from(0)
    }

    /// The same of the log and its index alone, without which nothing may be written: another process then writes another
    /// log, or this one at the same time.
    ///
    /// # Errors
    /// Names the file that was moved, deleted or replaced.
    pub fn log_in_place(&self) -> rusqlite::Result<()> {
        self.in_place_from(1)
    }

    fn in_place_from(&self, first: usize) -> rusqlite::Result<()> {
        let mut files = self.paths.iter().zip(&self.found).skip(first);
        let displaced = files.find(|(path, found)| {
            FileState::read(path).map(FileState::identity) != found.map(FileState::identity)
        });
        displaced.map_or(Ok(()), |(path, _)| Err(error(path)))
    }
}

fn error(path: &Path) -> rusqlite::Error {
    rusqlite::Error::SqliteFailure(
        ffi::Error::new(ffi::SQLITE_READONLY_DBMOVED),
        Some(format!(
            "{} was deleted, moved or replaced while it was in use",
            path.display()
        )),
    )
}

/// Whether a file was found to be another one than the one that was opened.
pub fn is_displaced(error: &rusqlite::Error) -> bool {
    error
        .sqlite_error()
        .is_some_and(|error| error.extended_code == ffi::SQLITE_READONLY_DBMOVED)
}
