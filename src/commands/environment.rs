//! The configuration, the state directory, and the files that are open in it.

use std::collections::BTreeSet;
use std::env;
use std::path::{Path, PathBuf};
use std::sync::{Arc, OnceLock, Weak};

use super::Error;
use super::figures::counted;
use super::owner;
#[cfg(feature = "sandbox")]
use super::presets;
use crate::cli::{Global, RunArgs, Shown};
use crate::run::{Context, Selection, Unlanded, Upstreams, accounts};
use ingest_base::clock::{Clock, CorrectedClock, Monotonic};
use ingest_base::private;
use ingest_catalog::{
    Archive, HeldLease, Leases, LockFiles, PassReader, PassStore, Postgres, PostgresCatalog,
    ReadOnly, RowLeases, SqliteCatalog, postgres,
};
#[cfg(feature = "sandbox")]
use ingest_config::ConfigError;
#[cfg(feature = "sandbox")]
use ingest_config::{Auth, LedgerStore, Upstream};
use ingest_config::{
    Call, CatalogConfig, CatalogStore, Config, Credential, Etag, Ids, Job, Region, Sources, Step,
    closest, without,
};
use ingest_ledger::clocks::{self, Told};
use ingest_ledger::refill::Charging;
use ingest_ledger::{LEDGER_FILE, OpenLedgerError, Witness};
use ingest_quota::Account;
#[cfg(feature = "sandbox")]
use ingest_secret::{Secret, Secrets};
use ingest_upstream as upstream;
use ingest_upstream::{Client, ClientError};

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
    /// The lock that shows that this process charges the ledger.
    charging: OnceLock<Charging>,
    /// What this process has seen of the ledger's file.
    pub witness: Witness,
    /// The database of the catalog, once it is used.
    database: OnceLock<Postgres>,
    /// The catalog's file while it is open for landing, so that what only reads does not open it once more.
    landing: OnceLock<Weak<SqliteCatalog>>,
    /// Whether the upstreams are the sandbox's, which has secrets of its own.
    #[cfg(feature = "sandbox")]
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
            charging: OnceLock::new(),
            witness: Witness::default(),
            database: OnceLock::new(),
            landing: OnceLock::new(),
            #[cfg(feature = "sandbox")]
            practising: false,
        })
    }

    /// Reads the configuration, or the built-in one if there is no file: for the sandbox, which spends nothing.
    #[cfg(feature = "sandbox")]
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
    #[cfg(feature = "sandbox")]
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
    #[cfg(feature = "sandbox")]
    pub fn tell_built_in(&self) {
        if self.config.path == Path::new(BUILT_IN) {
            tracing::warn!(
                "no quotas.toml found; the sandbox uses the built-in configuration (write it to a file with `ingest init`)"
            );
        }
    }

    /// Whether `--sandbox` was given.
    const fn is_practice(&self) -> bool {
        #[cfg(feature = "sandbox")]
        return self.practising;
        #[cfg(not(feature = "sandbox"))]
        return false;
    }

    /// Returns the same environment, without the lock of a process that charges.
    #[cfg(feature = "serve")]
    pub fn another(&self) -> Self {
        Self {
            config: self.config.clone(),
            state_dir: self.state_dir.clone(),
            clock: Arc::clone(&self.clock),
            corrected: Arc::clone(&self.corrected),
            // Each charge takes it for itself, and gives it back when it ends.
            charging: OnceLock::new(),
            witness: self.witness.clone(),
            database: self.database.clone(),
            landing: OnceLock::new(),
            #[cfg(feature = "sandbox")]
            practising: self.practising,
        }
    }

    /// Says that the state directory does not exist; `None` if it does, or the catalog is no file.
    pub fn missing_state_dir(&self) -> Option<String> {
        let is_missing = is_missing(&self.state_dir) && self.database().is_none();
        is_missing.then(|| self.nothing_stored("the state directory", &self.state_dir))
    }

    /// Rejects a state directory that the command line names and that does not exist: nothing can be found there.
    pub fn expect_state_dir(&self, global: &Global) -> Result<(), Error> {
        // The usual directory is missing until the first run: that is no mistake of the command line.
        let missing = self.missing_state_dir();
        missing
            .filter(|_| self.is_named(global))
            .map_or(Ok(()), |missing| Err(Error::Usage(missing)))
    }

    /// Rejects such a directory for a command that only uses the ledger, unless that is a server.
    pub fn expect_ledger(&self, global: &Global) -> Result<(), Error> {
        if self.config.ledger.store.is_file()
            && self.is_named(global)
            && is_missing(&self.state_dir)
        {
            let missing = self.nothing_stored("the state directory", &self.state_dir);
            return Err(Error::Usage(missing));
        }
        Ok(())
    }

    /// Rejects such a directory, and one without a catalog, for a command that reads records.
    pub fn expect_catalog(&self, global: &Global) -> Result<(), Error> {
        self.expect_state_dir(global)?;
        let file = self.state_dir.join(CATALOG_FILE);
        if self.is_named(global) && self.database().is_none() && is_missing(&file) {
            return Err(Error::Usage(self.nothing_stored("the catalog", &file)));
        }
        Ok(())
    }

    /// Whether the command line names the state directory.
    fn is_named(&self, global: &Global) -> bool {
        global.state_dir.is_some() || self.is_practice()
    }

    fn nothing_stored(&self, what: &str, path: &Path) -> String {
        let sandbox = if self.is_practice() { " --sandbox" } else { "" };
        format!(
            "{what} {} does not exist: no run has stored anything there; run `ingest --region all{sandbox}`, or name \
            another directory with --state-dir",
            path.display()
        )
    }

    /// Rejects a region that no job walks, because nothing would ever be found. Batches are listed under `*`.
    fn expect_region(&self, code: &str) -> Result<(), Error> {
        match self.walks(code) {
            true => Ok(()),
            false => Err(unknown_region(&self.config, code)),
        }
    }

    fn walks(&self, code: &str) -> bool {
        let mut walked = self.config.jobs.iter().flat_map(|job| &job.regions);
        code == Region::SHARED || walked.any(|region| region.code == code)
    }

    fn defines(&self, job: &str) -> bool {
        self.config.jobs.iter().any(|one| one.name == job)
    }

    /// Rejects jobs and regions that neither the configuration nor the catalog has: it keeps what was fetched after the
    /// configuration has them no longer.
    pub async fn expect_stored(&self, jobs: &[String], regions: &[String]) -> Result<(), Error> {
        let is_defined = jobs.iter().all(|job| self.defines(job))
            && regions.iter().all(|region| self.walks(region));
        if is_defined {
            return Ok(());
        }
        let passes = self.archive().await?.jobs_and_regions().await?;
        let stored_jobs: BTreeSet<&str> = passes.iter().map(|(job, _)| &**job).collect();
        let stored_regions: BTreeSet<&str> = passes.iter().map(|(_, region)| &**region).collect();
        for job in jobs {
            if !self.defines(job) && !stored_jobs.contains(&**job) {
                let known = self.config.jobs.iter().map(|job| &*job.name);
                return Err(unknown_to_both("job", job, known.collect(), stored_jobs));
            }
        }
        for code in regions {
            if !self.walks(code) && !stored_regions.contains(&**code) {
                return Err(unknown_region_to_both(&self.config, code, &stored_regions));
            }
        }
        Ok(())
    }

    /// Rejects a kind that no call returns, because nothing would ever be found.
    pub fn expect_kind(&self, kind: &str) -> Result<(), Error> {
        let known = self.config.kinds();
        match known.contains(kind) {
            true => Ok(()),
            false => Err(unknown("kind of record", kind, known.into_iter())),
        }
    }

    /// The credential of a name that the command line has.
    pub fn credential(&self, name: &str) -> Result<&Arc<Credential>, Error> {
        let credentials = &self.config.credentials;
        let known = credentials.keys().map(String::as_str);
        let found = credentials.get(name);
        found.ok_or_else(|| unknown("credential", name, known))
    }

    /// The call of a name that the command line has.
    pub fn call<'a>(&self, credential: &'a Credential, name: &str) -> Result<&'a Arc<Call>, Error> {
        let calls = &credential.upstream.calls;
        let known = calls.keys().map(String::as_str);
        calls.get(name).ok_or_else(|| unknown("call", name, known))
    }

    /// The account of a name that the command line has, and that has the limit that it names.
    pub fn account_with(&self, name: &str, limit: &str) -> Result<Arc<Account>, Error> {
        let account = account_named(&self.accounts(), name)?;
        let known = account.limits.keys().map(String::as_str);
        match account.limits.contains_key(limit) {
            true => Ok(account),
            false => Err(unknown("limit", limit, known)),
        }
    }

    /// Rejects jobs and regions that the configuration lacks.
    pub fn expect_shown(&self, shown: &Shown) -> Result<(), Error> {
        self.jobs(&shown.jobs)?;
        let mut regions = shown.regions.iter();
        regions.try_for_each(|region| self.expect_region(region))
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

    /// Keeps the lock that shows that this process charges.
    pub fn hold(&self, charging: Charging) {
        // One lock is enough: the first one stays.
        let _ = self.charging.set(charging);
    }

    /// The database of the catalog; `None` if the catalog is in files. Connects to nothing.
    pub fn database(&self) -> Option<&Postgres> {
        let CatalogConfig {
            store,
            password,
            schema,
            connections,
            ..
        } = &self.config.catalog;
        let CatalogStore::Postgres(url) = store else {
            return None;
        };
        let database = || Postgres::new(url, password.clone(), schema, *connections);
        Some(self.database.get_or_init(database))
    }

    /// The leases of this process: rows of the catalog's database, or lock files.
    pub fn leases(&self) -> Result<Arc<dyn Leases>, Error> {
        if let Some(database) = self.database() {
            let length = self.config.catalog.lease;
            return Ok(Arc::new(RowLeases::new(database, length)));
        }
        let files = LockFiles::open(&self.state_dir);
        Ok(Arc::new(files.map_err(Error::io(
            "cannot create the directory of locks",
        ))?))
    }

    /// Returns who walks which region, on any machine that shares the catalog.
    pub async fn held_leases(&self) -> Result<Vec<HeldLease>, Error> {
        match self.database() {
            Some(database) => {
                let held = postgres::held(database).await;
                Ok(held.map_err(|error| database.error(error))?)
            }
            None => Ok(LockFiles::held(&self.state_dir)),
        }
    }

    /// Where pages are kept that the catalog cannot take; `None` for a catalog in files, which is on the same disk.
    pub fn unlanded(&self) -> Option<Unlanded> {
        self.database().map(|_| Unlanded::new(&self.state_dir))
    }

    /// Lands the pages that an earlier run kept.
    pub async fn land_kept(&self, context: &Context) -> Result<(), Error> {
        let Some(unlanded) = &context.unlanded else {
            return Ok(());
        };
        let kind_of = |upstream: &str, call: &str| {
            let upstream = self.config.upstreams.get(upstream)?;
            upstream.calls.get(call)?.records.clone()
        };
        let landed = unlanded.land_all(context, &kind_of).await?;
        if landed > 0 {
            tracing::info!(
                pages = landed,
                "stored pages that an earlier run could not store"
            );
        }
        Ok(())
    }

    /// The catalog, for landing.
    pub async fn catalog(&self) -> Result<Arc<dyn PassStore>, Error> {
        if let Some(database) = self.database() {
            let catalog = PostgresCatalog::open(database.clone()).await?;
            self.compare_clocks().await;
            return Ok(Arc::new(catalog));
        }
        let path = self.state_dir.join(CATALOG_FILE);
        let catalog = Arc::new(SqliteCatalog::open(&path)?);
        // Of two, the first is the one to read from while it is open.
        let _ = self.landing.set(Arc::downgrade(&catalog));
        Ok(catalog)
    }

    /// Goes by the clock of the database that machines share, where this machine's clock is wrong: a region that one of them
    /// walked at a time that is still to come would not count as walked for the others.
    pub async fn compare_clocks(&self) {
        let Some(database) = self.database().filter(|_| clocks::is_due(&self.corrected)) else {
            return;
        };
        let began = Monotonic::now();
        // Whatever needs the catalog next reports that it is away.
        if let Ok(at) = postgres::server_time(database).await {
            let (by, took) = (database.shown(), began.elapsed());
            let told = Told { by, at, took };
            clocks::compare(&self.corrected, &told, &self.config.ledger).await;
        }
    }

    /// The passes of the catalog, for reading.
    pub async fn passes(&self) -> Result<Arc<dyn PassReader>, Error> {
        Ok(match self.shared_catalog().await? {
            Some(catalog) => Arc::new(catalog),
            None => Arc::new(self.catalog_in_files()?),
        })
    }

    /// The records and the history of the catalog, for reading.
    pub async fn archive(&self) -> Result<Arc<dyn Archive>, Error> {
        if let Some(catalog) = self.landing.get().and_then(Weak::upgrade) {
            return Ok(catalog);
        }
        Ok(match self.shared_catalog().await? {
            Some(catalog) => Arc::new(catalog),
            None => Arc::new(self.catalog_in_files()?),
        })
    }

    async fn shared_catalog(&self) -> Result<Option<PostgresCatalog>, Error> {
        match self.database() {
            Some(database) => {
                let catalog = PostgresCatalog::open_read_only(database.clone()).await?;
                self.compare_clocks().await;
                Ok(catalog)
            }
            None => Ok(None),
        }
    }

    /// The catalog in the state directory, for reading. An empty one in place of a database that has none yet.
    fn catalog_in_files(&self) -> Result<SqliteCatalog<ReadOnly>, Error> {
        Ok(match self.database() {
            Some(_) => SqliteCatalog::none()?,
            None => SqliteCatalog::open_read_only(&self.state_dir.join(CATALOG_FILE))?,
        })
    }

    /// Returns the clients of the upstreams of these jobs.
    pub fn upstreams(&self, selection: &Selection) -> Upstreams {
        let credentials = selection.iter().flat_map(|(job, _)| job.credentials());
        credentials
            .map(|credential| (credential.name.clone(), self.upstream(credential)))
            .collect()
    }

    /// Returns the client of a credential's upstream.
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
        Client::for_credential(credential, &self.state_dir)
    }

    #[cfg(not(feature = "sandbox"))]
    pub fn client(&self, credential: &Credential) -> Result<Client, ClientError> {
        Client::for_credential(credential, &self.state_dir)
    }

    /// Returns the accounts of all credentials, each once.
    pub fn accounts(&self) -> Vec<Arc<Account>> {
        accounts(self.config.credentials.values())
    }

    /// Returns all jobs, each with all of its regions.
    pub fn all_jobs(&self) -> Selection {
        let jobs = self.config.jobs.iter();
        jobs.map(|job| (Arc::clone(job), job.regions.clone()))
            .collect()
    }

    /// Returns the jobs that request ids, over the region of their batches. Slices have batches of their own.
    pub fn batches(&self) -> Selection {
        let requests_ids = |job: &&Arc<Job>| {
            job.slices.is_none() && job.steps.iter().any(|step| step.ids.is_some())
        };
        let jobs = self.config.jobs.iter().filter(requests_ids);
        jobs.map(|job| (Arc::clone(job), vec![Arc::new(Region::shared())]))
            .collect()
    }

    /// Returns the selected jobs and their regions.
    pub fn select(&self, args: &RunArgs) -> Result<Selection, Error> {
        let all = [ALL.to_owned()];
        let regions = match &*args.regions {
            [] if args.dry_run || self.is_practice() || self.has_no_region() => &all,
            [] => return Err(Error::Usage(NO_REGIONS.to_owned())),
            given => given,
        };
        let selection = self.select_of(regions, &args.jobs)?;
        Ok(match args.relist {
            true => selection
                .into_iter()
                .map(|(job, regions)| (Arc::new(relisting(&job)), regions))
                .collect(),
            false => selection,
        })
    }

    /// Whether no job is walked for regions.
    fn has_no_region(&self) -> bool {
        let mut walked = self.config.jobs.iter().flat_map(|job| &job.regions);
        walked.all(|region| region.code == Region::NONE)
    }

    /// Returns the selected regions (or `all`) of the selected jobs; of all jobs if none is named.
    pub fn select_of(&self, regions: &[String], jobs: &[String]) -> Result<Selection, Error> {
        let jobs = self.jobs(jobs)?;
        for region in regions.iter().filter(|region| *region != ALL) {
            if jobs
                .iter()
                .all(|job| job.regions.iter().all(|known| known.code != *region))
            {
                return Err(unknown_region(&self.config, region));
            }
        }
        let selected = |region: &&Arc<Region>| {
            regions
                .iter()
                .any(|name| name == ALL || *name == region.code)
        };
        let of_job = |job: &Arc<Job>| job.regions.iter().filter(selected).cloned().collect();
        Ok(jobs
            .into_iter()
            .map(|job| (Arc::clone(&job), of_job(&job)))
            .collect())
    }

    fn jobs(&self, names: &[String]) -> Result<Vec<Arc<Job>>, Error> {
        let known = || self.config.jobs.iter().map(|job| &*job.name);
        if let Some(missing) = names
            .iter()
            .find(|wanted| known().all(|name| name != *wanted))
        {
            return Err(unknown("job", missing, known()));
        }
        let wanted = |job: &&Arc<Job>| names.is_empty() || names.contains(&job.name);
        Ok(self.config.jobs.iter().filter(wanted).cloned().collect())
    }
}

