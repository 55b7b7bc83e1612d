//! The report of a run, collected from its passes.

use std::collections::{BTreeMap, HashSet};
use std::sync::Arc;

use super::Selection;
use super::batches::Batches;
use super::context::Context;
use super::due::Candidate;
use super::outcome::{
    Claim, ClosedBy, LimitReport, PassOutcome, PassReport, RunOutcome, RunReport, StoppedBy,
};
use super::pass::Pass;
use super::retention::Deletion;
use super::stats::{PassStats, logged};
use super::stop_reason::StopReason;
use crate::review::{Said, doubt_in_words};
use ingest_config::{Credential, Job, Region};
use ingest_ledger::LedgerClient;
use ingest_quota::{Account, Cost, Limit, LimitName, LimitUsage, Timestamp, Units};

/// The results of the regions walked so far.
#[derive(Default)]
pub struct Walked {
    passes: Vec<PassReport>,
    unmetered: Units,
    requests: u64,
    /// Records that no response contained within `keep`.
    pub deletions: Vec<Deletion>,
    /// The limits that stopped a pass, by the text that the pass reports.
    reasons: BTreeMap<String, StopReason>,
}

impl Walked {
    /// How many requests they made.
    pub const fn requests(&self) -> u64 {
        self.requests
    }

    /// Adds a pass that was walked, and returns its report.
    pub fn add(&mut self, pass: Pass, reason: Option<&StopReason>) -> PassReport {
        let report = PassReport {
            resumed: pass.resumed,
            ..blank(&pass.job, &pass.region)
        };
        self.push(report, reason, pass.said, &pass.stats)
    }

    /// Adds the batches of a job and returns their report; `None` if no request was made for them and none was refused.
    pub fn add_batches(&mut self, job: &Job, batches: Batches) -> Option<PassReport> {
        let reason = batches.reason.as_ref().or(batches.forbidden.as_ref());
        if batches.stats.requests == 0 && reason.and_then(why).is_none() {
            return None;
        }
        let report = PassReport {
            resumed: batches.resumed,
            ..blank(job, &Region::shared())
        };
        Some(self.push(report, reason, batches.said, &batches.stats))
    }

    /// Adds regions that were not walked.
    pub fn add_not_walked(
        &mut self,
        candidates: &[Candidate],
        outcome: PassOutcome,
        why: Option<&StopReason>,
    ) {
        if let Some(why) =
            why.filter(|_| matches!(outcome, PassOutcome::Failed | PassOutcome::Refused))
        {
            let (regions, outcome) = (candidates.len(), outcome.name());
            tracing::error!(target: FAILURE, outcome, regions, detail = %why, "regions not walked");
        }
        let detail = self.say(why);
        self.passes
            .extend(candidates.iter().map(|candidate| PassReport {
                outcome,
                detail: detail.clone(),
                ..blank(&candidate.job, &candidate.region)
            }));
    }

    fn push(
        &mut self,
        report: PassReport,
        reason: Option<&StopReason>,
        Said { doubts, notes }: Said,
        stats: &PassStats,
    ) -> PassReport {
        let why = self.say(reason).into_iter();
        let texts = doubts.iter().map(doubt_in_words);
        let notes = why
            .chain(texts)
            .chain(notes)
            .chain(denied(stats))
            .chain(skipped(stats));
        let findings = stats.findings.notes(report.resumed);
        let notes: Vec<String> = notes.chain(findings).collect();
        self.unmetered += stats.unmetered;
        self.requests = self.requests.saturating_add(stats.requests);
        let pass = PassReport {
            outcome: match (reason, doubts.is_empty()) {
                (Some(reason), _) => reason.outcome(),
                (None, true) => PassOutcome::Complete,
                (None, false) => PassOutcome::Doubtful,
            },
            doubts,
            pages: stats.pages,
            records: stats.records,
            requests: stats.requests,
            units: stats.units.clone(),
            detail: (!notes.is_empty()).then(|| notes.join("; ")),
            ..report
        };
        log_end(&pass);
        self.merge(pass.clone());
        pass
    }

    /// Returns the text of a reason; `None` where the outcome says it all. Keeps a limit that stopped a pass: its text names a time,
    /// and later charges of this run can change that.
    fn say(&mut self, reason: Option<&StopReason>) -> Option<String> {
        let reason = reason?;
        // One refusal stops all regions behind it.
        if let Some((said, _)) = self.reasons.iter().find(|(_, known)| *known == reason) {
            return Some(said.clone());
        }
        let said = why(reason)?;
        if let StopReason::Stopped(..) = reason {
            let known = self.reasons.entry(said.clone());
            known.or_insert_with(|| reason.clone());
        }
        Some(said)
    }

    /// Merges the batches of several admitted groups into one row a job. A region walks once.
    fn merge(&mut self, pass: PassReport) {
        let is_same = |previous: &&mut PassReport| {
            previous.region == Region::SHARED && previous.job == pass.job
        };
        let mut previous = self
            .passes
            .iter_mut()
            .filter(|_| pass.region == Region::SHARED);
        match previous.find(is_same) {
            Some(previous) => previous.add(pass),
            None => self.passes.push(pass),
        }
    }
}

