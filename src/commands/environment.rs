//! What every command works in: the configuration, the state directory, and what is opened there.

use std::collections::HashMap;
use std::env;
#[cfg(feature = "sandbox")]
use std::path::Path;
use std::path::PathBuf;
use std::sync::{Arc, OnceLock};

use super::Error;
use super::charging::Charging;
#[cfg(feature = "sandbox")]
use super::presets;
use crate::catalog::{Archive, PassReader, PassStore, ReadOnly, SqliteCatalog};
use crate::cli::{Global, RunArgs};
use crate::clock::{Clock, SystemClock};
#[cfg(feature = "sandbox")]
use crate::config::ConfigError;
#[cfg(feature = "sandbox")]
use crate::config::{Auth, Upstream};
use crate::config::{Config, Credential, Job, Region, Sources, closest, without};
use crate::private;
use crate::quota::Account;
use crate::run::{Selection, accounts};
#[cfg(feature = "sandbox")]
use crate::secret::{Secret, Secrets};
use crate::upstream::{self, Client, ClientError};

/// What every command works in.
pub struct Environment {
    /// `quotas.toml`.
    pub config: Config,
    /// Where ledger, catalog, journal and locks are.
    pub state_dir: PathBuf,
    /// What time it is.
    pub clock: Arc<dyn Clock>,
    /// That this process charges the ledger, for as long as it works in here.
    charging: OnceLock<Charging>,
    /// Whether the upstreams are stand-ins, which know secrets of their own.
    #[cfg(feature = "sandbox")]
    practising: bool,
}

impl Environment {
    /// Reads the configuration; opens nothing.
    pub fn load(global: &Global) -> Result<Self, Error> {
        let config = Config::load(&Sources {
            path: global.config.clone(),
            sets: global.sets.clone(),
        })?;
        Self::of(config, global)
    }

    fn of(config: Config, global: &Global) -> Result<Self, Error> {
        Ok(Self {
            config,
            state_dir: state_dir(global)?,
            clock: Arc::new(SystemClock),
            charging: OnceLock::new(),
            #[cfg(feature = "sandbox")]
            practising: false,
        })
    }

    /// The same, with the built-in configuration where there is no file: for the sandbox, which spends nothing.
    #[cfg(feature = "sandbox")]
    pub fn load_or_built_in(global: &Global) -> Result<Self, Error> {
        match Self::load(global) {
            Err(Error::Config(ConfigError::NotFound { .. })) => {
                let config = Config::parse(presets::SHIPPED, Path::new(BUILT_IN), &global.sets)?;
                Self::of(config, global)
            }
            loaded => loaded,
        }
    }

    /// The same for practice: other values in the configuration, a ledger in a file, and a state directory of its own.
    #[cfg(feature = "sandbox")]
    pub fn practice(global: &Global, mut sets: Vec<String>) -> Result<Self, Error> {
        sets.push("ledger.url=sqlite".to_owned());
        let global = Global {
            sets: global.sets.iter().cloned().chain(sets).collect(),
            ..global.clone()
        };
        let environment = Self::load_or_built_in(&global)?;
        if environment.config.path == Path::new(BUILT_IN) {
            tracing::warn!(
                "no quotas.toml found; the sandbox uses the built-in configuration (write it to a \
                file with `ingest init`)"
            );
        }
        Ok(Self {
            state_dir: environment.state_dir.join(PRACTICE),
            practising: true,
            ..environment
        })
    }

    /// Makes the state directory, if it is not there.
    pub fn create_state_dir(&self) -> Result<(), Error> {
        let remedy = "set --state-dir or $INGEST_STATE_DIR";
        let what = format!(
            "cannot create the state directory {}",
            self.state_dir.display()
        );
        private::create_dir(&self.state_dir).map_err(|error| {
            // A name below the directory, so that the directory itself is among what is looked at.
            match crate::sqlite::file_above(&self.state_dir.join(CATALOG_FILE)) {
                Some(file) => Error::Refused(format!(
                    "{what}: {} is a file, not a directory; {remedy}",
                    file.display()
                )),
                None => Error::Refused(format!("{what}: {error}; {remedy}")),
            }
        })
    }

    /// Keeps what says that this process charges.
    pub fn hold(&self, charging: Charging) {
        // Once is enough: the first stays.
        let _ = self.charging.set(charging);
    }

    /// The catalog, for landing.
    pub fn catalog(&self) -> Result<Arc<dyn PassStore>, Error> {
        Ok(Arc::new(SqliteCatalog::open(
            &self.state_dir.join(CATALOG_FILE),
        )?))
    }

    /// The passes of the catalog, for reading.
    pub fn passes(&self) -> Result<Arc<dyn PassReader>, Error> {
        Ok(Arc::new(self.catalog_to_read()?))
    }

    /// The records and the history of the catalog, for reading.
    pub fn archive(&self) -> Result<Arc<dyn Archive>, Error> {
        Ok(Arc::new(self.catalog_to_read()?))
    }

    fn catalog_to_read(&self) -> Result<SqliteCatalog<ReadOnly>, Error> {
        let path = self.state_dir.join(CATALOG_FILE);
        Ok(SqliteCatalog::open_read_only(&path)?)
    }

    /// The ways to the upstreams that these jobs pull from.
    pub fn upstreams(
        &self,
        selection: &Selection,
    ) -> HashMap<String, Result<Arc<dyn upstream::Upstream>, String>> {
        let credentials = selection.iter().map(|(job, _)| &job.credential);
        credentials
            .map(|credential| (credential.name.clone(), self.upstream(credential)))
            .collect()
    }

