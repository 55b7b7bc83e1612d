//! How long an upstream's refusals and reports close a limit, which limits, and who learns of it.

use std::time::{Duration, Instant};

use chrono::{DateTime, Utc};
use serde_json::{Value, json};

use crate::support::world::World;
use ingest_testing::stub_upstream::{StubAnswer, StubUpstream};

const RUN: [&str; 4] = ["--region", "all", "--concurrency", "1"];

/// Two regions of one list, which charges a limit of the upstream.
fn world(upstream: &StubUpstream, limits: &str, errors: &str) -> World {
    let text = format!(
        r#"
regions = ["US", "GB"]
[upstreams.list]
base_url = "https://list.example.com"
errors = {errors}
[upstreams.list.calls.list]
path = "list"
cost = {{ daily = 1, own = 1 }}
records = {{ at = "/items", kind = "item", id = "/id" }}
[credentials.list]
upstream = "list"
[credentials.list.limits]
{limits}
[jobs.list]
credential = "list"
every = "1us"
steps = [{{ call = "list" }}]
"#
    );
    let mut world = World::written(&text, &[]);
    world
        .set(&format!("upstreams.list.base_url={}", upstream.url()))
        .set("upstreams.list.pause=1ms");
    world
}

const REPORTED: &str = r#"own = { quota = 1000, window = "1h", own = true }
daily = { quota = 100, window = "1h", reported = { remaining = "x-remaining", reset = "x-reset" } }"#;
const PLAIN: &str = r#"own = { quota = 1000, window = "1h", own = true }
daily = { quota = 100, window = "1h" }"#;
const CALENDAR: &str = r#"own = { quota = 1000, window = "1h", own = true }
daily = { quota = 100, resets = "UTC", period = "hour", reported = { remaining = "x-remaining", reset = "x-reset" } }"#;

fn epoch() -> u64 {
    u64::try_from(Utc::now().timestamp()).unwrap()
}

fn page() -> StubAnswer {
    StubAnswer::json(&json!({ "items": [{ "id": "1" }] }))
}

/// For how many seconds from now on a limit is closed.
fn closed_for(report: &Value, limit: &str) -> Option<i64> {
    let limits = report["limits"].as_array().unwrap();
    let limit = limits.iter().find(|one| one["limit"] == limit).unwrap();
    let until = DateTime::parse_from_rfc3339(limit["closed_until"].as_str()?).unwrap();
    Some((until.to_utc() - Utc::now()).num_seconds())
}

#[test]
fn no_unit_left_until_a_reset_beyond_the_window_closes_the_limit_until_then() {
    for limits in [REPORTED, CALENDAR] {
        let upstream = StubUpstream::start(|_| {
            let reset = epoch() + 3 * 3600;
            page()
                .header("x-remaining", "0")
                .header("x-reset", &reset.to_string())
        });
        let world = world(&upstream, limits, "[]");
        let run = world.json(&RUN);
        assert_eq!(
            (run["outcome"].as_str(), upstream.requests().len()),
            (Some("stopped"), 1),
            "{run}"
        );
        let closed = closed_for(&run, "daily").expect("the limit is closed");
        assert!((10_700..=10_801).contains(&closed), "{closed}: {run}");
        assert_eq!(closed_for(&run, "own"), None, "{run}");
        assert_eq!(world.json(&RUN)["outcome"], "stopped");
        assert_eq!(upstream.requests().len(), 1, "the next run asks nothing");
    }
}

#[test]
fn no_unit_left_closes_the_limit_until_a_reset_within_the_window_too() {
    for limits in [REPORTED, CALENDAR] {
        let upstream =
            StubUpstream::start(|_| page().header("x-remaining", "0").header("x-reset", "30"));
        let world = world(&upstream, limits, "[]");
        world.ingest(&["charge", "list", "list", "--times", "50"]);
        let run = world.json(&RUN);
        assert_eq!(
            (run["outcome"].as_str(), upstream.requests().len()),
            (Some("stopped"), 1),
            "{run}"
        );
        let closed = closed_for(&run, "daily")
            .expect("charges that leave the window before it are no units of the upstream");
        assert!((20..=31).contains(&closed), "{closed}: {run}");
    }
}

