//! What must hold in every world.

use std::collections::{BTreeMap, HashSet};
use std::time::Duration;

use ingest::foresight::{Fits, Forecast, LimitPreview, Preview};
use ingest::run::{PassOutcome, RunOutcome, RunReport, Selection, StoppedBy};
use ingest_config::{Credential, Job, Leave, Region};
use ingest_ledger::{Charge, Ledger, Purpose, SqliteLedger};
use ingest_quota::{ChargeId, Decision, Timestamp, Units};
use proptest::prelude::*;

use super::life::{Held, Life, Sums, regions};

/// What was said of a run before and after it, and what it spent by the sandbox's count.
pub struct Told<'a> {
    pub preview: &'a Preview,
    pub forecast: &'a Forecast,
    pub report: &'a RunReport,
    pub spent: &'a Sums,
}

/// Units by account and limit; of all accounts together where no report says which account a pass used.
fn by_account(life: &Life, sums: &Sums) -> Sums {
    let mut all = Sums::new();
    for ((account, limit), units) in sums {
        let account = match life.plan.has_several() {
            true => "any".to_owned(),
            false => account.clone(),
        };
        *all.entry((account, limit.clone())).or_default() += units;
    }
    all
}

impl Told<'_> {
    fn spent(&self, limit: &LimitPreview) -> u64 {
        let key = (limit.account.clone(), limit.limit.clone());
        self.spent.get(&key).copied().unwrap_or_default()
    }
}

/// What always holds, whatever happened.
pub fn counts(life: &Life) -> Held {
    never_over(life)?;
    charged_as_counted(life)?;
    landed_once(life)?;
    gone(life)?;
    history(life)?;
    status(life)?;
    let broken = life.seen.broken();
    prop_assert!(broken.is_empty(), "nothing twice: {broken:?}");
    Ok(())
}

/// No limit is over in any window, by the sandbox's count.
fn never_over(life: &Life) -> Held {
    for counted in life.lab.sandbox.usage() {
        let account = life.accounts().into_iter();
        let account = account.filter(|account| account.name == counted.account);
        for account in account {
            let enforced = account.limits[&counted.limit].enforced();
            prop_assert!(
                counted.most_in_window <= enforced,
                "never over: {counted:?}, enforced {enforced}"
            );
        }
    }
    Ok(())
}

/// The ledger holds what arrived. A run that was killed may have charged what it never sent.
fn charged_as_counted(life: &Life) -> Held {
    let (counted, charged) = (life.counted(), life.charged());
    let slack = life.kills * (u64::from(life.plan.concurrency) + 1) * 2 * life.dearest();
    for (limit, units) in &charged {
        let counted = counted.get(limit).copied().unwrap_or_default();
        prop_assert!(
            counted <= *units && *units <= counted + slack,
            "charges: {limit:?} was charged {units}, counted {counted}"
        );
    }
    prop_assert!(
        counted.keys().all(|limit| charged.contains_key(limit)),
        "charges: {charged:?}, counted {counted:?}"
    );
    Ok(())
}

