//! Forecasts what a schedule leads to: each of its runs is simulated.

mod backfill;
mod fit;
mod schedule;
mod spend;

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

use serde::Serialize;
use tokio::task::yield_now;

use self::backfill::Backfills;
use super::simulation::{Balances, Bounds, Refused, Simulation, Snapshot, in_memory};
use crate::run::{Candidate, Selection, accounts};
use ingest_catalog::{CatalogError, CatalogReader};
use ingest_ledger::LedgerClient;
use ingest_quota::{Account, LimitName, Timestamp, Units};

pub use backfill::BackfillForecast;
pub use fit::JobFit;
pub use schedule::{Schedule, ScheduleError};
pub use spend::DaySpend;

/// The interval between two samples of the used units. What charges use between them counts too.
const SAMPLE: Duration = Duration::from_secs(60 * 60);

/// What a schedule leads to.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Forecast {
    /// When it begins.
    pub from: Timestamp,
    /// When it ends.
    pub until: Timestamp,
    /// Whether the time for its simulation was over, so that it ends earlier than requested, and `jobs` may be empty; absent if
    /// not.
    #[serde(skip_serializing_if = "is_not")]
    pub cut: bool,
    /// How many runs start.
    pub runs: u64,
    /// How many of them a limit stops.
    pub stopped_runs: u64,
    /// Units by day, limit and job.
    pub days: Vec<DaySpend>,
    /// Each limit.
    pub limits: Vec<LimitForecast>,
    /// The limits that are closed when it begins; absent without one.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub closed: Vec<ClosedLimit>,
    /// The region that waits longest.
    pub stalest: Option<Stalest>,
    /// How often each job could run, and over how many regions, so that nothing is refused; empty until `what_fits` fills it.
    pub jobs: Vec<JobFit>,
    /// When each backfill is complete; absent without one.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub backfills: Vec<BackfillForecast>,
}

/// A limit that its upstream reported exhausted.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct ClosedLimit {
    /// The account.
    pub account: String,
    /// The limit.
    pub limit: LimitName,
    /// Until when it rejects every charge.
    pub until: Timestamp,
}

/// Returns the limits of the accounts that are closed at `from`.
fn closed_limits(
    accounts: &[Arc<Account>],
    balances: &Balances,
    from: Timestamp,
) -> Vec<ClosedLimit> {
    let closed = accounts.iter().flat_map(|account| {
        let closed = balances.closed(&account.name);
        closed.map(|(limit, until)| ClosedLimit {
            account: account.name.clone(),
            limit: limit.clone(),
            until,
        })
    });
    closed.filter(|one| one.until > from).collect()
}

/// What a schedule charges to a limit.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct LimitForecast {
    /// The account.
    pub account: String,
    /// The limit.
    pub limit: LimitName,
    /// The enforced limit, in units a window.
    pub enforced: Units,
    /// The units charged in all.
    pub units: Units,
    /// The most used units at any time.
    pub most_used: Units,
    /// The first charge that it refuses.
    pub first_hit: Option<Hit>,
    /// The most used units of each hour.
    pub used: Vec<Used>,
}

/// A charge that a limit refuses.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Hit {
    /// When.
    pub at: Timestamp,
    /// The job.
    pub job: String,
    /// The region.
    pub region: String,
    /// The call.
    pub call: String,
    /// When it would fit.
    pub retry_at: Timestamp,
}

/// The most used units of a limit in an hour.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Used {
    /// When the hour begins.
    pub at: Timestamp,
    /// The units.
    pub units: Units,
}

/// How long a region waits for its next pass.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Stalest {
    /// The job.
    pub job: String,
    /// The region.
    pub region: String,
    /// How old its last complete pass gets, or how long it waits from the beginning on, in seconds.
    pub age_seconds: f64,
    /// When it is that old.
    pub at: Timestamp,
}

/// What is forecast.
#[derive(Clone, Copy)]
pub struct Plan<'a> {
    /// The jobs and regions.
    pub selection: &'a Selection,
    /// When runs start, in order.
    pub starts: &'a [Timestamp],
    /// When runs start after `until`, as far as a backfill may need them.
    pub later: &'a [Timestamp],
    /// From when.
    pub from: Timestamp,
    /// Until when.
    pub until: Timestamp,
    /// How many regions walk at once.
    pub concurrency: usize,
    /// When the simulation must end, whatever it has reached; `None`: when it is complete.
    pub stop: Option<Instant>,
}

