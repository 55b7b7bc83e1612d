//! `ingest forecast`: the spend, limits and staleness that a schedule leads to. Reads only.

use std::time::{Duration, Instant};

use chrono::Local;

use super::environment::Environment;
use super::output::{Message, Screen};
use super::progress::Working;
use super::table::{count, counted, instant, span, table, text};
use super::{Error, output, refill};
use crate::cli::{ForecastArgs, Global};
use crate::exit::Exit;
use crate::foresight::{
    self, BackfillForecast, DaySpend, Forecast, JobFit, LimitForecast, Plan, Schedule, Used,
};

const DAY: Duration = Duration::from_secs(24 * 60 * 60);
/// How many runs after `--days` are simulated for the end of a backfill.
const LATER: usize = 1_000;
/// The height of a limit's chart, in lines.
const HEIGHT: u64 = 6;
/// The width of the labels at its left, in columns.
const SCALE: usize = 11;

/// Simulates the schedule, and shows the result.
pub async fn forecast(global: &Global, args: &ForecastArgs) -> Result<Exit, Error> {
    let working = Working::on(global, "simulating", "run");
    let forecast = report(&Environment::load(global)?, args, None).await?;
    drop(working);
    output::report(global, &forecast, |screen| {
        Message::Result(in_words(&forecast, screen))
    })?;
    Ok(Exit::Success)
}

/// Returns what the schedule leads to, as far as that can be simulated within a time; `None`: to its end.
pub async fn report(
    environment: &Environment,
    args: &ForecastArgs,
    within: Option<Duration>,
) -> Result<Forecast, Error> {
    let began = Instant::now();
    let schedule =
        Schedule::parse(&args.schedule).map_err(|error| Error::Usage(error.to_string()))?;
    let selection = environment.select_of(&args.regions, &args.jobs)?;
    let from = environment.clock.now();
    let until = from + DAY * args.days;
    // cron and systemd go by the local time of their machine.
    let starts = schedule
        .starts(from, until, &Local)
        .map_err(|error| Error::Usage(error.to_string()))?;
    if starts.is_empty() {
        return Err(Error::Usage(format!(
            "--schedule {:?} starts no run within {} days; choose more --days",
            args.schedule, args.days
        )));
    }
    let ledger = refill::reading_ledger(environment).await?;
    let catalog = environment.passes().await?;
    let others = environment.all_jobs();
    let selection = foresight::reserved(&*catalog, &*ledger, selection, &others, from).await?;
    let has_backfill = selection.iter().any(|(job, _)| job.slices.is_some());
    let later = match has_backfill {
        true => schedule.next(until, LATER, &Local),
        false => Vec::new(),
    };
    let plan = Plan {
        selection: &selection,
        starts: &starts,
        later: &later,
        from,
        until,
        concurrency: usize::from(args.concurrency),
        // The other half is for what fits, which simulates the schedule once more for each guess.
        stop: within.map(|within| began + within / 2),
    };
    let forecast = foresight::forecast(&*catalog, &*ledger, plan).await?;
    let plan = Plan {
        stop: within.map(|within| began + within),
        ..plan
    };
    let jobs = match forecast.cut {
        true => None,
        false => foresight::what_fits(&*catalog, &*ledger, plan, &forecast).await?,
    };
    Ok(Forecast {
        cut: jobs.is_none(),
        jobs: jobs.unwrap_or_default(),
        ..forecast
    })
}

/// Returns the text of a forecast.
#[must_use]
pub fn in_words(forecast: &Forecast, screen: Screen) -> String {
    let mut parts = vec![
        screen.wrapped(&headline(forecast)),
        days(&forecast.days, screen),
    ];
    parts.extend(
        forecast
            .limits
            .iter()
            .filter(|limit| !limit.used.is_empty())
            .map(|limit| picture(limit, screen)),
    );
    parts.push(jobs(&forecast.jobs, screen));
    parts.retain(|part| !part.is_empty());
    parts.join("\n\n")
}

fn headline(forecast: &Forecast) -> String {
    let mut lines = vec![match forecast.stopped_runs {
        0 => format!(
            "{} runs until {}; no limit stops any.",
            count(forecast.runs),
            instant(forecast.until)
        ),
        stopped => format!(
            "{} runs until {}; a limit stops {} of them.",
            count(forecast.runs),
            instant(forecast.until),
            count(stopped)
        ),
    }];
    lines.extend(forecast.closed.iter().map(|closed| {
        format!(
            "{}/{} is closed by the upstream until {}, or by hand; MIN INTERVAL and MAX REGIONS are for when it is open.",
            closed.account,
            closed.limit,
            instant(closed.until)
        )
    }));
    for limit in &forecast.limits {
        lines.extend(limit.first_hit.as_ref().map(|hit| {
            let LimitForecast { account, limit, .. } = limit;
            let region = output::shown(&hit.region);
            format!(
                "{account}/{limit} first rejects {} of {} {region} at {}.",
                hit.call,
                hit.job,
                instant(hit.at)
            )
        }));
    }
    lines.extend(forecast.stalest.as_ref().map(|stalest| {
        let age = Duration::try_from_secs_f64(stalest.age_seconds).unwrap_or_default();
        format!(
            "The stalest region is {} {}, {} old.",
            stalest.job,
            output::shown(&stalest.region),
            span(age)
        )
    }));
    lines.extend(forecast.backfills.iter().map(backfill));
    lines.join("\n")
}

