//! A file that is written beside and then takes a name: which one.

use std::path::{Path, PathBuf};
use std::{fs, io};

/// The file of this name: what a link stands for is replaced, not the link.
///
/// # Errors
/// When something is there that is no file: a device or a pipe is not replaced.
pub fn file_to_replace(path: &Path) -> io::Result<PathBuf> {
    let path = fs::canonicalize(path).unwrap_or_else(|_| path.to_owned());
    match fs::metadata(&path) {
        Ok(found) if !found.is_file() => Err(io::Error::other(
            "the path exists and is not a \
            regular file",
        )),
        _ => Ok(path),
    }
}