impl Plan<'_> {
    /// Whether the time for the simulation is over. Lets others work, so that a caller that has hung up ends it, too.
    async fn is_late(&self) -> bool {
        yield_now().await;
        self.stop.is_some_and(|stop| Instant::now() >= stop)
    }
}

/// Returns what the schedule leads to, from the current state of the ledger and the catalog. Writes nothing.
///
/// # Errors
/// When the catalog cannot be read.
pub async fn forecast(
    catalog: &CatalogReader,
    ledger: &dyn LedgerClient,
    plan: Plan<'_>,
) -> Result<Forecast, CatalogError> {
    let accounts = accounts(plan.selection.iter().flat_map(|(job, _)| job.credentials()));
    let snapshot = Snapshot::read(catalog, plan.selection, plan.from).await?;
    let snapshot = snapshot.until(plan.stop);
    let balances = Balances::read(ledger, &accounts, plan.from).await;
    let balances = balances.map_err(in_memory)?;
    let simulated = simulated(&snapshot, &balances, plan).await?;
    // Of a run that was cut nothing counts.
    let is_cut = simulated.until < plan.until;
    let mut granted = simulated.simulation.granted();
    granted.retain(|granted| !is_cut || granted.at < simulated.until);
    let mut refused = simulated.simulation.refused();
    refused.retain(|refused| !is_cut || refused.at < simulated.until);
    let limits = accounts.iter().flat_map(|account| {
        account.limits.iter().map(|(name, limit)| {
            let of_account = granted
                .iter()
                .filter(|granted| granted.account == account.name);
            let mut used = simulated
                .used
                .get(&(account.name.clone(), name.clone()))
                .cloned()
                .unwrap_or_default();
            let of_limit = of_account.clone().filter_map(|granted| {
                let used = granted.used.iter().find(|(limit, _)| limit == name)?;
                Some((granted.at, used.1))
            });
            raise(&mut used, of_limit);
            LimitForecast {
                account: account.name.clone(),
                limit: name.clone(),
                enforced: limit.enforced(),
                units: of_account.map(|granted| granted.cost.of(name)).sum(),
                most_used: used.iter().map(|used| used.units).max().unwrap_or_default(),
                first_hit: refused
                    .iter()
                    .find(|one| one.account == account.name && one.limit == *name)
                    .map(hit),
                used,
            }
        })
    });
    let limits = limits.collect();
    let backfills = simulated
        .backfills
        .finish(
            &simulated.simulation,
            Plan {
                until: simulated.until,
                ..plan
            },
        )
        .await?;
    Ok(Forecast {
        from: plan.from,
        until: simulated.until,
        cut: is_cut,
        runs: simulated.runs,
        stopped_runs: simulated.stopped_runs,
        days: spend::by_day(&granted),
        limits,
        closed: closed_limits(&accounts, &balances, plan.from),
        stalest: simulated.stalest,
        jobs: Vec::new(),
        backfills,
    })
}

/// Returns how often each job of a forecast could run, and over how many regions; `None` if the time is over before. The schedule
/// is simulated for every guess. Writes nothing.
///
/// # Errors
/// When the catalog cannot be read.
pub async fn what_fits(
    catalog: &CatalogReader,
    ledger: &dyn LedgerClient,
    plan: Plan<'_>,
    forecast: &Forecast,
) -> Result<Option<Vec<JobFit>>, CatalogError> {
    // A backfill takes whatever is left, so it has no interval.
    let selection = plan
        .selection
        .iter()
        .filter(|(job, _)| job.slices.is_none());
    let selection: Selection = selection.cloned().collect();
    let is_whole = selection.len() == plan.selection.len();
    // The forecast has simulated it already.
    let is_simulated = is_whole && forecast.closed.is_empty();
    let all_fits = is_simulated.then(|| match fit::has_fallbacks(&selection) {
        true => forecast.stopped_runs == 0,
        false => forecast.limits.iter().all(|one| one.first_hit.is_none()),
    });
    let plan = Plan {
        selection: &selection,
        ..plan
    };
    // Read again, since those of the forecast are of another selection.
    let snapshot = Snapshot::read(catalog, plan.selection, plan.from).await?;
    let snapshot = snapshot.until(plan.stop);
    let accounts = accounts(plan.selection.iter().flat_map(|(job, _)| job.credentials()));
    let balances = Balances::read(ledger, &accounts, plan.from).await;
    let mut balances = balances.map_err(in_memory)?;
    // A limit that is closed now says nothing about what fits once it is open.
    let opened = balances.open_all(&accounts, plan.from).await;
    opened.map_err(in_memory)?;
    match fit::fits(&snapshot, &balances, plan, all_fits).await {
        Ok(jobs) => Ok(Some(jobs)),
        Err(fit::FitError::Late) => Ok(None),
        Err(fit::FitError::Catalog(error)) => Err(error),
    }
}

