use std::fs::{self, File, TryLockError};
use std::io::{self, Write};
use std::path::{Path, PathBuf};

use async_trait::async_trait;
use percent_encoding::{NON_ALPHANUMERIC, utf8_percent_encode};

use super::{CatalogError, Holder, Lease, Leases, Resource, Taken};
use crate::fnv::fnv;
use crate::private;

/// Leases for the processes of one machine: each is a lock on a file. The system releases it when its process ends, and
/// only then, so a lease is never lost and needs no term.
#[derive(Debug, Clone)]
pub struct LockFiles {
    directory: PathBuf,
}

impl LockFiles {
    /// Locks in a state directory, which must exist.
    ///
    /// # Errors
    /// Fails if the directory of the lock files cannot be created.
    pub fn open(state_dir: &Path) -> io::Result<Self> {
        let directory = state_dir.join("locks");
        private::create_dir(&directory)?;
        Ok(Self { directory })
    }

    /// The lock file of a resource. Names are escaped, so that they cannot lead out of the directory and contain no dots. A
    /// name that is too long for a file ends in a hash of all of it.
    fn path(&self, resource: &Resource) -> PathBuf {
        let names: &[&str] = match resource {
            Resource::Region { job, region } => &[job, region],
            Resource::Ids { upstream, kind } => &["ids", upstream, kind],
        };
        let escaped = |name: &&str| utf8_percent_encode(name, NON_ALPHANUMERIC).to_string();
        let name = names.iter().map(escaped).collect::<Vec<_>>().join(".");
        let name = if name.len() <= LONGEST {
            name
        } else {
            format!("{name:.100}-{:032x}", fnv(&name))
        };
        self.directory.join(format!("{name}.lock"))
    }
}

/// The longest name: file systems allow 255 bytes with the suffix.
const LONGEST: usize = 250;

#[async_trait]
impl Leases for LockFiles {
    async fn take(&self, resource: &Resource) -> Result<Taken, CatalogError> {
        let path = self.path(resource);
        lock(&path).map_err(|error| {
            CatalogError::Failed(format!(
                "cannot lock {resource}: {}: {error}; check that its directory exists and is \
                writable",
                path.display()
            ))
        })
    }

    fn check(&self, _: &Resource) -> Result<(), CatalogError> {
        Ok(())
    }
}

fn lock(path: &Path) -> io::Result<Taken> {
    let file = private::open_to_lock(path)?;
    match file.try_lock() {
        Ok(()) => {
            // The lock counts even if the holder's name cannot be written.
            let _ = sign(&file);
            Ok(Taken::Granted(Lease::new(file)))
        }
        Err(TryLockError::WouldBlock) => Ok(Taken::Held(holder(path))),
        Err(TryLockError::Error(error)) => Err(error),
    }
}

/// Writes the holder's name for other processes to read.
fn sign(mut file: &File) -> io::Result<()> {
    file.set_len(0)?;
    let Holder {
        machine, process, ..
    } = Holder::this_process();
    writeln!(file, "{process} {machine}")
}

/// The process that holds a lock; `None` if it has not written its name yet.
fn holder(path: &Path) -> Option<Holder> {
    let signed = fs::read_to_string(path).ok()?;
    let (process, machine) = signed.trim_end().split_once(' ')?;
    Some(Holder {
        machine: machine.to_owned(),
        process: process.parse().ok()?,
        since: None,
        until: None,
    })
}
