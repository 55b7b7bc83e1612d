//! `ingest status`: the use of the limits, and the age of each region. Reads only.

pub mod parts;
pub mod standing;

pub use standing::Standing;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use serde::Serialize;

use super::environment::Environment;
use super::lost_catalog::lost_catalog;
use super::output::Message;
use super::{Error, output, refill};
use crate::cli::{Global, Shown, StatusArgs};
use crate::doc::Doc;
use crate::exit::Exit;
use crate::run::{self, Candidate, HeldBack, LimitReport, Rejections};
use ingest_base::record::Doubted;
use ingest_catalog::{PassEnd, PassRecord, Resource};
use ingest_config::Region;
use ingest_ledger::{ChargeSource, ClientError, LedgerClient, Origin, Purpose, Spent, file_of};
use ingest_quota::{Account, Cost, Limit, LimitName, LimitUsage, Return, Timestamp, Units};

/// How long a failed pass is shown.
const WEEK: Duration = Duration::from_secs(7 * 24 * 60 * 60);
/// The most failed passes that are read. A pass that fails again is the same one.
const MOST_FAILED: u32 = 10_000;

const HOUR: Duration = Duration::from_secs(60 * 60);
/// The spans for which the returning units are shown.
const SOON: [Duration; 3] = [
    HOUR,
    Duration::from_secs(6 * 60 * 60),
    Duration::from_secs(24 * 60 * 60),
];

/// The result of `status`.
#[derive(Debug, Serialize)]
pub struct Status {
    pub limits: Vec<LimitStatus>,
    /// Charges in the window by job, region and call: from the ledger, or from this machine's journal.
    pub spend: Vec<Spend>,
    pub regions: Vec<RegionStatus>,
    /// The credentials that their upstreams rejected and that are not asked yet, each until the first of its jobs asks it again;
    /// missing if there are none.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub held_back: Vec<HeldBack>,
    /// Why nothing is known of what was ingested, where the catalog was lost; absent where it is there.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub lost_catalog: Option<String>,
    /// What a ledger may lack that was restored from a backup; `None` where it lacks nothing.
    #[serde(skip)]
    pub restored: Option<String>,
    /// What the last batches of each job noticed, if they did.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub batches: Vec<BatchStatus>,
    /// Who walks which region now, on any machine that shares the catalog. The region of batches is `*`.
    pub walking: Vec<Walking>,
    /// The result of `--fail-if-stale`; absent without it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub stale: Option<Vec<Stale>>,
}

/// A region without a complete pass within the time of `--fail-if-stale`.
#[derive(Debug, Serialize)]
pub struct Stale {
    pub job: String,
    pub region: String,
    pub age_seconds: Option<f64>,
}

/// A region that a run walks.
#[derive(Debug, Serialize)]
pub struct Walking {
    pub job: String,
    pub region: String,
    pub machine: String,
    pub process: u32,
    pub since: Option<Timestamp>,
    /// When the region is free if the machine dies; `None` where that is when its process ends.
    pub until: Option<Timestamp>,
}

#[derive(Debug, Serialize)]
pub struct LimitStatus {
    #[serde(flatten)]
    pub report: LimitReport,
    pub headroom: Units,
    pub since_reset: Option<Units>,
    pub returns: Vec<Return>,
    /// The units that return within an hour, six hours and a day.
    pub returns_within: ReturnsWithin,
    /// The units that went unmetered on this machine and are not charged to the ledger yet.
    pub unrepaid: Units,
    /// When this machine charges again: the ledger lost data and `after_loss` is `wait`.
    pub waits_until: Option<Timestamp>,
}

#[derive(Debug, Default, Serialize)]
pub struct ReturnsWithin {
    #[serde(rename = "1h")]
    pub hour: Units,
    #[serde(rename = "6h")]
    pub six_hours: Units,
    #[serde(rename = "24h")]
    pub day: Units,
}

/// Charges in an account's windows, by job, region and call.
#[derive(Debug, Serialize)]
pub struct Spend {
    pub account: String,
    #[serde(rename = "told_by")]
    pub source: ChargeSource,
    pub job: Option<String>,
    pub region: Option<String>,
    pub call: String,
    pub origin: Origin,
    pub charges: u64,
    pub units: Cost,
}

