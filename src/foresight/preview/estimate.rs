//! The bounds of a preview: the fewest and the most requests of each step.

use std::collections::BTreeMap;
use std::sync::Arc;

use super::{Fits, KnownPreview, PREVIOUS_PASSES, Previous, Reads, StepPreview};
use crate::run::due::fairest_first;
use crate::run::estimate::{Estimator, PassEstimate, pages_of_batch, requests};
use crate::run::{Candidate, Range, Selection, candidates, jobs, steps};
use ingest_catalog::{CatalogError, CatalogReader, LastPages};
use ingest_config::{Call, Job, Region, Step, Variable};
use ingest_quota::{LimitName, Timestamp, Units};

/// A step with the bounds of its requests. The simulation adds the expected number.
pub struct Estimated {
    /// Job, region and the step's index.
    pub key: (String, String, usize),
    pub step: StepPreview,
    pub call: Arc<Call>,
}

/// Returns the bounds of each step of each region, where the run admits `first_admitted` first.
pub async fn estimate(
    catalog: &CatalogReader,
    selection: &Selection,
    first_admitted: &[Candidate],
    now: Timestamp,
) -> Result<Vec<Estimated>, CatalogError> {
    let mut all = candidates(catalog, selection, now).await?;
    fairest_first(&mut all, now);
    let due_jobs = jobs(all.iter().filter(|one| one.is_due(now)));
    let mut steps = Vec::new();
    for (job, _) in selection {
        let (due, not_due): (Vec<&Candidate>, Vec<&Candidate>) = all
            .iter()
            .filter(|one| one.job.name == job.name)
            .partition(|one| one.is_due(now));
        let estimator = Estimator { catalog, job, now };
        let passes = estimator.passes(&due).await?;
        steps.extend(listing_steps(job, &due, &passes, now));
        let of_job = |one: &&Candidate| one.job.name == job.name;
        let in_first_group = first_admitted.iter().filter(of_job).count();
        let groups = most_groups(due.len(), in_first_group);
        steps.extend(batch_steps(job, &passes, groups, &due_jobs));
        steps.extend(not_due.iter().flat_map(|candidate| idle_steps(candidate)));
    }
    Ok(steps)
}

/// The steps of due passes that list.
fn listing_steps(
    job: &Job,
    due: &[&Candidate],
    passes: &[PassEstimate],
    now: Timestamp,
) -> Vec<Estimated> {
    let mut steps = Vec::new();
    for (candidate, pass) in due.iter().zip(passes) {
        let region = &candidate.region;
        for (index, pages) in &pass.pages {
            let known = job
                .steps
                .get(*index)
                .and_then(|step| known(candidate, step, now));
            let mut estimated = estimated(job, region, *index, *pages);
            if let Some(one) = &mut estimated {
                one.step.stops_at_known = known;
            }
            steps.extend(estimated);
        }
    }
    steps
}

/// Returns how the list of a step is read that can end at what is known; `None` for any other list.
fn known(candidate: &Candidate, step: &Step, now: Timestamp) -> Option<KnownPreview> {
    let stop = step.stop_at_known?;
    let list = candidate.known_list(step);
    Some(KnownPreview {
        reads: match candidate.stops(step, now) {
            true => Reads::WhatIsNew,
            false => Reads::Everything,
        },
        complete_at: list.and_then(|list| stop.complete_at(list.began)),
    })
}

/// Adds the pages that the steps landed in the last complete passes of their regions.
pub async fn add_previous(
    catalog: &CatalogReader,
    steps: &mut [Estimated],
) -> Result<(), CatalogError> {
    let mut regions: BTreeMap<String, BTreeMap<String, LastPages>> = BTreeMap::new();
    let is_of_region = |one: &&Estimated| one.step.due && one.step.region != Region::SHARED;
    for Estimated { step, .. } in steps.iter().filter(is_of_region) {
        let of_job = regions.entry(step.job.clone()).or_default();
        of_job.insert(step.region.clone(), LastPages::new());
    }
    for (job, regions) in &mut regions {
        let codes: Vec<String> = regions.keys().cloned().collect();
        let last = catalog.last_pages(job, &codes, PREVIOUS_PASSES).await?;
        *regions = codes.into_iter().zip(last).collect();
    }
    for Estimated { key, step, .. } in steps.iter_mut().filter(|one| one.step.due) {
        let last = regions
            .get(&step.job)
            .and_then(|of_job| of_job.get(&step.region));
        step.previous = last.and_then(|last| previous(last, key.2));
    }
    Ok(())
}

