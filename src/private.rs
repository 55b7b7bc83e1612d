//! Directories and files that their owner alone may read.

use std::fs::{DirBuilder, OpenOptions};
use std::io;
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::Path;

/// Creates a directory, and those above it. One that is there stays as it is.
///
/// # Errors
/// When the system does not let us.
pub fn create_dir(path: &Path) -> io::Result<()> {
    DirBuilder::new().recursive(true).mode(0o700).create(path)
}

/// Creates an empty file, and the directories above it. One that is there stays as it is, and is not even opened: to
/// close a file that this process has open elsewhere would drop the locks that SQLite holds on it.
///
/// # Errors
/// When the system does not let us.
pub fn create_file(path: &Path) -> io::Result<()> {
    if let Some(directory) = path.parent() {
        create_dir(directory)?;
    }
    match OpenOptions::new().write(true).create_new(true).mode(0o600).open(path) {
        Err(error) if error.kind() != io::ErrorKind::AlreadyExists => Err(error),
        _ => Ok(()),
    }
}
