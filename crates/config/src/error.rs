//! Why there is no configuration: the problems of a file, each with its place and its remedy.

use std::fmt;
use std::path::PathBuf;

use serde_path_to_error::Segment;
use thiserror::Error;

/// Why there is no configuration. Nothing was requested; the exit code is 2.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum ConfigError {
    /// No file exists in any of the places.
    #[error(
        "no quotas.toml found; searched: {}\n  write one with `ingest init`, or name a file with \
        --config FILE or $INGEST_CONFIG",
        joined(.looked.iter().map(|path| path.display().to_string()), ", ")
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
    #[error("{}", joined(.0.iter().map(ToString::to_string), "\n"))]
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

/// What is wrong with a value. serde hands it on as the text of an error, which the document takes apart again.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Refusal {
    /// The keys below the value that lead to what is wrong.
    pub at: Vec<String>,
    /// What was expected. Never contains the value.
    pub expected: String,
    /// What to write instead.
    pub instead: String,
}

/// What stands between the parts of a [`Refusal`], and no text of a file that was read has.
const BETWEEN: char = '\u{1f}';

/// What is said of a key that a table does not have.
pub const UNKNOWN: &str = "unknown key";
/// What is said of a key that must be present.
pub const MISSING: &str = "is missing";

impl Refusal {
    pub fn new(expected: impl fmt::Display, instead: impl Into<String>) -> Self {
        Self {
            at: Vec::new(),
            expected: expected.to_string(),
            instead: instead.into(),
        }
    }

    /// A key of the table is missing.
    pub fn missing(key: &str, example: &str) -> Self {
        Self::new(MISSING, format!("write {key} = {example}")).below(key)
    }

    /// Refuses the keys that are present although the `kind` of their table has none of the name: the name, whether it is present, and
    /// whether the kind has it.
    pub fn of_kind(keys: &[(&str, bool, bool)]) -> Result<(), Self> {
        let is_foreign = |(_, is_present, is_known): &&(_, bool, bool)| *is_present && !is_known;
        match keys.iter().find(is_foreign) {
            Some((key, ..)) => {
                let refusal = Self::new(
                    "unknown key: a table of this kind does not have it",
                    "remove it",
                );
                Err(refusal.below(key))
            }
            None => Ok(()),
        }
    }

    pub fn unknown_key(instead: String) -> Self {
        Self::new(UNKNOWN, instead)
    }

    pub fn no_text() -> Self {
        Self::new("expected a string", "write it in quotes")
    }

    pub fn no_list() -> Self {
        Self::new("expected a list", "write the values in square brackets")
    }

    pub fn no_table() -> Self {
        Self::new("expected a table", "write { name = value }, or a [section]")
    }

    /// The same of a value of which the refused one is the value of a key.
    pub fn below(mut self, key: &str) -> Self {
        self.at.insert(0, key.to_owned());
        self
    }

    /// Reads the text of a refusal; `None` if it is another error.
    pub fn parse(text: &str) -> Option<Self> {
        let mut parts = text.split(BETWEEN).map(str::to_owned);
        let (instead, expected) = (parts.next_back()?, parts.next_back()?);
        let at = parts.skip(1).collect();
        Some(Self {
            at,
            expected,
            instead,
        })
    }
}

/// An error of a table that was read apart, with the keys that lead to it.
pub struct Nested(String);

/// What encloses the keys of a [`Nested`] error.
const NESTED: char = '\u{1e}';

impl Nested {
    pub fn of(error: &serde_path_to_error::Error<serde_json::Error>) -> Self {
        let keys = keys_of(error.path()).join(&BETWEEN.to_string());
        Self(format!("{NESTED}{keys}{NESTED}{}", error.inner()))
    }

    /// The keys and the error itself; `None` if it is another error.
    pub fn parse(text: &str) -> Option<(Vec<String>, &str)> {
        let (keys, inner) = text.strip_prefix(NESTED)?.split_once(NESTED)?;
        let keys = keys.split(BETWEEN).filter(|key| !key.is_empty());
        Some((keys.map(str::to_owned).collect(), inner))
    }
}

impl fmt::Display for Nested {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// The keys of a path, elements of lists by their numbers.
pub fn keys_of(path: &serde_path_to_error::Path) -> Vec<String> {
    let key = |segment: &Segment| match segment {
        Segment::Seq { index } => Some(index.to_string()),
        Segment::Map { key } => Some(key.clone()),
        Segment::Enum { .. } | Segment::Unknown => None,
    };
    path.iter().filter_map(key).collect()
}

impl fmt::Display for Refusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self {
            at,
            expected,
            instead,
        } = self;
        for key in at {
            write!(f, "{BETWEEN}{key}")?;
        }
        write!(f, "{BETWEEN}{expected}{BETWEEN}{instead}")
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

fn joined(all: impl Iterator<Item = String>, by: &str) -> String {
    all.collect::<Vec<_>>().join(by)
}
