use std::collections::HashSet;

use serde_json::Value;

use crate::support::world::World;

/// Only the listing of `trending` is walked, and every call is cheap enough for a small limit.
const LISTING: [&str; 5] = [
    "jobs.trending.steps=[{ call = \"videos.list\", params = { part = \"snippet\", chart = \"mostPopular\", regionCode = \"{region}\" }, max_pages = 4 }]",
    "jobs.trending.leave={}",
    "jobs.discover.leave={}",
    "jobs.discover.steps=[{ call = \"videos.list\", params = { part = \"snippet\", chart = \"mostPopular\", regionCode = \"{region}\" } }]",
    "jobs.trending.every=1us",
];

fn listing_with(daily: &str) -> World {
    let limit = format!("credentials.youtube.limits.daily={daily}");
    World::configured(&[LISTING.as_slice(), &[&limit]].concat(), |_| {})
}

#[test]
fn a_small_limit_stops_cleanly_and_later_runs_finish_without_a_page_twice() {
    let mut world = listing_with("{ quota = 10, window = \"3s\", wait = \"0s\" }");
    world.set("jobs.trending.every=1h");
    let mut complete = HashSet::new();
    for _ in 0..200 {
        let ran = world.ingest(&["--region", "all", "--job", "trending", "--format", "json"]);
        assert_eq!(ran.code, 0, "{ran:?}");
        let report = ran.json();
        complete.extend(completed(&report));
        if complete.len() == 8 {
            break;
        }
        std::thread::sleep(std::time::Duration::from_millis(100));
    }
    assert_eq!(complete.len(), 8);
    let usage = world.sandbox_says("usage");
    let daily = usage["limits"]
        .as_array()
        .unwrap()
        .iter()
        .find(|limit| limit["limit"] == "daily")
        .unwrap();
    assert!(daily["most_in_window"].as_u64().unwrap() <= 10, "{usage}");
    assert_eq!(world.requests(), 32, "a page was requested twice");
}

fn completed(report: &Value) -> Vec<String> {
    let passes = report["passes"].as_array().unwrap();
    let complete = passes
        .iter()
        .filter(|pass| pass["outcome"] == "complete" && pass["region"] != "*");
    complete
        .map(|pass| pass["region"].as_str().unwrap().to_owned())
        .collect()
}

#[test]
fn a_run_that_a_limit_stopped_says_when_it_fits_and_exits_75_only_with_strict() {
    let world = listing_with("{ quota = 34, headroom = 1, window = \"24h\" }");
    assert_eq!(
        world.json(&["--region", "all", "--job", "trending"])["outcome"],
        "complete"
    );
    let ran = world.ingest(&["--region", "all", "--job", "trending", "--format", "json"]);
    assert_eq!(ran.code, 0, "{ran:?}");
    let report = ran.json();
    assert_eq!(report["outcome"], "stopped");
    let stopped_by = &report["stopped_by"];
    assert_eq!(stopped_by["limit"], "daily");
    assert_eq!(stopped_by["call"], "videos.list");
    assert_eq!(
        (
            stopped_by["units"].as_u64(),
            stopped_by["remaining"].as_u64()
        ),
        (Some(1), Some(0))
    );
    assert!(stopped_by["retry_after_seconds"].as_f64().unwrap() > 80_000.0);
    let strict = world.ingest(&["--region", "all", "--job", "trending", "--strict"]);
    assert_eq!(strict.code, 75, "{strict:?}");
}

#[test]
fn sixteen_processes_spend_exactly_what_is_left() {
    let world = listing_with("{ quota = 25, window = \"24h\" }");
    let runs = world.ingest_at_once(
        16,
        &["--region", "all", "--job", "trending", "--format", "json"],
    );
    for run in &runs {
        assert_eq!(run.code, 0, "{run:?}");
        assert!(!run.stderr.contains("locked"), "{run:?}");
    }
    assert_eq!(world.counted("daily"), 25);
    assert_eq!(world.charged("daily"), 25);
}

#[test]
fn a_charge_by_hand_is_counted_once_for_one_id_and_told_when_it_fits() {
    let mut world = World::new();
    world
        .set("credentials.youtube.limits.daily={ quota = 150, window = \"24h\" }")
        .set("jobs.trending.leave={}")
        .set("jobs.discover.leave={}");
    for _ in 0..3 {
        let granted = world.json(&["charge", "youtube", "search.list", "--id", "mine"]);
        assert_eq!(granted["decision"], "granted");
        assert_eq!(granted["id"], "mine");
        assert_eq!(granted["remaining"]["daily"], 50);
    }
    let rejected = world.ingest(&["charge", "youtube", "search.list", "--format", "json"]);
    assert_eq!(rejected.code, 75);
    assert_eq!(rejected.json()["decision"], "rejected");
    let seconds = rejected.json()["retry_after_seconds"].as_f64().unwrap();
    assert!((86_400.0..86_500.0).contains(&seconds), "{seconds}");
    let unknown = world.ingest(&["charge", "youtube", "serach.list"]);
    assert_eq!(unknown.code, 2);
    assert!(
        unknown.stderr.contains("did you mean `search.list`?"),
        "{unknown:?}"
    );
}

#[test]
fn what_another_job_takes_side_by_side_does_not_eat_what_a_job_has_above_its_leave() {
    let limit = "credentials.youtube.limits.daily={ quota = 1150, window = \"24h\" }";
    let sets = [
        "jobs.trending.leave={ daily = 1000 }",
        "jobs.discover.leave={}",
        limit,
    ];
    let world = World::configured(&sets, |options| {
        options.latency = std::time::Duration::from_millis(25)
    });
    let run = world.json(&["--region", "US,GB"]);
    let passes = run["passes"].as_array().unwrap();
    let of_trending = passes
        .iter()
        .filter(|pass| pass["job"] == "trending" && pass["region"] != "*");
    let outcomes: Vec<_> = of_trending
        .map(|pass| (&pass["outcome"], &pass["pages"]))
        .collect();
    assert_eq!(
        outcomes,
        [
            (&"complete".into(), &4.into()),
            (&"complete".into(), &4.into())
        ],
        "{run}"
    );
}

#[test]
fn a_ledger_file_that_is_gone_is_charged_what_the_catalogs_passes_spent() {
    for empty in [false, true] {
        let limit =
            "credentials.youtube.limits.daily={ quota = 117, headroom = 100, window = \"24h\" }";
        let others = [
            "jobs.trending.leave={}",
            "jobs.discover.leave={}",
            "jobs.trending.every=\"1ms\"",
        ];
        let cheap = "upstreams.youtube.calls.\"search.list\".cost={ daily = 1, search = 1 }";
        let world = World::configured(&[&others[..], &[limit, cheap]].concat(), |_| {});
        let run = ["--region", "US,GB", "--job", "trending"];
        world.json(&run);
        let spent = world.counted("daily");
        assert!(spent >= 8, "{spent}");
        let ledger = world.state_dir().join("ledger.db");
        std::fs::remove_file(&ledger).unwrap();
        if empty {
            std::fs::write(&ledger, "").unwrap();
        }
        for looking in [
            &["check"][..],
            &["status"],
            &["reopen", "youtube", "daily"],
            &["release", "nothing"],
        ] {
            world.ingest(looking);
        }
        world.json(&run);
        world.json(&run);
        assert!(
            world.counted("daily") <= 17 && world.charged("daily") >= world.counted("daily"),
            "{}",
            world.counted("daily")
        );
    }
}