/// Every page is landed once, its requests and units are in the history, and its records in an export.
fn landed_once(life: &Life) -> Held {
    let archive = life.archive();
    let history = archive.history(Timestamp::from_micros(0));
    let history = life.lab.runtime.block_on(history).unwrap();
    let (pages, requests): (u64, u64) = history.iter().fold((0, 0), |(pages, requests), pass| {
        (pages + pass.pages, requests + pass.requests)
    });
    let (sent, answered) = life.seen.requests();
    let slack = life.kills * (u64::from(life.plan.concurrency) + 1) * 4;
    prop_assert!(
        pages <= answered && answered <= pages + life.seen.empty() + slack,
        "landed once: {pages} pages are landed, {answered} arrived, {} of them empty",
        life.seen.empty()
    );
    prop_assert!(
        requests <= sent + slack && sent <= requests + slack,
        "history: {requests} requests, {sent} were sent"
    );
    let mut units = Sums::new();
    for pass in &history {
        let mut jobs = life.lab.config.jobs.iter();
        let job = jobs.find(|job| job.name == pass.job).unwrap();
        for (limit, taken) in pass.units.iter() {
            let key = (job.credential.account.name.clone(), limit.clone());
            *units.entry(key).or_default() += taken.get();
        }
    }
    let (units, charged) = (by_account(life, &units), by_account(life, &life.charged()));
    let slack = slack * life.dearest();
    for (limit, charged) in &charged {
        let told = units.get(limit).copied().unwrap_or_default();
        prop_assert!(
            told <= *charged && *charged <= told + slack,
            "history: {limit:?} {told} units, charged {charged}"
        );
    }
    let exported = life.exported();
    let distinct: HashSet<_> = exported.iter().cloned().collect();
    prop_assert_eq!(exported.len(), distinct.len(), "export: a record twice");
    let all = life.seen.all();
    prop_assert!(distinct.is_subset(&all), "export: what never arrived");
    if life.kills == 0 {
        prop_assert_eq!(all.len(), distinct.len(), "export: a record is missing");
    }
    Ok(())
}

/// The catalog keeps each former body of a record once, and none of a kind without history.
fn history(life: &Life) -> Held {
    let kept = life.former_bodies();
    if !life.plan.extras.history {
        prop_assert!(kept.is_empty(), "history: {kept:?}");
        return Ok(());
    }
    // Of requests that run at the same time, the last page to arrive need not be the last to land.
    if life.kills > 0 || life.plan.concurrency > 1 || life.pairs > 0 {
        return Ok(());
    }
    prop_assert_eq!(kept, life.seen.former_bodies(), "history");
    Ok(())
}

/// Once every list was walked to its end, what no list has any more is gone.
pub fn lost(life: &Life, last: &RunReport) -> Held {
    let is_whole = |outcome| matches!(outcome, PassOutcome::Complete | PassOutcome::NotDue);
    let ended = last.passes.iter().all(|pass| is_whole(pass.outcome));
    if life.kills > 0 || life.plan.shares_lists() || !ended {
        return Ok(());
    }
    let (lost, gone) = (life.seen.lost(), life.gone());
    let kept: Vec<_> = lost.difference(&gone).collect();
    prop_assert!(kept.is_empty(), "gone: no list has {kept:?}");
    Ok(())
}

/// No record is gone that a list has.
fn gone(life: &Life) -> Held {
    if life.kills > 0 || life.plan.shares_lists() {
        return Ok(());
    }
    let (listed, gone) = (life.seen.listed(), life.gone());
    let wrong: Vec<_> = gone.intersection(&listed).collect();
    prop_assert!(wrong.is_empty(), "gone: lists have {wrong:?}");
    Ok(())
}

/// The slices that a run completed.
pub fn complete_slices(report: &RunReport) -> Vec<(String, String, i64)> {
    let passes = report.passes.iter();
    let complete = passes.filter(|pass| pass.outcome == PassOutcome::Complete);
    let slices = complete.filter_map(|pass| {
        let slice = serde_json::to_value(pass.slice?).unwrap();
        let from: chrono::DateTime<chrono::Utc> = slice["from"].as_str()?.parse().ok()?;
        Some((pass.job.clone(), pass.region.clone(), from.timestamp()))
    });
    slices.collect()
}

/// Each slice is complete once; a forecast says how many are left; a run that nothing stops leaves none.
pub fn slices(life: &Life, selection: &Selection, forecast: &Forecast, report: &RunReport) -> Held {
    let completed = complete_slices(report);
    let again: Vec<_> = completed
        .iter()
        .filter(|one| life.sliced.contains(*one))
        .collect();
    prop_assert!(again.is_empty(), "slices: again {again:?}");
    if life.kills > 0 {
        return Ok(());
    }
    let began = life.began.micros() / 1_000_000;
    for (job, regions) in selection.iter().filter(|(job, _)| job.slices.is_some()) {
        let index: usize = job.name.trim_start_matches("job").parse().unwrap();
        let over = life.plan.slices_over(index, began);
        let places = regions.iter().flat_map(|region| {
            over.iter()
                .map(|from| (job.name.clone(), region.code.clone(), *from))
        });
        let left: Vec<_> = places.filter(|one| !life.sliced.contains(one)).collect();
        let told = forecast
            .backfills
            .iter()
            .find(|one| one.job == job.name)
            .unwrap();
        prop_assert_eq!(
            told.slices_left,
            left.len() as u64,
            "slices: left of {}",
            job.name
        );
        let missed = left.iter().filter(|one| !completed.contains(one)).count();
        let is_complete = report.outcome == RunOutcome::Complete;
        prop_assert!(
            !is_complete || missed == 0,
            "slices: {missed} of {} are not complete",
            job.name
        );
    }
    Ok(())
}