/// Returns the job as `--relist` walks it: due or not, with nothing that was fetched before in the place of a request.
fn relisting(job: &Job) -> Job {
    let step = |step: &Step| Step {
        call: Arc::new(Call {
            etag: Etag::Unused,
            ..(*step.call).clone()
        }),
        ids: step.ids.as_ref().map(|ids| Ids {
            fresh_for: None,
            ..ids.clone()
        }),
        ..step.clone()
    };
    Job {
        relists: true,
        steps: job.steps.iter().map(step).collect(),
        ..job.clone()
    }
}

/// Refuses a `--set` of the catalog, since a sandbox run has one of its own.
///
/// # Errors
/// One of them names a catalog that is no file.
#[cfg(feature = "sandbox")]
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
#[cfg(feature = "sandbox")]
fn path_of(set: &str) -> &str {
    set.split('=').next().unwrap_or_default().trim()
}

/// Returns an upstream as the sandbox serves it: without a token endpoint, and with one secret for each credential.
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

/// The secret of a credential in the sandbox, in place of each of its secrets.
#[cfg(feature = "sandbox")]
fn known_secrets(credential: &Credential) -> Secrets {
    let secret = ingest_sandbox::Sandbox::secret_of(&credential.name);
    let given = || Secret::given(&credential.name, secret.clone().into());
    let named = credential
        .secrets
        .keys()
        .map(|name| (name.clone(), given()));
    Secrets::from(given()).with_named(named.collect())
}

