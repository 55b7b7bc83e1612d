//! What the simulated runs of a preview say of its steps, passes and limits.

use std::collections::HashMap;
use std::sync::Arc;

use super::estimate::{Estimated, units};
use super::{FirstUnfit, Fits, LimitPreview, PassPreview, StepPreview};
use crate::foresight::simulation::{LimitFit, Refused, RequestCounts, Simulation};
use crate::run::{LimitReport, PassOutcome, PassReport, Range, RunReport, Selection};
use ingest_catalog::CatalogError;
use ingest_config::{Job, Region};
use ingest_ledger::LedgerClient;
use ingest_quota::{Account, LimitName, Timestamp, Units};

/// A simulated run and its report.
pub struct Simulated {
    pub simulation: Simulation,
    report: RunReport,
    /// The units charged to each limit of an account.
    charged: HashMap<(String, LimitName), Units>,
    /// The first charge that each limit of an account refused.
    first_refused: HashMap<(String, LimitName), Refused>,
}

impl Simulated {
    pub async fn new(
        simulation: Simulation,
        now: Timestamp,
        concurrency: usize,
    ) -> Result<Self, CatalogError> {
        let report = simulation.run(now, concurrency).await?;
        let mut charged = HashMap::new();
        for granted in simulation.granted() {
            for (limit, units) in granted.cost.iter() {
                *charged
                    .entry((granted.account.clone(), limit.clone()))
                    .or_insert(Units::ZERO) += units;
            }
        }
        let mut first_refused = HashMap::new();
        for refused in simulation.refused() {
            let limit = (refused.account.clone(), refused.limit.clone());
            first_refused.entry(limit).or_insert(refused);
        }
        Ok(Self {
            simulation,
            report,
            charged,
            first_refused,
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
        self.charged
            .get(&key(limit))
            .copied()
            .unwrap_or(Units::ZERO)
    }
}

fn key(limit: &LimitReport) -> (String, LimitName) {
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
        steps: &[StepPreview],
    ) -> LimitPreview {
        let jobs = selection
            .iter()
            .filter(|(job, _)| job.credential.account.name == limit.account);
        let jobs: Vec<&str> = jobs.map(|(job, _)| job.name.as_str()).collect();
        let of_account = steps.iter().filter(|step| jobs.contains(&&*step.job));
        let units = of_account
            .filter_map(|step| step.units.get(&limit.limit))
            .copied();
        let units = units.fold(Range::exactly(0), Range::plus);
        LimitPreview {
            account: limit.account.clone(),
            limit: limit.limit.clone(),
            remaining: limit.remaining,
            units: self.shared(limit, selection, units),
            spends: self.fitting.as_ref().map(|fitting| fitting.charged(limit)),
            fits: match self.continues_elsewhere(limit, selection) {
                true => Fits::All,
                false => self.fits(limit, selection),
            },
            first_unfit: None,
        }
    }

    /// Returns the units of a limit of which other credentials of a job charge a part.
    fn shared(&self, limit: &LimitReport, selection: &Selection, units: Range) -> Range {
        let Some(fitting) = &self.fitting else {
            return units;
        };
        let mut jobs = of_several(selection, &limit.account);
        let Some(job) = jobs.next() else {
            return units;
        };
        let own = fitting.charged(limit);
        let is_first = job.credential.account.name == limit.account;
        let expected = match is_first {
            true => {
                let accounts = job.fallbacks.iter().map(|credential| &credential.account);
                let elsewhere = accounts.map(|account| {
                    let account = account.name.clone();
                    fitting.charged(&LimitReport {
                        account,
                        ..limit.clone()
                    })
                });
                let elsewhere: Units = elsewhere.sum();
                units
                    .expected
                    .saturating_sub(elsewhere.get())
                    .max(own.get())
            }
            false => own.get(),
        };
        Range {
            min: 0,
            expected,
            max: match is_first {
                true => units.max,
                false => None,
            },
        }
    }

    /// Whether the jobs that a limit refuses have other credentials, with which they come to their end.
    fn continues_elsewhere(&self, limit: &LimitReport, selection: &Selection) -> bool {
        let Some(fitting) = &self.fitting else {
            return false;
        };
        let jobs: Vec<&str> = of_several(selection, &limit.account)
            .map(|job| job.name.as_str())
            .collect();
        let mut passes = fitting.report.passes.iter();
        !jobs.is_empty()
            && passes.all(|pass| {
                pass.outcome != PassOutcome::Stopped || !jobs.contains(&pass.job.as_str())
            })
    }

    /// Returns how much of the requests fits a limit. One that refuses nothing fits them all, unless another limit kept the run
    /// from making them.
    fn fits(&self, limit: &LimitReport, selection: &Selection) -> Fits {
        let Some(fitting) = &self.fitting else {
            return Fits::Unknown;
        };
        let requested = self
            .requests()
            .map(|simulated| simulated.charged(limit))
            .unwrap_or_default();
        let charged = fitting.charged(limit);
        match fitting.first_refused.get(&key(limit)) {
            None if is_paced_by(selection, limit)
                || limit
                    .remaining
                    .is_none_or(|remaining| requested <= remaining) =>
            {
                Fits::All
            }
            None => Fits::new(requested.get(), charged.get()),
            Some(_) if charged == Units::ZERO => Fits::None,
            // A run that admits several groups can need more batches than one without limits, so equal costs do not mean that
            // all fits.
            Some(_) => Fits::Part,
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
        if self.continues_elsewhere(limit, selection) {
            return None;
        }
        let first = fitting.first_refused.get(&key(limit))?;
        let retry_at = fitting.retry_at(ledger, accounts, first).await.max(now);
        let job = first.purpose.job.clone().unwrap_or_default();
        let region = first.purpose.region.clone().unwrap_or_default();
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
        })
    }
}

/// Returns the jobs with several credentials, one of which draws on an account.
fn of_several<'s>(selection: &'s Selection, account: &str) -> impl Iterator<Item = &'s Arc<Job>> {
    let draws_on = move |job: &&Arc<Job>| {
        let mut credentials = job.credentials();
        !job.fallbacks.is_empty() && credentials.any(|one| one.account.name == account)
    };
    selection.iter().map(|(job, _)| job).filter(draws_on)
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
