use std::collections::BTreeMap;
use std::sync::Arc;

use super::{Fits, PREVIOUS_PASSES, Previous, StepPreview};
use crate::catalog::{CatalogError, PassReader};
use crate::config::{Call, Job, Region, Step};
use crate::quota::{LimitName, Timestamp, Units};
use crate::run::admission::jobs;
use crate::run::due::{Candidate, fairest_first};
use crate::run::estimate::{PassEstimate, estimate_passes, requests};
use crate::run::range::Range;
use crate::run::{Selection, candidates, pass};

/// A step as it is estimated before the simulation tells what is really expected of it.
pub struct Estimated {
    /// Job, region and the step's index.
    pub key: (String, String, usize),
    pub step: StepPreview,
    pub call: Arc<Call>,
}

/// At least and at most, for each step of each region, where the run walks `first_admitted` side by side first.
pub async fn estimate(
    catalog: &dyn PassReader,
    selection: &Selection,
    first_admitted: &[Candidate],
    now: Timestamp,
) -> Result<Vec<Estimated>, CatalogError> {
    let mut all = candidates(catalog, selection, now).await?;
    fairest_first(&mut all, now);
    let due_jobs = jobs_with_due_regions(&all, now);
    let mut steps = Vec::new();
    for (job, _) in selection {
        let (due, not_due): (Vec<&Candidate>, Vec<&Candidate>) = all
            .iter()
            .filter(|one| one.job.name == job.name)
            .partition(|one| one.is_due(now));
        let estimates = estimate_passes(catalog, job, &due, now).await?;
        steps.extend(listing_steps(job, &due, &estimates));
        let of_job = |one: &&Candidate| one.job.name == job.name;
        let in_first_group = first_admitted.iter().filter(of_job).count();
        let groups = most_groups(due.len(), in_first_group);
        steps.extend(batch_steps(job, &estimates, groups, &due_jobs));
        steps.extend(not_due.iter().flat_map(|candidate| idle_steps(candidate)));
    }
    Ok(steps)
}

fn listing_steps(job: &Arc<Job>, due: &[&Candidate], estimates: &[PassEstimate]) -> Vec<Estimated> {
    let of_pass = |(candidate, pass_estimate): (&&Candidate, &PassEstimate)| -> Vec<Estimated> {
        let pages = pass_estimate.pages.iter();
        let steps =
            pages.filter_map(|(index, pages)| Some((*index, job.steps.get(*index)?, *pages)));
        steps
            .map(|(index, step, pages)| {
                estimated(job, &candidate.region.code, true, index, step, pages)
            })
            .collect()
    };
    due.iter().zip(estimates).flat_map(of_pass).collect()
}

/// Pages of each step of a pass, by the step's index.
type PagesBySteps = Vec<(usize, u64)>;

/// Adds what the steps that list took in the last complete passes, as `catalog` keeps them.
pub async fn add_previous(
    catalog: &dyn PassReader,
    steps: &mut [Estimated],
) -> Result<(), CatalogError> {
    let mut passes: BTreeMap<(String, String), Vec<PagesBySteps>> = BTreeMap::new();
    let due = steps.iter_mut().filter(|one| one.step.due);
    for Estimated { key, step, .. } in due.filter(|one| one.step.region != Region::SHARED) {
        let place = (step.job.clone(), step.region.clone());
        if !passes.contains_key(&place) {
            let last = catalog.last_pages(&step.job, &step.region, PREVIOUS_PASSES);
            passes.insert(place.clone(), last.await?);
        }
        let last = passes.get(&place).map(Vec::as_slice).unwrap_or_default();
        step.previous = previous(last, key.2);
    }
    Ok(())
}

fn previous(passes: &[PagesBySteps], step: usize) -> Option<Previous> {
    let of_step = |pass: &PagesBySteps| {
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

fn jobs_with_due_regions(candidates: &[Candidate], now: Timestamp) -> Vec<Arc<Job>> {
    let due: Vec<Candidate> = candidates
        .iter()
        .filter(|one| one.is_due(now))
        .cloned()
        .collect();
    jobs(&due)
}

/// In how many groups at most the due regions of a job are walked: those that are not in the first one each follow alone, at
/// worst.
const fn most_groups(due: usize, in_first_group: usize) -> u64 {
    let later = due.saturating_sub(in_first_group) as u64;
    if in_first_group > 0 { later + 1 } else { later }
}

fn batch_steps(
    job: &Arc<Job>,
    estimates: &[PassEstimate],
    most_groups: u64,
    due_jobs: &[Arc<Job>],
) -> Vec<Estimated> {
    let passes: Vec<&PassEstimate> = estimates.iter().collect();
    let requests = requests(job, &passes, most_groups);
    let steps = job
        .steps
        .iter()
        .enumerate()
        .filter(|(_, step)| step.ids.is_some());
    steps
        .map(|(index, step)| {
            let count = requests.get(&index).copied().unwrap_or_default();
            let count = if others_bring_them(job, index, step, due_jobs) {
                Range { min: 0, ..count }
            } else {
                count
            };
            estimated(job, Region::SHARED, !passes.is_empty(), index, step, count)
        })
        .collect()
}

/// Whether another step of the run can bring the records that a step asks for by id: of what that one brings first, this
/// one requests nothing.
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

fn idle_steps(candidate: &Candidate) -> Vec<Estimated> {
    let listing = pass::listing_steps(&candidate.job);
    let idle = |(index, step)| {
        estimated(
            &candidate.job,
            &candidate.region.code,
            false,
            index,
            step,
            Range::exactly(0),
        )
    };
    listing.map(idle).collect()
}

fn estimated(
    job: &Job,
    region: &str,
    due: bool,
    index: usize,
    step: &Step,
    requests: Range,
) -> Estimated {
    let preview = StepPreview {
        job: job.name.clone(),
        region: region.to_owned(),
        due,
        call: step.call.name.clone(),
        requests,
        previous: None,
        units: units(&step.call, requests),
        fits: Fits::Unknown,
    };
    Estimated {
        key: (job.name.clone(), region.to_owned(), index),
        step: preview,
        call: Arc::clone(&step.call),
    }
}

/// What requests of a call take. Of what only its answers tell, nobody knows how little that can be.
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
