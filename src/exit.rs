//! All exit codes.

use std::process;

/// The exit code of the process. Each code has one meaning.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Exit {
    /// All due work done, or stopped cleanly at a limit, or nothing was due.
    Success,
    /// Something failed or was refused, or a check found a fault: `check`, `repair`, `status --fail-if-stale`.
    Failed,
    /// Wrong usage or configuration; nothing was requested.
    Usage,
    /// A limit rejected a charge. For a run: it stopped cleanly, work remains, and `--strict` was given.
    Stopped,
    /// Ended by SIGHUP, after the page in flight was landed.
    HungUp,
    /// Ended by SIGINT, after the page in flight was landed.
    Interrupted,
    /// Ended by SIGTERM, after the page in flight was landed.
    Terminated,
}

impl Exit {
    /// [`Self::Failed`] or [`Self::Success`].
    #[must_use]
    pub const fn failed_if(has_failed: bool) -> Self {
        match has_failed {
            true => Self::Failed,
            false => Self::Success,
        }
    }

    /// Returns the code as a number.
    #[must_use]
    pub const fn code(self) -> u8 {
        match self {
            Self::Success => 0,
            Self::Failed => 1,
            Self::Usage => 2,
            Self::Stopped => 75,
            Self::HungUp => 129,
            Self::Interrupted => 130,
            Self::Terminated => 143,
        }
    }
}

impl From<Exit> for process::ExitCode {
    fn from(exit: Exit) -> Self {
        Self::from(exit.code())
    }
}
