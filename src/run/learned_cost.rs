//! The cost of calls whose responses report only afterwards what they cost, learned from past responses.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

use super::Selection;
use ingest_catalog::{CatalogError, CatalogReader};
use ingest_config::{Call, Credential, Job};
use ingest_quota::{Cost, LimitName, Units};
use parking_lot::Mutex;

/// The costs that this run has learned.
#[derive(Debug, Default)]
pub struct LearnedCosts {
    /// By upstream and call.
    learned: Mutex<HashMap<(String, String), Cost>>,
}

impl LearnedCosts {
    /// Returns the call at the cost that this run has learned.
    pub fn priced(&self, job: &Job, call: &Arc<Call>) -> Arc<Call> {
        let key = (job.credential.upstream.name.clone(), call.name.clone());
        match self.learned.lock().get(&key) {
            Some(learned) => at(job, call, learned),
            None => Arc::clone(call),
        }
    }

    /// Learns from a true cost. Returns what to charge from now on.
    pub fn learn(&self, job: &Job, call: &Call, truth: &Cost) -> Cost {
        let key = (job.credential.upstream.name.clone(), call.name.clone());
        let mut learned = self.learned.lock();
        let estimate = next(learned.get(&key).unwrap_or(&call.cost), truth);
        learned.insert(key, estimate.clone());
        estimate
    }
}

/// Returns the selection with its calls at the costs that earlier runs learned.
pub async fn learned(
    catalog: &CatalogReader,
    selection: Selection,
) -> Result<Selection, CatalogError> {
    if selection
        .iter()
        .flat_map(|(job, _)| &job.steps)
        .all(|step| step.call.settle.is_empty())
    {
        return Ok(selection);
    }
    let learned: HashMap<(String, String), Cost> = catalog
        .estimates()
        .await?
        .into_iter()
        .map(|one| ((one.upstream, one.call), one.cost))
        .collect();
    let priced = |job: Arc<Job>| {
        let mut priced = Job::clone(&job);
        for step in &mut priced.steps {
            let key = (job.credential.upstream.name.clone(), step.call.name.clone());
            if let Some(learned) = learned.get(&key).filter(|_| !step.call.settle.is_empty()) {
                step.call = at(&job, &step.call, learned);
            }
        }
        Arc::new(priced)
    };
    Ok(selection
        .into_iter()
        .map(|(job, regions)| (priced(job), regions))
        .collect())
}

/// Returns the true cost of a page: the reported units, and the charged ones of limits without a report.
#[must_use]
pub fn truth(charged: &Cost, reported: &BTreeMap<LimitName, Units>) -> Cost {
    of_each(charged, |limit, units| {
        reported.get(limit).copied().unwrap_or(units)
    })
}

/// Returns the true cost of a request without a page. It can have cost more than its charge. A report of less is not used, since it
/// is not certain.
#[must_use]
pub fn truth_of_a_refusal(charged: &Cost, reported: &BTreeMap<LimitName, Units>) -> Cost {
    of_each(charged, |limit, units| {
        reported.get(limit).copied().unwrap_or(units).max(units)
    })
}

/// Returns the smaller of two costs of one call, for each limit.
#[must_use]
pub fn lower_of(charged: &Cost, configured: &Cost) -> Cost {
    of_each(charged, |limit, units| units.min(configured.of(limit)))
}

/// Returns the next estimate: it rises at once and falls slowly, since a request that costs more than its estimate overspends a
/// limit. It is at least one unit of each limit, so that an exhausted limit is noticed.
fn next(estimate: &Cost, truth: &Cost) -> Cost {
    of_each(estimate, |limit, units| {
        let slow = Units::new((units.times(3) + truth.of(limit)).get() / 4);
        truth.of(limit).max(slow).max(Units::new(1))
    })
}

/// Changes the units of each limit.
fn of_each(cost: &Cost, change: impl Fn(&LimitName, Units) -> Units) -> Cost {
    cost.iter()
        .map(|(limit, units)| (limit.clone(), change(limit, units)))
        .collect()
}

/// Returns the call at another cost, up to the most that the job's limits could grant: above it no charge could ever be
/// granted, and nothing would bring the estimate down again.
fn at(job: &Job, call: &Arc<Call>, cost: &Cost) -> Arc<Call> {
    let leave = job.leave.of(&job.credential);
    let most = |limit: &str| most(&job.credential, limit).saturating_sub(leave.of(limit));
    let settled = |limit: &LimitName, configured| {
        let learned = match call.settle.contains_key(limit) {
            true => cost.of(limit),
            false => configured,
        };
        learned.min(most(limit)).max(Units::new(1))
    };
    Arc::new(Call {
        cost: of_each(&call.cost, settled),
        ..Call::clone(call)
    })
}

fn most(credential: &Credential, limit: &str) -> Units {
    credential
        .limits
        .get(limit)
        .map_or(Units::ZERO, |configured| configured.limit.enforced())
}