#[derive(Debug, Serialize)]
pub struct RegionStatus {
    pub job: String,
    pub region: String,
    pub last_complete: Option<Timestamp>,
    pub age_seconds: Option<f64>,
    pub due_at: Option<Timestamp>,
    /// When the pass began that the upstream refused after the last complete one; absent if none was, or if the configuration
    /// of its requests changed since.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub refused_at: Option<Timestamp>,
    /// Why it was refused; `None` where the catalog does not say.
    #[serde(skip)]
    pub refused_why: Option<String>,
    #[serde(flatten)]
    pub last: LastPasses,
    /// The calls whose next lists begin with a cursor of the last complete pass, and name what changed since.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub begins_at_cursor: Vec<String>,
    pub unfinished: bool,
    /// The position of an unfinished pass.
    pub stopped_at: Option<StoppedAt>,
    /// The progress of a backfill; absent in a job without slices.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub slices: Option<SliceProgress>,
}

/// A pass that a run left as failed.
#[derive(Debug, Clone, Serialize)]
pub struct FailedPass {
    /// When the run left it.
    pub at: Timestamp,
    /// Why it got no further.
    pub why: String,
}

/// What the last batches of a job noticed: the ids that its regions named.
#[derive(Debug, Serialize)]
pub struct BatchStatus {
    pub job: String,
    #[serde(flatten)]
    pub last: LastPasses,
}

/// What the last passes over a region met, or the last batches of a job.
#[derive(Debug, Serialize)]
pub struct LastPasses {
    /// Why the last one failed, if that began later than the last complete one. Batches serve all regions of their job: a complete
    /// pass over any of them had its batches.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub failed: Option<FailedPass>,
    /// When the last one began, if that is doubtful.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub doubtful_at: Option<Timestamp>,
    /// The doubts about its lists.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub doubts: Vec<Doubted>,
    /// What the last complete one noticed.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub notes: Option<String>,
}

#[derive(Debug, Serialize)]
pub struct SliceProgress {
    pub complete: u64,
    pub of: u64,
}

#[derive(Debug, Serialize)]
pub struct StoppedAt {
    pub call: String,
    pub pages: u64,
    pub since: Timestamp,
}

/// Shows the status.
pub async fn status(global: &Global, args: &StatusArgs) -> Result<Exit, Error> {
    let environment = Environment::load(global)?;
    environment.expect_state_dir(global)?;
    environment.expect_shown(&args.shown)?;
    let mut status = report(&environment, args.fail_if_stale).await?;
    status.keep(&args.shown);
    if let Some(restored) = &status.restored {
        let file = file_of(&environment.config.ledger.store);
        tracing::warn!("{}: {restored}", environment.state_dir.join(file).display());
    }
    let now = environment.clock.now();
    output::report(global, &status, |screen| {
        let stale = status.stale.as_ref().zip(args.fail_if_stale);
        let stale = stale.map(|(stale, within)| parts::stale(stale, within) + "\n");
        let doc = doc(&status, args, now).text(screen);
        Message::Result(stale.unwrap_or_default() + &doc)
    })?;
    let is_stale = status.stale.is_some_and(|stale| !stale.is_empty());
    Ok(Exit::failed_if(is_stale))
}

impl Status {
    /// What the last passes over each region met, and behind these the last batches of each job, whose region is `*`.
    pub fn last_passes(&self) -> impl Iterator<Item = (&str, &str, &LastPasses)> {
        let regions = self.regions.iter();
        let regions = regions.map(|one| (&*one.job, &*one.region, &one.last));
        let batches = self.batches.iter();
        regions.chain(batches.map(|one| (&*one.job, Region::SHARED, &one.last)))
    }

    /// Leaves out the jobs and regions that are not wanted.
    fn keep(&mut self, shown: &Shown) {
        // The limits stay: all jobs of an account share them.
        let wants = |job: &str, region: &str| shown.wants(Some(job), Some(region));
        self.regions.retain(|one| wants(&one.job, &one.region));
        self.walking.retain(|one| wants(&one.job, &one.region));
        if let Some(stale) = &mut self.stale {
            stale.retain(|one| wants(&one.job, &one.region));
        }
        self.spend
            .retain(|one| shown.wants(one.job.as_deref(), one.region.as_deref()));
    }
}

