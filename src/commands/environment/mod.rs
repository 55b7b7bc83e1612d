//! The configuration, the state directory, and the files that are open in it.

mod names;
#[cfg(feature = "sandbox")]
mod practice;
mod stores;

use std::env;
use std::path::{Path, PathBuf};
use std::sync::{Arc, OnceLock, Weak};

use super::Error;
use super::owner;
use crate::cli::Global;
use ingest_base::clock::{Clock, CorrectedClock};
use ingest_base::private;
use ingest_catalog::{CatalogReader, Postgres};
use ingest_config::{Config, Sources};
use ingest_ledger::{LEDGER_FILE, OpenLedgerError, Witness};

/// The environment of a command.
pub struct Environment {
    /// `quotas.toml`.
    pub config: Config,
    /// The directory of ledger, catalog, journal and locks.
    pub state_dir: PathBuf,
    /// The clock: the machine's, or that of the catalog's database where the machine's is wrong.
    pub clock: Arc<dyn Clock>,
    /// The same clock, for corrections.
    corrected: Arc<CorrectedClock>,
    /// What this process has seen of the ledger's file.
    pub witness: Witness,
    /// The database of the catalog, once it is used.
    database: OnceLock<Postgres>,
    /// The catalog's file while it is open for landing, so that what only reads does not open it once more.
    landing: OnceLock<Weak<CatalogReader>>,
    /// Whether `--sandbox` was given: the upstreams are the sandbox's, which has secrets of its own.
    practising: bool,
}

impl Environment {
    /// Reads the configuration; opens nothing.
    pub fn load(global: &Global) -> Result<Self, Error> {
        #[cfg(feature = "sandbox")]
        if global.sandbox {
            return Self::practice(global, Vec::new());
        }
        // Before anything is read: a list of regions is kept there.
        if let Ok(state_dir) = state_dir(global) {
            owner::admit(&state_dir, global.as_owner)?;
        }
        let config = Config::load(&Sources {
            path: global.config.clone(),
            sets: global.sets.clone(),
        })?;
        Self::new(config, global)
    }

    fn new(config: Config, global: &Global) -> Result<Self, Error> {
        let corrected = Arc::<CorrectedClock>::default();
        Ok(Self {
            config,
            state_dir: state_dir(global)?,
            clock: Arc::<CorrectedClock>::clone(&corrected),
            corrected,
            witness: Witness::default(),
            database: OnceLock::new(),
            landing: OnceLock::new(),
            practising: false,
        })
    }

    /// Says that the state directory does not exist; `None` if it does, or the catalog is no file.
    pub fn missing_state_dir(&self) -> Option<String> {
        let is_missing = is_missing(&self.state_dir) && self.database().is_none();
        is_missing.then(|| self.nothing_stored(DIRECTORY, &self.state_dir))
    }

    /// Rejects a state directory that the command line names and that does not exist: nothing can be found there.
    pub fn expect_state_dir(&self, global: &Global) -> Result<(), Error> {
        match self.database() {
            None => self.expect(global, DIRECTORY, &self.state_dir),
            Some(_) => Ok(()),
        }
    }

    /// Rejects such a directory for a command that only uses the ledger, unless that is a server.
    pub fn expect_ledger(&self, global: &Global) -> Result<(), Error> {
        match self.config.ledger.store.is_file() {
            true => self.expect(global, DIRECTORY, &self.state_dir),
            false => Ok(()),
        }
    }

    /// Rejects such a directory, and one without a catalog, for a command that reads records.
    pub fn expect_catalog(&self, global: &Global) -> Result<(), Error> {
        self.expect_state_dir(global)?;
        match self.database() {
            None => self.expect(global, "the catalog", &self.state_dir.join(CATALOG_FILE)),
            Some(_) => Ok(()),
        }
    }

    fn expect(&self, global: &Global, what: &str, path: &Path) -> Result<(), Error> {
        // The usual directory is missing until the first run: that is no mistake of the command line.
        let is_named = global.state_dir.is_some() || self.practising;
        match is_named && is_missing(path) {
            true => Err(Error::Usage(self.nothing_stored(what, path))),
            false => Ok(()),
        }
    }

    fn nothing_stored(&self, what: &str, path: &Path) -> String {
        let sandbox = if self.practising { " --sandbox" } else { "" };
        format!(
            "{what} {} does not exist: no run has stored anything there; run `ingest --region all{sandbox}`, or name \
            another directory with --state-dir",
            path.display()
        )
    }

    /// Creates the state directory if it does not exist.
    pub fn create_state_dir(&self) -> Result<(), Error> {
        // In place of a directory that was moved away with a ledger that this process charged, none is made.
        let ledger = self.state_dir.join(LEDGER_FILE);
        self.witness
            .in_place(&ledger)
            .map_err(OpenLedgerError::from)?;
        let remedy = "set --state-dir or $INGEST_STATE_DIR";
        let what = format!(
            "cannot create the state directory {}",
            self.state_dir.display()
        );
        private::create_dir(&self.state_dir).map_err(|error| {
            // A name below the directory, so that the directory itself is checked too.
            match ingest_sqlite::file_above(&self.state_dir.join(CATALOG_FILE)) {
                Some(file) => Error::Refused(format!(
                    "{what}: {} is a file, not a directory; {remedy}",
                    file.display()
                )),
                None => Error::Refused(format!("{what}: {error}; {remedy}")),
            }
        })
    }
}

/// What a message calls the state directory.
const DIRECTORY: &str = "the state directory";

pub const CATALOG_FILE: &str = "catalog.db";
/// The directory of `--sandbox` in the state directory.
pub const PRACTICE: &str = "sandbox";

pub fn is_missing(path: &Path) -> bool {
    // A file that cannot be inspected may exist: opening it reports why it cannot be used.
    matches!(path.try_exists(), Ok(false))
}

/// The first of `--state-dir`, `$INGEST_STATE_DIR`, `$STATE_DIRECTORY`, `$XDG_STATE_HOME/ingest` and
/// `~/.local/state/ingest`.
fn state_dir(global: &Global) -> Result<PathBuf, Error> {
    let set = |name| env::var_os(name).filter(|value| !value.is_empty());
    let path = |name| set(name).map(PathBuf::from);
    // systemd separates the directories of `StateDirectory=` with colons.
    let first_of_systemd = || env::split_paths(&set("STATE_DIRECTORY")?).next();
    // The XDG specification says that a relative path is ignored.
    let xdg = || path("XDG_STATE_HOME").filter(|home| home.is_absolute());
    let found = global.state_dir.clone();
    let found = found.or_else(|| path("INGEST_STATE_DIR"));
    found
        .or_else(first_of_systemd)
        .or_else(|| Some(xdg()?.join("ingest")))
        .or_else(|| Some(path("HOME")?.join(".local/state/ingest")))
        .ok_or_else(|| {
            Error::Usage(
                "no state directory: set --state-dir, $INGEST_STATE_DIR or $HOME".to_owned(),
            )
        })
}