/// What is used, what is left and what returns when, by what arrived.
fn status(life: &Life) -> Held {
    let (now, arrived) = (life.lab.now(), life.arrived());
    let stood_still = life.plan.stands_still() && !life.waited;
    for account in life.accounts() {
        let usages = life.lab.runtime.block_on(life.watch.ledger.usage(&account));
        for usage in usages.unwrap() {
            let limit = &account.limits[&usage.limit];
            let counts = |at: Timestamp| -> u64 {
                let of_account = arrived
                    .iter()
                    .filter(|(_, whose, _)| *whose == account.name);
                let counting =
                    of_account.filter(|(charged, ..)| limit.window().expiry(*charged) > at);
                counting
                    .map(|(_, _, cost)| cost.of(&usage.limit).get())
                    .sum()
            };
            let used = usage.used.get();
            if life.kills == 0 && stood_still {
                prop_assert_eq!(counts(now), used, "status: used of {}", usage.limit);
            }
            prop_assert_eq!(
                usage.remaining,
                limit.enforced().saturating_sub(usage.used),
                "status: remaining of {}",
                usage.limit
            );
            let returns: u64 = usage.returns.iter().map(|back| back.units.get()).sum();
            prop_assert_eq!(returns, used, "status: returns of {}", usage.limit);
            let mut left = used;
            for back in &usage.returns {
                left -= back.units.get();
                prop_assert!(
                    !stood_still || counts(back.at) <= left,
                    "status: {} of {} are not back at {}",
                    back.units,
                    usage.limit,
                    back.at
                );
            }
        }
    }
    Ok(())
}

/// A run's own account of what it spent.
pub fn report(life: &Life, report: &RunReport, spent: &Sums) -> Held {
    let mut units = Sums::new();
    for pass in &report.passes {
        let mut jobs = life.lab.config.jobs.iter();
        let job = jobs.find(|job| job.name == pass.job).unwrap();
        for (limit, taken) in pass.units.iter() {
            let key = (job.credential.account.name.clone(), limit.clone());
            *units.entry(key).or_default() += taken.get();
        }
    }
    let units = by_account(life, &units);
    for (limit, spent) in &by_account(life, spent) {
        let told = units.get(limit).copied().unwrap_or_default();
        prop_assert_eq!(told, *spent, "report: units of {:?}", limit);
    }
    Ok(())
}

/// At `retry_at` the charge that stopped the run fits every limit; a microsecond before it does not.
pub fn retry(life: &Life, selection: &Selection, report: &RunReport) -> Held {
    let Some(stop) = &report.stopped_by else {
        return Ok(());
    };
    let stopped = |job: &&Job| !regions(report, &job.name, PassOutcome::Stopped).is_empty();
    let jobs: Vec<&Job> = selection
        .iter()
        .map(|(job, _)| &**job)
        .filter(stopped)
        .filter(|job| credential(job, stop).is_some())
        .filter(|job| leaves_needed(job) || left_by(job, stop) == stop.leave())
        .filter(|job| job.steps.iter().any(|step| step.call.name == stop.call))
        .collect();
    prop_assert!(
        !jobs.is_empty(),
        "retry_at: nobody was stopped by {stop:?}: {:?}",
        report.passes
    );
    // What a backfill leaves is computed in each run.
    if jobs.iter().any(|job| leaves_needed(job)) {
        return Ok(());
    }
    let just_before = stop.retry_at - Duration::from_micros(1);
    let is_exact = |job: &&Job| {
        let fits = |at| fits(life, job, stop, at);
        fits(stop.retry_at) && (just_before < life.lab.now() || !fits(just_before))
    };
    let exact = jobs.iter().any(is_exact);
    prop_assert!(exact, "retry_at: not exact: {stop:?}");
    Ok(())
}

