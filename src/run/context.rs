//! What a run shares with all its requests.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;
use std::time::Duration;

use super::blocked::{Blocked, Subject};
use super::candidates::by_job;
use super::credentials::{Digest, Known};
use super::due::Candidate;
use super::known_calls::KnownCalls;
use super::learned_cost::LearnedCosts;
use super::outcome::{PassOutcome, PassReport};
use super::stats::{InFlight, PassStats};
use super::steps::Edited;
use super::stop::Stop;
use super::stop_reason::{NotLanded, StopReason};
use super::unlanded::Unlanded;
use super::waits::Waits;
use crate::review::ComparedRecords;
use ingest_base::clock::Clock;
use ingest_catalog::{Catalog, CatalogError, Landed, Landing, Leases, OpenPass, PassRef};
use ingest_config::{Call, Credential, Etag, Job, Region};
use ingest_ledger::LedgerClient;
use ingest_quota::{Account, LimitName, Timestamp, Units};
use ingest_upstream::{Failure, Upstream};

/// How long the landing of a page is repeated while the catalog is unavailable, and how often.
const LANDING_PATIENCE: Duration = Duration::from_secs(30);
/// How long it waits after a signal. The process ends 9 s after it, and the page must be kept by then.
const LANDING_PATIENCE_STOPPING: Duration = Duration::from_secs(3);
/// How long the result of a pass may wait for the catalog after a signal: the run ends within 9 s of it, whatever hangs.
const OUTCOME_PATIENCE_STOPPING: Duration = Duration::from_secs(1);
const LANDING_PAUSE: Duration = Duration::from_millis(500);

/// The client of the upstream, by the credential's name; or why there is none.
pub type Upstreams = HashMap<String, Result<Arc<dyn Upstream>, String>>;

/// What a run shares with all its requests.
pub struct Context {
    /// The catalog, where pages are landed.
    pub catalog: Arc<Catalog>,
    pub ledger: Arc<dyn LedgerClient>,
    pub upstreams: Upstreams,
    /// Where pages are kept that the catalog could not take; `None` if its files are on the same disk.
    pub unlanded: Option<Unlanded>,
    pub clock: Arc<dyn Clock>,
    /// The leases of regions and batches.
    pub leases: Arc<dyn Leases>,
    pub stop: Stop,
    /// What its tasks wait for.
    pub waits: Waits,
    /// What must not be requested again.
    pub blocked: Blocked,
    /// The costs that this run has learned.
    pub learned_costs: LearnedCosts,
    /// What the lists of each call showed.
    pub known_calls: KnownCalls,
    /// The records that this run compares between regions and calls. `None` in a simulation, whose pages show nothing about a configuration.
    pub compared_records: Option<ComparedRecords>,
    /// The charges of requests in flight.
    pub in_flight: InFlight,
    /// Receives the progress.
    pub progress: Arc<dyn Progress>,
    /// How many regions walk at once, and how many batches are requested at once; at least 1.
    pub concurrency: usize,
    /// A call whose largest component is at most this goes ahead when the ledger is down, in units.
    pub cheap_max: Units,
}

impl Context {
    /// Returns the client of a credential's upstream.
    ///
    /// # Errors
    /// Why there is none, such as a secret that is not set.
    pub fn upstream(&self, credential: &Credential) -> Result<&dyn Upstream, StopReason> {
        match self.upstreams.get(&credential.name) {
            Some(Ok(upstream)) => Ok(&**upstream),
            Some(Err(why)) => Err(StopReason::Failed(why.clone())),
            None => Err(StopReason::Failed(format!(
                "credential {} has no client",
                credential.name
            ))),
        }
    }

    /// Stores a page. A page is paid for, so while the catalog is only unavailable its landing is repeated, and meanwhile the
    /// run sends no request. A page that cannot be stored in the end is kept for the next run, if there is a place for it.
    ///
    /// # Errors
    /// Fails if the page cannot be stored; the run then sends no further request.
    pub async fn land(&self, landing: Landing) -> Result<Landed, NotLanded> {
        let landing = Arc::new(landing);
        let until = self.clock.now() + LANDING_PATIENCE;
        let mut waiting = None;
        loop {
            let landed = self.catalog.land(Arc::clone(&landing));
            let landed = self.waits.on("a page", "the catalog", landed);
            match self.unless_stopped(landed).await {
                Err(error) if error.is_retryable() && self.may_wait(until) => {
                    waiting.get_or_insert_with(|| self.blocked.wait_to_land());
                    self.clock.sleep(LANDING_PAUSE).await;
                }
                Ok(landed) => return Ok(landed),
                Err(error) => {
                    let not_landed = self.keep(&landing, &error);
                    self.blocked.block(Subject::Catalog, &not_landed.why);
                    return Err(not_landed);
                }
            }
        }
    }

