//! The file that an atomic replacement renames onto.

use std::path::{Path, PathBuf};
use std::{fs, io};

/// Returns the file to replace: the target of a link, not the link.
///
/// # Errors
/// Fails if the path is a device, a pipe or a directory.
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