/// When a backfill is complete.
fn backfill(one: &BackfillForecast) -> String {
    let BackfillForecast {
        job, slices_left, ..
    } = one;
    let slices = counted(*slices_left, "slice");
    match (one.complete_at, one.days) {
        (Some(_), _) if *slices_left == 0 => format!("The backfill of {job} is complete."),
        (Some(at), Some(days)) => {
            let about = if one.extrapolated { "about " } else { "" };
            format!(
                "The backfill of {job}, {slices}, takes {about}{days:.1} days, until {}.",
                instant(at)
            )
        }
        _ => format!(
            "The backfill of {job}, {slices}, makes no progress: the limits leave it no units."
        ),
    }
}

fn days(days: &[DaySpend], screen: Screen) -> String {
    if days.is_empty() {
        return String::new();
    }
    let mut table = table(
        screen,
        &["DAY (UTC)", "ACCOUNT", "LIMIT", "JOB", "UNITS"],
        &[4],
    );
    for spend in days {
        let day = spend.day.to_string();
        table.add_row([
            day,
            spend.account.clone(),
            spend.limit.clone(),
            spend.job.clone(),
            count(spend.units.get()),
        ]);
    }
    text(&table)
}

/// Draws the units in the window over time, against the limit.
fn picture(limit: &LimitForecast, screen: Screen) -> String {
    let columns = gathered(&limit.used, screen);
    let top = limit.enforced.get().max(limit.most_used.get()).max(1);
    let head = format!(
        "{}/{}: peak {} of {} units in a window",
        limit.account,
        limit.limit,
        count(limit.most_used.get()),
        count(limit.enforced.get())
    );
    let rows = (0..HEIGHT).rev().map(|row| {
        let bars: String = columns
            .iter()
            .map(|units| block(*units, top, row))
            .collect();
        let label = if row + 1 == HEIGHT {
            count(top)
        } else {
            String::new()
        };
        format!("{label:>9} │{bars}").trim_end().to_owned()
    });
    let foot = format!("{:>9} └{}", 0, "─".repeat(columns.len()));
    let (first, last) = (limit.used.first(), limit.used.last());
    let day = |used: Option<&Used>| {
        used.map(|used| used.at.to_utc().format("%m-%d %H:%M").to_string())
            .unwrap_or_default()
    };
    let width = columns.len().saturating_sub(day(first).len());
    let axis = format!("{:11}{}{:>width$}", "", day(first), day(last));
    [head]
        .into_iter()
        .chain(rows)
        .chain([foot, axis])
        .collect::<Vec<_>>()
        .join("\n")
}

/// Returns the maximum of each few hours, so that the chart fits a line.
fn gathered(used: &[Used], screen: Screen) -> Vec<u64> {
    let width = screen.width.unwrap_or(80).saturating_sub(SCALE + 1).max(24);
    let few = used.len().div_ceil(width).max(1);
    used.chunks(few)
        .map(|hours| hours.iter().map(|used| used.units.get()).max().unwrap_or(0))
        .collect()
}

/// Returns the part of a bar that one line shows, in eighths of a block.
fn block(units: u64, top: u64, row: u64) -> char {
    const PARTS: [char; 9] = [' ', '▁', '▂', '▃', '▄', '▅', '▆', '▇', '█'];
    let eighths = u128::from(units) * u128::from(HEIGHT) * 8 / u128::from(top);
    let here = eighths.saturating_sub(u128::from(row) * 8).min(8);
    usize::try_from(here)
        .ok()
        .and_then(|part| PARTS.get(part).copied())
        .unwrap_or('█')
}

fn jobs(jobs: &[JobFit], screen: Screen) -> String {
    if jobs.is_empty() {
        return String::new();
    }
    let mut table = table(
        screen,
        &["JOB", "EVERY", "MIN INTERVAL", "REGIONS", "MAX REGIONS"],
        &[3, 4],
    );
    let every = |seconds: Option<u64>, none: &str| {
        seconds.map_or_else(
            || none.to_owned(),
            |seconds| span(Duration::from_secs(seconds)),
        )
    };
    for job in jobs {
        table.add_row([
            job.job.clone(),
            every(job.every_seconds, "every run"),
            every(job.shortest_every_seconds, "none"),
            job.regions.to_string(),
            job.most_regions.to_string(),
        ]);
    }
    text(&table)
}
