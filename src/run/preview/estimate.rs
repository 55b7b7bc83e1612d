use std::collections::BTreeMap;
use std::sync::Arc;

use super::{Fits, StepPreview};
use crate::catalog::{Catalog, CatalogError};
use crate::config::{Call, Job, Region, Step};
use crate::quota::{LimitName, Timestamp, Units};
use crate::run::due::{Candidate, fairest_first};
use crate::run::expect::{Expectation, expect, requests};
use crate::run::range::Range;
use crate::run::{Selection, candidates, pass};

/// A step as it is estimated before the play tells what is really expected of it.
pub struct Estimated {
    /// Job, region and the step's index.
    pub key: (String, String, usize),
    pub step: StepPreview,
    pub call: Arc<Call>,
}

/// At least and at most, for each step of each region.
pub async fn estimate(
    catalog: &dyn Catalog,
    selection: &Selection,
    now: Timestamp,
) -> Result<Vec<Estimated>, CatalogError> {
    let mut all = candidates(catalog, selection, now).await?;
    fairest_first(&mut all, now);
    let mut steps = Vec::new();
    for (job, _) in selection {
        let (due, not_due): (Vec<&Candidate>, Vec<&Candidate>) = all
            .iter()
            .filter(|one| one.job.name == job.name)
            .partition(|one| one.is_due(now));
        let expectations = expect(catalog, job, &due, now).await?;
        steps.extend(listing_steps(job, &due, &expectations));
        steps.extend(batch_steps(job, &expectations));
        steps.extend(not_due.iter().flat_map(|candidate| idle_steps(candidate)));
    }
    Ok(steps)
}

fn listing_steps(
    job: &Arc<Job>,
    due: &[&Candidate],
    expectations: &[Expectation],
) -> Vec<Estimated> {
    let of_pass = |(candidate, expectation): (&&Candidate, &Expectation)| -> Vec<Estimated> {
        let pages = expectation.pages.iter();
        let steps =
            pages.filter_map(|(index, pages)| Some((*index, job.steps.get(*index)?, *pages)));
        steps
            .map(|(index, step, pages)| {
                estimated(job, &candidate.region.code, true, index, step, pages)
            })
            .collect()
    };
    due.iter().zip(expectations).flat_map(of_pass).collect()
}

fn batch_steps(job: &Arc<Job>, expectations: &[Expectation]) -> Vec<Estimated> {
    let passes: Vec<&Expectation> = expectations.iter().collect();
    let requests = requests(job, &passes);
    let steps = job
        .steps
        .iter()
        .enumerate()
        .filter(|(_, step)| step.ids.is_some());
    steps
        .map(|(index, step)| {
            let count = requests.get(&index).copied().unwrap_or_default();
            estimated(job, Region::SHARED, !passes.is_empty(), index, step, count)
        })
        .collect()
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