#[allow(
    clippy::trivially_copy_pass_by_ref,
    reason = "serde passes a reference"
)]
const fn is_not(is: &bool) -> bool {
    !*is
}

/// Raises the units of the hours to those that were used after each charge of them.
fn raise(hours: &mut [Used], charged: impl Iterator<Item = (Timestamp, Units)>) {
    for (at, units) in charged {
        let behind = hours.partition_point(|hour| hour.at <= at);
        let hour = behind.checked_sub(1).and_then(|place| hours.get_mut(place));
        if let Some(hour) = hour {
            hour.units = hour.units.max(units);
        }
    }
}

fn hit(refused: &Refused) -> Hit {
    Hit {
        at: refused.at,
        job: refused.purpose.job.clone().unwrap_or_default(),
        region: refused.purpose.region.clone().unwrap_or_default(),
        call: refused.purpose.call.clone(),
        retry_at: refused.retry_at,
    }
}

/// A schedule that was simulated to its end.
struct Simulated {
    simulation: Simulation,
    /// How far it came.
    until: Timestamp,
    runs: u64,
    stopped_runs: u64,
    stalest: Option<Stalest>,
    used: BTreeMap<(String, LimitName), Vec<Used>>,
    backfills: Backfills,
}

async fn simulated(
    snapshot: &Snapshot,
    balances: &Balances,
    plan: Plan<'_>,
) -> Result<Simulated, CatalogError> {
    let simulation = snapshot
        .simulation(plan.selection, balances, Bounds::Enforced, plan.from)
        .await?;
    let mut simulated = Simulated {
        backfills: Backfills::new(&simulation, plan).await?,
        simulation,
        until: plan.until,
        runs: 0,
        stopped_runs: 0,
        stalest: None,
        used: BTreeMap::new(),
    };
    let mut next_sample = plan.from;
    for start in plan.starts {
        // Before the run charges: the ledger in memory drops what leaves a window, and cannot be asked about the past.
        while next_sample < *start {
            simulated.sample(next_sample, plan).await?;
            next_sample += SAMPLE;
        }
        let candidates = simulated.simulation.candidates_at(*start).await?;
        simulated.look(&candidates, *start, plan.from);
        if plan.is_late().await {
            simulated.until = *start;
            return Ok(simulated);
        }
        let run = simulated.simulation.run_over(candidates, plan.concurrency);
        let report = run.await?;
        if simulated.simulation.is_cut() {
            simulated.until = *start;
            return Ok(simulated);
        }
        simulated.runs += 1;
        simulated.stopped_runs += u64::from(report.stopped_by.is_some());
        simulated
            .backfills
            .look(&simulated.simulation, *start)
            .await?;
    }
    while next_sample <= simulated.until {
        simulated.sample(next_sample, plan).await?;
        next_sample += SAMPLE;
    }
    let candidates = simulated.simulation.candidates().await?;
    simulated.look(&candidates, simulated.until, plan.from);
    Ok(simulated)
}

impl Simulated {
    async fn sample(&mut self, at: Timestamp, plan: Plan<'_>) -> Result<(), CatalogError> {
        for account in accounts(plan.selection.iter().flat_map(|(job, _)| job.credentials())) {
            for (limit, units) in self.simulation.used(&account, at).await? {
                self.used
                    .entry((account.name.clone(), limit))
                    .or_default()
                    .push(Used { at, units });
            }
        }
        Ok(())
    }

    /// Records the region that has waited longest.
    fn look(&mut self, candidates: &[Candidate], now: Timestamp, from: Timestamp) {
        for candidate in candidates.iter().filter(|one| one.backfill.is_none()) {
            let since = candidate
                .state
                .last_complete
                .map_or(from, |complete| complete.max(from));
            let age = now.since(since).as_secs_f64();
            if self
                .stalest
                .as_ref()
                .is_none_or(|stalest| age > stalest.age_seconds)
            {
                let (job, region) = (candidate.job.name.clone(), candidate.region.code.clone());
                self.stalest = Some(Stalest {
                    job,
                    region,
                    age_seconds: age,
                    at: now,
                });
            }
        }
    }
}
