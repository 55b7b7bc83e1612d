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
///
/// # Errors
/// When the catalog cannot be read.
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
    let of = |(limit, units): (&LimitName, Units)| {
        (limit.clone(), reported.get(limit).copied().unwrap_or(units))
    };
    charged.iter().map(of).collect()
}

/// Returns the true cost of a request without a page. It can have cost more than its charge. A report of less is not used, since it
/// is not certain.
#[must_use]
pub fn truth_of_a_refusal(charged: &Cost, reported: &BTreeMap<LimitName, Units>) -> Cost {
    charged
        .iter()
        .map(|(limit, units)| {
            (
                limit.clone(),
                reported
                    .get(limit)
                    .map_or(units, |reported| units.max(*reported)),
            )
        })
        .collect()
}

/// Returns the smaller of two costs of one call, for each limit.
#[must_use]
pub fn lower_of(charged: &Cost, configured: &Cost) -> Cost {
    charged
        .iter()
        .map(|(limit, units)| (limit.clone(), units.min(configured.of(limit))))
        .collect()
}

/// Returns the next estimate: it rises at once and falls slowly, since a request that costs more than its estimate overspends a
/// limit. It is at least one unit of each limit, so that an exhausted limit is noticed.
fn next(estimate: &Cost, truth: &Cost) -> Cost {
    let learned = |(limit, units): (&LimitName, Units)| {
        let slow = Units::new((units.times(3) + truth.of(limit)).get() / 4);
        (limit.clone(), truth.of(limit).max(slow).max(Units::new(1)))
    };
    estimate.iter().map(learned).collect()
}

/// Returns the call at another cost, up to the most that the job's limits could grant: above it no charge could ever be
/// granted, and nothing would bring the estimate down again.
fn at(job: &Job, call: &Arc<Call>, cost: &Cost) -> Arc<Call> {
    let leave = job.leave.of(&job.credential);
    let most = |limit: &str| most(&job.credential, limit).saturating_sub(leave.of(limit));
    let settled = call.cost.iter().map(|(limit, configured)| {
        let learned = if call.settle.contains_key(limit) {
            cost.of(limit)
        } else {
            configured
        };
        (limit.clone(), learned.min(most(limit)).max(Units::new(1)))
    });
    Arc::new(Call {
        cost: settled.collect(),
        ..Call::clone(call)
    })
}

fn most(credential: &Credential, limit: &str) -> Units {
    credential
        .limits
        .get(limit)
        .map_or(Units::ZERO, |configured| configured.limit.enforced())
}
