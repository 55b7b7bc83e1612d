//! `ingest check --spend`: one metered call with each credential. Charged like any other, and never retried.

use std::sync::Arc;

use super::finding::{CheckFinding, bad, good, warning};
use crate::commands::environment::Environment;
use crate::commands::table::{cost, count, instant};
use crate::run::{truth, truth_of_a_refusal};
use ingest_config::{Credential, Job, Region, Step};
use ingest_ledger::{Acquired, ChargeRequest, ClientError, LedgerClient, Permit, Purpose};
use ingest_quota::Cost;
use ingest_upstream::{Exchange, Failure, PageRequest, ReportedCost};

pub async fn once_each(environment: &Environment, ledger: &dyn LedgerClient) -> Vec<CheckFinding> {
    let mut findings = Vec::new();
    for credential in environment.config.credentials.values() {
        let what = format!("a call with credential {}", credential.name);
        let Some(trial) = cheapest(environment, credential) else {
            let why = "skipped: no job has a listing step with this credential";
            findings.push(warning(what, why.to_owned()));
            continue;
        };
        findings.push(match trial.make(environment, ledger).await {
            Ok(returned) => good(what, returned),
            Err(why) => bad(what, why),
        });
    }
    findings
}

/// The first page of a step, for one region.
struct Trial<'a> {
    credential: &'a Arc<Credential>,
    job: &'a Job,
    step: &'a Step,
    region: Arc<Region>,
}

/// Returns the cheapest request that lists, of all jobs with a credential.
fn cheapest<'a>(
    environment: &'a Environment,
    credential: &'a Arc<Credential>,
) -> Option<Trial<'a>> {
    let jobs = environment
        .config
        .jobs
        .iter()
        .filter(|job| job.credentials().any(|one| one.name == credential.name));
    let steps = jobs.flat_map(|job| job.steps.iter().map(move |step| (job, step)));
    let listing = steps.filter(|(_, step)| step.ids.is_none());
    let (job, step) = listing.min_by_key(|(_, step)| step.call.cost.total())?;
    Some(Trial {
        credential,
        job,
        step,
        region: job.first_slice_of(job.regions.first()?, environment.clock.now()),
    })
}

impl Trial<'_> {
    /// Returns what the call returned, or why it failed.
    async fn make(
        &self,
        environment: &Environment,
        ledger: &dyn LedgerClient,
    ) -> Result<String, String> {
        let upstream = environment.upstream(self.credential);
        let upstream = upstream.map_err(|why| format!("was not made: {why}"))?;
        // Before the charge, as in a run: what fails to connect costs nothing.
        let connection = upstream.connect().await;
        let connection = connection.map_err(|failure| format!("was not made: {failure}"))?;
        let permit = self.ask(environment, ledger).await;
        let permit = permit.map_err(|why| format!("not sent: {why}"))?;
        let call = &self.step.call;
        let Exchange { page, reported } = upstream
            .fetch(self.request(environment), connection, permit.deadline)
            .await;
        let spent = self.settle(ledger, &permit, &reported, page.is_ok()).await;
        let spent = spent
            .map_err(|error| format!("cannot record the reported cost in the ledger: {error}"))?;
        match page {
            Ok(page) => {
                let (records, region) = (page.records.len(), &self.region.code);
                Ok(format!(
                    "{} for {region} returned {records} records; cost {}",
                    call.name,
                    cost(&spent)
                ))
            }
            // Only these prove that nothing left.
            Err(failure @ (Failure::NotSent(_) | Failure::Unreachable(_) | Failure::TooLate)) => {
                let released = ledger.release(&self.credential.account, &permit).await;
                let spent = released.map_or_else(
                    |error| format!("the charge was not released ({error})"),
                    |()| "nothing was charged".to_owned(),
                );
                Err(format!("{} was not sent, {spent}: {failure}", call.name))
            }
            Err(failure) => Err(format!("{}: {failure}; cost {}", call.name, cost(&spent))),
        }
    }

    /// Settles the charge to the reported cost; a refusal that reports less keeps its charge, but for what is free.
    async fn settle(
        &self,
        ledger: &dyn LedgerClient,
        permit: &Permit,
        reported: &ReportedCost,
        served: bool,
    ) -> Result<Cost, ClientError> {
        let charged = &self.step.call.cost;
        let truth = if served {
            truth(charged, &reported.cost)
        } else {
            truth_of_a_refusal(charged, &reported.cost)
        };
        let truth = reported.free.rest_of(&truth);
        if truth != *charged {
            let in_ledger = self.credential.in_ledger(&truth, &self.region);
            let in_ledger = in_ledger.unwrap_or_else(|_| truth.clone());
            ledger
                .settle(&self.credential.account, &permit.id, &in_ledger)
                .await?;
        }
        Ok(truth)
    }

    async fn ask(
        &self,
        environment: &Environment,
        ledger: &dyn LedgerClient,
    ) -> Result<Permit, String> {
        let call = &self.step.call;
        let ask = ChargeRequest {
            account: &self.credential.account,
            id: None,
            cost: &self.credential.in_ledger(&call.cost, &self.region)?,
            leave: &Cost::none(),
            outage: call.outage_policy(environment.config.ledger.cheap_max),
            purpose: &Purpose {
                job: Some(self.job.name.clone()),
                region: Some(self.region.code.clone()),
                call: call.name.clone(),
            },
        };
        match ledger
            .acquire(ask)
            .await
            .map_err(|error| error.to_string())?
        {
            Acquired::Permitted(permit) => Ok(permit),
            Acquired::Rejected(rejection) => Err(format!(
                "{} {} remaining; retry at {}",
                count(rejection.remaining.get()),
                rejection.limit,
                instant(rejection.retry_at)
            )),
            Acquired::Never { limit, most } => Err(format!(
                "the call can never be granted: {limit} grants at most {}",
                count(most.get())
            )),
            Acquired::Refused(why) => Err(why),
        }
    }

    fn request(&self, environment: &Environment) -> PageRequest<'_> {
        let now = environment.clock.now();
        PageRequest {
            step: self.step,
            region: &self.region,
            ids: &[],
            cursor: None,
            lasting: None,
            began: now,
            now,
            since: self.job.since.first.as_ref(),
            known: None,
        }
    }
}