fn previous(passes: &LastPages, step: usize) -> Option<Previous> {
    let of_step = |pass: &Vec<(usize, u64)>| {
        let found = pass.iter().find(|(index, _)| *index == step);
        found.map(|(_, pages)| *pages)
    };
    let pages: Vec<u64> = passes.iter().filter_map(of_step).collect();
    Some(Previous {
        passes: pages.len() as u64,
        min: *pages.iter().min()?,
        max: *pages.iter().max()?,
    })
}

/// Returns in how many groups the due regions of a job are admitted at most: at worst each one after the first group alone.
const fn most_groups(due: usize, in_first_group: usize) -> u64 {
    let later = due.saturating_sub(in_first_group) as u64;
    if in_first_group > 0 { later + 1 } else { later }
}

/// The steps of a job that request ids, walked in at most this many groups.
fn batch_steps(
    job: &Job,
    passes: &[PassEstimate],
    most_groups: u64,
    due_jobs: &[Arc<Job>],
) -> Vec<Estimated> {
    let requests = requests(job, passes, most_groups);
    let mut steps = Vec::new();
    for (index, step) in job.steps.iter().enumerate() {
        if step.ids.is_none() {
            continue;
        }
        let mut count = requests.get(&index).copied().unwrap_or_default();
        if passes.is_empty() {
            count.max = Some(0);
        }
        if others_bring_them(job, index, step, due_jobs) {
            count.min = 0;
        }
        steps.extend(
            estimated(job, &Region::shared(), index, count).map(|mut one| {
                one.step.due = !passes.is_empty();
                one
            }),
        );
    }
    steps
}

/// Whether another step of the run can return the records that a step requests by id: what that one lands first, this one does
/// not request.
fn others_bring_them(job: &Job, index: usize, step: &Step, due_jobs: &[Arc<Job>]) -> bool {
    let kind = |step: &Step| {
        step.call
            .records
            .as_ref()
            .map(|records| records.kind.clone())
    };
    due_jobs
        .iter()
        .filter(|other| other.credential.upstream.name == job.credential.upstream.name)
        .flat_map(|other| {
            other
                .steps
                .iter()
                .enumerate()
                .map(move |step| (other, step))
        })
        .filter(|(other, (at, _))| other.name != job.name || *at != index)
        .any(|(_, (_, other))| kind(other) == kind(step))
}

/// The steps of a region that is not due.
fn idle_steps(candidate: &Candidate) -> Vec<Estimated> {
    let (job, region) = (&candidate.job, &candidate.region);
    let nothing = Range::exactly(0);
    let idle = |(index, _)| {
        let mut idle = estimated(job, region, index, nothing)?;
        idle.step.due = false;
        Some(idle)
    };
    steps::listing_steps(job).filter_map(idle).collect()
}

/// A due step with this many requests; `None` where the job has no such step.
fn estimated(job: &Job, region: &Region, index: usize, requests: Range) -> Option<Estimated> {
    let step = job.steps.get(index)?;
    let call = job.credential.call_in_ledger(&step.call, region);
    let preview = StepPreview {
        job: job.name.clone(),
        region: region.code.clone(),
        slice: region.slice,
        due: true,
        call: step.call.name.clone(),
        requests,
        previous: None,
        units: units(&call, requests),
        fits: Fits::Unknown,
        stops_at_known: None,
        assumes_one_page: step
            .ids
            .as_ref()
            .is_some_and(|ids| pages_of_batch(step, ids).is_none()),
        names_since: job.names(step, &Variable::Since),
    };
    Some(Estimated {
        key: (job.name.clone(), region.key(), index),
        step: preview,
        call,
    })
}

/// Returns what requests of a call charge. Where only responses report the cost, nothing bounds it from below.
pub fn units(call: &Call, requests: Range) -> BTreeMap<LimitName, Range> {
    let taken = |(limit, units): (&LimitName, Units)| {
        let taken = requests.map(|count| count.saturating_mul(units.get()));
        let min = if call.settle.contains_key(limit) {
            0
        } else {
            taken.min
        };
        (limit.clone(), Range { min, ..taken })
    };
    call.cost.iter().map(taken).collect()
}