/// Whether it is a backfill that leaves what other jobs need.
fn leaves_needed(job: &Job) -> bool {
    matches!(job.leave, Leave::Needed(_))
}

/// The credential of a job whose account stopped it.
fn credential<'a>(job: &'a Job, stop: &StoppedBy) -> Option<&'a Credential> {
    let mut credentials = job.credentials();
    let credential = credentials.find(|credential| credential.account.name == stop.account);
    credential.map(AsRef::as_ref)
}

/// What a job leaves of the limit that stopped it.
fn left_by(job: &Job, stop: &StoppedBy) -> Units {
    let units = |one: &Credential| job.leave.of(one).of(one.configured_name(&stop.limit));
    credential(job, stop).map(units).unwrap_or_default()
}

/// Whether the charge that stopped a run fits then, if nobody charges until then: tried on a copy of the ledger.
fn fits(life: &Life, job: &Job, stop: &StoppedBy, at: Timestamp) -> bool {
    let copy = tempfile::tempdir().unwrap();
    for name in ["ledger.db", "ledger.db-wal"] {
        let from = life.lab.directory.path().join(name);
        if from.exists() {
            std::fs::copy(from, copy.path().join(name)).unwrap();
        }
    }
    let ledger = SqliteLedger::open(&copy.path().join("ledger.db")).unwrap();
    let step = job.steps.iter().find(|step| step.call.name == stop.call);
    let credential = credential(job, stop).unwrap();
    let cost = |region: &Region| {
        credential
            .in_ledger(&step.unwrap().call.cost, region)
            .unwrap()
    };
    // Of a limit without a scope, the charges of all regions: the one that was refused may charge others that have one.
    let mut regions = job
        .regions
        .iter()
        .filter(|region| cost(region) == stop.claim.cost)
        .take(1);
    regions.any(|region| {
        let leave = credential.leave_in_ledger(&job.leave, region);
        let charge = Charge {
            account: &credential.account,
            id: &ChargeId::new("tried"),
            cost: &stop.claim.cost,
            leave: &leave,
            purpose: &Purpose::default(),
        };
        let decision = life.lab.runtime.block_on(ledger.charge(charge, at));
        matches!(decision.unwrap(), Decision::Granted(_))
    })
}

/// What is spent is within the bounds of the preview, unless a limit stops the run: then it is no more than the upper one.
pub fn bounds(life: &Life, told: &Told<'_>) -> Held {
    let stopped = told.report.stopped_by.is_some();
    for limit in &told.preview.limits {
        let (range, spent) = (limit.units, told.spent(limit));
        prop_assert!(
            range.min <= range.expected && range.max.is_none_or(|max| range.expected <= max),
            "preview: {limit:?}"
        );
        prop_assert!(
            life.plan.fails || range.max.is_none_or(|max| spent <= max),
            "bounds: {spent} spent of {limit:?}"
        );
        prop_assert!(
            stopped || life.plan.fails || range.min <= spent,
            "bounds: {spent} spent of {limit:?}"
        );
    }
    if !life.plan.fails {
        let requests = requests(told.report);
        let mut ranges: BTreeMap<(String, String), (u64, Option<u64>)> = BTreeMap::new();
        for step in &told.preview.steps {
            let range = ranges
                .entry((step.job.clone(), step.region.clone()))
                .or_insert((0, Some(0)));
            range.0 += step.requests.min;
            range.1 = range.1.zip(step.requests.max).map(|(a, b)| a + b);
        }
        for (place, (min, max)) in ranges {
            let made = requests.get(&place).copied().unwrap_or_default();
            prop_assert!(
                max.is_none_or(|max| made <= max) && (stopped || min <= made),
                "bounds: {made} requests for {place:?}, {min} to {max:?}"
            );
        }
    }
    Ok(())
}

