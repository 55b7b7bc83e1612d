//! When runs start: a cron expression, or the simplest forms of systemd's `OnCalendar`.

use chrono::{DateTime, TimeZone, Utc};
use croner::Cron;
use thiserror::Error;

use ingest_quota::Timestamp;

/// A schedule with more runs than this is taken for a mistake.
const MOST_RUNS: usize = 100_000;

/// When runs start.
#[derive(Debug, Clone)]
pub struct Schedule(Cron);

/// Why a schedule cannot be used.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum ScheduleError {
    /// It cannot be read.
    #[error(
        "`{text}` is not a schedule ({why}); write a cron expression such as '*/15 * * * *', or \
        hourly, daily, '*-*-* 03:00:00'"
    )]
    Unreadable {
        /// What was written.
        text: String,
        /// What is wrong with it.
        why: String,
    },
    /// It starts too often.
    #[error("the schedule starts more than {MOST_RUNS} runs; choose fewer --days")]
    TooOften,
}

impl Schedule {
    /// Reads `*/15 * * * *`, `@hourly`, `hourly`, `daily`, `weekly`, `monthly`, `*:0/15` or `*-*-* 03:00:00`.
    ///
    /// # Errors
    /// When it is none of these.
    pub fn parse(text: &str) -> Result<Self, ScheduleError> {
        let expression = as_cron(text.trim()).unwrap_or_else(|| text.trim().to_owned());
        let unreadable = |why: String| ScheduleError::Unreadable {
            text: text.to_owned(),
            why,
        };
        let cron = Cron::new(&expression).with_seconds_optional().parse();
        cron.map(Self)
            .map_err(|error| unreadable(error.to_string()))
    }

    /// Returns the starts of runs after `from` and until `until`, by the clocks of `zone`.
    ///
    /// # Errors
    /// When there are too many.
    pub fn starts<Z: TimeZone>(
        &self,
        from: Timestamp,
        until: Timestamp,
        zone: &Z,
    ) -> Result<Vec<Timestamp>, ScheduleError> {
        let local: DateTime<Z> = from.to_utc().with_timezone(zone);
        let starts = self
            .0
            .iter_after(local)
            .map(|at| Timestamp::from(at.with_timezone(&Utc)));
        let starts: Vec<Timestamp> = starts
            .take_while(|at| *at <= until)
            .take(MOST_RUNS + 1)
            .collect();
        if starts.len() > MOST_RUNS {
            Err(ScheduleError::TooOften)
        } else {
            Ok(starts)
        }
    }

    /// Returns the next `count` starts after `from`, by the clocks of `zone`.
    pub fn next<Z: TimeZone>(&self, from: Timestamp, count: usize, zone: &Z) -> Vec<Timestamp> {
        let local: DateTime<Z> = from.to_utc().with_timezone(zone);
        let starts = self.0.iter_after(local).take(count);
        let starts = starts.map(|at| Timestamp::from(at.with_timezone(&Utc)));
        starts.collect()
    }
}

/// Translates a form of systemd's `OnCalendar` to cron.
fn as_cron(text: &str) -> Option<String> {
    let known = match text {
        "minutely" => "* * * * *",
        "hourly" => "0 * * * *",
        "daily" => "0 0 * * *",
        "weekly" => "0 0 * * 1",
        "monthly" => "0 0 1 * *",
        _ => return calendar(text),
    };
    Some(known.to_owned())
}

/// `*-*-* 03:00:00`, `03:00`, `*:0/15`: every day, at these hours, minutes and seconds.
fn calendar(text: &str) -> Option<String> {
    let time = text.strip_prefix("*-*-*").unwrap_or(text).trim();
    let mut parts = time.split(':');
    let (hour, minute, second) = (parts.next()?, parts.next()?, parts.next().unwrap_or("00"));
    let plain = |part: &str| {
        !part.is_empty()
            && part
                .chars()
                .all(|c| c.is_ascii_digit() || "*/,".contains(c))
    };
    if parts.next().is_some() || ![hour, minute, second].into_iter().all(plain) {
        return None;
    }
    Some(format!(
        "{} {} {} * * *",
        stepped(second, 59),
        stepped(minute, 59),
        stepped(hour, 23)
    ))
}

/// `0/15` starts at 0 and repeats every 15. Cron needs the end too.
fn stepped(part: &str, last: u32) -> String {
    match part.split_once('/') {
        Some((start, step)) if start != "*" => format!("{start}-{last}/{step}"),
        _ => part.to_owned(),
    }
}
