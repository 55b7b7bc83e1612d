//! What a run would spend: the run itself is played, once without limits and once within what the ledger has left.
//! Nothing is charged, requested or written.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use futures_util::future::join;
use serde::Serialize;

use super::Selection;
use super::candidates;
use super::due::{Candidate, fairest_first};
use super::expect::{Expectation, Range, expect, requests};
use super::outcome::{LimitReport, PassOutcome, PassReport, RunReport, seconds};
use super::play::{Asked, Bounds, Play, Refused, Scene, openings};
use super::report::{accounts, limit_reports};
use crate::catalog::{Catalog, CatalogError};
use crate::config::{Job, Region, Step};
use crate::ledger::Meter;
use crate::quota::{Account, Cost, LimitName, Timestamp, Units};

/// What a run would spend.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Preview {
    /// Always true: tells a preview from a run.
    pub dry_run: bool,
    /// Each step of each region, in the order in which a run takes them up.
    pub steps: Vec<StepPreview>,
    /// Each region that is due, in the order in which a run takes them up.
    pub passes: Vec<PassPreview>,
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
    /// How much of it fits.
    pub fits: Fits,
}

/// What would become of one region.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct PassPreview {
    /// The job.
    pub job: String,
    /// The region.
    pub region: String,
    /// How much of its pass fits; all of it: the run completes it.
    pub fits: Fits,
}

/// The first charge that would not fit a limit.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct FirstUnfit {
    /// For which job.
    pub job: String,
    /// For which region.
    pub region: String,
    /// Which call.
    pub call: String,
    /// How long until it fits, in seconds.
    #[serde(rename = "retry_after_seconds", serialize_with = "seconds")]
    pub retry_after: Duration,
    /// When it fits.
    pub retry_at: Timestamp,
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
    /// What the run would stop at.
    pub first_unfit: Option<FirstUnfit>,
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

/// What a run over this selection would spend now, so many regions at once.
///
/// # Errors
/// When the catalog cannot be asked.
pub async fn preview(
    catalog: &dyn Catalog,
    meter: &Meter,
    selection: &Selection,
    now: Timestamp,
    concurrency: usize,
) -> Result<Preview, CatalogError> {
    let accounts = accounts(selection.iter().map(|(job, _)| job));
    let mut limits = Vec::new();
    for account in &accounts {
        limits.extend(limit_reports(meter, account).await);
    }
    let (scene, openings) = join(Scene::of(catalog, selection), openings(meter, &accounts, now)).await;
    let scene = scene?;
    let play = async |bounds| Played::of(scene.play(selection, &openings, bounds, now), now, concurrency).await;
    let fitting = if openings.len() == accounts.len() { Some(play(Bounds::Enforced).await?) } else { None };
    let plays = match fitting {
        Some(fitting) if fitting.play.refused().is_empty() => Plays { asked: None, fitting: Some(fitting) },
        fitting => Plays { asked: Some(play(Bounds::Lifted).await?), fitting },
    };
    let steps = plays.steps(estimate(&scene.catalog(), selection, now).await?);
    let mut previews = Vec::new();
    for limit in &limits {
        let first_unfit = plays.first_unfit(meter, &accounts, limit, now).await;
        previews.push(LimitPreview { first_unfit, ..plays.limit(limit, selection, &steps) });
    }
    Ok(Preview { dry_run: true, passes: plays.passes(), steps, limits: previews })
}

/// A play that is over, and what became of it.
struct Played {
    play: Play,
    report: RunReport,
}

impl Played {
    async fn of(play: Play, now: Timestamp, concurrency: usize) -> Result<Self, CatalogError> {
        let report = play.run(now, concurrency).await?;
        Ok(Self { play, report })
    }

    /// The first charge that a limit refused.
    fn first_refused(&self, limit: &LimitReport) -> Option<Refused> {
        let of_limit = |refused: &Refused| refused.account == limit.account && refused.limit == limit.limit;
        self.play.refused().into_iter().find(of_limit)
    }

    /// What was charged of a limit.
    fn charged(&self, limit: &LimitReport) -> Units {
        let granted = self.play.granted();
        let of_account = granted.iter().filter(|granted| granted.account == limit.account);
        of_account.map(|granted| granted.cost.of(&limit.limit)).sum()
    }
}