fn requests(report: &RunReport) -> BTreeMap<(String, String), u64> {
    let mut requests = BTreeMap::new();
    for pass in &report.passes {
        *requests
            .entry((pass.job.clone(), pass.region.clone()))
            .or_insert(0) += pass.requests;
    }
    requests
}

/// Where nothing changed since the last passes, the preview is what the run does.
pub fn exact(told: &Told<'_>) -> Held {
    for limit in &told.preview.limits {
        let spent = told.spent(limit);
        prop_assert_eq!(
            limit.spends.map(Units::get),
            Some(spent),
            "exact: {:?}",
            limit
        );
        let mut forecast = told.forecast.limits.iter();
        let forecast =
            forecast.find(|one| one.account == limit.account && one.limit == limit.limit);
        prop_assert_eq!(
            forecast.unwrap().units.get(),
            spent,
            "forecast: {:?}",
            limit
        );
        let expected = limit.units.expected;
        let others_stopped = told
            .report
            .stopped_by
            .iter()
            .any(|stop| (&stop.account, &stop.limit) != (&limit.account, &limit.limit));
        let fits = match spent {
            spent if spent >= expected => Fits::All,
            // Another limit kept the run from making the requests.
            _ if others_stopped && limit.first_unfit.is_none() && limit.fits == Fits::All => {
                let remaining = limit.remaining.map_or(u64::MAX, Units::get);
                prop_assert!(expected <= remaining, "fits: {:?} spent {}", limit, spent);
                Fits::All
            }
            0 => Fits::None,
            _ => Fits::Part,
        };
        prop_assert_eq!(limit.fits, fits, "fits: {:?} spent {}", limit, spent);
    }
    for pass in &told.preview.passes {
        let is_complete =
            regions(told.report, &pass.job, PassOutcome::Complete).contains(&pass.region);
        prop_assert_eq!(pass.fits == Fits::All, is_complete, "fits: {:?}", pass);
    }
    if told.report.stopped_by.is_none() {
        let made = requests(told.report);
        for (place, made) in &made {
            let steps = told.preview.steps.iter();
            let expected: u64 = steps
                .filter(|step| (&step.job, &step.region) == (&place.0, &place.1))
                .map(|step| step.requests.expected)
                .sum();
            prop_assert_eq!(expected, *made, "exact: requests for {:?}", place);
        }
    }
    let first = told.preview.limits.iter();
    let first = first
        .filter_map(|limit| limit.first_unfit.as_ref())
        .map(|unfit| unfit.retry_at)
        .min();
    let stopped = told.report.stopped_by.as_ref().map(|stop| stop.retry_at);
    prop_assert_eq!(first, stopped, "exact: retry_at");
    Ok(())
}

/// A run at once after another walks no region again that is to wait.
pub fn again(life: &Life, first: &RunReport, second: &RunReport, began: Timestamp) -> Held {
    for job in life
        .lab
        .config
        .jobs
        .iter()
        // Of a backfill, each slice is complete once.
        .filter(|job| job.every.is_some() && job.slices.is_none())
    {
        // Whoever began long ago may be due again.
        let resumed = first.passes.iter().filter(|pass| pass.resumed);
        let resumed: HashSet<String> = resumed.map(|pass| pass.region.clone()).collect();
        let complete = regions(first, &job.name, PassOutcome::Complete);
        let complete: HashSet<String> = complete.difference(&resumed).cloned().collect();
        let left = regions(second, &job.name, PassOutcome::NotDue);
        let walked: Vec<_> = complete.difference(&left).collect();
        // A run that waited for a limit may have taken longer than the job's `every`.
        let waited = life.plan.limits.iter().any(|limit| limit.waits);
        prop_assert!(
            waited || walked.is_empty(),
            "again: {walked:?} of {} at {began}",
            job.name
        );
    }
    Ok(())
}
