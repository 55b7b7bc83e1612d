use std::collections::HashSet;
use std::ffi::OsStr;
use std::fs::{self, File, TryLockError};
use std::io::{self, Write};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::UNIX_EPOCH;

use async_trait::async_trait;
use percent_encoding::{NON_ALPHANUMERIC, percent_decode_str, utf8_percent_encode};

use super::{CatalogError, HeldLease, Holder, Lease, Leases, Resource, Taken};
use ingest_base::bounded;
use ingest_base::fnv::fnv;
use ingest_base::private::Directory;
use ingest_quota::Timestamp;
use ingest_sqlite::explain_making;

/// Leases for the processes of one machine: each is a lock on a file. The system releases it when its process ends, and
/// only then, so a lease is never lost.
#[derive(Debug, Clone)]
pub struct LockFiles {
    directory: Arc<Directory>,
    /// The directory in messages.
    path: PathBuf,
}

/// The directory of the lock files in a state directory.
const LOCKS: &str = "locks";

impl LockFiles {
    /// Locks in a state directory, which must exist.
    ///
    /// # Errors
    /// Fails if the directory of the lock files cannot be created.
    pub fn open(state_dir: &Path) -> io::Result<Self> {
        let directory = Directory::open(state_dir)?.create_below(LOCKS)?;
        Ok(Self {
            directory: Arc::new(directory),
            path: state_dir.join(LOCKS),
        })
    }

    /// The name of a resource's lock file. Names are escaped, so that they cannot lead out of the directory and contain no dots. A
    /// name that is too long for a file ends in a hash of all of it.
    fn name(resource: &Resource) -> String {
        let names: &[&str] = match resource {
            Resource::Region { job, region } => &[job, region],
            Resource::Ids { upstream, kind } => &["ids", upstream, kind],
            Resource::Retention { upstream } => &["keep", "", upstream],
            Resource::Repair => &["repair", "", ""],
        };
        let escaped = |name: &&str| utf8_percent_encode(name, NON_ALPHANUMERIC).to_string();
        let name = names.iter().map(escaped).collect::<Vec<_>>().join(".");
        let name = if name.len() <= LONGEST {
            name
        } else {
            format!("{name:.100}-{:032x}", fnv(&name))
        };
        format!("{name}.lock")
    }

    /// Returns which resources the processes of this machine hold, by the locks of a state directory. Without the system's
    /// list of locks, and for names that are too long for a file, it is not known.
    pub fn held(state_dir: &Path) -> Vec<HeldLease> {
        let locked = fs::read_to_string("/proc/locks").unwrap_or_default();
        // A line ends with `PROCESS MAJOR:MINOR:INODE START END`.
        let inode = |line: &str| {
            line.split_whitespace()
                .nth(5)?
                .rsplit(':')
                .next()?
                .parse()
                .ok()
        };
        let locked: HashSet<u64> = locked.lines().filter_map(inode).collect();
        let Ok(directory) = Directory::open(state_dir).and_then(|state| state.below(LOCKS)) else {
            return Vec::new();
        };
        let files = fs::read_dir(state_dir.join(LOCKS)).into_iter().flatten();
        let held = files.flatten().filter_map(|file| {
            let about = file.metadata().ok()?;
            let resource = resource(file.file_name().to_str()?)?;
            let holder = holder(&directory, &file.file_name());
            let holder = holder.filter(|_| locked.contains(&about.ino()))?;
            Some(HeldLease { resource, holder })
        });
        held.collect()
    }
}

/// The resource of a lock file.
fn resource(name: &str) -> Option<Resource> {
    let names = name.strip_suffix(".lock")?.split('.');
    let names = names.map(|name| percent_decode_str(name).decode_utf8().ok());
    let names: Vec<_> = names.collect::<Option<_>>()?;
    match names.as_slice() {
        [job, region] => Some(Resource::region(job, region)),
        [ids, upstream, kind] if ids == "ids" => Some(Resource::ids(upstream, kind)),
        _ => None,
    }
}

/// The longest name: file systems allow 255 bytes with the suffix.
const LONGEST: usize = 250;

#[async_trait]
impl Leases for LockFiles {
    async fn take(&self, resource: &Resource) -> Result<Taken, CatalogError> {
        let name = Self::name(resource);
        lock(&self.directory, &name).map_err(|error| {
            CatalogError::Failed(format!(
                "cannot lock {resource}: {}: {}",
                self.path.join(&name).display(),
                explain_making(&error)
            ))
        })
    }
}

fn lock(directory: &Directory, name: &str) -> io::Result<Taken> {
    let file = directory.append(name)?;
    match file.try_lock() {
        Ok(()) => {
            // The lock counts even if the holder's name cannot be written.
            let _ = sign(&file);
            Ok(Taken::Granted(Lease::new(file)))
        }
        Err(TryLockError::WouldBlock) => Ok(Taken::Held(holder(directory, OsStr::new(name)))),
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

/// More bytes than a process and a machine's name have.
const LONGEST_HOLDER: u64 = 64 << 10;

/// The process that holds a lock; `None` if it has not written its name yet.
fn holder(directory: &Directory, name: &OsStr) -> Option<Holder> {
    let file = directory.open_file(name).ok()?;
    let signed = bounded::text(&file, LONGEST_HOLDER).ok()?;
    let (process, machine) = signed.trim_end().split_once(' ')?;
    Some(Holder {
        machine: machine.to_owned(),
        process: process.parse().ok()?,
        since: since(&file),
        until: None,
    })
}

/// When a lock was taken: its holder writes its name then.
fn since(file: &File) -> Option<Timestamp> {
    let written = file.metadata().ok()?.modified().ok()?;
    let since = written.duration_since(UNIX_EPOCH).ok()?;
    i64::try_from(since.as_micros())
        .ok()
        .map(Timestamp::from_micros)
}