/// The run as it would be without limits, where they are in its way, and as it would be with them, where the ledger can be
/// reached.
struct Plays {
    asked: Option<Played>,
    fitting: Option<Played>,
}

impl Plays {
    fn asked(&self) -> Option<&Played> {
        self.asked.as_ref().or(self.fitting.as_ref())
    }

    /// The steps with what is really expected of them, and how much of that fits.
    fn steps(&self, mut steps: Vec<Estimated>) -> Vec<StepPreview> {
        let asked = self.asked().map(|played| played.play.asked()).unwrap_or_default();
        let fitting = self.fitting.as_ref().map(|played| played.play.asked());
        for Estimated { key, step, cost } in &mut steps {
            let expected = asked.get(key).copied().unwrap_or_default();
            let fits = |fitting: &Asked| Fits::of(expected.count, fitting.get(key).copied().unwrap_or_default().count);
            step.requests = step.requests.expecting(expected.count);
            step.units = units(cost, step.requests.sparing(expected.unchanged));
            step.fits = fitting.as_ref().map_or(Fits::Unknown, fits);
        }
        steps.into_iter().map(|estimated| estimated.step).collect()
    }

    fn passes(&self) -> Vec<PassPreview> {
        let Some(played) = self.fitting.as_ref().or(self.asked.as_ref()) else { return Vec::new() };
        let fits = |pass: &PassReport| match (&self.fitting, pass.outcome, pass.requests) {
            (None, ..) => Fits::Unknown,
            (_, PassOutcome::Complete, _) => Fits::All,
            (_, _, 0) => Fits::None,
            _ => Fits::Part,
        };
        let due = played.report.passes.iter();
        let due = due.filter(|pass| pass.outcome != PassOutcome::NotDue && pass.region != Region::SHARED);
        due.map(|pass| PassPreview { job: pass.job.clone(), region: pass.region.clone(), fits: fits(pass) }).collect()
    }

    fn limit(&self, limit: &LimitReport, selection: &Selection, steps: &[StepPreview]) -> LimitPreview {
        let jobs = selection.iter().filter(|(job, _)| job.credential.account.name == limit.account);
        let jobs: Vec<&str> = jobs.map(|(job, _)| job.name.as_str()).collect();
        let of_account = steps.iter().filter(|step| jobs.contains(&&*step.job));
        let units = of_account.filter_map(|step| step.units.get(&limit.limit)).copied();
        LimitPreview {
            account: limit.account.clone(),
            limit: limit.limit.clone(),
            remaining: limit.remaining,
            units: units.fold(Range::exactly(0), Range::plus),
            fits: match &self.fitting {
                None => Fits::Unknown,
                Some(fitting) if fitting.first_refused(limit).is_none() => Fits::All,
                Some(fitting) => {
                    let asked = self.asked().map(|played| played.charged(limit)).unwrap_or_default();
                    Fits::of(asked.get(), fitting.charged(limit).get())
                }
            },
            first_unfit: None,
        }
    }

    async fn first_unfit(
        &self,
        meter: &Meter,
        accounts: &[Arc<Account>],
        limit: &LimitReport,
        now: Timestamp,
    ) -> Option<FirstUnfit> {
        let fitting = self.fitting.as_ref()?;
        let first = fitting.first_refused(limit)?;
        let retry_at = retry_at(meter, accounts, &first).await.max(now);
        let job = first.purpose.job.clone().unwrap_or_default();
        let region = first.purpose.region.clone().unwrap_or_default();
        Some(FirstUnfit {
            region: if region == Region::SHARED { waiting(&fitting.report, &job).unwrap_or(region) } else { region },
            job,
            call: first.purpose.call.clone(),
            retry_after: retry_at.since(now),
            retry_at,
        })
    }
}

