//! Two runs never walk the same region of a job at once. The lock is the system's own and dies with its process.

use std::fs::{File, OpenOptions, TryLockError};
use std::io;
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

use percent_encoding::{NON_ALPHANUMERIC, utf8_percent_encode};

/// Where regions are locked.
#[derive(Debug, Clone)]
pub struct Locks(Place);

#[derive(Debug, Clone)]
enum Place {
    /// In files of a directory, for every run of this machine.
    Directory(PathBuf),
    /// Nowhere: nobody else can be at it.
    Nowhere,
}

/// A region of a job, held until this is dropped.
#[derive(Debug)]
pub struct Held {
    _file: Option<File>,
}

impl Locks {
    /// Locks in the state directory, which exists.
    ///
    /// # Errors
    /// When their directory cannot be made.
    pub fn open(state_dir: &Path) -> io::Result<Self> {
        let directory = state_dir.join("locks");
        crate::private::create_dir(&directory)?;
        Ok(Self(Place::Directory(directory)))
    }

    /// Locks for a play that nobody else takes part in: each is free at once, and leaves no trace.
    #[must_use]
    pub const fn none() -> Self {
        Self(Place::Nowhere)
    }

    /// Takes a region of a job; `None` while another run has it.
    ///
    /// # Errors
    /// When the lock's file cannot be had.
    pub fn take(&self, job: &str, region: &str) -> io::Result<Option<Held>> {
        let Place::Directory(directory) = &self.0 else { return Ok(Some(Held { _file: None })) };
        let file = OpenOptions::new().create(true).append(true).mode(0o600).open(file(directory, job, region))?;
        match file.try_lock() {
            Ok(()) => Ok(Some(Held { _file: Some(file) })),
            Err(TryLockError::WouldBlock) => Ok(None),
            Err(TryLockError::Error(error)) => Err(error),
        }
    }
}

/// Names are escaped, so that no region's name leads out of the directory.
fn file(directory: &Path, job: &str, region: &str) -> PathBuf {
    let escaped = |name| utf8_percent_encode(name, NON_ALPHANUMERIC);
    directory.join(format!("{}.{}.lock", escaped(job), escaped(region)))
}
