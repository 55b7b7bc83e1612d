//! Where the configuration comes from.

use std::io::ErrorKind;
use std::path::{Path, PathBuf};

use super::error::{ConfigError, NamedBy};
use super::{Config, read, set};
use ingest_base::bounded;

const FILE: &str = "quotas.toml";

/// The options of the command line that concern the configuration.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Sources {
    /// `--config`
    pub path: Option<PathBuf>,
    /// Each `--set PATH=VALUE`, in order.
    pub sets: Vec<String>,
}

/// The surroundings of a process.
#[derive(Clone)]
pub struct Surroundings<'a> {
    /// The directory it runs in; empty: what relative paths are relative to.
    pub directory: PathBuf,
    /// The environment.
    pub variable: &'a dyn Fn(&str) -> Option<PathBuf>,
}

impl Surroundings<'_> {
    /// The places in which the file is searched, in order.
    fn places(&self) -> Vec<PathBuf> {
        let own = self
            .set("XDG_CONFIG_HOME")
            // The XDG specification says that a relative path is ignored.
            .filter(|home| home.is_absolute())
            .or_else(|| self.set("HOME").map(|home| home.join(".config")));
        let own = own.map(|directory| directory.join("ingest").join(FILE));
        let system = Path::new("/etc/ingest").join(FILE);
        [Some(self.directory.join(FILE)), own, Some(system)]
            .into_iter()
            .flatten()
            .collect()
    }

    /// A variable that is set and not empty.
    fn set(&self, variable: &str) -> Option<PathBuf> {
        (self.variable)(variable).filter(|value| !value.as_os_str().is_empty())
    }
}

impl Config {
    /// Reads the configuration that the command line or the environment names, or that is in one of the usual places.
    ///
    /// # Errors
    /// There is no file, or it cannot be read, or anything in it or in a `--set` is invalid.
    pub fn load(sources: &Sources) -> Result<Self, ConfigError> {
        let variable = |name: &str| std::env::var_os(name).map(PathBuf::from);
        Self::load_from(
            sources,
            &Surroundings {
                directory: PathBuf::new(),
                variable: &variable,
            },
        )
    }

    /// Like [`Config::load`], in surroundings of the caller's choice.
    ///
    /// # Errors
    /// The same.
    pub fn load_from(
        sources: &Sources,
        surroundings: &Surroundings<'_>,
    ) -> Result<Self, ConfigError> {
        let (path, text) = find(sources, surroundings)?;
        read::config(&text, &path, &sources.sets).map_err(ConfigError::Wrong)
    }

    /// Reads the text of a configuration. Messages call it `path`.
    ///
    /// # Errors
    /// Anything in it or in a `--set` is invalid: every problem that was found.
    pub fn parse(text: &str, path: &Path, sets: &[String]) -> Result<Self, ConfigError> {
        read::config(text, path, sets).map_err(ConfigError::Wrong)
    }
}

fn find(
    sources: &Sources,
    surroundings: &Surroundings<'_>,
) -> Result<(PathBuf, String), ConfigError> {
    if let Some(path) = &sources.path {
        return named(path, NamedBy::Flag);
    }
    if let Some(path) = surroundings.set("INGEST_CONFIG") {
        return named(&path, NamedBy::Variable);
    }
    let places = surroundings.places();
    for path in &places {
        match bounded::file(path, bounded::DOCUMENT) {
            Err(error)
                // A file where a directory is expected: nothing is at this place. Any other error may hide a configuration.
                if matches!(error.kind(), ErrorKind::NotFound | ErrorKind::NotADirectory) => {}
            Err(error) => return Err(unreadable(path, NamedBy::Place, &error)),
            Ok(bytes) => return Ok((path.clone(), text(path, bytes)?)),
        }
    }
    Err(ConfigError::NotFound { looked: places })
}

fn named(path: &Path, named_by: NamedBy) -> Result<(PathBuf, String), ConfigError> {
    let bytes = bounded::file(path, bounded::DOCUMENT);
    let bytes = bytes.map_err(|error| unreadable(path, named_by, &error))?;
    Ok((path.to_owned(), text(path, bytes)?))
}

fn text(path: &Path, bytes: Vec<u8>) -> Result<String, ConfigError> {
    String::from_utf8(bytes).map_err(|error| {
        let right = error
            .as_bytes()
            .iter()
            .take(error.utf8_error().valid_up_to());
        let line = right.filter(|byte| **byte == b'\n').count() + 1;
        ConfigError::Wrong(vec![set::not_utf8(path, line)])
    })
}

fn unreadable(path: &Path, named_by: NamedBy, error: &std::io::Error) -> ConfigError {
    ConfigError::Unreadable {
        path: path.to_owned(),
        reason: error.to_string(),
        named_by,
    }
}