/// When a charge fits: as the ledger itself says, where it does not tell each charge that the play could have gone by.
async fn retry_at(meter: &Meter, accounts: &[Arc<Account>], refused: &Refused) -> Timestamp {
    let account = accounts.iter().find(|account| account.name == refused.account);
    let (Some(account), Some(room)) = (account, refused.room) else { return refused.retry_at };
    match meter.falls_to(account, &refused.limit, room).await {
        Ok(Some(falls)) => refused.closed_until.map_or(falls, |until| until.max(falls)),
        Ok(None) | Err(_) => refused.retry_at,
    }
}

/// The first region of a job that waits for batches that do not fit.
fn waiting(report: &RunReport, job: &str) -> Option<String> {
    let waits =
        |pass: &&PassReport| pass.job == job && pass.region != Region::SHARED && pass.outcome == PassOutcome::Stopped;
    report.passes.iter().find(waits).map(|pass| pass.region.clone())
}

impl Fits {
    const fn of(expected: u64, fitting: u64) -> Self {
        match (expected, fitting) {
            (expected, fitting) if fitting >= expected => Self::All,
            (_, 0) => Self::None,
            _ => Self::Part,
        }
    }
}

/// A step as it is estimated before the play tells what is really expected of it.
struct Estimated {
    /// Job, region and the step's index.
    key: (String, String, usize),
    step: StepPreview,
    cost: Cost,
}

/// At least and at most, for each step of each region.
async fn estimate(
    catalog: &dyn Catalog,
    selection: &Selection,
    now: Timestamp,
) -> Result<Vec<Estimated>, CatalogError> {
    let mut all = candidates(catalog, selection).await?;
    fairest_first(&mut all, now);
    let mut steps = Vec::new();
    for (job, _) in selection {
        let (due, not_due): (Vec<&Candidate>, Vec<&Candidate>) =
            all.iter().filter(|one| one.job.name == job.name).partition(|one| one.is_due(now));
        let expectations = expect(catalog, job, &due, now).await?;
        steps.extend(listing_steps(job, &due, &expectations));
        steps.extend(batch_steps(job, &expectations));
        steps.extend(not_due.iter().flat_map(|candidate| idle_steps(candidate)));
    }
    Ok(steps)
}

fn listing_steps(job: &Arc<Job>, due: &[&Candidate], expectations: &[Expectation]) -> Vec<Estimated> {
    let of_pass = |(candidate, expectation): (&&Candidate, &Expectation)| -> Vec<Estimated> {
        let pages = expectation.pages.iter();
        let steps = pages.filter_map(|(index, pages)| Some((*index, job.steps.get(*index)?, *pages)));
        steps.map(|(index, step, pages)| estimated(job, &candidate.region.code, true, index, step, pages)).collect()
    };
    due.iter().zip(expectations).flat_map(of_pass).collect()
}

fn batch_steps(job: &Arc<Job>, expectations: &[Expectation]) -> Vec<Estimated> {
    let passes: Vec<&Expectation> = expectations.iter().collect();
    let requests = requests(job, &passes);
    let steps = job.steps.iter().enumerate().filter(|(_, step)| step.ids.is_some());
    steps
        .map(|(index, step)| {
            let count = requests.get(&index).copied().unwrap_or_default();
            estimated(job, Region::SHARED, !passes.is_empty(), index, step, count)
        })
        .collect()
}

fn idle_steps(candidate: &Candidate) -> Vec<Estimated> {
    let listing = super::pass::listing_steps(&candidate.job);
    let idle = |(index, step)| estimated(&candidate.job, &candidate.region.code, false, index, step, Range::exactly(0));
    listing.map(idle).collect()
}

fn estimated(job: &Job, region: &str, due: bool, index: usize, step: &Step, requests: Range) -> Estimated {
    let cost = step.call.cost.clone();
    let preview = StepPreview {
        job: job.name.clone(),
        region: region.to_owned(),
        due,
        call: step.call.name.clone(),
        requests,
        units: units(&cost, requests),
        fits: Fits::Unknown,
    };
    Estimated { key: (job.name.clone(), region.to_owned(), index), step: preview, cost }
}

fn units(cost: &Cost, requests: Range) -> BTreeMap<LimitName, Range> {
    let taken =
        |(limit, units): (&LimitName, Units)| (limit.clone(), requests.map(|count| count.saturating_mul(units.get())));
    cost.iter().map(taken).collect()
}
