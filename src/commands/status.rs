//! `ingest status`: how the limits stand, and how fresh each region is. Reads only.

use std::sync::Arc;

use serde::Serialize;

use super::environment::Environment;
use super::table::{count, instant, span, table, text, units};
use super::{Error, output};
use crate::cli::{Format, Global};
use crate::exit::Exit;
use crate::ledger::{Meter, Mode};
use crate::quota::{Account, Limit, LimitUsage, Return, Timestamp, Units};
use crate::run::{self, Candidate, LimitReport};

/// What `status` says.
#[derive(Debug, Serialize)]
struct Status {
    limits: Vec<LimitStatus>,
    regions: Vec<RegionStatus>,
}

#[derive(Debug, Serialize)]
struct LimitStatus {
    #[serde(flatten)]
    report: LimitReport,
    since_reset: Option<Units>,
    returns: Vec<Return>,
}

#[derive(Debug, Serialize)]
struct RegionStatus {
    job: String,
    region: String,
    last_complete: Option<Timestamp>,
    due_at: Option<Timestamp>,
    unfinished: bool,
}

/// Shows it.
pub(super) async fn status(global: &Global) -> Result<Exit, Error> {
    let environment = Environment::load(global)?;
    let now = environment.clock.now();
    let meter = environment.meter(Mode::ReadOnly)?;
    let mut limits = Vec::new();
    for account in every_account(&environment) {
        limits.extend(limit_statuses(&meter, &account).await);
    }
    let regions = regions(&environment, now).await?;
    let status = Status { limits, regions };
    match global.format {
        Format::Json => output::json(&status)?,
        Format::Text => output::text_line(&in_words(&status, now))?,
    }
    Ok(Exit::Success)
}

fn every_account(environment: &Environment) -> Vec<Arc<Account>> {
    let mut accounts: Vec<Arc<Account>> = Vec::new();
    for credential in environment.config.credentials.values() {
        if accounts.iter().all(|account| account.name != credential.account.name) {
            accounts.push(Arc::clone(&credential.account));
        }
    }
    accounts
}

async fn limit_statuses(meter: &Meter, account: &Account) -> Vec<LimitStatus> {
    let usages = match meter.usage(account).await {
        Ok(usages) => usages,
        Err(error) => {
            tracing::warn!(account = account.name, "{error}");
            Vec::new()
        }
    };
    let find = |limit: &str| usages.iter().find(|usage| usage.limit == limit);
    let status = |(name, limit): (&String, &Limit)| {
        let usage: Option<&LimitUsage> = find(name);
        LimitStatus {
            report: run::limit_report(account, name, limit, usage),
            since_reset: usage.and_then(|usage| usage.since_reset),
            returns: usage.map(|usage| usage.returns.clone()).unwrap_or_default(),
        }
    };
    account.limits.iter().map(status).collect()
}

async fn regions(environment: &Environment, now: Timestamp) -> Result<Vec<RegionStatus>, Error> {
    let catalog = environment.catalog_to_read()?;
    let selection = environment.config.jobs.iter().map(|job| (Arc::clone(job), job.regions.clone())).collect();
    let candidates = run::candidates(&*catalog, &selection).await?;
    let status = |candidate: &Candidate| RegionStatus {
        job: candidate.job.name.clone(),
        region: candidate.region.code.clone(),
        last_complete: candidate.standing.last_complete,
        due_at: candidate.due_at(),
        unfinished: candidate.resumable(now).is_some(),
    };
    Ok(candidates.iter().map(status).collect())
}

fn in_words(status: &Status, now: Timestamp) -> String {
    format!("{}\n\n{}", limits_in_words(&status.limits, now), regions_in_words(&status.regions, now))
}

fn limits_in_words(limits: &[LimitStatus], now: Timestamp) -> String {
    let header = ["ACCOUNT", "LIMIT", "USED", "OF", "LEFT", "SINCE RESET", "NEXT RETURNS", ""];
    let mut table = table(&header, &[2, 3, 4, 5]);
    for LimitStatus { report, since_reset, returns } in limits {
        let soonest =
            returns.first().map(|back| format!("{} in {}", count(back.units.get()), span(back.at.since(now))));
        let closed = report.closed_until.map(|until| format!("closed until {}", instant(until)));
        let silent = report.used.is_none().then(|| "the ledger cannot be reached".to_owned());
        table.add_row([
            report.account.clone(),
            report.limit.clone(),
            units(report.used),
            count(report.enforced.get()),
            units(report.remaining),
            units(*since_reset),
            soonest.unwrap_or_else(|| "-".to_owned()),
            closed.or(silent).unwrap_or_default(),
        ]);
    }
    text(&table)
}

fn regions_in_words(regions: &[RegionStatus], now: Timestamp) -> String {
    let mut table = table(&["JOB", "REGION", "LAST COMPLETE", "AGE", "DUE", ""], &[3]);
    for region in regions {
        let due = region
            .due_at
            .filter(|due| *due > now)
            .map_or_else(|| "now".to_owned(), |due| format!("in {}", span(due.since(now))));
        table.add_row([
            region.job.clone(),
            output::shown(&region.region),
            region.last_complete.map_or_else(|| "never".to_owned(), instant),
            region.last_complete.map_or_else(|| "-".to_owned(), |began| span(now.since(began))),
            due,
            if region.unfinished { "unfinished".to_owned() } else { String::new() },
        ]);
    }
    text(&table)
}
