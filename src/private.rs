//! Directories and files that their owner alone may read.

use std::fs::{self, DirBuilder, File, OpenOptions};
use std::io;
use std::os::unix::fs::{DirBuilderExt, MetadataExt, OpenOptionsExt, fchown};
use std::path::Path;

/// Creates a directory, and those above it. One that is there stays as it is.
///
/// # Errors
/// When the system does not let us.
pub fn create_dir(path: &Path) -> io::Result<()> {
    if path.is_dir() {
        return Ok(());
    }
    DirBuilder::new().recursive(true).mode(0o700).create(path)?;
    hand_over(&File::open(path)?, path);
    Ok(())
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

/// Opens a file to lock it; it is created where it is not there.
///
/// # Errors
/// When the system does not let us.
pub fn open_to_lock(path: &Path) -> io::Result<File> {
    let file = OpenOptions::new()
        .create(true)
        .append(true)
        .mode(0o600)
        .open(path)?;
    hand_over(&file, path);
    Ok(file)
}

/// Gives a file that root created to the owner of its directory, as SQLite does with its logs: that user could not work
/// there any more otherwise. If this fails, the file stays root's.
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
