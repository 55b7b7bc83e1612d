//! The spend of the last 24 hours by job, as each limit counts it.

use std::collections::BTreeMap;
use std::time::Duration;

use crate::commands::environment::Environment;
use crate::commands::figures::span;
use crate::commands::{Error, refill};
use crate::doc::Chart;
use ingest_ledger::Spent;
use ingest_quota::{Account, Limit, LimitName, Timestamp};

const HOUR: Duration = Duration::from_secs(60 * 60);
const HOURS: u32 = 24;

/// The units in a limit's window at the end of each hour, oldest first, by job. A window that is shorter than an hour would show
/// the last minute of each alone: then they are the units of the whole hour.
type ByJob<'c> = BTreeMap<&'c str, Vec<u64>>;

/// A chart for each limit that was charged, by account and limit.
pub struct DayCharts(BTreeMap<(String, LimitName), Chart>);

impl DayCharts {
    /// Takes the chart of a limit; `None` if nothing was charged to it.
    pub fn take(&mut self, account: &str, limit: &str) -> Option<Chart> {
        self.0.remove(&(account.to_owned(), limit.to_owned()))
    }
}

/// Returns the charts of the last 24 hours.
pub async fn charts(environment: &Environment, now: Timestamp) -> Result<DayCharts, Error> {
    let ledger = refill::recorded_ledger(environment)?;
    let mut charts = BTreeMap::new();
    for account in environment.accounts() {
        let windows = Windows::of(&account, now);
        // A ledger that cannot be reached is shown where the limits are.
        let Ok(spending) = ledger.spent(&account, windows.from(now)).await else {
            continue;
        };
        let mut limits = BTreeMap::new();
        for charge in &spending.charges {
            windows.add(charge, &mut limits);
        }
        for (limit, spent) in limits {
            let Some(counted) = account.limits.get(limit) else {
                continue;
            };
            let chart = chart(&format!("{}/{limit}", account.name), counted, spent);
            charts.insert((account.name.clone(), limit.clone()), chart);
        }
    }
    Ok(DayCharts(charts))
}

/// Of a window that is shorter than an hour, an hour has more units than the limit counts at once.
fn chart(name: &str, limit: &Limit, spent: ByJob<'_>) -> Chart {
    let window = limit.window().longest();
    let is_short = window < HOUR;
    let counted = match is_short {
        true => format!(
            "units of each of the last 24 hours, by job; the limit counts those of {} at once",
            span(window)
        ),
        false => "units counted at the end of each of the last 24 hours, by job".to_owned(),
    };
    let ago = |hours: u32| match hours {
        0 => "now".to_owned(),
        hours => format!("{hours} h ago"),
    };
    let series = spent.into_iter();
    let series = series.map(|(job, units)| (job.to_owned(), units));
    Chart {
        caption: format!("{name}: {counted}"),
        series: series.collect(),
        times: (0..HOURS).rev().map(ago).collect(),
        line: (!is_short).then(|| limit.enforced().get()),
    }
}

/// The window of each limit at the end of each hour: its first instant, and its last.
struct Windows<'a>(BTreeMap<&'a LimitName, Vec<(Timestamp, Timestamp)>>);

impl<'a> Windows<'a> {
    fn of(account: &'a Account, now: Timestamp) -> Self {
        let window = |limit: &Limit, hours_ago: u32| {
            let end = now - HOUR * hours_ago;
            (limit.window().counted_from(end).min(end - HOUR), end)
        };
        let limits = account.limits.iter();
        let windows = limits.map(|(name, limit)| {
            let hours = (0..HOURS).rev().map(|ago| window(limit, ago));
            (name, hours.collect())
        });
        Self(windows.collect())
    }

    /// The first instant of all.
    fn from(&self, now: Timestamp) -> Timestamp {
        let firsts = self.0.values().filter_map(|hours| Some(hours.first()?.0));
        firsts.min().unwrap_or(now)
    }

    /// Adds a charge to the hours in whose window it is.
    fn add<'c>(&self, charge: &'c Spent, limits: &mut BTreeMap<&'c LimitName, ByJob<'c>>) {
        let Some(hours) = self.0.get(&charge.limit) else {
            return;
        };
        // Both edges only rise.
        let begin = hours.partition_point(|(_, end)| *end < charge.at);
        let end = hours.partition_point(|(first, _)| *first <= charge.at);
        if begin >= end {
            return;
        }
        let job = charge.origin.whose(charge.purpose.job.as_deref());
        let by_job = limits.entry(&charge.limit).or_default();
        let hourly = by_job.entry(job).or_insert_with(|| vec![0; hours.len()]);
        for units in hourly.get_mut(begin..end).into_iter().flatten() {
            *units = units.saturating_add(charge.units.get());
        }
    }
}