/// Returns the status; with `fail_if_stale` also the regions without a complete pass within this time.
pub async fn report(
    environment: &Environment,
    fail_if_stale: Option<Duration>,
) -> Result<Status, Error> {
    let now = environment.clock.now();
    let ledger = refill::reading_ledger(environment).await?;
    let failed = failures(environment, now).await?;
    let regions = regions(environment, &failed, now).await?;
    let mut status = Status {
        limits: Vec::new(),
        spend: Vec::new(),
        batches: batches(environment, &failed, &regions, now).await?,
        regions,
        held_back: held_back(environment, now).await,
        lost_catalog: lost_catalog(environment, &*ledger).await,
        restored: refill::restored(environment, &*ledger).await,
        walking: walking(environment).await?,
        stale: None,
    };
    status.stale = fail_if_stale.map(|span| stale(&status.regions, span));
    for account in environment.accounts() {
        status
            .limits
            .extend(limit_statuses(&*ledger, &account, now).await?);
        status.spend.extend(spend(&*ledger, &account, now).await);
    }
    Ok(status)
}

/// Returns the regions whose last complete pass is older than this, or that never had one.
fn stale(regions: &[RegionStatus], span: Duration) -> Vec<Stale> {
    let is_fresh = |age: f64| age <= span.as_secs_f64();
    // A backfill that is complete has no younger passes.
    let regions = regions.iter().filter(|one| one.slices.is_none());
    let old = regions.filter(|one| !one.age_seconds.is_some_and(is_fresh));
    let named = old.map(|one| Stale {
        job: one.job.clone(),
        region: one.region.clone(),
        age_seconds: one.age_seconds,
    });
    named.collect()
}

async fn limit_statuses(
    ledger: &dyn LedgerClient,
    account: &Account,
    now: Timestamp,
) -> Result<Vec<LimitStatus>, Error> {
    let usages = match ledger.usage(account).await {
        Ok(usages) => usages,
        // A file of this machine is damaged, which must not be shown as a ledger that is away.
        Err(error @ ClientError::Journal(_)) => return Err(error.into()),
        Err(error) => {
            tracing::warn!(account = account.name, "{error}");
            Vec::new()
        }
    };
    let unrepaid = ledger.unrepaid(account).await?;
    let waits_until = ledger.waits_until(account, now).await?;
    let status = |(name, limit): (&String, &Limit)| {
        let usage = LimitUsage::find(&usages, name);
        let returns = usage.map(|usage| usage.returns.clone()).unwrap_or_default();
        LimitStatus {
            report: run::limit_report(account, name, limit, usage),
            headroom: limit.headroom(),
            since_reset: usage.and_then(|usage| usage.since_reset),
            returns_within: ReturnsWithin::new(&returns, now),
            returns,
            unrepaid: unrepaid.of(name),
            waits_until,
        }
    };
    Ok(account.limits.iter().map(status).collect())
}

impl ReturnsWithin {
    fn new(returns: &[Return], now: Timestamp) -> Self {
        let within = |span: Duration| {
            returns
                .iter()
                .filter(|back| back.at <= now + span)
                .map(|back| back.units)
                .sum::<Units>()
        };
        let [hour, six_hours, day] = SOON.map(within);
        Self {
            hour,
            six_hours,
            day,
        }
    }
}

/// Returns the charges in any window of the account.
async fn spend(ledger: &dyn LedgerClient, account: &Account, now: Timestamp) -> Vec<Spend> {
    // A file goes by its newest charge where the clock is behind that, and so does its use of the limits.
    let newest = ledger.newest_charge(account).await.ok().flatten();
    let now = newest.map_or(now, |newest| newest.max(now));
    let from = |limit: &Limit| limit.window().counted_from(now);
    let Some(first) = account.limits.values().map(from).min() else {
        return Vec::new();
    };
    let counts: BTreeMap<&LimitName, Timestamp> = account
        .limits
        .iter()
        .map(|(name, limit)| (name, from(limit)))
        .collect();
    let Ok(spending) = ledger.spent(account, first).await else {
        return Vec::new();
    };
    let counts = |spent: &Spent| {
        counts
            .get(&spent.limit)
            .is_some_and(|from| spent.at >= *from)
    };
    gathered(
        account,
        spending.source,
        spending.charges.into_iter().filter(counts),
    )
}

