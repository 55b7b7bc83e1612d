use std::time::Duration;

use chrono::Utc;
use ingest::foresight::Schedule;
use ingest_quota::Timestamp;

use super::{JOBS, LEAN};
use crate::support::lab::{Lab, NOON, spent};

const HOUR: Duration = Duration::from_secs(3_600);

/// When runs start by this schedule from an hour after noon on, and until when.
fn starts(schedule: &str, days: u32) -> (Vec<Timestamp>, Timestamp) {
    let (from, schedule) = (NOON + HOUR, Schedule::parse(schedule).unwrap());
    let until = from + 24 * HOUR * days;
    (schedule.starts(from, until, &Utc).unwrap(), until)
}

fn assert_played(sets: &[&str], schedule: &str, days: u32) {
    let lab = Lab::beginning_at(NOON, &[&LEAN[..], sets].concat());
    lab.run_all(&JOBS);
    let (starts, until) = starts(schedule, days);
    lab.reach(NOON + HOUR);
    let forecast = lab.forecast(&JOBS, (&starts, until));
    let (mut daily, mut search, mut stopped) = (0, 0, 0);
    let asked_before = lab.requests();
    for start in &starts {
        lab.reach(*start);
        let report = lab.run_all(&JOBS);
        daily += spent(&report, "daily");
        search += spent(&report, "search");
        stopped += u64::from(report.stopped_by.is_some());
    }
    let units = |name: &str| {
        forecast
            .limits
            .iter()
            .find(|limit| limit.limit == name)
            .unwrap()
            .units
            .get()
    };
    assert_eq!(
        (units("daily"), units("search")),
        (daily, search),
        "{schedule} {sets:?}"
    );
    // The sandbox's own count: a search takes 100 units and every other request one.
    assert_eq!(
        lab.requests() - asked_before,
        units("daily") - 99 * units("search"),
        "{schedule} {sets:?}"
    );
    assert_eq!(forecast.stopped_runs, stopped);
    let by_day: u64 = forecast.days.iter().map(|day| day.units.get()).sum();
    // A search takes one of `search` and one of `search_burst`.
    assert_eq!(by_day, daily + 2 * search);
}

#[test]
fn a_forecast_is_what_the_schedule_then_spends_to_the_unit() {
    assert_played(&[], "0 */4 * * *", 1);
}

#[test]
fn a_forecast_is_right_where_the_limit_is_hit_and_passes_stop_half_way() {
    let quota = "credentials.youtube.limits.daily={ quota = 330, window = \"24h\", resets = \"America/Los_Angeles\", wait = \"0s\" }";
    let sets = [
        quota,
        "jobs.trending.leave={ daily = 10 }",
        "jobs.discover.leave={}",
        "jobs.trending.every=\"4h\"",
    ];
    assert_played(&sets, "30 */3 * * *", 1);
}

#[test]
fn a_forecast_says_what_would_fit() {
    let steps = "jobs.trending.steps=[{ call = \"videos.list\", params = { part = \"snippet\", chart = \"mostPopular\", regionCode = \"{region}\" }, max_pages = 4 }]";
    let quota = "credentials.youtube.limits.daily={ quota = 110, window = \"24h\", wait = \"0s\" }";
    let discover =
        "jobs.discover.steps=[{ call = \"videos.list\", params = { chart = \"mostPopular\" } }]";
    let lab = Lab::beginning_at(
        NOON,
        &[
            steps,
            quota,
            discover,
            "jobs.trending.leave={}",
            "jobs.discover.leave={}",
        ],
    );
    let (starts, until) = starts("hourly", 2);
    let forecast = lab.forecast(&["trending"], (&starts, until));
    assert!(forecast.stopped_runs > 0);
    let daily = forecast
        .limits
        .iter()
        .find(|limit| limit.limit == "daily")
        .unwrap();
    assert_eq!(daily.first_hit.as_ref().unwrap().job, "trending");
    // 32 a pass over all regions: three in 24 hours fit into 110, but after 8 hours each the fourth meets the first, which
    // counts its grace longer. One region 24 times takes 96.
    let fit = &lab.what_fits(&["trending"], (&starts, until))[0];
    assert_eq!(
        (fit.shortest_every_seconds, fit.most_regions),
        (Some(12 * 3600), 1),
        "{fit:?}"
    );
}

#[test]
fn what_fits_of_a_job_does_not_depend_on_jobs_that_charge_other_accounts() {
    let steps = |name| {
        format!(
            "jobs.{name}.steps=[{{ call = \"videos.list\", params = {{ chart = \"mostPopular\" }}, max_pages = 4 }}]"
        )
    };
    let limit = |quota| format!("{{ quota = {quota}, window = \"24h\", wait = \"0s\" }}");
    let (small, large) = (limit(110), limit(100_000));
    let other = format!(
        "credentials.other={{ upstream = \"youtube\", secret = {{ env = \"OTHER\" }}, limits = {{ daily = {large}, \
         search = {large}, search_burst = {large} }} }}"
    );
    let lab = Lab::beginning_at(
        NOON,
        &[
            &*steps("trending"),
            &*steps("discover"),
            &*format!("credentials.youtube.limits.daily={small}"),
            &*other,
            "jobs.discover.credential=\"other\"",
            "jobs.trending.leave={}",
            "jobs.discover.leave={}",
        ],
    );
    let (starts, until) = starts("hourly", 2);
    let fits = lab.what_fits(&JOBS, (&starts, until));
    let fits: Vec<_> = fits
        .iter()
        .map(|fit| (&*fit.job, fit.shortest_every_seconds, fit.most_regions))
        .collect();
    let (hour, regions) = (3600, 8);
    assert_eq!(
        fits,
        [
            ("trending", Some(12 * hour), 1),
            ("discover", Some(hour), regions)
        ]
    );
}

#[test]
fn schedules_are_cron_or_the_simple_forms_of_systemd() {
    let from = NOON;
    let next = |text: &str| {
        let starts = Schedule::parse(text).unwrap().starts(
            from,
            from + Duration::from_secs(40 * 86_400),
            &Utc,
        );
        starts.unwrap()[0].to_string()
    };
    let expected = [
        ("*/15 * * * *", "2026-11-20T12:15:00.000000Z"),
        ("@hourly", "2026-11-20T13:00:00.000000Z"),
        ("hourly", "2026-11-20T13:00:00.000000Z"),
        ("daily", "2026-11-21T00:00:00.000000Z"),
        ("weekly", "2026-11-23T00:00:00.000000Z"),
        ("monthly", "2026-12-01T00:00:00.000000Z"),
        ("*-*-* 03:00:00", "2026-11-21T03:00:00.000000Z"),
        ("*-*-* 03:30", "2026-11-21T03:30:00.000000Z"),
        ("*:0/20", "2026-11-20T12:20:00.000000Z"),
        ("*-*-* 0/6:05:30", "2026-11-20T12:05:30.000000Z"),
    ];
    for (text, at) in expected {
        assert_eq!(next(text), at, "{text}");
    }
    for wrong in ["", "often", "61 * * * *", "Mon *-*-* 03:00", "* * * *"] {
        let error = Schedule::parse(wrong).unwrap_err().to_string();
        assert!(error.contains("'*/15 * * * *'"), "{error}");
    }
}
