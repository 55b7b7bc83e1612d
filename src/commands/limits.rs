//! Limits of the system that would end this process without a sentence.

use std::io;
use std::time::{SystemTime, UNIX_EPOCH};

use rustix::process::{Resource, Signal, getrlimit};
use tokio::signal::unix::{Signal as Listener, SignalKind, signal};

use super::Error;

/// What to do where no thread can be started.
pub const NO_THREADS: &str =
    "raise the limit of processes of this user (`ulimit -u`, or TasksMax= of a unit), or of memory";

/// What to do where no file can be opened.
pub use ingest_sqlite::NO_FILES;

/// The fewest files that any command opens at once.
const FEWEST_FILES: u64 = 16;

/// Rejects a limit of open files with which nothing can be done.
pub fn check_files() -> Result<(), Error> {
    match getrlimit(Resource::Nofile).current {
        Some(most) if most < FEWEST_FILES => Err(Error::Refused(format!(
            "the limit of open files is {most}; {NO_FILES}"
        ))),
        Some(_) | None => Ok(()),
    }
}

/// Rejects a clock that shows a time before 1970: libraries count from then.
pub fn check_clock() -> Result<(), Error> {
    match SystemTime::now().duration_since(UNIX_EPOCH) {
        Ok(_) => Ok(()),
        Err(_) => Err(Error::Refused(
            "the clock of this machine shows a time before 1970; nothing was requested; set the clock, and run again".to_owned(),
        )),
    }
}

/// Why nothing can be started, and what to do about it.
pub fn not_started(source: io::Error) -> Error {
    let why = ingest_sqlite::explain_making(&source);
    Error::Io {
        what: "cannot start".to_owned(),
        source: io::Error::other(why),
    }
}

/// Keeps SIGXFSZ from ending this process, for as long as the listener lives: a write beyond `ulimit -f` then fails, as on a full
/// disk.
pub fn outlive_limit_of_files() -> Result<Listener, Error> {
    signal(SignalKind::from_raw(Signal::XFSZ.as_raw())).map_err(not_started)
}
