//! A simulation: the real run, over a catalog and a ledger in memory that start as copies of the real ones, and an upstream that
//! repeats its last responses. Nothing is charged, requested or written.

mod balance;
mod clock;
mod ledger;
mod snapshot;
mod upstream;

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Instant;

use tracing::instrument::WithSubscriber;
use tracing::subscriber::NoSubscriber;

use self::clock::SimulatedClock;
use self::ledger::SimulatedLedger;
use self::snapshot::CatalogSnapshot;
use self::upstream::SimulatedUpstream;
use crate::run::admission::Admission;
use crate::run::due::{LONGEST_TOLERANCE, fairest_first};
use crate::run::{
    self, Blocked, Candidate, Context, InFlight, KnownCalls, LearnedCosts, RunReport, Selection,
    Silent, Stop, Waits, candidates, channel,
};
use ingest_base::clock::Clock;
use ingest_catalog::memory::{Alone, Beginning, Template};
use ingest_catalog::{Catalog, CatalogError, CatalogReader, PassId};
use ingest_config::{Job, Region};
use ingest_ledger::LedgerError;
use ingest_quota::{Account, LimitName, Timestamp, Units};
use ingest_upstream::Upstream;

pub use balance::Balances;
pub use ledger::{Bounds, Granted, LimitFit, Refused};
pub use upstream::RequestCounts;

/// The state from which simulations start.
pub struct Snapshot {
    snapshot: Arc<CatalogSnapshot>,
    template: Template,
    until: Option<Instant>,
}

impl Snapshot {
    /// Reads the state of the catalog at `now`.
    ///
    /// # Errors
    /// When the catalog cannot be read.
    pub async fn read(
        catalog: &CatalogReader,
        selection: &Selection,
        now: Timestamp,
    ) -> Result<Self, CatalogError> {
        let candidates = candidates(catalog, selection, now).await?;
        let mut passes: Vec<PassId> = Vec::new();
        for (job, _) in selection {
            let open = catalog.open_passes(&job.name).await?;
            let shared = open.iter().filter(|pass| pass.region == Region::SHARED);
            passes.extend(shared.map(|pass| pass.id));
        }
        let snapshot = CatalogSnapshot::learn(catalog, &candidates, &passes).await?;
        let known = candidates.iter().flat_map(|one| one.known.values());
        passes.extend(known.map(|list| list.pass));
        let jobs = selection.iter().map(|(job, regions)| {
            let codes = regions.iter().map(|region| region.code.clone()).collect();
            (job.name.clone(), codes, job.slices.is_some())
        });
        let beginning = Beginning {
            jobs: jobs.collect(),
            passes,
            until: now + LONGEST_TOLERANCE,
        };
        let contents = Arc::clone(&snapshot.contents);
        Ok(Self {
            template: catalog.to_simulate(beginning, contents).await?,
            snapshot: Arc::new(snapshot),
            until: None,
        })
    }

    /// The same state, whose simulations are cut at this time, also within a run; `None`: never.
    #[must_use]
    pub fn until(self, until: Option<Instant>) -> Self {
        Self { until, ..self }
    }

    /// Returns a catalog in memory, with which a simulation begins.
    ///
    /// # Errors
    /// When there is no memory for it.
    pub fn catalog(&self) -> Result<Catalog, CatalogError> {
        self.template.catalog()
    }

    /// Starts a simulation of this selection at `now`.
    ///
    /// # Errors
    /// When there is no memory for its ledger.
    pub async fn simulation(
        &self,
        selection: &Selection,
        balances: &Balances,
        bounds: Bounds,
        now: Timestamp,
    ) -> Result<Simulation, CatalogError> {
        let jobs: Vec<Arc<Job>> = selection.iter().map(|(job, _)| Arc::clone(job)).collect();
        let credentials = jobs.iter().flat_map(|job| job.credentials());
        let credentials = credentials.cloned().collect();
        let (run, stop) = channel();
        let run = (run, self.until);
        let ledger = balances.ledger().await.map_err(in_memory)?;
        Ok(Simulation {
            selection: selection.clone(),
            clock: Arc::new(SimulatedClock::at(now)),
            catalog: Arc::new(self.catalog()?),
            ledger: Arc::new(SimulatedLedger::new(ledger, bounds, credentials, run)),
            upstream: Arc::new(SimulatedUpstream::new(Arc::clone(&self.snapshot), jobs)),
            stop,
        })
    }
}

/// A ledger in memory that failed.
pub fn in_memory(error: LedgerError) -> CatalogError {
    CatalogError::Failed(error.to_string())
}

/// A simulation of one run or of several, one after another.
pub struct Simulation {
    selection: Selection,
    clock: Arc<SimulatedClock>,
    catalog: Arc<Catalog>,
    ledger: Arc<SimulatedLedger>,
    upstream: Arc<SimulatedUpstream>,
    stop: Stop,
}