/// The target of log events about failed passes. A log for people leaves them out, since the summary has them too.
pub const FAILURE: &str = "ingest::failure";

/// The target of events about limits that this run closed. They are shown with `--quiet` too: the operator of a timer learns of
/// a closing by nothing else.
pub const CLOSING: &str = "ingest::closing";

fn log_end(pass: &PassReport) {
    let PassReport {
        job,
        pages,
        records,
        requests,
        ..
    } = pass;
    let outcome = pass.outcome.name();
    let detail = pass.detail.as_deref().unwrap_or_default();
    // What is made for the log is made in the arguments: they are read only where somebody listens.
    if pass.outcome.is_failure() {
        tracing::error!(target: FAILURE, job, region = pass.key(), outcome, pages, records, requests,
            units = logged(&pass.units), detail, "pass failed");
    } else {
        tracing::info!(
            job,
            region = pass.key(),
            outcome,
            pages,
            records,
            requests,
            units = logged(&pass.units),
            detail,
            "pass ended"
        );
    }
}

fn blank(job: &Job, region: &Region) -> PassReport {
    PassReport {
        job: job.name.clone(),
        region: region.code.clone(),
        slice: region.slice,
        outcome: PassOutcome::NotDue,
        resumed: false,
        pages: 0,
        records: 0,
        requests: 0,
        units: Cost::none(),
        detail: None,
        doubts: Vec::new(),
    }
}

/// Returns the text of a reason; `None` where the outcome says it all.
fn why(reason: &StopReason) -> Option<String> {
    (!matches!(reason, StopReason::Interrupted(None))).then(|| reason.to_string())
}

fn denied(stats: &PassStats) -> impl Iterator<Item = String> {
    stats.denied.iter().map(|(credential, why)| {
        format!("the upstream rejected the credential {credential}, which this run does not use any more: {why}")
    })
}

fn skipped(stats: &PassStats) -> Option<String> {
    match stats.skipped {
        0 => None,
        1 => Some("1 record without an id was skipped".to_owned()),
        more => Some(format!("{more} records without an id were skipped")),
    }
}

/// Returns the report of the whole run, with the limits as they are now.
pub async fn report(context: &Context, selection: &Selection, walked: Walked) -> RunReport {
    let outcome = walked
        .passes
        .iter()
        .map(|pass| RunOutcome::from(pass.outcome))
        .max();
    let accounts = accounts(selection.iter().flat_map(|(job, _)| job.credentials()));
    let mut limits = Vec::new();
    for account in &accounts {
        limits.extend(limit_reports(&*context.ledger, account).await);
    }
    let mut fits = Fits {
        ledger: &*context.ledger,
        accounts: &accounts,
        limits: &limits,
        known: Vec::new(),
    };
    // Where every pass is complete, another credential was used, or nothing was left to do.
    let mut stops = match outcome {
        Some(RunOutcome::NothingDue | RunOutcome::Complete) | None => Vec::new(),
        Some(RunOutcome::Stopped | RunOutcome::Failed | RunOutcome::Interrupted) => {
            stops(context, selection, &walked)
        }
    };
    for stop in &mut stops {
        fits.refresh(stop).await;
    }
    let mut passes = walked.passes;
    for (said, mut reason) in walked.reasons {
        if let Some(stop) = reason.stop() {
            fits.refresh(stop).await;
        }
        let says = reason.to_string();
        let details = passes.iter_mut().filter_map(|pass| pass.detail.as_mut());
        for detail in details.filter(|_| says != said) {
            *detail = detail.replace(&said, &says);
        }
    }
    RunReport {
        outcome: outcome.unwrap_or(RunOutcome::NothingDue),
        requests: passes.iter().map(|pass| pass.requests).sum(),
        passes,
        unmetered_units: walked.unmetered,
        deletions: walked.deletions,
        stopped_by: stops.into_iter().min_by_key(|stop| stop.retry_at),
        limits,
    }
}

/// Returns the refusals for which a pass waits. A job with several credentials can be complete although one of them was
/// refused; another job that shares the call and the account does not wait for that refusal if it leaves other units.
fn stops(context: &Context, selection: &Selection, walked: &Walked) -> Vec<StoppedBy> {
    let stopped = |job: &Job| {
        let mut passes = walked.passes.iter();
        passes.any(|pass| pass.job == job.name && pass.outcome == PassOutcome::Stopped)
    };
    let waits = |job: &Job, stop: &StoppedBy| {
        let mut credentials = job.credentials();
        credentials.any(|credential| {
            credential.account.name == stop.account && leaves(job, credential, &stop.claim.leave)
        }) && job.steps.iter().any(|step| step.call.name == stop.call)
            && stopped(job)
    };
    let all = context.blocked.stops(context.clock.now());
    let (mut waiting, others): (Vec<StoppedBy>, Vec<StoppedBy>) = all
        .into_iter()
        .partition(|stop| selection.iter().any(|(job, _)| waits(job, stop)));
    // A run that was interrupted or failed can have met refusals for which no pass waits.
    let is_stopped = |pass: &PassReport| pass.outcome == PassOutcome::Stopped;
    if waiting.is_empty() && walked.passes.iter().any(is_stopped) {
        waiting = others;
    }
    waiting
}

