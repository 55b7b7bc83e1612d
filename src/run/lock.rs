//! Two runs never walk the same region of a job at once. The lock is the system's own and dies with its process.

use std::fs::{File, OpenOptions, TryLockError};
use std::io;
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

use percent_encoding::{NON_ALPHANUMERIC, utf8_percent_encode};

/// A directory of locks.
#[derive(Debug, Clone)]
pub struct Locks {
    directory: PathBuf,
}

/// A region of a job, held until this is dropped.
#[derive(Debug)]
pub struct Held {
    _file: File,
}

impl Locks {
    /// Locks in the state directory, which exists.
    ///
    /// # Errors
    /// When their directory cannot be made.
    pub fn open(state_dir: &Path) -> io::Result<Self> {
        let directory = state_dir.join("locks");
        crate::sqlite::create_private_dir(&directory)?;
        Ok(Self { directory })
    }

    /// Takes a region of a job; `None` while another run has it.
    ///
    /// # Errors
    /// When the lock's file cannot be had.
    pub fn take(&self, job: &str, region: &str) -> io::Result<Option<Held>> {
        let file = OpenOptions::new().create(true).append(true).mode(0o600).open(self.file(job, region))?;
        match file.try_lock() {
            Ok(()) => Ok(Some(Held { _file: file })),
            Err(TryLockError::WouldBlock) => Ok(None),
            Err(TryLockError::Error(error)) => Err(error),
        }
    }

    /// Names are escaped, so that no region's name leads out of the directory.
    fn file(&self, job: &str, region: &str) -> PathBuf {
        let escaped = |name| utf8_percent_encode(name, NON_ALPHANUMERIC);
        self.directory.join(format!("{}.{}.lock", escaped(job), escaped(region)))
    }
}