impl Simulation {
    /// Simulates one run at `now`, or when the last one is over.
    ///
    /// # Errors
    /// When the run fails, which the catalog in memory never causes.
    pub async fn run(&self, now: Timestamp, concurrency: usize) -> Result<RunReport, CatalogError> {
        let candidates = self.candidates_at(now).await?;
        self.run_over(candidates, concurrency).await
    }

    /// Simulates one run over these candidates, as they are now.
    ///
    /// # Errors
    /// As [`Self::run`].
    pub async fn run_over(
        &self,
        candidates: Vec<Candidate>,
        concurrency: usize,
    ) -> Result<RunReport, CatalogError> {
        let context = self.context(concurrency);
        // What a simulated run logs did not happen.
        let run = Box::pin(run::run_over(&context, &self.selection, candidates));
        run.with_subscriber(NoSubscriber::default())
            .await
            .map_err(|error| CatalogError::Failed(error.to_string()))
    }

    /// Returns each region with its state at `now`, or when the last run is over.
    ///
    /// # Errors
    /// As [`Self::run`].
    pub async fn candidates_at(&self, now: Timestamp) -> Result<Vec<Candidate>, CatalogError> {
        self.clock.reach(now);
        self.candidates().await
    }

    /// Returns the regions that its first run admits first.
    ///
    /// # Errors
    /// As [`Self::run`].
    pub async fn first_admitted(&self, concurrency: usize) -> Result<Vec<Candidate>, CatalogError> {
        let now = self.clock.now();
        let mut queue = self.candidates().await?;
        queue.retain(|one| one.is_due(now));
        if queue.is_empty() {
            return Ok(queue);
        }
        fairest_first(&mut queue, now);
        let mut queue = VecDeque::from(queue);
        let context = self.context(concurrency);
        let mut admission = Admission::default();
        let admitted = admission.next(&context, &mut queue, 0).await;
        admitted.map_err(|reason| CatalogError::Failed(reason.to_string()))
    }

    /// Returns each region with its current state.
    ///
    /// # Errors
    /// As [`Self::run`].
    pub async fn candidates(&self) -> Result<Vec<Candidate>, CatalogError> {
        candidates(&self.catalog, &self.selection, self.clock.now()).await
    }

    /// Returns the used units of each limit of an account, at `at` or after the last charge.
    ///
    /// # Errors
    /// When the ledger in memory fails.
    pub async fn used(
        &self,
        account: &Account,
        at: Timestamp,
    ) -> Result<Vec<(LimitName, Units)>, CatalogError> {
        self.ledger.used(account, at).await.map_err(in_memory)
    }

    /// Whether its last run was ended before it was complete: because the time was over, or a charge was rejected that decides.
    #[must_use]
    pub fn is_cut(&self) -> bool {
        self.stop.signal().is_some()
    }

    /// Returns the granted charges.
    #[must_use]
    pub fn granted(&self) -> Vec<Granted> {
        self.ledger.granted()
    }

    /// Returns the rejected charges.
    #[must_use]
    pub fn refused(&self) -> Vec<Refused> {
        self.ledger.refused()
    }

    /// Whether a charge was rejected.
    #[must_use]
    pub fn has_refused(&self) -> bool {
        self.ledger.has_refused()
    }

    /// Returns when a rejected charge fits each of its limits, after everything that the simulation granted.
    ///
    /// # Errors
    /// When the ledger in memory fails.
    pub async fn limit_fits(
        &self,
        account: &Account,
        refused: &Refused,
    ) -> Result<Vec<LimitFit>, LedgerError> {
        self.ledger.limit_fits(account, refused).await
    }

    /// Returns the requests sent.
    #[must_use]
    pub fn requests(&self) -> RequestCounts {
        self.upstream.requests()
    }

    fn context(&self, concurrency: usize) -> Context {
        let clock: Arc<dyn Clock> = self.clock.clone();
        let upstream: Arc<dyn Upstream> = self.upstream.clone();
        let credentials = self
            .selection
            .iter()
            .flat_map(|(job, _)| job.credentials())
            .map(|credential| credential.name.clone());
        Context {
            catalog: self.catalog.clone(),
            ledger: Arc::new(self.ledger.client(Arc::clone(&clock))),
            upstreams: credentials
                .map(|name| (name, Ok(Arc::clone(&upstream))))
                .collect(),
            clock,
            leases: Arc::new(Alone),
            unlanded: None,
            stop: self.stop.clone(),
            waits: Waits::default(),
            blocked: Blocked::default(),
            learned_costs: LearnedCosts::default(),
            in_flight: InFlight::default(),
            known_calls: KnownCalls::default(),
            compared_records: None,
            progress: Arc::new(Silent),
            concurrency,
            cheap_max: Units::ZERO,
        }
    }
}
