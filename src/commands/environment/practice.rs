//! `--sandbox`: the same configuration against a stand-in, with stores of its own.

use std::path::Path;
use std::sync::Arc;

use super::{Environment, PRACTICE};
use crate::cli::Global;
use crate::commands::{Error, presets};
use ingest_base::private;
use ingest_config::{Auth, Config, ConfigError, Credential, LedgerStore, Upstream};
use ingest_secret::{Secret, Secrets};

/// The name of the built-in configuration in messages.
const BUILT_IN: &str = "built-in quotas.toml";

impl Environment {
    /// Reads the configuration, or the built-in one if there is no file: for the sandbox, which spends nothing.
    pub fn load_or_built_in(global: &Global) -> Result<Self, Error> {
        match Self::load(global) {
            Err(Error::Config(ConfigError::NotFound { .. })) => {
                let config = Config::parse(presets::SHIPPED, Path::new(BUILT_IN), &global.sets)?;
                Self::new(config, global)
            }
            loaded => loaded,
        }
    }

    /// Returns the environment of a sandbox run: other configuration values, stores of its own, and a separate state
    /// directory. Its ledger is a file, or in the Redis of a `--set`, apart from the real one.
    pub fn practice(global: &Global, mut sets: Vec<String>) -> Result<Self, Error> {
        refuse_catalog(&global.sets)?;
        let has_ledger = global.sets.iter().any(|set| path_of(set) == "ledger.url");
        sets.extend((!has_ledger).then(|| "ledger.url=sqlite".to_owned()));
        // Behind the sets of the command line, since the last one of a path holds.
        sets.push("catalog.url=sqlite".to_owned());
        let global = Global {
            sets: global.sets.iter().cloned().chain(sets).collect(),
            sandbox: false,
            ..global.clone()
        };
        let mut environment = Self::load_or_built_in(&global)?;
        let directory = environment.state_dir.join(PRACTICE);
        if directory.is_symlink() {
            let what = format!("{}: {}", directory.display(), private::LINK);
            return Err(Error::Refused(what));
        }
        if let LedgerStore::Redis(url) = &mut environment.config.ledger.store {
            *url = url.clone().for_practice();
        }
        Ok(Self {
            state_dir: directory,
            practising: true,
            ..environment
        })
    }

    /// Says that a sandbox run uses the built-in configuration, where it does.
    pub fn tell_built_in(&self) {
        if self.config.path == Path::new(BUILT_IN) {
            tracing::warn!(
                "no quotas.toml found; the sandbox uses the built-in configuration (write it to a file with `ingest init`)"
            );
        }
    }
}

/// Refuses a `--set` of the catalog, since a sandbox run has one of its own.
///
/// # Errors
/// One of them names a catalog that is no file.
fn refuse_catalog(sets: &[String]) -> Result<(), Error> {
    let is_catalog = |set: &&String| {
        let (_, value) = set.split_once('=').unwrap_or_default();
        // A value is TOML, with or without its quotes.
        let is_file = value.trim().trim_matches(['"', '\'']) == "sqlite";
        path_of(set) == "catalog.url" && !is_file
    };
    sets.iter().find(is_catalog).map_or(Ok(()), |_| {
        Err(Error::Usage(
            "--set catalog.url: a sandbox run has a catalog of its own, in files of the state directory; remove this --set"
                .to_owned(),
        ))
    })
}

/// The path that a `--set` names.
fn path_of(set: &str) -> &str {
    set.split('=').next().unwrap_or_default().trim()
}

/// Returns an upstream as the sandbox serves it: without a token endpoint, and with one secret for each credential.
pub(super) fn sandboxed(upstream: &Arc<Upstream>) -> Arc<Upstream> {
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

/// The secret of a credential in the sandbox, in place of each of its secrets.
pub(super) fn known_secrets(credential: &Credential) -> Secrets {
    let secret = ingest_sandbox::Sandbox::secret_of(&credential.name);
    let given = || Secret::given(&credential.name, secret.clone().into());
    let named = credential
        .secrets
        .keys()
        .map(|name| (name.clone(), given()));
    Secrets::from(given()).with_named(named.collect())
}
