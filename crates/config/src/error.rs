//! Why there is no configuration: the problems of a file, each with its place and its remedy.

use std::fmt;
use std::path::PathBuf;

use thiserror::Error;

/// Why there is no configuration. Nothing was requested; the exit code is 2.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum ConfigError {
    /// No file exists in any of the places.
    #[error(
        "no quotas.toml found; searched: {}\n  write one with `ingest init`, or name a file with \
        --config FILE or $INGEST_CONFIG",
        listed(.looked)
    )]
    NotFound {
        /// The places, in order.
        looked: Vec<PathBuf>,
    },
    /// The file cannot be read.
    #[error("{}: cannot read: {reason}\n  {}", path.display(), named_by.remedy())]
    Unreadable {
        /// The file.
        path: PathBuf,
        /// The system's message.
        reason: String,
        /// Where its name came from.
        named_by: NamedBy,
    },
    /// The file, or a `--set`, is invalid: every problem that was found.
    #[error("{}", joined(.0))]
    Wrong(Vec<Problem>),
}

/// Where the name of a configuration file came from.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum NamedBy {
    /// `--config`
    Flag,
    /// `$INGEST_CONFIG`
    Variable,
    /// Nowhere: it is in a place that is searched.
    Place,
}

impl NamedBy {
    const fn remedy(self) -> &'static str {
        match self {
            Self::Flag => "name a readable file with --config",
            Self::Variable => "set $INGEST_CONFIG to a readable file, or unset it",
            Self::Place => "make it readable, or name another file with --config",
        }
    }
}

/// One problem of the configuration. Never contains a secret or a password.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Problem {
    /// Where it was written: `quotas.toml:12`, or `--set ledger.url`.
    pub place: String,
    /// Its dotted path, as `--set` takes it; empty for a text that is not TOML.
    pub path: String,
    /// The value, shortened; `None` if it may be secret or is missing.
    pub value: Option<String>,
    /// What was expected.
    pub expected: String,
    /// What to write instead.
    pub instead: String,
}

impl Problem {
    /// A problem of a text that has no paths yet.
    pub fn of_text(place: String, expected: impl Into<String>, instead: impl Into<String>) -> Self {
        Self {
            place,
            path: String::new(),
            value: None,
            expected: expected.into(),
            instead: instead.into(),
        }
    }
}

impl fmt::Display for Problem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: ", self.place)?;
        match (&self.path, &self.value) {
            (path, _) if path.is_empty() => {}
            (path, Some(value)) => write!(f, "{path} = {value}: ")?,
            (path, None) => write!(f, "{path}: ")?,
        }
        write!(f, "{}; {}", self.expected, self.instead)
    }
}

fn listed(paths: &[PathBuf]) -> String {
    paths
        .iter()
        .map(|path| path.display().to_string())
        .collect::<Vec<_>>()
        .join(", ")
}

fn joined(problems: &[Problem]) -> String {
    problems
        .iter()
        .map(ToString::to_string)
        .collect::<Vec<_>>()
        .join("\n")
}