#[test]
fn a_reset_that_has_just_passed_is_now_and_one_is_read_by_its_size() {
    for unit in [1, 1_000, 1_000_000, 1_000_000_000] {
        let ahead = StubUpstream::start(move |_| {
            let reset = (epoch() + 600) * unit;
            page()
                .header("x-remaining", "0")
                .header("x-reset", &reset.to_string())
        });
        let world_ahead = world(&ahead, REPORTED, "[]");
        let run = world_ahead.json(&RUN);
        assert_eq!(ahead.requests().len(), 1, "{run}");
        let after = run["stopped_by"]["retry_after_seconds"].as_f64().unwrap();
        assert!((590.0..=605.0).contains(&after), "{unit}: {run}");

        let passed = StubUpstream::start(move |_| {
            let reset = (epoch() - 3) * unit;
            page()
                .header("x-remaining", "0")
                .header("x-reset", &reset.to_string())
        });
        let run = world(&passed, REPORTED, "[]").json(&RUN);
        assert_eq!(
            (run["outcome"].as_str(), passed.requests().len()),
            (Some("complete"), 2),
            "{run}"
        );
    }
}

#[test]
fn a_refusal_whose_reset_has_just_passed_does_not_close_the_limit_for_its_window() {
    let errors = r#"[{ status = 429, class = "spent", until_header = "x-reset" }]"#;
    for limits in [PLAIN, CALENDAR] {
        let upstream = StubUpstream::start(|request| match request.number {
            0 => StubAnswer::error(429, &json!({})).header("x-reset", &(epoch() - 3).to_string()),
            _ => page(),
        });
        let world = world(&upstream, limits, errors);
        assert_eq!(world.json(&["--region", "US"])["outcome"], "stopped");
        let run = world.json(&RUN);
        assert_eq!(run["outcome"], "complete", "{run}");
    }
}

#[test]
fn a_retry_after_that_is_an_instant_is_compared_with_the_upstreams_clock() {
    for unit in [1, 1_000, 1_000_000, 1_000_000_000] {
        for status in [429, 503] {
            let upstream = StubUpstream::start(move |_| {
                let until = (epoch() + 90) * unit;
                StubAnswer::error(status, &json!({})).header("retry-after", &until.to_string())
            });
            let run = world(&upstream, PLAIN, "[]").json(&RUN);
            let closed = closed_for(&run, "daily").expect("the limit is closed");
            assert!((80..=91).contains(&closed), "{closed}: {run}");
        }
    }
    // The upstream's clock is ten minutes behind this one.
    let upstream = StubUpstream::start(|_| {
        let theirs = |ahead: i64| {
            (Utc::now() + chrono::TimeDelta::seconds(ahead - 600))
                .format("%a, %d %b %Y %H:%M:%S GMT")
                .to_string()
        };
        StubAnswer::error(429, &json!({}))
            .header("date", &theirs(0))
            .header("retry-after", &theirs(90))
    });
    let run = world(&upstream, PLAIN, "[]").json(&RUN);
    let closed = closed_for(&run, "daily").expect("the limit is closed");
    assert!((80..=91).contains(&closed), "{closed}: {run}");
}

#[test]
fn a_retry_after_closes_a_limit_for_its_window_and_a_day_at_most_and_a_rule_for_longer() {
    let refusing = |header: &'static str| {
        StubUpstream::start(move |_| StubAnswer::error(429, &json!({})).header(header, "2000000"))
    };
    let upstream = refusing("retry-after");
    let closed = closed_for(&world(&upstream, PLAIN, "[]").json(&RUN), "daily");
    assert!(
        (89_990..=90_001).contains(&closed.unwrap()),
        "an hour and a day: {closed:?}"
    );
    let upstream = refusing("x-until");
    let errors = r#"[{ status = 429, class = "slow_down", until_header = "x-until" }]"#;
    let closed = closed_for(&world(&upstream, PLAIN, errors).json(&RUN), "daily");
    assert!(
        (1_999_990..=2_000_001).contains(&closed.unwrap()),
        "{closed:?}"
    );
}

#[test]
fn a_retry_after_that_has_passed_leaves_the_upstreams_own_pause() {
    for value in [
        "0".to_owned(),
        (epoch() - 5).to_string(),
        "Mon, 15 Jun 2026 12:00:00 GMT".to_owned(),
    ] {
        for status in [429, 503] {
            let value = value.clone();
            let upstream = StubUpstream::start(move |_| {
                StubAnswer::error(status, &json!({})).header("retry-after", &value)
            });
            let mut world = world(&upstream, PLAIN, "[]");
            world
                .set("upstreams.list.pause=200ms")
                .set("upstreams.list.attempts=3");
            let began = Instant::now();
            world.json(&["--region", "US"]);
            assert_eq!(upstream.requests().len(), 3);
            assert!(
                began.elapsed() >= Duration::from_millis(600),
                "200 ms, then 400 ms"
            );
        }
    }
}

const TWO_NAMED: &str = r#"own = { quota = 1000, window = "1h" }
daily = { quota = 100, window = "1h", upstream_name = "PerHour" }"#;
const SPENT: &str = r#"[{ status = 403, class = "spent", limit_at = "/limit" }]"#;

