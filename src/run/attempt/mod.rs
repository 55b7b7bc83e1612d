//! The requests for one page. Each attempt is charged before it is sent, and its charge is corrected by what the response
//! reports. This is the only place of a run that charges and sends.

mod exhausted;
mod passed_over;
mod permit;
mod reconcile;
mod refusal;
mod turn;

use std::sync::Arc;
use std::time::Duration;

use super::context::Context;
use super::outcome::{Claim, StoppedBy};
use super::stats::{PassStats, logged};
use super::stop_reason::StopReason;
use ingest_base::clock::Monotonic;
use ingest_base::record::CachedPage;
use ingest_config::{Call, Etag, Job, Region, Step};
use ingest_ledger::{ClientError, Permit};
use ingest_quota::{Account, Cost, LimitName, Timestamp, Units};
use ingest_upstream::{Exchange, Failure, Page, PageRequest};
use passed_over::PassedOver;
use refusal::Retry;

/// The longest pause that a run waits out. Where an upstream requests a longer one, the pass stops and the next run resumes
/// it.
const LONGEST_PAUSE: Duration = Duration::from_secs(60);

/// One attempt to fetch a page.
struct Attempt<'a> {
    context: &'a Context,
    job: &'a Job,
    region: &'a Region,
    step: &'a Step,
    /// The call, at the cost learned so far.
    call: Arc<Call>,
    /// What it charges, by the names of the limits in the ledger.
    cost: Cost,
    /// What its job leaves to others, by the same names.
    leave: Cost,
    /// The statistics of the pass that pays for the attempt.
    stats: &'a mut PassStats,
}

/// Why an attempt returned no page.
enum NoPage {
    /// The request can be made once more.
    Retry(Retry),
    /// The pass goes no further.
    Stop(StopReason),
}

impl From<StopReason> for NoPage {
    fn from(reason: StopReason) -> Self {
        Self::Stop(reason)
    }
}

impl From<ClientError> for NoPage {
    fn from(error: ClientError) -> Self {
        Self::Stop(error.into())
    }
}

/// Fetches one page with the first credential whose limits allow it, and that the upstream accepts. `stats` counts all attempts,
/// whatever the result.
///
/// # Errors
/// Why there is no page. Where the limits of credentials stop the request, the one that fits soonest; where the upstream
/// rejects all of them, the first rejection.
pub async fn fetch_page(
    context: &Context,
    job: &Job,
    request: PageRequest<'_>,
    stats: &mut PassStats,
) -> Result<Page, StopReason> {
    if job.fallbacks.is_empty() {
        return fetch_with(context, job, request, stats).await;
    }
    let mut passed_over = PassedOver::default();
    for job in job.by_credential() {
        match fetch_with(context, &job, request, stats).await {
            Ok(page) => return Ok(page),
            Err(reason) => passed_over.add(&job.credential.name, reason, stats)?,
        }
    }
    Err(passed_over.reason())
}

/// Fetches one page outside a run, charged like any other and not landed. Returns what was charged too.
pub async fn fetch_once(
    context: &Context,
    job: &Job,
    request: PageRequest<'_>,
) -> (Result<Page, StopReason>, Cost) {
    let mut stats = PassStats::default();
    let page = fetch_page(context, job, request, &mut stats).await;
    (page, stats.units)
}

/// Fetches one page with a job's first credential, with as many attempts as the upstream is configured for.
///
/// # Errors
/// Why there is no page.
async fn fetch_with(
    context: &Context,
    job: &Job,
    request: PageRequest<'_>,
    stats: &mut PassStats,
) -> Result<Page, StopReason> {
    let cached = cached_page(context, job, request).await?;
    let request = PageRequest {
        known: cached.as_ref(),
        ..request
    };
    let (mut number, mut in_doubt, mut unreadable) = (1, None, None);
    loop {
        let (credential, region) = (&job.credential, request.region);
        // For each attempt anew: other requests of the call may have learned its true cost.
        let call = context.learned_costs.priced(job, &request.step.call);
        let cost = credential.in_ledger(&call.cost, region);
        let mut attempt = Attempt {
            context,
            job,
            region,
            step: request.step,
            cost: cost.map_err(StopReason::Failed)?,
            leave: credential.leave_in_ledger(&job.leave, region),
            call,
            stats: &mut *stats,
        };
        match attempt.run(request).await {
            Ok(page) => return Ok(page),
            Err(NoPage::Retry(retry)) => {
                in_doubt = retry.charged.then(|| retry.why.clone());
                retry.is_new(&mut unreadable, number)?;
                attempt.wait_to_retry(retry, number).await?;
            }
            // The report of an interrupted run says why its last request stays charged.
            Err(NoPage::Stop(StopReason::Interrupted(_))) => {
                return Err(StopReason::Interrupted(in_doubt));
            }
            Err(NoPage::Stop(reason)) => return Err(reason),
        }
        number += 1;
    }
}

