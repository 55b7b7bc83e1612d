//! What depends on how much time has passed.

use std::time::Duration;

use ingest::run::{PassOutcome, RunOutcome};

use crate::support::lab::{Lab, ended};

const MINUTE: Duration = Duration::from_secs(60);
const HOUR: Duration = Duration::from_secs(3600);
const DAY: Duration = Duration::from_secs(24 * 3600);

/// Two regions whose lists are walked, and nothing else.
const LISTING: [&str; 3] = [
    "jobs.trending.steps=[{ call = \"videos.list\", params = { chart = \"mostPopular\", regionCode = \"{region}\" }, max_pages = 4 }]",
    "jobs.discover.steps=[{ call = \"videos.list\", params = { chart = \"mostPopular\", regionCode = \"{region}\" }, max_pages = 2 }]",
    "regions=[\"US\", \"GB\"]",
];

fn lab(sets: &[&str]) -> Lab {
    Lab::new(&[LISTING.as_slice(), sets].concat())
}

#[test]
fn an_hourly_tick_that_comes_early_by_less_than_a_twentieth_finds_its_regions_due() {
    let lab = lab(&[]);
    assert_eq!(lab.run("trending").outcome, RunOutcome::Complete);
    lab.pass(HOUR - 3 * MINUTE - Duration::from_secs(1));
    assert_eq!(
        lab.run("trending").outcome,
        RunOutcome::NothingDue,
        "too early"
    );
    lab.pass(Duration::from_secs(1));
    assert_eq!(
        lab.run("trending").outcome,
        RunOutcome::Complete,
        "within the tolerance"
    );
}

#[test]
fn the_tolerance_of_a_long_span_is_five_minutes() {
    let lab = lab(&["jobs.trending.every=\"1d\""]);
    lab.run("trending");
    lab.pass(DAY - 5 * MINUTE - Duration::from_secs(1));
    assert_eq!(lab.run("trending").outcome, RunOutcome::NothingDue);
    lab.pass(Duration::from_secs(1));
    assert_eq!(lab.run("trending").outcome, RunOutcome::Complete);
}

#[test]
fn an_unfinished_pass_goes_on_while_it_is_young_enough_and_is_abandoned_then() {
    for (age, resumed) in [(3 * DAY - MINUTE, true), (3 * DAY, false)] {
        let mut lab = lab(&[
            "jobs.trending.leave={}",
            "jobs.discover.leave={}",
            "credentials.youtube.limits.daily={ quota = 110, headroom = 104, window = \"1h\" }",
        ]);
        let short = lab.run("trending");
        assert_eq!(short.outcome, RunOutcome::Stopped, "{short:?}");
        lab.set("credentials.youtube.limits.daily={ quota = 110, window = \"1h\" }");
        lab.pass(age);
        let next = lab.run("trending");
        let stopped = ended(&short, PassOutcome::Stopped)[0];
        let pass = next
            .passes
            .iter()
            .find(|pass| pass.region == stopped)
            .unwrap();
        assert_eq!(
            (pass.outcome, pass.resumed),
            (PassOutcome::Complete, resumed),
            "{pass:?}"
        );
        assert_eq!(pass.pages, if resumed { 2 } else { 4 }, "{pass:?}");
        let abandoned =
            lab.count("select count(*) from pass where outcome = 'abandoned' and pages = 2");
        assert_eq!(abandoned, i64::from(!resumed), "what it had landed stays");
    }
}

#[test]
fn a_daily_run_that_comes_before_its_units_return_completes_its_passes_on_the_third_day() {
    let lab = lab(&[
        "jobs.trending.leave={}",
        "jobs.discover.leave={}",
        "credentials.youtube.limits.daily={ quota = 6, window = \"24h\" }",
    ]);
    // A unit counts a little longer than its window.
    for expected in [
        RunOutcome::Stopped,
        RunOutcome::Stopped,
        RunOutcome::Complete,
    ] {
        let run = lab.run("trending");
        assert_eq!(run.outcome, expected, "{run:?}");
        lab.pass(DAY);
    }
}

#[test]
fn a_job_stops_where_it_must_leave_units_and_another_takes_them() {
    let lab = lab(&[
        "jobs.trending.leave={ daily = 4 }",
        "jobs.discover.leave={}",
        "credentials.youtube.limits.daily={ quota = 10, window = \"24h\" }",
    ]);
    let first = lab.run("trending");
    assert_eq!(
        (first.outcome, first.requests),
        (RunOutcome::Stopped, 6),
        "{first:?}"
    );
    assert_eq!(first.stopped_by.unwrap().remaining.get(), 4);
    let second = lab.run("discover");
    assert_eq!(
        (second.outcome, second.requests),
        (RunOutcome::Complete, 4),
        "{second:?}"
    );
    assert_eq!(lab.most_in_window("daily"), 10);
}