    /// The way of a credential to its upstream.
    pub fn upstream(
        &self,
        credential: &Arc<Credential>,
    ) -> Result<Arc<dyn upstream::Upstream>, String> {
        match self.client(credential) {
            Ok(client) => Ok(Arc::new(client)),
            Err(error) => Err(error.to_string()),
        }
    }

    #[cfg(feature = "sandbox")]
    pub fn client(&self, credential: &Credential) -> Result<Client, ClientError> {
        if self.practising {
            let client = Client::new(sandboxed(&credential.upstream), known_secrets(credential))?;
            return Ok(client.with(credential.limits.clone()));
        }
        Client::of(credential, &self.state_dir)
    }

    #[cfg(not(feature = "sandbox"))]
    pub fn client(&self, credential: &Credential) -> Result<Client, ClientError> {
        Client::of(credential, &self.state_dir)
    }

    /// The accounts of all credentials, each once.
    pub fn accounts(&self) -> Vec<Arc<Account>> {
        accounts(self.config.credentials.values())
    }

    /// The jobs and regions that were asked for.
    pub fn select(&self, args: &RunArgs) -> Result<Selection, Error> {
        self.select_of(&args.regions, &args.jobs)
    }

    /// These regions, or `all`, of these jobs; of all jobs where none is named.
    pub fn select_of(&self, regions: &[String], jobs: &[String]) -> Result<Selection, Error> {
        let jobs = self.jobs(jobs)?;
        for region in regions.iter().filter(|region| *region != ALL) {
            if jobs
                .iter()
                .all(|job| job.regions.iter().all(|known| known.code != *region))
            {
                return Err(Error::Usage(unknown(
                    "region",
                    region,
                    self.config.regions.iter().map(|region| &*region.code),
                )));
            }
        }
        let asked = |region: &&Arc<Region>| {
            regions
                .iter()
                .any(|asked| asked == ALL || *asked == region.code)
        };
        let of_job = |job: &Arc<Job>| job.regions.iter().filter(asked).cloned().collect();
        Ok(jobs
            .into_iter()
            .map(|job| (Arc::clone(&job), of_job(&job)))
            .collect())
    }

    fn jobs(&self, asked: &[String]) -> Result<Vec<Arc<Job>>, Error> {
        let known = || self.config.jobs.iter().map(|job| &*job.name);
        if let Some(unheard) = asked
            .iter()
            .find(|asked| known().all(|name| name != *asked))
        {
            return Err(Error::Usage(unknown("job", unheard, known())));
        }
        let wanted = |job: &&Arc<Job>| asked.is_empty() || asked.contains(&job.name);
        Ok(self.config.jobs.iter().filter(wanted).cloned().collect())
    }
}

/// An upstream as the sandbox serves it: it has no token endpoint, and knows one secret of each credential.
#[cfg(feature = "sandbox")]
fn sandboxed(upstream: &Arc<Upstream>) -> Arc<Upstream> {
    match upstream.auth {
        Auth::OAuth(_) => Arc::new(Upstream {
            auth: Auth::Bearer,
            ..(**upstream).clone()
        }),
        Auth::None | Auth::Header(_) | Auth::Query(_) | Auth::Bearer | Auth::Basic { .. } => {
            Arc::clone(upstream)
        }
    }
}

/// The secret by which the sandbox knows a credential, in place of each of its secrets.
#[cfg(feature = "sandbox")]
fn known_secrets(credential: &Credential) -> Secrets {
    let secret = crate::sandbox::Sandbox::secret_of(&credential.name);
    let given = || Secret::given(&credential.name, secret.clone().into());
    let named = credential
        .secrets
        .keys()
        .map(|name| (name.clone(), given()));
    Secrets::from(given()).with_named(named.collect())
}

const ALL: &str = "all";
pub const CATALOG_FILE: &str = "catalog.db";
/// How messages call the configuration that is part of the program.
#[cfg(feature = "sandbox")]
const BUILT_IN: &str = "built-in quotas.toml";
/// Where `--sandbox` has its files, in the state directory.
pub const PRACTICE: &str = "sandbox";

/// A message about a name that is not known.
pub fn unknown<'a>(what: &str, name: &str, known: impl Iterator<Item = &'a str>) -> String {
    let known: Vec<&str> = known.collect();
    let hint = closest(name, &known)
        .map(|close| format!("; did you mean `{close}`{}?", without(name, close)));
    format!(
        "unknown {what} `{name}`{}; defined: {}",
        hint.unwrap_or_default(),
        known.join(", ")
    )
}

/// The first of `--state-dir`, `$INGEST_STATE_DIR`, `$STATE_DIRECTORY`, `$XDG_STATE_HOME/ingest` and
/// `~/.local/state/ingest`.
fn state_dir(global: &Global) -> Result<PathBuf, Error> {
    let set = |name| {
        env::var_os(name)
            .filter(|value| !value.is_empty())
            .map(PathBuf::from)
    };
    let first_of_systemd = || {
        let directories = env::var_os("STATE_DIRECTORY").filter(|value| !value.is_empty())?;
        env::split_paths(&directories).next()
    };
    global
        .state_dir
        .clone()
        .or_else(|| set("INGEST_STATE_DIR"))
        .or_else(first_of_systemd)
        // A relative one is ignored: the specification says so.
        .or_else(|| {
            Some(
                set("XDG_STATE_HOME")
                    .filter(|home| home.is_absolute())?
                    .join("ingest"),
            )
        })
        .or_else(|| Some(set("HOME")?.join(".local/state/ingest")))
        .ok_or_else(|| {
            Error::Usage(
                "no state directory: set --state-dir, $INGEST_STATE_DIR or $HOME".to_owned(),
            )
        })
}
