//! Two runs never walk the same region of a job at once, and never fetch ids of the same kind at once. The lock is the
//! system's own and dies with its process.

use std::fs::{File, TryLockError};
use std::io;
use std::path::{Path, PathBuf};

use percent_encoding::{NON_ALPHANUMERIC, utf8_percent_encode};

use crate::fnv::fnv;
use crate::private;

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
        private::create_dir(&directory)?;
        Ok(Self(Place::Directory(directory)))
    }

    /// Locks for a simulation that nobody else takes part in: each is free at once, and leaves no trace.
    #[must_use]
    pub const fn none() -> Self {
        Self(Place::Nowhere)
    }

    /// Takes a region of a job; `None` while another run has it.
    ///
    /// # Errors
    /// When the lock's file cannot be had.
    pub fn take(&self, job: &str, region: &str) -> io::Result<Option<Held>> {
        self.lock(&[job, region])
    }

    /// Takes the ids of a kind of an upstream's records, whichever job asks for them; `None` while another run has them.
    /// Whoever has them knows that what the catalog calls missing is fetched by nobody else.
    ///
    /// # Errors
    /// When the lock's file cannot be had.
    pub fn take_ids(&self, upstream: &str, kind: &str) -> io::Result<Option<Held>> {
        self.lock(&["ids", upstream, kind])
    }

    fn lock(&self, names: &[&str]) -> io::Result<Option<Held>> {
        let Place::Directory(directory) = &self.0 else {
            return Ok(Some(Held { _file: None }));
        };
        let path = file(directory, names);
        let named = |error: io::Error| {
            io::Error::new(
                error.kind(),
                format!(
                    "{}: {error}; check that its directory exists and is writable",
                    path.display()
                ),
            )
        };
        let file = private::open_to_lock(&path).map_err(named)?;
        match file.try_lock() {
            Ok(()) => Ok(Some(Held { _file: Some(file) })),
            Err(TryLockError::WouldBlock) => Ok(None),
            Err(TryLockError::Error(error)) => Err(error),
        }
    }
}

/// Names are escaped, so that no region's name leads out of the directory and the dots between them are the only ones. What is too long for the name of a file ends in
/// a hash of all of it.
fn file(directory: &Path, names: &[&str]) -> PathBuf {
    let escaped = |name: &&str| utf8_percent_encode(name, NON_ALPHANUMERIC).to_string();
    let name = names.iter().map(escaped).collect::<Vec<_>>().join(".");
    let name = if name.len() <= LONGEST {
        name
    } else {
        format!("{name:.100}-{:032x}", fnv(&name))
    };
    directory.join(format!("{name}.lock"))
}

/// File systems take 255 bytes.
const LONGEST: usize = 250;