    /// Waits for a landing; after a signal only as long as leaves time to keep the page, if there is a place for it.
    async fn unless_stopped(
        &self,
        landed: impl Future<Output = Result<Landed, CatalogError>>,
    ) -> Result<Landed, CatalogError> {
        match self.unlanded {
            Some(_) => self.or_stopped(LANDING_PATIENCE_STOPPING, landed).await,
            None => landed.await,
        }
    }

    /// Waits for the catalog; after a signal for this long.
    async fn or_stopped<T>(
        &self,
        patience: Duration,
        work: impl Future<Output = Result<T, CatalogError>>,
    ) -> Result<T, CatalogError> {
        let stopped = async {
            self.stop.clone().wait().await;
            tokio::time::sleep(patience).await;
        };
        tokio::select! {
            // A page that is landed at the last moment is not kept for the next run as well.
            biased;
            done = work => done,
            () = stopped => {
                let seconds = patience.as_secs();
                let why = format!("the catalog gave no answer within {seconds} s of the signal");
                Err(CatalogError::Unavailable(why))
            }
        }
    }

    /// Whether a page may wait for the catalog: up to an instant, and no longer than to a signal if it can be kept.
    fn may_wait(&self, until: Timestamp) -> bool {
        let is_stopping = self.unlanded.is_some() && self.stop.signal().is_some();
        self.clock.now() < until && !is_stopping
    }

    /// Keeps a page that the catalog could not take.
    fn keep(&self, landing: &Landing, error: &CatalogError) -> NotLanded {
        let Some(unlanded) = &self.unlanded else {
            return NotLanded {
                why: error.to_string(),
                is_kept: false,
            };
        };
        let path = unlanded.path().display();
        let saved = unlanded.save(landing);
        NotLanded {
            is_kept: saved.is_ok(),
            why: match saved {
                Ok(()) => {
                    format!("{error}; the page is kept in {path}, and the next run stores it")
                }
                Err(why) => {
                    format!("{error}; the page is lost, since {path} cannot be written: {why}")
                }
            },
        }
    }

    /// Checks that a page requested now can be landed.
    ///
    /// # Errors
    /// Fails if an earlier page could not be landed, or the catalog is no longer in place.
    pub async fn can_land(&self) -> Result<(), StopReason> {
        let unwritable = || self.blocked.why(&Subject::Catalog);
        while unwritable().is_none() && self.blocked.waits_to_land() {
            self.clock.sleep(LANDING_PAUSE / 5).await;
        }
        if let Some(why) = unwritable() {
            return Err(StopReason::Failed(why));
        }
        let in_place = self.catalog.check_writable().await;
        in_place.map_err(|error| {
            self.blocked.block(Subject::Catalog, &error.to_string());
            error.into()
        })
    }

    /// Takes up an unfinished pass.
    ///
    /// # Errors
    /// When another run writes to it, or the catalog cannot be written.
    pub async fn take_up(&self, job: &Job, open: &OpenPass) -> Result<PassRef, StopReason> {
        let taken = self.catalog.take_up(&job.name, open).await?;
        taken.ok_or(StopReason::Busy(None))
    }

    /// Updates the catalog where the steps of a job were edited since a pass stopped.
    pub async fn fit_to_job(
        &self,
        (job, region): (&Job, &Region),
        pass: &mut PassRef,
        edited: &Edited,
    ) -> Result<(), StopReason> {
        for note in &edited.notes {
            tracing::warn!(job = job.name, region = region.key(), "{note}");
        }
        match edited.change.is_empty() {
            true => Ok(()),
            false => Ok(self.catalog.rearrange(pass, &edited.change).await?),
        }
    }

    /// Makes the next pass request the pages of a call in full: a page that did not change does not show again what speaks against its
    /// list.
    pub async fn forget_tags(&self, job: &Job, call: &Call) -> Result<(), CatalogError> {
        let upstream = &job.credential.upstream.name;
        match call.etag {
            Etag::Free => self.catalog.forget_tags(upstream, &call.name).await,
            Etag::Unused => Ok(()),
        }
    }

    /// Waits for an operation of the catalog for the batches of a job.
    pub async fn on_catalog<F: Future>(&self, job: &str, operation: F) -> F::Output {
        let task = format_args!("the batches of {job}");
        let _listed = self.waits.begin(task, "the catalog");
        operation.await
    }

    /// Counts requests without a page in the catalog, for reports and for the recovery of a lost ledger.
    pub async fn count_unproductive(&self, pass: &PassRef, stats: &PassStats) {
        let PassStats {
            unlanded_requests: requests,
            unlanded_units: units,
            ..
        } = stats;
        if *requests > 0
            && let Err(error) = self
                .catalog
                .count_unproductive(pass, *requests, units, self.clock.now())
                .await
        {
            tracing::warn!(
                requests,
                "cannot count requests without a page in the catalog: {error}"
            );
        }
    }

