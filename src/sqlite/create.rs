//! Creates files that are whole from the beginning.
//!
//! SQLite creates an empty file, switches it to the write-ahead log and creates the tables in it, and waits for the disk at each
//! step. Here all of that is done in memory, and the disk is waited for once.

use std::fs::File;
use std::io::{self, Write};
use std::os::fd::AsRawFd;
use std::path::Path;
use std::sync::{Mutex, PoisonError};

use rusqlite::Connection;
use rustix::fs::{AtFlags, CWD, Mode, OFlags, linkat, openat};

use super::{Schema, migrate};
use crate::private;

/// The bytes of a file's header that tell how it is written and read, and their value for the write-ahead log.
const LOG_BYTES: std::ops::Range<usize> = 18..20;
const WRITE_AHEAD: [u8; 2] = [2, 2];

/// Creates a file with the tables of a schema and nothing else in it. Best effort: without it, the file is created step by step. One
/// that another process created meanwhile stays.
pub fn create_whole(path: &Path, schema: Schema) {
    /// A descriptor that is closed drops the locks of its file: no other thread opens the file before.
    static ALONE: Mutex<()> = Mutex::new(());
    let _alone = ALONE.lock().unwrap_or_else(PoisonError::into_inner);
    if path.exists() {
        return;
    }
    if let Err(error) = image(path, schema).and_then(|image| link(path, &image)) {
        tracing::debug!("{}: not created at once: {error}", path.display());
    }
}

/// The bytes of the file.
fn image(path: &Path, schema: Schema) -> io::Result<Vec<u8>> {
    let mut connection = Connection::open_in_memory().map_err(io::Error::other)?;
    migrate(&mut connection, path, schema).map_err(io::Error::other)?;
    let image = connection.serialize("main").map_err(io::Error::other)?;
    let mut image = image.to_vec();
    match image.get_mut(LOG_BYTES) {
        Some(bytes) => bytes.copy_from_slice(&WRITE_AHEAD),
        None => return Err(io::Error::other("an empty image")),
    }
    Ok(image)
}

/// Writes a file that has no name until the disk has it: whatever happens before leaves nothing behind.
fn link(path: &Path, image: &[u8]) -> io::Result<()> {
    let directory = path.parent().ok_or(io::ErrorKind::InvalidInput)?;
    private::create_dir(directory)?;
    let flags = OFlags::TMPFILE | OFlags::WRONLY | OFlags::CLOEXEC;
    let mut file = File::from(openat(CWD, directory, flags, Mode::RUSR | Mode::WUSR)?);
    private::hand_over(&file, path);
    file.write_all(image)?;
    file.sync_all()?;
    let unnamed = format!("/proc/self/fd/{}", file.as_raw_fd());
    match linkat(CWD, unnamed, CWD, path, AtFlags::SYMLINK_FOLLOW) {
        Err(rustix::io::Errno::EXIST) => Ok(()),
        linked => Ok(linked?),
    }
}