const ALL: &str = "all";
const NO_REGIONS: &str = "no regions given; write --region all, or name some: --region US,GB";
pub const CATALOG_FILE: &str = "catalog.db";
/// The name of the built-in configuration in messages.
#[cfg(feature = "sandbox")]
const BUILT_IN: &str = "built-in quotas.toml";
/// The directory of `--sandbox` in the state directory.
pub const PRACTICE: &str = "sandbox";

fn is_missing(path: &Path) -> bool {
    // A file that cannot be inspected may exist: opening it reports why it cannot be used.
    matches!(path.try_exists(), Ok(false))
}

/// The account of a name that the command line has.
pub fn account_named(accounts: &[Arc<Account>], name: &str) -> Result<Arc<Account>, Error> {
    let known = accounts.iter().map(|account| &*account.name);
    let found = accounts.iter().find(|account| account.name == name);
    found
        .cloned()
        .ok_or_else(|| unknown("account", name, known))
}

/// Returns an error about an unknown name.
pub fn unknown<'a>(what: &str, name: &str, known: impl Iterator<Item = &'a str>) -> Error {
    unknown_to_both(what, name, known.collect(), BTreeSet::new())
}

/// Returns an error about a name that neither the configuration nor the catalog has.
fn unknown_to_both<'a>(
    what: &str,
    name: &str,
    defined: Vec<&'a str>,
    stored: BTreeSet<&'a str>,
) -> Error {
    let stored = Vec::from_iter(stored.into_iter().filter(|one| !defined.contains(one)));
    let hint = closest(name, &[&defined[..], &stored].concat())
        .map(|close| format!("; did you mean `{close}`{}?", without(name, close)));
    Error::Usage(format!(
        "unknown {what} `{name}`{}; defined: {}{}",
        hint.unwrap_or_default(),
        defined.join(", "),
        in_the_catalog(&stored, what)
    ))
}

