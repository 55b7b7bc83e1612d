//! What a run would spend, in the run's own order and by its own estimate. Nothing is charged, requested or written.

use std::collections::BTreeMap;
use std::sync::Arc;

use serde::Serialize;

use super::Selection;
use super::candidates;
use super::due::{Candidate, fairest_first};
use super::expect::{Expectation, Range, expect, requests};
use super::outcome::LimitReport;
use crate::catalog::{Catalog, CatalogError};
use crate::config::{Job, Region, Step};
use crate::quota::{LimitName, Timestamp, Units};

/// What a run would spend.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Preview {
    /// Always true: tells a preview from a run.
    pub dry_run: bool,
    /// Each step of each region, in the order in which a run takes them up.
    pub steps: Vec<StepPreview>,
    /// What that means for the limits.
    pub limits: Vec<LimitPreview>,
}

/// What one step would spend.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct StepPreview {
    /// The job.
    pub job: String,
    /// The region; `*` for batches that serve several.
    pub region: String,
    /// Whether a run would take it up now.
    pub due: bool,
    /// The call.
    pub call: String,
    /// Requests.
    pub requests: Range,
    /// Units by limit.
    pub units: BTreeMap<LimitName, Range>,
}

/// What a run would take of one limit.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct LimitPreview {
    /// Whose limit.
    pub account: String,
    /// Which.
    pub limit: LimitName,
    /// What is left, in units; `None` where the ledger cannot be reached.
    pub remaining: Option<Units>,
    /// Units.
    #[serde(flatten)]
    pub units: Range,
    /// How much of it fits.
    pub fits: Fits,
}

/// How much of what is expected fits what is left.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Fits {
    /// All of it.
    All,
    /// Some of it: the run would stop on its way.
    Part,
    /// None of it.
    None,
    /// The ledger cannot be reached.
    Unknown,
}

/// What a run over this selection would spend now, where the limits stand so.
///
/// # Errors
/// When the catalog cannot be asked.
pub async fn preview(
    catalog: &dyn Catalog,
    selection: &Selection,
    limits: &[LimitReport],
    now: Timestamp,
) -> Result<Preview, CatalogError> {
    let mut all = candidates(catalog, selection).await?;
    fairest_first(&mut all, now);
    let mut steps = Vec::new();
    for (job, _) in selection {
        let (due, not_due): (Vec<&Candidate>, Vec<&Candidate>) =
            all.iter().filter(|one| one.job.name == job.name).partition(|one| one.is_due(now));
        let expectations = expect(catalog, job, &due, now).await?;
        steps.extend(listing_previews(job, &due, &expectations));
        steps.extend(batch_previews(job, &expectations));
        steps.extend(not_due.iter().flat_map(|candidate| not_due_previews(candidate)));
    }
    let limits = limits.iter().map(|limit| limit_preview(limit, selection, &steps)).collect();
    Ok(Preview { dry_run: true, steps, limits })
}

fn listing_previews(job: &Arc<Job>, due: &[&Candidate], expectations: &[Expectation]) -> Vec<StepPreview> {
    let of_pass = |(candidate, expectation): (&&Candidate, &Expectation)| -> Vec<StepPreview> {
        let pages = expectation.pages.iter();
        let steps = pages.filter_map(|(index, pages)| Some((job.steps.get(*index)?, *pages)));
        steps.map(|(step, pages)| step_preview(job, &candidate.region.code, true, step, pages)).collect()
    };
    due.iter().zip(expectations).flat_map(of_pass).collect()
}

fn batch_previews(job: &Arc<Job>, expectations: &[Expectation]) -> Vec<StepPreview> {
    let passes: Vec<&Expectation> = expectations.iter().collect();
    let requests = requests(job, &passes);
    let steps = job.steps.iter().enumerate().filter(|(_, step)| step.ids.is_some());
    steps
        .map(|(index, step)| {
            let count = requests.get(&index).copied().unwrap_or_default();
            step_preview(job, Region::SHARED, !passes.is_empty(), step, count)
        })
        .collect()
}

fn not_due_previews(candidate: &Candidate) -> Vec<StepPreview> {
    let listing = super::pass::listing_steps(&candidate.job);
    listing
        .map(|(_, step)| step_preview(&candidate.job, &candidate.region.code, false, step, Range::exactly(0)))
        .collect()
}

fn step_preview(job: &Job, region: &str, due: bool, step: &Step, requests: Range) -> StepPreview {
    let units =
        |(limit, units): (&LimitName, Units)| (limit.clone(), requests.map(|count| count.saturating_mul(units.get())));
    StepPreview {
        job: job.name.clone(),
        region: region.to_owned(),
        due,
        call: step.call.name.clone(),
        requests,
        units: step.call.cost.iter().map(units).collect(),
    }
}

fn limit_preview(limit: &LimitReport, selection: &Selection, steps: &[StepPreview]) -> LimitPreview {
    let jobs: Vec<&Job> =
        selection.iter().map(|(job, _)| &**job).filter(|job| job.credential.account.name == limit.account).collect();
    let of_job = |job: &Job| {
        let steps = steps.iter().filter(|step| step.job == job.name);
        steps.filter_map(|step| step.units.get(&limit.limit)).fold(Range::exactly(0), |all, units| all.plus(*units))
    };
    LimitPreview {
        account: limit.account.clone(),
        limit: limit.limit.clone(),
        remaining: limit.remaining,
        units: jobs.iter().map(|job| of_job(job)).fold(Range::exactly(0), Range::plus),
        fits: fits(limit, &jobs, of_job),
    }
}

/// Whether the jobs fit one after the other, each leaving what it must; what a job would leave is not there for it.
fn fits(limit: &LimitReport, jobs: &[&Job], of_job: impl Fn(&Job) -> Range) -> Fits {
    let Some(remaining) = limit.remaining else { return Fits::Unknown };
    let mut spent = Units::ZERO;
    let (mut all, mut some) = (true, false);
    for job in jobs {
        let expected = Units::new(of_job(job).expected);
        let room = remaining.less(job.leave.of(&limit.limit)).less(spent);
        all &= expected <= room;
        some |= expected > Units::ZERO && smallest(job, &limit.limit).is_some_and(|units| units <= room);
        spent += expected.min(room);
    }
    match (all, some) {
        (true, _) => Fits::All,
        (false, true) => Fits::Part,
        (false, false) => Fits::None,
    }
}

/// The least that one request of a job takes of a limit.
fn smallest(job: &Job, limit: &str) -> Option<Units> {
    job.steps.iter().map(|step| step.call.cost.of(limit)).filter(|units| *units > Units::ZERO).min()
}
