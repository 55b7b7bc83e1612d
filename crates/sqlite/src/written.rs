//! The files that this process has open for writing.
//!
//! POSIX drops every lock of a process on a file as soon as the process closes any descriptor of it. SQLite prevents that
//! among its connections, except for those that it opens without locks. So a file of this list is read with locks only.

use super::state::{Files, Identity};
use parking_lot::{Mutex, MutexGuard};

static WRITTEN: Mutex<Vec<Identity>> = Mutex::new(Vec::new());

fn written() -> MutexGuard<'static, Vec<Identity>> {
    WRITTEN.lock()
}

/// Whether this process has the file open for writing.
pub fn is_written_here(files: &Files) -> bool {
    files
        .database()
        .is_some_and(|file| written().contains(&file))
}

/// An entry of the list, which ends with it.
#[derive(Debug)]
pub struct WrittenHere(Option<Identity>);

impl WrittenHere {
    pub fn new(files: &Files) -> Self {
        let file = files.database();
        written().extend(file);
        Self(file)
    }
}

impl Drop for WrittenHere {
    fn drop(&mut self) {
        let mut written = written();
        if let Some(index) = written.iter().position(|file| Some(*file) == self.0) {
            written.swap_remove(index);
        }
    }
}
