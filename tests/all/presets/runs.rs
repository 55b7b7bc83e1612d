//! Each preset ingests its regions, is stopped by a limit, goes on, and counts as the sandbox does.

use std::collections::BTreeSet;

use serde_json::{Value, json};

use crate::support::json::has;
use crate::support::world::World;

/// A preset, and what lets a test be short.
struct Case {
    preset: &'static str,
    /// For the sandbox and the binary.
    both: &'static [&'static str],
    /// For the first run: too little to end.
    tight: &'static [&'static str],
    /// For the second run.
    loose: &'static [&'static str],
    totals: Value,
    limits: &'static [&'static str],
    arguments: &'static [&'static str],
}

/// The regions that the catalog holds a complete pass of.
fn regions(world: &World) -> BTreeSet<String> {
    let catalog = world.catalog();
    let question = "select distinct region from pass where outcome = 'complete' and region != '*'";
    let mut statement = catalog.prepare(question).unwrap();
    statement
        .query_map([], |row| row.get(0))
        .unwrap()
        .map(Result::unwrap)
        .collect()
}

/// Every request of a list was answered well, and none was made twice.
fn no_page_twice(world: &World) {
    let mut seen = BTreeSet::new();
    for request in world.sandbox_says("requests").as_array().unwrap() {
        assert_eq!(request["status"], 200, "{request}");
        let page = format!(
            "{} {} {} {}",
            request["call"], request["path"], request["params"], request["cursor"]
        );
        assert!(
            request["ids"] != 0 || request["call"] == "runReport" || seen.insert(page.clone()),
            "twice: {page}"
        );
    }
}

fn runs(case: &Case) {
    let mut world = World::preset(case.preset, case.both);
    world.totals(&case.totals);
    let arguments = [&["--region", "all"], case.arguments].concat();
    for set in case.tight {
        world.set(set);
    }
    let first = world.json(&arguments);
    assert_eq!(first["outcome"], "stopped", "{}: {first}", case.preset);
    let stopped_at = world.requests();
    assert!(stopped_at > 0);
    case.limits.iter().for_each(|limit| {
        assert_eq!(
            world.counted(limit),
            world.charged(limit),
            "{} {limit}",
            case.preset
        )
    });
    let again = world.json(&arguments);
    assert_eq!(
        (again["outcome"].as_str(), world.requests()),
        (Some("stopped"), stopped_at),
        "{again}"
    );

    for set in case.loose {
        world.set(set);
    }
    let second = world.json(&arguments);
    assert_eq!(second["outcome"], "complete", "{}: {second}", case.preset);
    no_page_twice(&world);
    case.limits.iter().for_each(|limit| {
        assert_eq!(
            world.counted(limit),
            world.charged(limit),
            "{} {limit}",
            case.preset
        )
    });
    let walked: Vec<&Value> = second["passes"]
        .as_array()
        .unwrap()
        .iter()
        .filter(|pass| pass["region"] != "*")
        .collect();
    let wanted: BTreeSet<String> = walked
        .iter()
        .map(|pass| pass["region"].as_str().unwrap().to_owned())
        .collect();
    assert_eq!(regions(&world), wanted);

    let requests = world.requests();
    assert_eq!(world.json(&arguments)["outcome"], "nothing_due");
    assert_eq!(world.requests(), requests);
}

#[test]
fn the_pooled_video_preset_stops_and_resumes() {
    runs(&Case {
        preset: "youtube",
        both: &["jobs.trending.leave={}"],
        tight: &[
            "credentials.youtube.limits.daily={ quota = 10, window = \"24h\" }",
            "upstreams.youtube.calls.\"search.list\".cost={ search = 1 }",
            "upstreams.youtube.calls.\"captions.list\".cost={ daily = 1 }",
            "jobs.discover.leave={}",
        ],
        loose: &["credentials.youtube.limits.daily.quota=1000"],
        totals: json!({}),
        limits: &["daily"],
        arguments: &["--job", "trending"],
    });
}

#[test]
fn the_granular_video_preset_stops_and_resumes_with_three_buckets() {
    runs(&Case {
        preset: "youtube-granular",
        both: &[],
        tight: &["credentials.youtube.limits.search={ quota = 5, window = \"24h\" }"],
        loose: &["credentials.youtube.limits.search.quota=100"],
        totals: json!({}),
        limits: &["daily", "search", "stats"],
        arguments: &["--job", "discover"],
    });
}

#[test]
fn the_repositories_preset_turns_pages_by_link_headers_and_two_limits() {
    runs(&Case {
        preset: "github",
        both: &[
            "credentials.github.limits.search={ quota = 30, headroom = 3, window = \"1m\", wait = \"0s\", upstream_name = \"search\" }",
        ],
        tight: &[
            "credentials.github.limits.core={ quota = 5, window = \"1h\", upstream_name = \"core\" }",
            "credentials.github.limits.search.quota=9",
        ],
        loose: &[
            "credentials.github.limits.core.quota=5000",
            "credentials.github.limits.search.quota=30",
        ],
        totals: json!({ "search.repositories": 350, "orgs.repos": 350 }),
        limits: &["core", "search"],
        arguments: &[],
    });
}