/// Charges and units by limit.
type Sums = BTreeMap<LimitName, (u64, Units)>;

fn gathered(
    account: &Account,
    source: ChargeSource,
    spent: impl Iterator<Item = Spent>,
) -> Vec<Spend> {
    let mut all: BTreeMap<(Arc<Purpose>, Origin), Sums> = BTreeMap::new();
    for Spent {
        limit,
        units,
        charges: number,
        purpose,
        origin,
        ..
    } in spent
    {
        let sums = all.entry((purpose, origin)).or_default();
        let (charges, sum) = sums.entry(limit).or_default();
        *charges += number;
        *sum += units;
    }
    let spend = |((purpose, origin), sums): ((Arc<Purpose>, Origin), Sums)| Spend {
        account: account.name.clone(),
        source,
        job: purpose.job.clone(),
        region: purpose.region.clone(),
        call: purpose.call.clone(),
        origin,
        // A charge takes units of a limit once.
        charges: sums
            .values()
            .map(|(charges, _)| *charges)
            .max()
            .unwrap_or_default(),
        units: sums
            .into_iter()
            .map(|(limit, (_, units))| (limit, units))
            .collect(),
    };
    all.into_iter().map(spend).collect()
}

/// Returns the passes that the last runs left as failed, the last one first.
async fn failures(environment: &Environment, now: Timestamp) -> Result<Vec<PassRecord>, Error> {
    let catalog = environment.reader().await?;
    Ok(catalog.failures(now - WEEK, MOST_FAILED).await?)
}

/// Returns why the last pass over a region, or over a slice of it, failed; `None` if none did, or if a complete pass began later.
fn failure(
    failed: &[PassRecord],
    (job, region): (&str, &str),
    last_complete: Option<Timestamp>,
) -> Option<FailedPass> {
    let its = failed
        .iter()
        .filter(|pass| pass.job == job && pass.region == region);
    let mut slices = BTreeSet::new();
    let mut last = its.filter(|pass| slices.insert(pass.slice));
    // A refused and a doubtful pass are shown as such, and not what failed before them.
    let is_failure = |pass: &PassRecord| matches!(pass.outcome, None | Some(PassEnd::Failed));
    let is_later = |pass: &PassRecord| last_complete.is_none_or(|at| pass.started_at > at);
    let pass = last.find(|pass| is_failure(pass) && is_later(pass))?;
    Some(FailedPass {
        at: pass.left_at.unwrap_or(pass.started_at),
        why: pass.notes.clone().unwrap_or_default(),
    })
}

/// Returns why the upstream refused a region last; `None` where it did not, or the catalog does not say.
fn refused_why(failed: &[PassRecord], candidate: &Candidate) -> Option<String> {
    let at = candidate.state.last_refused?;
    let (job, region) = (&candidate.job.name, &candidate.region.code);
    let mut its = failed.iter().filter(|pass| pass.started_at == at);
    let pass = its.find(|pass| pass.job == *job && pass.region == *region)?;
    pass.notes.clone()
}

async fn regions(
    environment: &Environment,
    failed: &[PassRecord],
    now: Timestamp,
) -> Result<Vec<RegionStatus>, Error> {
    let catalog = environment.reader().await?;
    let candidates = run::candidates(&catalog, &environment.all_jobs(), now).await?;
    let status = |candidate: &Candidate| {
        let last_complete = candidate.region_last_complete();
        let backfill = candidate.backfill.as_ref();
        RegionStatus {
            job: candidate.job.name.clone(),
            region: candidate.region.code.clone(),
            last_complete,
            age_seconds: last_complete.map(|began| now.since(began).as_secs_f64()),
            due_at: candidate.due_at(),
            refused_at: candidate.state.last_refused,
            refused_why: refused_why(failed, candidate),
            last: last_passes(candidate, failed, last_complete),
            begins_at_cursor: begins_at_cursor(candidate),
            unfinished: candidate.resumable(now).is_some(),
            stopped_at: stopped_at(candidate, now),
            slices: backfill.map(|backfill| SliceProgress {
                complete: backfill.done.len() as u64,
                of: backfill.done.len() as u64 + backfill.left,
            }),
        }
    };
    // The slices that are begun come first.
    Ok(run::each_region(&candidates).map(status).collect())
}

