//! `ingest forecast`: the spend, limits and staleness that a schedule leads to. Reads only.

use std::time::{Duration, Instant};

use chrono::Local;

use super::environment::Environment;
use super::figures::{count, counted, instant, span};
use super::output::Message;
use super::progress::Working;
use super::{Error, output, refill};
use crate::cli::{ForecastArgs, Global};
use crate::doc::text::Screen;
use crate::doc::{Chart, Doc, DocBlock, Grid, Head, Section};
use crate::exit::Exit;
use crate::foresight::{
    self, BackfillForecast, DaySpend, Forecast, JobFit, LimitForecast, Plan, Schedule, Used,
};
use crate::run;

const DAY: Duration = Duration::from_secs(24 * 60 * 60);
/// How many runs after `--days` are simulated for the end of a backfill.
const LATER: usize = 1_000;

/// Simulates the schedule, and shows the result.
pub async fn forecast(global: &Global, args: &ForecastArgs) -> Result<Exit, Error> {
    let working = Working::on(global, "simulating", "run");
    let forecast = report(&Environment::load(global)?, args, None).await?;
    drop(working);
    output::report(global, &forecast, |screen| {
        Message::Result(forecast.doc().text(screen))
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
    let catalog = environment.reader().await?;
    let selection = run::learned(&catalog, selection).await?;
    let others = environment.all_jobs();
    let selection = foresight::reserved(&catalog, &*ledger, selection, &others, from).await?;
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
    let forecast = foresight::forecast(&catalog, &*ledger, plan).await?;
    let plan = Plan {
        stop: within.map(|within| began + within),
        ..plan
    };
    let jobs = match forecast.cut {
        true => None,
        false => foresight::what_fits(&catalog, &*ledger, plan, &forecast).await?,
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
    forecast.doc().text(screen)
}

impl Forecast {
    /// The forecast in words, with a chart of each limit.
    pub fn doc(&self) -> Doc {
        let mut doc = Doc::default();
        let mut head = Section::headed("Forecast");
        head.say_all(headline(self));
        doc.add(head);
        doc.add(days(&self.days));
        let limits = self.limits.iter().filter(|limit| !limit.used.is_empty());
        limits.for_each(|limit| doc.add(picture(limit)));
        doc.add(jobs(&self.jobs));
        doc
    }
}

fn headline(forecast: &Forecast) -> Vec<String> {
    let (runs, until) = (count(forecast.runs), instant(forecast.until));
    let stopped = match forecast.stopped_runs {
        0 => "no limit stops any".to_owned(),
        stopped => format!("a limit stops {} of them", count(stopped)),
    };
    let mut lines = vec![format!("{runs} runs until {until}; {stopped}.")];
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
            let region = &hit.region;
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
            stalest.region,
            span(age)
        )
    }));
    lines.extend(forecast.backfills.iter().map(backfill));
    lines
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
            "The backfill of {job}, {slices}, makes no progress: the limits leave it too few units."
        ),
    }
}

fn days(days: &[DaySpend]) -> Section {
    let table = Grid::of(days)
        .column(Head::text("DAY (UTC)"), |spend| spend.day.to_string())
        .column(Head::text("ACCOUNT"), |spend| &spend.account)
        .column(Head::text("LIMIT"), |spend| &spend.limit)
        .column(Head::text("JOB"), |spend| &spend.job)
        .column(Head::number("UNITS"), |spend| count(spend.units.get()));
    Section::headed("Spend by day").with_rows(table)
}

/// The units in the window over time, against the limit.
fn picture(limit: &LimitForecast) -> Section {
    let (most, of) = (count(limit.most_used.get()), count(limit.enforced.get()));
    let (account, name) = (&limit.account, &limit.limit);
    let time = |used: &Used| used.at.to_utc().format("%m-%d %H:%M").to_string();
    let units = limit.used.iter().map(|used| used.units.get());
    let chart = Chart {
        caption: format!("{account}/{name}: peak {most} of {of} units in a window"),
        series: vec![("used".to_owned(), units.collect())],
        times: limit.used.iter().map(time).collect(),
        line: Some(limit.enforced.get()),
    };
    Section::default().with_piece(DocBlock::Chart(chart))
}

fn jobs(jobs: &[JobFit]) -> Section {
    let every = |seconds: Option<u64>, none: &str| match seconds {
        Some(seconds) => span(Duration::from_secs(seconds)),
        None => none.to_owned(),
    };
    let table = Grid::of(jobs)
        .column(Head::text("JOB"), |job| &job.job)
        .column(Head::text("EVERY"), |job| {
            every(job.every_seconds, "every run")
        })
        .column(Head::text("MIN INTERVAL"), |job| {
            every(job.shortest_every_seconds, "none")
        })
        .column(Head::number("REGIONS"), |job| job.regions.to_string())
        .column(Head::number("MAX REGIONS"), |job| {
            job.most_regions.to_string()
        });
    Section::headed("What fits").with_rows(table)
}
