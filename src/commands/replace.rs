//! A file that takes the place of another: no reader sees half of it.

use std::fs::{self, File};
use std::io;
use std::path::{Path, PathBuf};

/// A file beside the one that it replaces when it is complete. Nothing is left of it if it is dropped before that.
pub struct Replacement {
    beside: PathBuf,
    path: PathBuf,
}

impl Replacement {
    /// Creates it, empty, beside the file that [`file_to_replace`] returned.
    ///
    /// # Errors
    /// Fails if the system does not allow it.
    pub fn create(path: PathBuf) -> io::Result<(Self, File)> {
        let name = path.file_name().unwrap_or_default().to_string_lossy();
        let beside = path.with_file_name(format!(".{name}.{}.part", std::process::id()));
        // Another user may be able to write the directory: nothing is written through a link.
        match fs::remove_file(&beside) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
            _ => {}
        }
        let file = File::create_new(&beside)?;
        let replacement = Self { beside, path };
        // Who could not read the former file cannot read this one.
        if let Ok(former) = fs::metadata(&replacement.path) {
            file.set_permissions(former.permissions())?;
        }
        Ok((replacement, file))
    }

    /// Gives it the name of the file that it replaces.
    ///
    /// # Errors
    /// Fails if the system does not allow it; that file is then as it was.
    pub fn take_place(self, file: &File) -> io::Result<()> {
        // On the disk before it has the name: after a power failure the name leads to the former file, or to a whole one.
        file.sync_all()?;
        fs::rename(&self.beside, &self.path)
    }
}

impl Drop for Replacement {
    fn drop(&mut self) {
        // It is not there any more once it has its name.
        let _ = fs::remove_file(&self.beside);
    }
}

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
