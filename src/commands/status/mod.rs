//! `ingest status`: how the limits stand, and how fresh each region is. Reads only.

mod bars;

use std::collections::BTreeMap;
use std::time::Duration;

use serde::Serialize;

use super::environment::Environment;
use super::output::{Colour, Style};
use super::table::{cost, count, instant, span, table, text};
use super::{Error, output};
use crate::cli::{Format, Global};
use crate::exit::Exit;
use crate::ledger::{Meter, Mode, Spent};
use crate::quota::{Account, Cost, Limit, LimitName, LimitUsage, Return, Timestamp, Units};
use crate::run::{self, Candidate, LimitReport};

const HOUR: Duration = Duration::from_secs(60 * 60);
/// Within how long people ask for what returns.
const SOON: [Duration; 3] = [HOUR, Duration::from_secs(6 * 60 * 60), Duration::from_secs(24 * 60 * 60)];

/// What `status` says.
#[derive(Debug, Serialize)]
struct Status {
    limits: Vec<LimitStatus>,
    /// What counts, by who asked for it; empty where the ledger does not keep that.
    spend: Vec<Spend>,
    regions: Vec<RegionStatus>,
}

#[derive(Debug, Serialize)]
struct LimitStatus {
    #[serde(flatten)]
    report: LimitReport,
    headroom: Units,
    since_reset: Option<Units>,
    returns: Vec<Return>,
    /// What returns within an hour, six hours and a day, in units.
    returns_within: ReturnsWithin,
}

#[derive(Debug, Default, Serialize)]
struct ReturnsWithin {
    #[serde(rename = "1h")]
    hour: Units,
    #[serde(rename = "6h")]
    six_hours: Units,
    #[serde(rename = "24h")]
    day: Units,
}

/// What counts of an account's limits, by job, region and call.
#[derive(Debug, Serialize)]
struct Spend {
    account: String,
    job: Option<String>,
    region: Option<String>,
    call: String,
    charges: u64,
    units: Cost,
}

#[derive(Debug, Serialize)]
struct RegionStatus {
    job: String,
    region: String,
    last_complete: Option<Timestamp>,
    age_seconds: Option<f64>,
    due_at: Option<Timestamp>,
    unfinished: bool,
    /// Where an unfinished pass stopped.
    stopped_at: Option<StoppedAt>,
}

#[derive(Debug, Serialize)]
struct StoppedAt {
    call: String,
    pages: u64,
    since: Timestamp,
}

/// Shows it.
pub(super) async fn status(global: &Global) -> Result<Exit, Error> {
    let environment = Environment::load(global)?;
    let now = environment.clock.now();
    let meter = environment.meter(Mode::ReadOnly)?;
    let mut status = Status { limits: Vec::new(), spend: Vec::new(), regions: regions(&environment, now).await? };
    for account in environment.accounts() {
        status.limits.extend(limit_statuses(&meter, &account, now).await);
        status.spend.extend(spend(&meter, &account, now).await);
    }
    match global.format {
        Format::Json => output::json(&status)?,
        Format::Text => output::text_line(&in_words(&status, now, Style::of_stdout()))?,
    }
    Ok(Exit::Success)
}

async fn limit_statuses(meter: &Meter, account: &Account, now: Timestamp) -> Vec<LimitStatus> {
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
        let returns = usage.map(|usage| usage.returns.clone()).unwrap_or_default();
        LimitStatus {
            report: run::limit_report(account, name, limit, usage),
            headroom: limit.headroom(),
            since_reset: usage.and_then(|usage| usage.since_reset),
            returns_within: ReturnsWithin::of(&returns, now),
            returns,
        }
    };
    account.limits.iter().map(status).collect()
}

impl ReturnsWithin {
    fn of(returns: &[Return], now: Timestamp) -> Self {
        let within = |span: Duration| {
            returns.iter().filter(|back| back.at <= now.after(span)).map(|back| back.units).sum::<Units>()
        };
        let [hour, six_hours, day] = SOON.map(within);
        Self { hour, six_hours, day }
    }
}

/// What counts in any window of the account.
async fn spend(meter: &Meter, account: &Account, now: Timestamp) -> Vec<Spend> {
    let from = |limit: &Limit| limit.window().counted_from(now);
    let Some(first) = account.limits.values().map(from).min() else { return Vec::new() };
    let counts: BTreeMap<&LimitName, Timestamp> =
        account.limits.iter().map(|(name, limit)| (name, from(limit))).collect();
    let spent = meter.spent(account, first).await.ok().flatten().unwrap_or_default();
    let counted = spent.into_iter().filter(|spent| counts.get(&spent.limit).is_some_and(|from| spent.at >= *from));
    gathered(account, counted)
}

/// Job, region and call.
type SpentOn = (Option<String>, Option<String>, String);
/// Charges, the last of them, and units by limit.
type Sum = (u64, Timestamp, BTreeMap<LimitName, Units>);

fn gathered(account: &Account, spent: impl Iterator<Item = Spent>) -> Vec<Spend> {
    let mut sums: BTreeMap<SpentOn, Sum> = BTreeMap::new();
    for Spent { at, limit, units, purpose } in spent {
        let key = (purpose.job, purpose.region, purpose.call);
        let (charges, last, by_limit) =
            sums.entry(key).or_insert((0, Timestamp::from_micros(i64::MIN), BTreeMap::new()));
        // The limits of one charge follow one another.
        *charges += u64::from(*last != at);
        *last = at;
        *by_limit.entry(limit).or_default() += units;
    }
    let spend = |((job, region, call), (charges, _, units)): (_, (_, _, BTreeMap<_, _>))| Spend {
        account: account.name.clone(),
        job,
        region,
        call,
        charges,
        units: units.into_iter().collect(),
    };
    sums.into_iter().map(spend).collect()
}