/// Returns what the catalog holds of a page, where configuration says that a response of "not modified" costs nothing.
async fn cached_page(
    context: &Context,
    job: &Job,
    request: PageRequest<'_>,
) -> Result<Option<CachedPage>, StopReason> {
    let (call, upstream) = (&request.step.call, &job.credential.upstream);
    let (Etag::Free, Some(records)) = (call.etag, &call.records) else {
        return Ok(None);
    };
    let Some(name) = request.name(upstream) else {
        return Ok(None);
    };
    let cached = context
        .catalog
        .cached_page(&upstream.name, &records.kind, &name);
    Ok(cached.await?)
}

impl<'a> Attempt<'a> {
    /// Charges the request, sends it, and brings what the response reports to the ledger.
    async fn run(&mut self, request: PageRequest<'_>) -> Result<Page, NoPage> {
        // Before the slot, which a request of another credential can use meanwhile.
        let turn = self.turn().await?;
        // Before the charge: a grant does not last as long as this can take.
        let slot = self.context.in_flight.slot(&self.job.credential.upstream);
        let _slot = self.waiting("its turn at the upstream", slot).await;
        let (permit, connection) = self.permit(&turn).await?;
        let progress = &self.context.progress;
        progress.charged(self.account(), &permit.grant.remaining);
        let cost = self.cost.clone();
        // Until the response is reconciled: the upstream may not have counted it in what it reports to others meanwhile.
        let _in_flight = self.context.in_flight.add(&self.account().name, &cost);
        let sent = Monotonic::now();
        let request = PageRequest {
            now: self.context.clock.now(),
            ..request
        };
        let upstream = self.context.upstream(&self.job.credential)?;
        let fetched = upstream.fetch(request, connection, self.deadline(&permit));
        let Exchange { page, reported, .. } =
            self.waiting("the upstream's response", fetched).await;
        if let (Ok(page), Some(_)) = (&page, &self.context.compared_records) {
            let findings = &mut self.stats.findings;
            findings.add_page(request.step, page, &reported);
        }
        let reported = reported.renamed(|limit| self.in_ledger(limit));
        self.log(&page, sent.elapsed());
        match page {
            Ok(page) => {
                self.accepted(&turn);
                self.reopen(&permit).await;
                if page.unchanged {
                    self.release_unmodified(&permit).await;
                }
                self.settle(&permit, &reported).await;
                self.reconcile(&permit, &reported.limits).await;
                Ok(page)
            }
            Err(failure) => {
                let cost = self.cost_of_refusal(&permit, &failure, &reported);
                self.correct(&permit, &cost).await;
                let open = self.of_open_limits(&failure, &reported.limits);
                self.reconcile(&permit, &open).await;
                let refused = self.refused(&permit, &turn, failure, &reported.limits);
                let mut retry = refused.await?;
                // An attempt that its error rule calls free leaves no charge in doubt.
                retry.charged &= !cost.is_none();
                Err(NoPage::Retry(retry))
            }
        }
    }

    /// Returns the name of a limit in the ledger.
    fn in_ledger(&self, configured: LimitName) -> LimitName {
        let mut charged = self.cost.limits();
        let is_it = |name: &&LimitName| self.job.credential.configured_name(name) == configured;
        charged.find(is_it).cloned().unwrap_or(configured)
    }

    /// Waits for a future, and lists it among what the run waits for.
    async fn waiting<F: Future>(&self, what: &'static str, future: F) -> F::Output {
        let (waits, job) = (&self.context.waits, &self.job.name);
        let _listed = waits.begin(format_args!("{} of {job}", self.region.key()), what);
        future.await
    }

    fn account(&self) -> &'a Account {
        &self.job.credential.account
    }

    /// Logs what a request led to.
    fn log(&self, fetched: &Result<Page, Failure>, took: Duration) {
        let (job, region, call) = (&self.job.name, self.region.key(), &self.call.name);
        match fetched {
            Ok(page) => {
                let (units, records) = (logged(&self.cost), page.records.len());
                tracing::info!(job, region, call, units, records, ?took, "page fetched");
            }
            Err(_) => tracing::debug!(job, region, call, ?took, "request failed"),
        }
    }

    /// Releases the charge of a page that was not modified. The page is landed even if the ledger fails: then it stays
    /// charged.
    async fn release_unmodified(&mut self, permit: &Permit) {
        match self.context.ledger.release(self.account(), permit).await {
            Ok(()) => self.stats.settle(&self.cost, &Cost::none(), permit.metered),
            Err(error) => {
                tracing::warn!(call = self.call.name, %error, "cannot release the charge of a page \
                    that was not modified");
            }
        }
    }

    /// The refusal of a limit that has no unit left, until `retry_at`.
    fn stopped_by(
        &self,
        limit: LimitName,
        retry_at: Timestamp,
        retry_after: Duration,
    ) -> StoppedBy {
        let account = self.account();
        StoppedBy {
            account: account.name.clone(),
            closed_by: self.context.blocked.closed_by(account, &limit),
            units: self.cost.of(&limit),
            limit,
            call: self.call.name.clone(),
            remaining: Units::ZERO,
            closed_until: None,
            claim: self.claim(),
            retry_after,
            retry_at,
        }
    }

    fn claim(&self) -> Claim {
        Claim {
            cost: self.cost.clone(),
            leave: self.leave.clone(),
        }
    }
}
