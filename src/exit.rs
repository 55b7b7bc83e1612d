//! The exit codes, all of them.

use std::process;

/// What the process tells its caller. Each code means one thing.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Exit {
    /// All due work done, or stopped cleanly at a limit, or nothing was due.
    Success,
    /// Something failed or was refused, or a check found a fault: `check`, `repair`, `status --fail-if-stale`.
    Failed,
    /// Wrong usage or configuration; nothing was requested.
    Usage,
    /// A limit said no. For a run: stopped cleanly, work remains, and the caller asked to be told.
    Stopped,
    /// Ended by SIGINT, after the page in flight was landed.
    Interrupted,
    /// Ended by SIGTERM, after the page in flight was landed.
    Terminated,
    /// What the command of `ingest exec` ended with.
    Passed(u8),
}

impl Exit {
    /// The number.
    #[must_use]
    pub const fn code(self) -> u8 {
        match self {
            Self::Success => 0,
            Self::Failed => 1,
            Self::Usage => 2,
            Self::Stopped => 75,
            Self::Interrupted => 130,
            Self::Terminated => 143,
            Self::Passed(code) => code,
        }
    }
}

impl From<Exit> for process::ExitCode {
    fn from(exit: Exit) -> Self {
        Self::from(exit.code())
    }
}