async fn regions(environment: &Environment, now: Timestamp) -> Result<Vec<RegionStatus>, Error> {
    let catalog = environment.catalog_to_read()?;
    let selection = environment.config.jobs.iter().map(|job| (job.clone(), job.regions.clone())).collect();
    let candidates = run::candidates(&*catalog, &selection).await?;
    let status = |candidate: &Candidate| RegionStatus {
        job: candidate.job.name.clone(),
        region: candidate.region.code.clone(),
        last_complete: candidate.standing.last_complete,
        age_seconds: candidate.standing.last_complete.map(|began| now.since(began).as_secs_f64()),
        due_at: candidate.due_at(),
        unfinished: candidate.resumable(now).is_some(),
        stopped_at: stopped_at(candidate, now),
    };
    Ok(candidates.iter().map(status).collect())
}

fn stopped_at(candidate: &Candidate, now: Timestamp) -> Option<StoppedAt> {
    let pass = candidate.resumable(now)?;
    let step = pass.steps.iter().find(|step| step.cursor.is_some()).or_else(|| pass.steps.last())?;
    let call = candidate.job.steps.get(step.step)?.call.name.clone();
    Some(StoppedAt { call, pages: step.pages, since: pass.started_at })
}

fn in_words(status: &Status, now: Timestamp, style: Style) -> String {
    let width = bars::width();
    let mut parts: Vec<String> = status.limits.iter().map(|limit| limit_in_words(limit, now, width, style)).collect();
    parts.push(spend_in_words(&status.spend));
    parts.push(regions_in_words(&status.regions, now));
    parts.retain(|part| !part.is_empty());
    parts.join("\n\n")
}

/// ```text
/// youtube/daily  [██████████████░░░░░░░░░░░░░░░░░▒▒]  4,120 used, 5,380 left of 9,500 (headroom 500)
///                since the reset 3,990; back within 1h 120, 6h 800, 24h 4,120
/// ```
fn limit_in_words(limit: &LimitStatus, now: Timestamp, width: usize, style: Style) -> String {
    let LimitStatus { report, headroom, since_reset, returns_within: within, .. } = limit;
    let name = format!("{}/{}", report.account, report.limit);
    let (Some(used), Some(left)) = (report.used, report.remaining) else {
        let silent = style.paint("the ledger cannot be reached", Colour::Red);
        return format!("{name}  {} of {}: {silent}", "?", count(report.enforced.get()));
    };
    let bar = bars::bar(used, report.enforced, report.quota, width.saturating_sub(name.len() + 4).min(40), style);
    let mut lines = vec![
        format!("{name}  {bar}"),
        format!(
            "  {} used, {} left of {} (quota {}, headroom {})",
            count(used.get()),
            count(left.get()),
            count(report.enforced.get()),
            count(report.quota.get()),
            count(headroom.get())
        ),
    ];
    let reset = since_reset.map(|units| format!("{} since the upstream's reset; ", count(units.get())));
    lines.push(format!(
        "  {}returns within 1h {}, 6h {}, 24h {}",
        reset.unwrap_or_default(),
        count(within.hour.get()),
        count(within.six_hours.get()),
        count(within.day.get())
    ));
    lines.extend(report.closed_until.map(|until| {
        let closed = format!("closed until {}, in {}", instant(until), span(until.since(now)));
        format!("  {}", style.paint(&closed, Colour::Red))
    }));
    lines.join("\n")
}

fn spend_in_words(spend: &[Spend]) -> String {
    if spend.is_empty() {
        return String::new();
    }
    let mut table = table(&["ACCOUNT", "JOB", "REGION", "CALL", "CHARGES", "UNITS IN THE WINDOW"], &[4]);
    for one in spend {
        table.add_row([
            one.account.clone(),
            one.job.clone().unwrap_or_else(|| "by hand".to_owned()),
            output::shown(one.region.as_deref().unwrap_or("-")),
            one.call.clone(),
            count(one.charges),
            cost(&one.units),
        ]);
    }
    text(&table)
}

fn regions_in_words(regions: &[RegionStatus], now: Timestamp) -> String {
    let mut table = table(&["JOB", "REGION", "LAST COMPLETE", "AGE", "DUE", ""], &[3]);
    for region in regions {
        let due = region.due_at.filter(|due| *due > now);
        let due = due.map_or_else(|| "now".to_owned(), |due| format!("in {}", span(due.since(now))));
        let stopped = region.stopped_at.as_ref().map(|at| {
            format!("stopped after {} pages of {}, begun {} ago", count(at.pages), at.call, span(now.since(at.since)))
        });
        table.add_row([
            region.job.clone(),
            output::shown(&region.region),
            region.last_complete.map_or_else(|| "never".to_owned(), instant),
            region.last_complete.map_or_else(|| "-".to_owned(), |began| span(now.since(began))),
            due,
            stopped.unwrap_or_else(|| if region.unfinished { "unfinished".to_owned() } else { String::new() }),
        ]);
    }
    text(&table)
}
