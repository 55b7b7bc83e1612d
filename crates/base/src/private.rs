//! Directories and files that only their owner can read, and that are opened through no link: whoever can write a state directory
//! could lead a process of another user to that user's files with one.

use std::ffi::OsStr;
use std::fs::{DirBuilder, File, FileType, OpenOptions};
use std::io::{self, Write};
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::fs::{DirBuilderExt, FileTypeExt, OpenOptionsExt};
use std::path::Path;

use rustix::fs::{AtFlags, Mode, OFlags, mkdirat, openat, renameat, unlinkat};
use rustix::io::Errno;

use crate::bounded;

/// Readable and writable for the owner alone.
const FILE: Mode = Mode::RUSR.union(Mode::WUSR);
const DIRECTORY: Mode = Mode::RWXU;

/// Creates a directory and its parents. An existing one is not changed.
///
/// # Errors
/// Fails if the system does not allow it.
pub fn create_dir(path: &Path) -> io::Result<()> {
    if path.is_dir() {
        return Ok(());
    }
    DirBuilder::new().recursive(true).mode(0o700).create(path)
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
    // `create_new` follows no link at the end of the path.
    let made = OpenOptions::new()
        .write(true)
        .create_new(true)
        .mode(0o600)
        .open(path);
    match made {
        Err(error) if error.kind() != io::ErrorKind::AlreadyExists => Err(error),
        _ => Ok(()),
    }
}

/// An open directory. What is opened in it is found by its descriptor and a name, and is never a link.
#[derive(Debug)]
pub struct Directory(OwnedFd);

impl Directory {
    /// Opens a state directory. Its own path may lead through links: it is what the user asked for.
    ///
    /// # Errors
    /// Fails if it does not exist, or the system does not allow it.
    pub fn open(path: &Path) -> io::Result<Self> {
        // An empty path is the parent of a bare name.
        let path = Some(path).filter(|path| !path.as_os_str().is_empty());
        let path = path.unwrap_or(Path::new("."));
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
        Ok(Self(rustix::fs::open(path, flags, Mode::empty())?))
    }

    /// Opens a directory in this one.
    ///
    /// # Errors
    /// Fails if it does not exist or is a link, or the system does not allow it.
    pub fn below(&self, name: &str) -> io::Result<Self> {
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        match openat(&self.0, name, flags, Mode::empty()) {
            Ok(directory) => Ok(Self(directory)),
            Err(error) => Err(self.refused(OsStr::new(name), error)),
        }
    }

    /// Opens a directory in this one; creates it if it does not exist.
    ///
    /// # Errors
    /// As `below`.
    pub fn create_below(&self, name: &str) -> io::Result<Self> {
        match mkdirat(&self.0, name, DIRECTORY) {
            Ok(()) | Err(Errno::EXIST) => self.below(name),
            Err(error) => Err(error.into()),
        }
    }

    /// Opens a file to lock it or to append to it; creates it if it does not exist.
    ///
    /// # Errors
    /// Fails if it is no regular file, or the system does not allow it.
    pub fn append(&self, name: impl AsRef<OsStr>) -> io::Result<File> {
        self.file(
            name.as_ref(),
            OFlags::RDWR | OFlags::APPEND | OFlags::CREATE,
        )
    }

    /// Creates a file that did not exist.
    ///
    /// # Errors
    /// Fails if something has the name, or the system does not allow it.
    pub fn create_new(&self, name: impl AsRef<OsStr>) -> io::Result<File> {
        self.file(
            name.as_ref(),
            OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL,
        )
    }

    /// Opens a file for reading.
    ///
    /// # Errors
    /// Fails if it does not exist or is no regular file, or the system does not allow it.
    pub fn open_file(&self, name: impl AsRef<OsStr>) -> io::Result<File> {
        self.file(name.as_ref(), OFlags::RDONLY)
    }

    /// Reads a file of text, of at most `most` bytes.
    ///
    /// # Errors
    /// As `open_file`; also if it is longer or not UTF-8.
    pub fn read(&self, name: impl AsRef<OsStr>, most: u64) -> io::Result<String> {
        bounded::text(self.open_file(name)?, most)
    }

    /// Replaces a file: after a crash at any time it has the former text or this one.
    ///
    /// # Errors
    /// Fails if the system does not allow it; the file is then as it was.
    pub fn replace(&self, name: &str, bytes: &[u8]) -> io::Result<()> {
        let beside = format!("{name}.{}.new", std::process::id());
        // A process that was killed and had this number can have left it.
        self.remove(&beside)?;
        let mut file = self.create_new(&beside)?;
        file.write_all(bytes)
            .and_then(|()| file.sync_all())
            .and_then(|()| self.rename(&beside, name))
            .inspect_err(|_| drop(self.remove(&beside)))
    }

    /// Gives a file another name, in place of a file that has it, and waits until the disk has it.
    ///
    /// # Errors
    /// Fails if the system does not allow it.
    pub fn rename(&self, from: impl AsRef<OsStr>, to: impl AsRef<OsStr>) -> io::Result<()> {
        renameat(&self.0, from.as_ref(), &self.0, to.as_ref())?;
        Ok(rustix::fs::fsync(&self.0)?)
    }

    /// Deletes a file, if it is there.
    ///
    /// # Errors
    /// Fails if the system does not allow it.
    pub fn remove(&self, name: impl AsRef<OsStr>) -> io::Result<()> {
        match unlinkat(&self.0, name.as_ref(), AtFlags::empty()) {
            Ok(()) | Err(Errno::NOENT) => Ok(()),
            Err(error) => Err(error.into()),
        }
    }

    fn file(&self, name: &OsStr, how: OFlags) -> io::Result<File> {
        // `NONBLOCK`: a pipe would be waited for. It means nothing to a regular file.
        let flags = how | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::CLOEXEC;
        let opened = openat(&self.0, name, flags, FILE);
        let file = File::from(opened.map_err(|error| self.refused(name, error))?);
        match no_file(file.metadata()?.file_type()) {
            None => Ok(file),
            Some(why) => Err(io::Error::other(why)),
        }
    }

    /// What the system says of a link, or of a socket, does not name it.
    fn refused(&self, name: &OsStr, error: Errno) -> io::Error {
        let about = rustix::fs::statat(self.0.as_fd(), name, AtFlags::SYMLINK_NOFOLLOW);
        let kind = about.map(|about| rustix::fs::FileType::from_raw_mode(about.st_mode));
        match kind {
            Ok(rustix::fs::FileType::Symlink) => io::Error::other(LINK),
            Ok(rustix::fs::FileType::Socket) => io::Error::other(SOCKET),
            _ => error.into(),
        }
    }
}

/// Why something is not opened that is no regular file, and what to do; `None` for a regular file. Nothing is opened to find out:
/// that would wait for the other end of a pipe.
#[must_use]
pub fn no_file(kind: FileType) -> Option<&'static str> {
    match kind {
        _ if kind.is_file() => None,
        _ if kind.is_symlink() => Some(LINK),
        _ if kind.is_dir() => Some("the path is a directory; move it away"),
        _ if kind.is_fifo() => Some("it is a pipe, no regular file; delete it, and run again"),
        _ if kind.is_socket() => Some(SOCKET),
        _ => Some("it is a device, no regular file; delete it, and run again"),
    }
}

const SOCKET: &str = "it is a socket, no regular file; delete it, and run again";

/// What a message says of a link in a state directory.
pub const LINK: &str =
    "it is a link, and nothing in the state directory is opened through a link; delete the link";
