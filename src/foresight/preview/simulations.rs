//! What the simulated runs of a preview say of its steps, passes and limits.

use std::collections::HashMap;
use std::sync::Arc;

use super::estimate::{Estimated, units};
use super::{FirstUnfit, Fits, LimitPreview, PassPreview, StepPreview};
use crate::foresight::simulation::{LimitFit, Refused, RequestCounts, Simulation};
use crate::run::{LimitReport, PassOutcome, PassReport, Range, RunReport, Selection, accounts};
use ingest_catalog::CatalogError;
use ingest_config::{Job, Region};
use ingest_ledger::LedgerClient;
use ingest_quota::{Account, LimitName, Timestamp, Units};

/// The names of an account and of its limit.
type LimitKey = (String, LimitName);

/// The units that the steps of each job charge to a limit, by the names of both.
pub type JobUnits = HashMap<(String, LimitName), Range>;

/// A simulated run and its report.
pub struct Simulated {
    pub simulation: Simulation,
    report: RunReport,
    /// The units charged to each limit of an account, by job.
    charged: HashMap<LimitKey, HashMap<String, Units>>,
    /// The charges that each limit of an account refused, in their order.
    refused: HashMap<LimitKey, Vec<Refused>>,
}

impl Simulated {
    pub async fn new(
        simulation: Simulation,
        now: Timestamp,
        concurrency: usize,
    ) -> Result<Self, CatalogError> {
        let report = simulation.run(now, concurrency).await?;
        let mut charged: HashMap<LimitKey, HashMap<String, Units>> = HashMap::new();
        for granted in simulation.granted() {
            for (limit, units) in granted.cost.iter() {
                let limit = (granted.account.clone(), limit.clone());
                let job = granted.purpose.job.clone().unwrap_or_default();
                *charged.entry(limit).or_default().entry(job).or_default() += units;
            }
        }
        let mut refused: HashMap<LimitKey, Vec<Refused>> = HashMap::new();
        for one in simulation.refused() {
            let limit = (one.account.clone(), one.limit.clone());
            refused.entry(limit).or_default().push(one);
        }
        Ok(Self {
            simulation,
            report,
            charged,
            refused,
        })
    }

    /// Returns when a refused charge fits all of its limits, after everything that the simulation granted.
    async fn retry_at(
        &self,
        ledger: &dyn LedgerClient,
        accounts: &[Arc<Account>],
        refused: &Refused,
    ) -> Timestamp {
        let account = accounts
            .iter()
            .find(|account| account.name == refused.account);
        let Some(account) = account else {
            return refused.retry_at;
        };
        let Ok(limit_fits) = self.simulation.limit_fits(account, refused).await else {
            return refused.retry_at;
        };
        let mut last = refused.at;
        for fit in limit_fits {
            last = last.max(fits_at(ledger, account, &fit).await);
        }
        last
    }

    /// Returns the units charged to a limit.
    fn charged(&self, limit: &LimitReport) -> Units {
        let by_job = self.charged.get(&key(limit));
        by_job.into_iter().flat_map(HashMap::values).copied().sum()
    }

    /// Returns the units that a job charged to a limit of this name of an account.
    fn charged_by(&self, job: &Job, account: &Account, limit: &LimitName) -> Units {
        let by_job = self.charged.get(&(account.name.clone(), limit.clone()));
        let charged = by_job.and_then(|by_job| by_job.get(&job.name));
        charged.copied().unwrap_or_default()
    }

    /// The passes of a job that a limit stopped.
    fn stopped<'s>(&'s self, job: &'s str) -> impl Iterator<Item = &'s PassReport> {
        let passes = self.report.passes.iter();
        passes.filter(move |pass| pass.job == job && pass.outcome == PassOutcome::Stopped)
    }

    /// Returns the first refusal of a limit at which a pass stopped. A pass that went on with another credential did not.
    fn stop(&self, limit: &LimitReport, selection: &Selection) -> Option<Refused> {
        let refused = self.refused.get(&key(limit))?;
        let stopped_at = |one: &&Refused| {
            let job = one.purpose.job.as_deref().unwrap_or_default();
            let region = one.purpose.region.as_deref().unwrap_or_default();
            let is_alone = |(known, _): &(Arc<Job>, _)| known.name == job && !is_shared(known);
            let mut stopped = self.stopped(job);
            selection.iter().any(is_alone)
                || stopped.any(|pass| region == Region::SHARED || pass.region == region)
        };
        if let Some(first) = refused.iter().find(stopped_at) {
            return Some(first.clone());
        }
        // The refusal of an equal charge is known, and not decided again.
        let first = refused.first()?;
        let is_equal = |job: &Job| {
            let mut steps = job.steps.iter();
            draws_on(job, &limit.account) && steps.any(|step| step.call.name == first.purpose.call)
        };
        let jobs = selection.iter().filter(|(job, _)| is_equal(job));
        let jobs: Vec<&str> = jobs.map(|(job, _)| &*job.name).collect();
        let mut stopped = self
            .report
            .passes
            .iter()
            .filter(|pass| pass.outcome == PassOutcome::Stopped && jobs.contains(&&*pass.job));
        stopped.next().map(|pass| {
            let mut stop = first.clone();
            stop.purpose.job = Some(pass.job.clone());
            stop.purpose.region = Some(pass.region.clone());
            stop
        })
    }
}

