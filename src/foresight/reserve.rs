//! What a backfill leaves to other jobs. A backfill charges whatever it can, so without this the jobs that are due later in the
//! same window would find nothing.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use super::simulation::{Bounds, Simulation, Snapshot, balances};
use crate::run::{Selection, accounts};
use ingest_catalog::{CatalogError, PassReader};
use ingest_config::{Credential, Job};
use ingest_ledger::LedgerClient;
use ingest_quota::{Account, Cost, LimitName, Timestamp, Units};

/// The shortest time between two simulated runs.
const SHORTEST: Duration = Duration::from_secs(15 * 60);
/// The shortest time between two runs of a job without `every`, of which only the last one is known.
const EVERY_RUN: Duration = Duration::from_secs(60 * 60);
/// A month of hourly runs.
const MOST_RUNS: usize = 750;

/// Returns the selection with the units that its backfills leave to `others`, the jobs without slices: what these are going to
/// use before units that are charged now return. The other jobs alone are simulated until then.
///
/// # Errors
/// When the catalog cannot be read.
pub async fn reserved(
    catalog: &dyn PassReader,
    ledger: &dyn LedgerClient,
    selection: Selection,
    others: &Selection,
    now: Timestamp,
) -> Result<Selection, CatalogError> {
    if selection.iter().all(|(job, _)| !job.leaves_needed) {
        return Ok(selection);
    }
    let sliced = selection.iter().filter(|(job, _)| job.leaves_needed);
    let accounts = accounts(sliced.flat_map(|(job, _)| job.credentials()));
    let of_accounts = others.iter().filter(|(job, _)| {
        let of_account = |account: &Arc<Account>| {
            let mut own = job.credentials();
            own.any(|credential| credential.account.name == account.name)
        };
        job.slices.is_none() && accounts.iter().any(of_account)
    });
    let others: Selection = of_accounts.cloned().collect();
    let is_selected = |job: &Job| selection.iter().any(|(one, _)| one.name == job.name);
    let rest = Rest {
        // In one run the backfill comes after them.
        walk_first: others.iter().all(|(job, _)| is_selected(job)),
        others: &others,
        accounts: &accounts,
        now,
    };
    let growth = match others.is_empty() {
        true => Used::new(),
        false => rest.growth(catalog, ledger).await?,
    };
    let leaving = |job: Arc<Job>| match job.leaves_needed {
        true => Arc::new(leaving(&job, &growth)),
        false => job,
    };
    let selection = selection.into_iter();
    Ok(selection
        .map(|(job, regions)| (leaving(job), regions))
        .collect())
}

/// The jobs beside the backfills of a run.
struct Rest<'a> {
    others: &'a Selection,
    /// Whether they run first, in the same run.
    walk_first: bool,
    /// The accounts of the backfills.
    accounts: &'a [Arc<Account>],
    now: Timestamp,
}

/// Used units by account and limit.
type Used = BTreeMap<(String, LimitName), Units>;

impl Rest<'_> {
    /// Returns how much more of each limit is used at the peak than before, when only these jobs run.
    async fn growth(
        &self,
        catalog: &dyn PassReader,
        ledger: &dyn LedgerClient,
    ) -> Result<Used, CatalogError> {
        let snapshot = Snapshot::of(catalog, self.others, self.now).await?;
        let balances = balances(ledger, self.accounts, self.now).await;
        let simulation = snapshot.simulation(self.others, &balances, Bounds::Enforced, self.now);
        let intervals = self.intervals(&simulation).await?;
        let horizons = self.accounts.iter().flat_map(|one| one.limits.values());
        let horizon = horizons.map(|limit| limit.window().expiry(self.now)).max();
        let mut before = self.used(&simulation, self.now);
        let (mut at, mut peaks) = (self.now, Used::new());
        for number in 0..MOST_RUNS {
            if horizon.is_none_or(|horizon| at >= horizon) {
                break;
            }
            simulation.run(at, 1).await?;
            let used = self.used(&simulation, at);
            if number == 0 && self.walk_first {
                before.clone_from(&used);
            }
            for (limit, units) in used {
                let peak = peaks.entry(limit).or_default();
                *peak = units.max(*peak);
            }
            let Some(next) = next(&simulation, at, &intervals).await? else {
                break;
            };
            at = next;
        }
        let grown = peaks.into_iter().map(|(limit, peak)| {
            let before = before.get(&limit).copied().unwrap_or_default();
            (limit, peak.saturating_sub(before))
        });
        Ok(grown.collect())
    }

    /// Returns the used units of the limits in which a unit that is charged now still counts at `at`.
    fn used(&self, simulation: &Simulation, at: Timestamp) -> Used {
        let mut all = Used::new();
        for account in self.accounts {
            for (limit, used) in simulation.used(account, at) {
                let rule = account.limits.get(&limit);
                if rule.is_some_and(|rule| rule.window().expiry(self.now) > at) {
                    all.insert((account.name.clone(), limit), used);
                }
            }
        }
        all
    }

    /// Returns how long ago the jobs without `every` ran: when they run next is not configured.
    async fn intervals(
        &self,
        simulation: &Simulation,
    ) -> Result<BTreeMap<String, Duration>, CatalogError> {
        let mut intervals = BTreeMap::new();
        for one in simulation.candidates().await? {
            if let Some(last) = one.state.last_complete.filter(|_| one.job.every.is_none()) {
                let ago = self.now.since(last).max(EVERY_RUN);
                let interval = intervals.entry(one.job.name.clone()).or_insert(ago);
                *interval = ago.min(*interval);
            }
        }
        Ok(intervals)
    }
}

/// Returns when a region is due next, after a run at `at`; `None` if nothing says when.
async fn next(
    simulation: &Simulation,
    at: Timestamp,
    intervals: &BTreeMap<String, Duration>,
) -> Result<Option<Timestamp>, CatalogError> {
    let candidates = simulation.candidates().await?;
    let due = candidates.iter().filter_map(|one| match one.job.every {
        Some(_) => Some(one.due_at().unwrap_or(at)),
        None => Some(at + *intervals.get(&one.job.name)?),
    });
    Ok(due.min().map(|next| next.max(at + SHORTEST)))
}

/// Returns the job with what it leaves. It can use a limit that nobody else uses at the moment, so it never leaves all of it.
fn leaving(job: &Job, growth: &Used) -> Job {
    let mut leaving = job.clone();
    for credential in job.credentials() {
        leave_of(credential, job, growth, &mut leaving.leave);
    }
    leaving
}

fn leave_of(credential: &Credential, job: &Job, growth: &Used, leave: &mut Cost) {
    let account = &credential.account;
    for ((_, limit), units) in growth.iter().filter(|((name, _), _)| *name == account.name) {
        let configured = credential.configured_name(limit);
        let costs = job.steps.iter().map(|step| step.call.cost.of(configured));
        let largest = costs.max().unwrap_or_default();
        let enforced = account.limits.get(limit).map(ingest_quota::Limit::enforced);
        let most = enforced.unwrap_or_default().saturating_sub(largest);
        let units = (*units).min(most).max(leave.of(configured));
        leave.set(configured, units);
    }
}
