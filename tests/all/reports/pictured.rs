//! A forecast as people read it.

use std::time::Duration;

use ingest::commands::{Screen, Style, forecast_in_words};
use ingest::foresight::{DaySpend, Forecast, Hit, JobFit, LimitForecast, Stalest, Used};
use ingest_quota::{Timestamp, Units};

const DAY: Duration = Duration::from_secs(24 * 60 * 60);
/// 2026-11-20T12:00:00Z.
const NOON: Timestamp = Timestamp::from_micros(1_795_176_000_000_000);

fn later(hours: u32) -> Timestamp {
    NOON + Duration::from_secs(3600) * hours
}

fn limit(
    name: &str,
    enforced: u64,
    first_hit: Option<Hit>,
    used: impl Fn(u32) -> u64,
) -> LimitForecast {
    let used: Vec<Used> = (0..=168)
        .map(|hour| Used {
            at: later(hour),
            units: Units::new(used(hour)),
        })
        .collect();
    LimitForecast {
        account: "youtube".to_owned(),
        limit: name.to_owned(),
        enforced: Units::new(enforced),
        units: Units::new(27_340),
        most_used: used.iter().map(|used| used.units).max().unwrap_or_default(),
        first_hit,
        used,
    }
}

/// A week that a limit stops in part.
fn week() -> Forecast {
    let (job, region, call) = (
        "discover".to_owned(),
        "BR".to_owned(),
        "search.list".to_owned(),
    );
    let hit = Hit {
        at: later(31),
        job,
        region,
        call,
        retry_at: later(39),
    };
    let day = |number: i64, limit: &str, job: &str, units| DaySpend {
        day: (NOON + DAY * u32::try_from(number).unwrap_or_default())
            .to_utc()
            .date_naive(),
        account: "youtube".to_owned(),
        limit: limit.to_owned(),
        job: job.to_owned(),
        units: Units::new(units),
    };
    let fit = |job: &str, every, shortest, most| JobFit {
        job: job.to_owned(),
        every_seconds: every,
        shortest_every_seconds: shortest,
        regions: 8,
        most_regions: most,
    };
    Forecast {
        cut: false,
        from: NOON,
        until: later(168),
        runs: 672,
        stopped_runs: 31,
        days: vec![
            day(0, "daily", "discover", 1_204),
            day(0, "search", "discover", 12),
            day(1, "daily", "trending", 768),
        ],
        closed: Vec::new(),
        limits: vec![
            limit("daily", 9_500, Some(hit), |hour| {
                u64::from(hour.min(40)) * 230 + u64::from(hour % 24) * 11
            }),
            limit("search", 90, None, |hour| u64::from(hour / 12 % 3) * 24),
        ],
        stalest: Some(Stalest {
            job: "discover".to_owned(),
            region: "CA".to_owned(),
            age_seconds: 151_200.0,
            at: later(50),
        }),
        jobs: vec![
            fit("trending", Some(3600), Some(900), 8),
            fit("discover", None, None, 3),
        ],
        backfills: Vec::new(),
    }
}

#[test]
fn a_forecast_fits_its_screen() {
    for width in [80, 140] {
        for (style, name) in [(Style::Plain, "plain"), (Style::Coloured, "coloured")] {
            let shown = forecast_in_words(
                &week(),
                Screen {
                    width: Some(width),
                    style,
                },
            );
            assert!(
                shown.lines().all(|line| line.chars().count() <= width),
                "{shown}"
            );
            insta::assert_snapshot!(
                format!("forecast_{width}_{name}"),
                shown.replace('\u{1b}', "␛")
            );
        }
    }
    let empty = Forecast {
        runs: 0,
        stopped_runs: 0,
        days: vec![],
        limits: vec![],
        stalest: None,
        jobs: vec![],
        ..week()
    };
    insta::assert_snapshot!(
        "forecast_empty",
        forecast_in_words(
            &empty,
            Screen {
                width: Some(80),
                style: Style::Plain
            }
        )
    );
}
