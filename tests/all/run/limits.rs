use std::collections::HashSet;

use serde_json::Value;

use super::LISTING;
use crate::support::world::World;

fn listing_with(daily: &str) -> World {
    let limit = format!("credentials.youtube.limits.daily={daily}");
    World::configured(&[LISTING.as_slice(), &[&limit]].concat(), |_| {})
}

#[test]
fn a_small_limit_stops_cleanly_and_later_runs_finish_without_a_page_twice() {
    let mut world = listing_with("{ quota = 10, window = \"1s\", wait = \"0s\" }");
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
    assert!(world.most_in_window("daily") <= 10);
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