fn key(limit: &LimitReport) -> LimitKey {
    (limit.account.clone(), limit.limit.clone())
}

/// The simulated runs of a preview.
#[derive(Default)]
pub struct Simulations {
    /// Without limits; `None` where `fitting` meets none.
    pub requested: Option<Simulated>,
    /// Within the limits; `None` where the ledger cannot be reached.
    pub fitting: Option<Simulated>,
}

impl Simulations {
    /// Whether a limit stops the run, as far as that is known.
    pub fn meets_a_limit(&self) -> bool {
        let fitting = self.fitting.as_ref();
        fitting.is_none_or(|fitting| fitting.simulation.has_refused())
    }

    fn requests(&self) -> Option<&Simulated> {
        self.requested.as_ref().or(self.fitting.as_ref())
    }

    /// Returns the steps with their expected requests, and how much of these fits.
    pub fn steps(&self, mut steps: Vec<Estimated>) -> Vec<StepPreview> {
        let requested = self
            .requests()
            .map(|simulated| simulated.simulation.requests())
            .unwrap_or_default();
        let fitting = self
            .fitting
            .as_ref()
            .map(|simulated| simulated.simulation.requests());
        for Estimated { key, step, call } in &mut steps {
            let expected = requested.get(key).copied().unwrap_or_default();
            let fits = |fitting: &RequestCounts| {
                Fits::new(
                    expected.count,
                    fitting.get(key).copied().unwrap_or_default().count,
                )
            };
            step.requests = step.requests.expecting(expected.count);
            step.units = units(call, step.requests.sparing(expected.not_modified));
            step.fits = fitting.as_ref().map_or(Fits::Unknown, fits);
        }
        steps.into_iter().map(|estimated| estimated.step).collect()
    }

    pub fn passes(&self) -> Vec<PassPreview> {
        let Some(simulated) = self.fitting.as_ref().or(self.requested.as_ref()) else {
            return Vec::new();
        };
        let fits = |pass: &PassReport| match (&self.fitting, pass.outcome, pass.requests) {
            (None, ..) => Fits::Unknown,
            (_, PassOutcome::Complete, _) => Fits::All,
            (_, _, 0) => Fits::None,
            _ => Fits::Part,
        };
        let due = simulated.report.passes.iter();
        let due =
            due.filter(|pass| pass.outcome != PassOutcome::NotDue && pass.region != Region::SHARED);
        due.map(|pass| PassPreview {
            job: pass.job.clone(),
            region: pass.region.clone(),
            slice: pass.slice,
            fits: fits(pass),
        })
        .collect()
    }

    pub fn limit(
        &self,
        limit: &LimitReport,
        selection: &Selection,
        units: &JobUnits,
    ) -> LimitPreview {
        let jobs = selection.iter().map(|(job, _)| job);
        let jobs = jobs.filter(|job| draws_on(job, &limit.account));
        let of_jobs = jobs.map(|job| self.units(limit, job, units));
        let units = of_jobs.fold(Range::exactly(0), Range::plus);
        LimitPreview {
            account: limit.account.clone(),
            limit: limit.limit.clone(),
            remaining: limit.remaining,
            units,
            spends: self.fitting.as_ref().map(|fitting| fitting.charged(limit)),
            fits: self.fits(limit, selection, units),
            first_unfit: None,
            closed_until: limit.closed_until,
        }
    }