/// What the steps of a preview expect of a limit, and what the passes of a run took of it.
fn expected_and_spent(preview: &Value, run: &Value, limit: &str) -> (u64, u64) {
    let sum = |all: &Value, of: &dyn Fn(&Value) -> Option<u64>| {
        all.as_array().unwrap().iter().filter_map(of).sum()
    };
    let expected = |step: &Value| step["units"][limit]["expected"].as_u64();
    (
        sum(&preview["steps"], &expected),
        sum(&run["passes"], &|pass: &Value| {
            pass["units"][limit].as_u64()
        }),
    )
}

/// Limits and pages that let a test be short.
const WIDE: [&str; 6] = [
    "credentials.github.limits.search={ quota = 900, window = \"1m\", upstream_name = \"search\" }",
    "upstreams.google-analytics.calls.runReport.page.size=10",
    "credentials.gnews.limits.pace={ quota = 900, window = \"1s\" }",
    "credentials.wikimedia.limits.pace={ quota = 900, window = \"1s\" }",
    "credentials.youtube.limits.search={ quota = 900, window = \"24h\" }",
    "credentials.youtube.limits.search_burst={ quota = 900, window = \"10min\" }",
];

#[test]
fn the_second_run_of_every_preset_spends_exactly_what_its_preview_expects() {
    let all: Vec<_> = super::names()
        .into_iter()
        .map(|name| std::thread::spawn(move || second_run(&name)))
        .collect();
    all.into_iter().for_each(|one| one.join().unwrap());
}

fn second_run(name: &str) {
    let config = super::preset(name);
    let names = || config.upstreams.keys().chain(config.credentials.keys());
    let ours = |set: &&str| names().any(|one| set.contains(&format!(".{one}.")));
    let mut sets: Vec<String> = WIDE
        .iter()
        .copied()
        .filter(ours)
        .map(str::to_owned)
        .collect();
    sets.extend(
        config
            .jobs
            .iter()
            .map(|job| format!("jobs.{}.every=1us", job.name)),
    );
    let world = World::preset(name, &sets.iter().map(String::as_str).collect::<Vec<_>>());
    assert_eq!(
        world.json(&["--region", "all"])["outcome"],
        "complete",
        "{name}"
    );
    let preview = world.json(&["--region", "all", "--dry-run"]);
    let run = world.json(&["--region", "all"]);
    assert_eq!(run["outcome"], "complete", "{name}: {run}");
    let steps = preview["steps"].as_array().unwrap().iter();
    let requests: u64 = steps
        .map(|step| step["requests"]["expected"].as_u64().unwrap())
        .sum();
    assert_eq!(run["requests"], requests, "{name}: {preview}");
    let calls = || config.upstreams.values().flat_map(|one| one.calls.values());
    let limits = config
        .credentials
        .values()
        .flat_map(|one| one.account.limits.keys());
    // What a report truly costs nobody knows before.
    let is_settled = |limit: &str| {
        let name = limit.split('/').next().unwrap();
        calls().any(|call| call.settle.contains_key(name))
    };
    for limit in limits.filter(|limit| !is_settled(limit)) {
        let (expected, spent) = expected_and_spent(&preview, &run, limit);
        assert_eq!(expected, spent, "{name} {limit}: {preview} {run}");
    }
}

#[test]
fn repositories_of_an_organisation_that_did_not_change_cost_nothing_the_second_time() {
    let world = World::preset("github", &["jobs.organisations.every=1us"]);
    let organisations = ["--region", "all", "--job", "organisations"];
    assert_eq!(world.json(&organisations)["outcome"], "complete");
    let core = world.charged("core");
    let again = world.json(&organisations);
    has(&again, &json!({ "outcome": "complete", "requests": core }));
    assert_eq!((world.charged("core"), world.counted("core")), (core, core));
}

#[test]
fn the_reports_preset_is_settled_by_its_answers() {
    runs(&Case {
        preset: "google-analytics",
        both: &["upstreams.google-analytics.calls.runReport.page.size=10"],
        tight: &[
            "credentials.google-analytics.limits.daily={ quota = 110, resets = \"America/Los_Angeles\", scope = \"{property}\" }",
        ],
        loose: &["credentials.google-analytics.limits.daily.quota=200000"],
        totals: json!({ "runReport": 35 }),
        limits: &["daily/123456789", "hourly/123456789"],
        // What a report costs less than was charged for it is free again for a later run, if others were rejected meanwhile.
        arguments: &["--concurrency", "1"],
    });
}

#[test]
fn the_headlines_preset_counts_its_pages_and_waits_for_its_pace() {
    const PACE: &str =
        "credentials.gnews.limits.pace={ quota = 4, window = \"50ms\", wait = \"5s\" }";
    runs(&Case {
        preset: "gnews",
        both: &[PACE],
        tight: &["credentials.gnews.limits.daily={ quota = 5, resets = \"UTC\" }"],
        loose: &["credentials.gnews.limits.daily.quota=100"],
        totals: json!({}),
        limits: &["daily"],
        arguments: &[],
    });
}

#[test]
fn the_pageviews_preset_needs_no_key() {
    runs(&Case {
        preset: "wikimedia",
        both: &["credentials.wikimedia.limits.pace={ quota = 100, window = \"1h\" }"],
        tight: &["credentials.wikimedia.limits.pace.quota=3"],
        loose: &["credentials.wikimedia.limits.pace.quota=100"],
        totals: json!({}),
        limits: &["pace"],
        arguments: &[],
    });
}
