//! Directories and files that only their owner can read.

use std::fs::{self, DirBuilder, File, OpenOptions};
use std::io;
use std::os::unix::fs::{DirBuilderExt, MetadataExt, OpenOptionsExt, fchown};
use std::path::Path;

/// Creates a directory and its parents. An existing one is not changed.
///
/// # Errors
/// Fails if the system does not allow it.
pub fn create_dir(path: &Path) -> io::Result<()> {
    if path.is_dir() {
        return Ok(());
    }
    DirBuilder::new().recursive(true).mode(0o700).create(path)?;
    hand_over(&File::open(path)?, path);
    Ok(())
}

/// Creates an empty file and its parent directories. An existing one is not changed, and not even opened: closing a file that
/// this process has open elsewhere would drop the locks that SQLite holds on it.
///
/// # Errors
/// Fails if the system does not allow it.
pub fn create_file(path: &Path) -> io::Result<()> {
    if let Some(directory) = path.parent() {
        create_dir(directory)?;
    }
    match OpenOptions::new()
        .write(true)
        .create_new(true)
        .mode(0o600)
        .open(path)
    {
        Ok(file) => hand_over(&file, path),
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
        Err(error) => return Err(error),
    }
    Ok(())
}

/// Opens a file to lock it; creates it if it does not exist.
///
/// # Errors
/// Fails if the system does not allow it.
pub fn open_to_lock(path: &Path) -> io::Result<File> {
    let file = OpenOptions::new()
        .create(true)
        .append(true)
        .mode(0o600)
        .open(path)?;
    hand_over(&file, path);
    Ok(file)
}

/// Gives a file that root created to the owner of its directory, as SQLite does with its logs: otherwise a command that root
/// runs by hand would lock that user's worker out. Best effort: on failure the file stays root's.
pub fn hand_over(made: &File, path: &Path) {
    let above = path
        .parent()
        .and_then(|directory| fs::metadata(directory).ok());
    if let (Some(above), Ok(made_by)) = (above, made.metadata())
        && made_by.uid() == 0
        && above.uid() != 0
    {
        let _ = fchown(made, Some(above.uid()), Some(above.gid()));
    }
}