/// The names that only the catalog has, where it has some.
fn in_the_catalog(stored: &[&str], what: &str) -> String {
    match stored.len() {
        0 => String::new(),
        _ => format!("; in the catalog: {}", listed(stored, what)),
    }
}

/// Names; of many, only their number.
fn listed(names: &[&str], what: &str) -> String {
    match names.len() {
        0..=SHOWN_NAMES => names.join(", "),
        many => counted(many as u64, what),
    }
}

/// Returns an error about an unknown region. Any two codes of two letters are close, so only those with the same letters, in
/// whatever case and order, are suggested. Of many regions, only their number is shown.
pub fn unknown_region(config: &Config, code: &str) -> Error {
    unknown_region_to_both(config, code, &BTreeSet::new())
}

/// The same about a region that the catalog does not have either.
fn unknown_region_to_both(config: &Config, code: &str, stored: &BTreeSet<&str>) -> Error {
    let defined: Vec<&str> = config.regions.iter().map(|region| &*region.code).collect();
    if defined.contains(&code) {
        let what = format!("region `{code}` is configured, but no selected job walks it");
        return Error::Usage(what);
    }
    let is_of_pass = |code: &&&str| !defined.contains(*code) && !is_marker(code);
    let stored: Vec<&str> = stored.iter().filter(is_of_pass).copied().collect();
    let codes = [&defined[..], &stored].concat();
    let same_letters = codes.iter().find(|known| letters(known) == letters(code));
    let is_name = code.chars().count() > LONGEST_CODE;
    let close = closest(code, &codes).filter(|_| is_name);
    let hint = same_letters.copied().or(close).map_or_else(
        || ";".to_owned(),
        |meant| format!("; did you mean `{meant}`{}?", without(code, meant)),
    );
    let defined = listed(&defined, "region");
    let stored = in_the_catalog(&stored, "region");
    Error::Usage(format!(
        "unknown region `{code}`{hint} defined: {defined}{stored}"
    ))
}

/// Whether a pass has this in the place of a region.
fn is_marker(code: &str) -> bool {
    [Region::SHARED, Region::NONE].contains(&code)
}

/// With more characters, one that is wrong or too many still leaves one region meant.
const LONGEST_CODE: usize = 2;
/// The most regions that a message lists, and the most names of the catalog.
const SHOWN_NAMES: usize = 20;

/// The letters of a name in lower case and in order.
fn letters(name: &str) -> Vec<char> {
    let mut letters: Vec<char> = name.to_lowercase().chars().collect();
    letters.sort_unstable();
    letters
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
        // systemd separates the directories of `StateDirectory=` with colons.
        env::split_paths(&directories).next()
    };
    global
        .state_dir
        .clone()
        .or_else(|| set("INGEST_STATE_DIR"))
        .or_else(first_of_systemd)
        // The XDG specification says that a relative path is ignored.
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