#[test]
fn what_is_not_seen_again_for_as_long_as_the_upstream_lets_keep_is_dropped() {
    let lab = lab(&["upstreams.youtube.keep=\"30d\""]);
    lab.run("trending");
    let all = lab.count("select count(*) from record");
    lab.lists_hold("videos.list", 50);
    lab.pass(30 * DAY - MINUTE);
    lab.run("trending");
    assert!(
        lab.count("select count(*) from record") >= all,
        "dropped too early"
    );
    lab.pass(2 * MINUTE);
    lab.run("trending");
    let left = lab.count("select count(*) from record");
    assert!(left < all, "{left} of {all}");
    assert_eq!(
        lab.count("select count(*) from record_text"),
        left,
        "the index keeps what was dropped"
    );
}

#[test]
fn a_day_without_units_asks_for_nothing_until_they_return() {
    let lab = lab(&[
        "jobs.trending.leave={}",
        "jobs.discover.leave={}",
        "credentials.youtube.limits.daily={ quota = 5, window = \"24h\" }",
    ]);
    lab.run("trending");
    for _ in 0..23 {
        lab.pass(HOUR);
        assert_eq!(lab.run("trending").requests, 0);
    }
    assert_eq!(lab.requests(), 5);
    lab.pass(HOUR + 2 * MINUTE);
    assert_eq!(lab.run("trending").requests, 5);
}

#[test]
fn what_another_job_spends_after_a_refusal_is_in_the_moment_that_is_told() {
    let pages = |pages: u32| {
        format!(
            "[{{ call = \"videos.list\", params = {{ chart = \"mostPopular\" }}, max_pages = {pages} }}]"
        )
    };
    let lab = Lab::new(&[
        &format!("jobs.trending.steps={}", pages(1)),
        &format!("jobs.discover.steps={}", pages(4)),
        "jobs.trending.regions=[\"US\"]",
        "jobs.discover.regions=[\"US\"]",
        "jobs.trending.leave={ daily = 4 }",
        "jobs.discover.leave={}",
        "jobs.discover.every=\"1us\"",
        "credentials.youtube.limits.daily={ quota = 112, headroom = 100, window = \"24h\" }",
    ]);
    for _ in 0..2 {
        assert_eq!(ended(&lab.run("discover"), PassOutcome::Complete), ["US"]);
        lab.pass(Duration::from_secs(6 * 3600));
    }
    let report = lab.run_all(&["trending", "discover"]);
    assert_eq!(
        ended(&report, PassOutcome::Complete),
        ["US"],
        "discover took the rest: {report:?}"
    );
    let stopped = report.stopped_by.unwrap();
    assert!(
        stopped.retry_after > Duration::from_secs(17 * 3600),
        "not before the second four are back: {stopped:?}"
    );
    let moment = Duration::from_secs(3); // a run waits for two
    lab.pass(stopped.retry_after - moment);
    assert_eq!(ended(&lab.run("trending"), PassOutcome::Stopped), ["US"]);
    lab.pass(moment);
    assert_eq!(ended(&lab.run("trending"), PassOutcome::Complete), ["US"]);
}

#[test]
fn a_monthly_quota_opens_again_with_the_next_month_and_not_with_the_next_day() {
    let lab = lab(&[
        "jobs.trending.leave={}",
        "jobs.discover.leave={}",
        "jobs.trending.every=\"1h\"",
        "credentials.youtube.limits.daily={ quota = 6, resets = \"UTC\", period = \"month\" }",
    ]);
    let first = lab.run("trending");
    assert_eq!(first.outcome, RunOutcome::Stopped, "{first:?}");
    lab.pass(2 * DAY);
    let same_month = lab.run("trending");
    assert_eq!(same_month.outcome, RunOutcome::Stopped, "{same_month:?}");
    assert!(
        same_month.passes.iter().all(|pass| pass.requests == 0),
        "{same_month:?}"
    );
    lab.pass(31 * DAY);
    let next_month = lab.run("trending");
    assert_eq!(ended(&next_month, PassOutcome::Complete).len(), 1);
}