async fn batches(
    environment: &Environment,
    failed: &[PassRecord],
    regions: &[RegionStatus],
    now: Timestamp,
) -> Result<Vec<BatchStatus>, Error> {
    let catalog = environment.reader().await?;
    let candidates = run::candidates(&catalog, &environment.batches(), now).await?;
    let last_complete = |job: &str| {
        let its = regions.iter().filter(|one| one.job == job);
        its.filter_map(|one| one.last_complete).max()
    };
    let status = |candidate: &Candidate| BatchStatus {
        job: candidate.job.name.clone(),
        last: last_passes(candidate, failed, last_complete(&candidate.job.name)),
    };
    let is_worth_saying = |last: &LastPasses| {
        last.failed.is_some() || !last.doubts.is_empty() || last.notes.is_some()
    };
    let all = candidates.iter().map(status);
    Ok(all.filter(|one| is_worth_saying(&one.last)).collect())
}

fn begins_at_cursor(candidate: &Candidate) -> Vec<String> {
    let steps = candidate.job.steps.iter().enumerate();
    let begin = steps.filter(|(index, _)| candidate.lasting.contains_key(index));
    begin.map(|(_, step)| step.call.name.clone()).collect()
}

fn last_passes(
    candidate: &Candidate,
    failed: &[PassRecord],
    last_complete: Option<Timestamp>,
) -> LastPasses {
    let whose = (&*candidate.job.name, &*candidate.region.code);
    let doubtful = candidate.state.doubtful.as_ref();
    LastPasses {
        failed: failure(failed, whose, last_complete),
        doubtful_at: candidate.doubtful_since(),
        doubts: doubtful.map_or_else(Vec::new, |pass| pass.doubts.clone()),
        notes: candidate.state.last_notes.clone(),
    }
}

async fn held_back(environment: &Environment, now: Timestamp) -> Vec<HeldBack> {
    let rejections = Rejections::read(&environment.state_dir);
    let mut all: Vec<HeldBack> = Vec::new();
    for job in environment
        .config
        .jobs
        .iter()
        .flat_map(|job| job.by_credential())
    {
        let Some(held) = rejections.of(&job, now).await else {
            continue;
        };
        match all.iter_mut().find(|one| one.credential == held.credential) {
            Some(one) if one.asked_again_at <= held.asked_again_at => {}
            Some(one) => *one = held,
            None => all.push(held),
        }
    }
    all
}

async fn walking(environment: &Environment) -> Result<Vec<Walking>, Error> {
    let held = environment.held_leases().await?.into_iter();
    let walking = held.filter_map(|held| match held.resource {
        Resource::Region { job, region } => Some(Walking {
            job,
            region,
            machine: held.holder.machine,
            process: held.holder.process,
            since: held.holder.since,
            until: held.holder.until,
        }),
        Resource::Ids { .. } | Resource::Retention { .. } | Resource::Repair => None,
    });
    Ok(walking.collect())
}

fn stopped_at(candidate: &Candidate, now: Timestamp) -> Option<StoppedAt> {
    let pass = candidate.resumable(now)?;
    let step = pass
        .steps
        .iter()
        .find(|step| step.cursor.is_some())
        .or_else(|| pass.steps.last())?;
    let call = candidate.job.steps.get(step.step)?.call.name.clone();
    Some(StoppedAt {
        call,
        pages: step.pages,
        since: pass.started_at,
    })
}

/// The status as `ingest status` shows it.
fn doc(status: &Status, args: &StatusArgs, now: Timestamp) -> Doc {
    let all = args.shown.all;
    let mut doc = Doc::default();
    doc.say(parts::verdict(standing::summary(status, now)));
    doc.add(parts::held_back(&status.held_back));
    if !args.limits {
        doc.add(parts::regions_with_causes(status, all, now));
        doc.add(parts::batches(&status.batches));
        doc.add(parts::walking(&status.walking));
    }
    let limits = status.limits.iter();
    limits.for_each(|limit| doc.add(parts::limit(status, limit, now)));
    doc.add(parts::spend(&status.spend, all));
    doc
}