fn spent(named: &'static str) -> StubUpstream {
    StubUpstream::start(move |_| {
        StubAnswer::error(403, &json!({ "message": "no more", "limit": named }))
    })
}

#[test]
fn a_refusal_that_names_no_limit_closes_only_those_that_the_upstream_can_mean() {
    for limits in [TWO_NAMED, PLAIN] {
        let upstream = spent("another");
        let run = world(&upstream, limits, SPENT).json(&RUN);
        assert!(closed_for(&run, "daily").is_some(), "{run}");
        assert!(closed_for(&run, "own").is_none(), "{run}");
        let detail = run["passes"][0]["detail"].as_str().unwrap();
        assert!(
            detail.contains("the upstream reported daily exhausted"),
            "{detail}"
        );
    }
    let both = PLAIN.replace(", own = true", "");
    let run = world(&spent("another"), &both, SPENT).json(&RUN);
    assert!(
        closed_for(&run, "daily").is_some() && closed_for(&run, "own").is_some(),
        "{run}"
    );
    let detail = run["passes"][0]["detail"].as_str().unwrap();
    assert!(
        detail.contains("the upstream reported daily or own exhausted"),
        "{detail}"
    );
    assert!(
        detail.contains("daily is closed for every run until") && detail.contains("own is closed"),
        "{detail}"
    );
    let own = PLAIN.replace("window = \"1h\" }", "window = \"1h\", own = true }");
    let run = world(&spent("another"), &own, SPENT).json(&RUN);
    assert!(
        closed_for(&run, "daily").is_some(),
        "nothing else keeps the next run from asking: {run}"
    );
}

#[test]
fn the_shipped_search_closes_the_quota_of_the_upstream_and_not_the_users_own() {
    let world = World::new();
    let body = json!({ "error": { "code": 403, "errors": [{ "reason": "quotaExceeded" }] } });
    world.faults(&json!({ "call": "search.list", "times": 9, "status": 403, "body": body }));
    let run = world.json(&["--region", "US", "--job", "discover"]);
    assert!(
        closed_for(&run, "daily").is_some() && closed_for(&run, "search").is_some(),
        "{run}"
    );
    assert!(closed_for(&run, "search_burst").is_none(), "{run}");
}

#[test]
fn a_limit_of_the_users_own_has_no_name_upstream() {
    let wrong = PLAIN.replace("own = true", "own = true, upstream_name = \"PerHour\"");
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("quotas.toml");
    let upstream = spent("");
    let text = std::fs::read_to_string(
        world(&upstream, PLAIN, SPENT)
            .directory
            .path()
            .join("written.toml"),
    )
    .unwrap();
    std::fs::write(&path, text.replace(PLAIN, &wrong)).unwrap();
    let mut command = std::process::Command::new(assert_cmd::cargo::cargo_bin!("ingest"));
    let ran = crate::support::world::Ran::of(
        command
            .arg("check")
            .arg("--config")
            .arg(&path)
            .output()
            .unwrap(),
    );
    assert_eq!(ran.code, 2, "{ran:?}");
    assert!(
        ran.stderr
            .contains("the upstream knows a limit that it names or reports"),
        "{ran:?}"
    );
}

#[test]
fn a_closing_is_said_although_the_run_is_quiet_and_later_runs_name_it() {
    let refusals = [
        (
            SPENT,
            StubAnswer::error(403, &json!({ "message": "no more" })),
        ),
        (
            "[]",
            StubAnswer::error(429, &json!({})).header("retry-after", "3600"),
        ),
    ];
    for (errors, refusal) in refusals {
        let upstream = StubUpstream::answering([refusal]);
        let mut world = world(&upstream, PLAIN, errors);
        world.set("jobs.list.leave={ daily = 7 }");
        let quiet = world.ingest(&[&RUN[..], &["-q"]].concat());
        assert_eq!((quiet.code, quiet.stdout.as_str()), (0, ""), "{quiet:?}");
        assert!(
            quiet.stderr.contains("daily") && quiet.stderr.contains("until="),
            "{quiet:?}"
        );
        let again = world.ingest(&[&RUN[..], &["-q"]].concat());
        assert_eq!(
            (again.code, again.stderr.as_str()),
            (0, ""),
            "said once: {again:?}"
        );
        let run = world.json(&RUN);
        let detail = run["passes"][0]["detail"].as_str().unwrap();
        assert!(
            detail.contains("closed by the upstream until") && !detail.contains("reserved"),
            "{detail}"
        );
        assert_eq!(upstream.requests().len(), 1);
    }
}