/// Whether a request of a job can have left these units to others.
fn leaves(job: &Job, credential: &Credential, units: &Cost) -> bool {
    let shared = Region::shared();
    let mut regions = job.regions.iter().map(AsRef::as_ref).chain([&shared]);
    regions.any(|region| credential.leave_in_ledger(&job.leave, region) == *units)
}

/// The limit that a charge waits for longest, and when it fits; `None` where the ledger cannot say.
type LastFit = Option<(LimitName, Timestamp)>;

/// When refused charges fit by everything charged until now, each looked up once: another job may have charged after a refusal.
struct Fits<'a> {
    ledger: &'a dyn LedgerClient,
    accounts: &'a [Arc<Account>],
    limits: &'a [LimitReport],
    /// By account and claim.
    known: Vec<(String, Claim, LastFit)>,
}

impl Fits<'_> {
    /// Updates a refusal to the limits as they are now.
    async fn refresh(&mut self, stop: &mut StoppedBy) {
        let mut known = self.known.iter();
        let found =
            known.find(|(account, claim, _)| (account, claim) == (&stop.account, &stop.claim));
        let last = match found {
            Some((_, _, last)) => last.clone(),
            None => {
                let last = self.last(stop).await;
                let (account, claim) = (stop.account.clone(), stop.claim.clone());
                self.known.push((account, claim, last.clone()));
                last
            }
        };
        let Some((limit, at)) = last else { return };
        stop.units = stop.claim.cost.of(&limit);
        if stop.limit != limit {
            stop.closed_by = ClosedBy::Others;
        }
        if let Some(report) = report_of(self.limits, &stop.account, &limit) {
            stop.remaining = report.remaining.unwrap_or(stop.remaining);
            stop.closed_until = report.closed_until;
        }
        stop.limit = limit;
        stop.fits_at(at);
    }

    /// Returns what a charge waits for, of several limits the first by name.
    async fn last(&self, stop: &StoppedBy) -> LastFit {
        let mut accounts = self.accounts.iter();
        let account = accounts.find(|account| account.name == stop.account)?;
        let claim = &stop.claim;
        let mut last: LastFit = None;
        for (name, limit) in account.charged(&claim.cost) {
            let needs = claim.cost.of(name) + claim.leave.of(name);
            let most = limit.enforced().saturating_sub(needs);
            let falls = self.ledger.falls_to(account, name, most).await;
            let falls = falls.ok().flatten()?;
            let report = report_of(self.limits, &account.name, name);
            let closed = report.and_then(|limit| limit.closed_until);
            let at = closed.map_or(falls, |until| until.max(falls));
            if last.as_ref().is_none_or(|(_, latest)| at > *latest) {
                last = Some((name.clone(), at));
            }
        }
        last
    }
}

fn report_of<'l>(limits: &'l [LimitReport], account: &str, limit: &str) -> Option<&'l LimitReport> {
    limits
        .iter()
        .find(|one| one.account == account && one.limit == limit)
}

/// The accounts that these credentials draw on, each once.
pub fn accounts<'a>(credentials: impl Iterator<Item = &'a Arc<Credential>>) -> Vec<Arc<Account>> {
    let mut seen = HashSet::new();
    let accounts = credentials.map(|credential| &credential.account);
    let new = accounts.filter(|account| seen.insert(&*account.name));
    new.map(Arc::clone).collect()
}

/// Returns the limits of an account, without their usage where the ledger cannot be reached.
pub async fn limit_reports(ledger: &dyn LedgerClient, account: &Account) -> Vec<LimitReport> {
    let usages = ledger.usage(account).await.unwrap_or_else(|error| {
        if !error.is_outage() {
            tracing::error!(account = account.name, %error, "cannot read ledger usage");
        }
        Vec::new()
    });
    account
        .limits
        .iter()
        .map(|(name, limit)| limit_report(account, name, limit, LimitUsage::find(&usages, name)))
        .collect()
}

/// Returns a limit with its usage, if that can be read.
#[must_use]
pub fn limit_report(
    account: &Account,
    name: &str,
    limit: &Limit,
    usage: Option<&LimitUsage>,
) -> LimitReport {
    LimitReport {
        account: account.name.clone(),
        limit: name.to_owned(),
        quota: limit.quota(),
        enforced: limit.enforced(),
        used: usage.map(|usage| usage.used),
        remaining: usage.map(|usage| usage.remaining),
        closed_until: usage.and_then(|usage| usage.closed_until),
    }
}