    /// Returns the units of a limit that a job charges, of which other accounts of the job charge a part.
    fn units(&self, limit: &LimitReport, job: &Job, units: &JobUnits) -> Range {
        let units = units.get(&(job.name.clone(), limit.limit.clone()));
        let units = units.copied().unwrap_or(Range::exactly(0));
        let is_first = job.credential.account.name == limit.account;
        if !is_shared(job) || (is_first && self.fitting.is_none()) {
            return units;
        }
        let by_account = |account: &Account| {
            let fitting = self.fitting.as_ref();
            fitting.map_or(0, |fitting| {
                fitting.charged_by(job, account, &limit.limit).get()
            })
        };
        let charged = accounts(job.credentials());
        let (own, elsewhere): (Vec<_>, Vec<_>) = charged
            .iter()
            .partition(|account| account.name == limit.account);
        let own: u64 = own.into_iter().map(|account| by_account(account)).sum();
        let elsewhere: u64 = elsewhere.into_iter().map(|one| by_account(one)).sum();
        let fitting = self.fitting.as_ref();
        let stops = fitting.is_some_and(|fitting| fitting.stopped(&job.name).next().is_some());
        Range {
            min: 0,
            expected: match is_first && stops {
                true => units.expected.saturating_sub(elsewhere).max(own),
                false => own,
            },
            max: units.max.map(|max| max.max(own)),
        }
    }

    /// Returns how much of the requests fits a limit. One that refuses nothing fits them all, unless another limit kept the run
    /// from making them.
    fn fits(&self, limit: &LimitReport, selection: &Selection, units: Range) -> Fits {
        let Some(fitting) = &self.fitting else {
            return Fits::Unknown;
        };
        let charged = fitting.charged(limit);
        if fitting.stop(limit, selection).is_some() {
            // A run that admits several groups can need more batches than one without limits, so equal costs do not mean that
            // all fits.
            return match charged {
                Units::ZERO => Fits::None,
                _ => Fits::Part,
            };
        }
        let mut jobs = selection.iter().map(|(job, _)| job);
        let requested = match jobs.any(|job| is_shared(job) && draws_on(job, &limit.account)) {
            true => Units::new(units.expected),
            false => self
                .requests()
                .map(|simulated| simulated.charged(limit))
                .unwrap_or_default(),
        };
        let remaining = limit.remaining;
        match is_paced_by(selection, limit) || remaining.is_none_or(|left| requested <= left) {
            true => Fits::All,
            false => Fits::new(requested.get(), charged.get()),
        }
    }

    pub async fn first_unfit(
        &self,
        ledger: &dyn LedgerClient,
        accounts: &[Arc<Account>],
        (limit, selection): (&LimitReport, &Selection),
        now: Timestamp,
    ) -> Option<FirstUnfit> {
        let fitting = self.fitting.as_ref()?;
        let first = fitting.stop(limit, selection)?;
        let retry_at = fitting.retry_at(ledger, accounts, &first).await.max(now);
        let job = first.purpose.job.clone().unwrap_or_default();
        let region = first.purpose.region.clone().unwrap_or_default();
        let left = limit.remaining.unwrap_or_default();
        let left = left.saturating_sub(fitting.charged(limit));
        Some(FirstUnfit {
            region: if region == Region::SHARED {
                waiting(&fitting.report, &job).unwrap_or(region)
            } else {
                region
            },
            job,
            call: first.purpose.call.clone(),
            retry_after: retry_at.since(now),
            retry_at,
            leave: Some(first.leave.of(&limit.limit))
                .filter(|leave| *leave > Units::ZERO && first.cost.of(&limit.limit) <= left),
        })
    }
}

/// Whether a credential of a job draws on an account.
fn draws_on(job: &Job, account: &str) -> bool {
    job.credentials().any(|one| one.account.name == account)
}

/// Whether the requests of a job are charged to several accounts.
fn is_shared(job: &Job) -> bool {
    let mut others = job.fallbacks.iter();
    others.any(|one| one.account.name != job.credential.account.name)
}

/// Whether a run always waits for a limit.
fn is_paced_by(selection: &Selection, limit: &LimitReport) -> bool {
    let mut credentials = selection.iter().flat_map(|(job, _)| job.credentials());
    credentials.any(|one| one.account.name == limit.account && one.is_paced_by(&limit.limit))
}

/// Returns when a charge fits a limit. The ledger says that more exactly where the simulation does not have each of its
/// charges.
async fn fits_at(ledger: &dyn LedgerClient, account: &Account, fit: &LimitFit) -> Timestamp {
    let Some(most) = fit.balance_left else {
        return fit.fits_at;
    };
    match ledger.falls_to(account, &fit.limit, most).await {
        Ok(Some(falls)) => fit.closed_until.map_or(falls, |until| until.max(falls)),
        Ok(None) | Err(_) => fit.fits_at,
    }
}

/// Returns the first region of a job that waits for batches which do not fit.
fn waiting(report: &RunReport, job: &str) -> Option<String> {
    let waits = |pass: &&PassReport| {
        pass.job == job && pass.region != Region::SHARED && pass.outcome == PassOutcome::Stopped
    };
    report
        .passes
        .iter()
        .find(waits)
        .map(|pass| pass.region.clone())
}