    /// Stores in the catalog whether this run of a pass failed, with its notes. The end of a complete pass is stored already: it adds
    /// its notes alone.
    pub async fn store_outcome(&self, pass: &PassRef, report: &PassReport) {
        let is_whole = report.outcome == PassOutcome::Complete && report.detail.is_none();
        let is_stored = is_whole && pass.id.is_some();
        if !is_stored {
            let failed = report.outcome.is_failure();
            self.store_why(pass, (failed, report.detail.as_deref()))
                .await;
        }
    }

    /// Stores in the catalog that regions were not walked because something failed, once for each job.
    pub async fn store_not_walked(&self, candidates: &[Candidate], why: Option<&StopReason>) {
        let Some(why) = why.filter(|why| why.outcome().is_failure()) else {
            return;
        };
        for (job, of_job) in by_job(candidates) {
            let regions: Vec<&Region> = of_job.iter().map(|one| &*one.region).collect();
            let now = self.clock.now();
            let (code, slice, why) = match regions.as_slice() {
                [only] => (&*only.code, only.slice, why.to_string()),
                several => {
                    let why = format!("{} regions were not walked: {why}", several.len());
                    (Region::SHARED, None, why)
                }
            };
            let pass = PassRef::new(&job.name, code, slice, now);
            self.store_why(&pass, (true, Some(&why))).await;
        }
    }

    async fn store_why(&self, pass: &PassRef, (failed, notes): (bool, Option<&str>)) {
        let is_stopping = self.stop.signal().is_some();
        // Each region would wait for its own turn, and the run would not end in time to report.
        if is_stopping && self.blocked.why(&Subject::Catalog).is_some() {
            return;
        }
        let now = self.clock.now();
        let stored = self.catalog.store_outcome(pass, failed, notes, now);
        let stored = self.or_stopped(OUTCOME_PATIENCE_STOPPING, stored);
        if let Err(error) = self.waits.on("a result", "the catalog", stored).await {
            tracing::warn!("cannot store in the catalog why passes stopped: {error}");
            if is_stopping {
                self.blocked.block(Subject::Catalog, &error.to_string());
            }
        }
    }

    /// Checks that a credential can be used, so that a missing secret is found before anything is charged.
    ///
    /// # Errors
    /// Fails if it cannot.
    pub async fn ready(&self, credential: &Credential) -> Result<(), StopReason> {
        self.upstream(credential)?
            .ready()
            .await
            .map_err(|failure| match failure {
                Failure::Denied(why) => StopReason::Denied(why),
                failure => StopReason::Failed(failure.to_string()),
            })
    }

    /// Why no request of a credential can be built. `None` if it can, or if only a token endpoint fails, which may pass. Requests no
    /// token for one that a job holds back since it was rejected.
    pub async fn missing_secret(&self, job: &Job, credential: &Credential) -> Option<String> {
        let upstream = match self.upstream(credential) {
            Ok(upstream) => upstream,
            Err(why) => return Some(why.to_string()),
        };
        if let Ok(Some(secrets)) = upstream.secrets().await
            && let Some(digest) = self.blocked.credentials.digest(credential, &secrets)
            && let Known::Rejected(_) = self.known(job, credential, &digest)
        {
            return None;
        }
        let ready = upstream.ready().await;
        match ready {
            Err(Failure::NotSent(why)) => Some(why),
            Ok(()) | Err(_) => None,
        }
    }

    /// Returns what is known of a credential, for a request of a job.
    #[must_use]
    pub fn known(&self, job: &Job, credential: &Credential, digest: &Digest) -> Known {
        let of = (job, &*credential.name);
        let credentials = &self.blocked.credentials;
        credentials.known(of, digest, self.clock.now())
    }
}

/// Receives the progress of a run.
pub trait Progress: Send + Sync {
    /// The run plans `passes` passes.
    fn planned(&self, passes: usize);

    /// A request was charged; `remaining` are the units that its limits have left.
    fn charged(&self, account: &Account, remaining: &BTreeMap<LimitName, Units>);

    /// A pass starts or resumes, with `landed` pages of `expected` in the catalog; 0 expected pages where nothing says how many.
    fn started(&self, job: &str, region: &str, landed: u64, expected: u64);

    /// A page of it was landed.
    fn landed(&self, job: &str, region: &str, records: u64);

    /// It ended for this run.
    fn ended(&self, job: &str, region: &str);
}

/// Shows no progress.
#[derive(Debug, Clone, Copy, Default)]
pub struct Silent;

impl Progress for Silent {
    fn planned(&self, _: usize) {}
    fn charged(&self, _: &Account, _: &BTreeMap<LimitName, Units>) {}
    fn started(&self, _: &str, _: &str, _: u64, _: u64) {}
    fn landed(&self, _: &str, _: &str, _: u64) {}
    fn ended(&self, _: &str, _: &str) {}
}
