use std::collections::BTreeMap;
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use serde_json::json;

use crate::support::world::World;

fn file(world: &World) -> PathBuf {
    world.directory.path().join("ingest.prom")
}

fn run(world: &World, more: &[&str]) -> i32 {
    let file = file(world);
    let arguments = ["--region", "US,GB", "--job", "trending", "--metrics-file", file.to_str().unwrap()];
    world.ingest(&[&arguments, more].concat()).code
}

/// Every sample, by its name and labels; every line is one or a comment.
fn samples(file: &Path) -> BTreeMap<String, f64> {
    let text = fs::read_to_string(file).unwrap();
    let lines = text.lines().filter(|line| !line.starts_with("# HELP ") && !line.starts_with("# TYPE "));
    lines
        .map(|line| line.rsplit_once(' ').unwrap())
        .map(|(name, value)| (name.to_owned(), value.parse().unwrap()))
        .collect()
}

#[test]
fn a_run_leaves_its_figures_for_a_collector() {
    let world = World::new();
    assert_eq!(run(&world, &[]), 0);
    let samples = samples(&file(&world));
    let of = |name: &str| *samples.get(name).unwrap_or_else(|| panic!("{name} is not in {samples:#?}"));
    let by_region: f64 =
        samples.iter().filter(|(name, _)| name.starts_with("ingest_units_total{")).map(|(_, units)| units).sum();
    assert_eq!(by_region, world.counted("daily") as f64);
    assert!(of(r#"ingest_units_total{account="youtube",limit="daily",job="trending",region="US"}"#) >= 1.0);
    assert_eq!(of(r#"ingest_limit_used_units{account="youtube",limit="daily"}"#), world.charged("daily") as f64);
    assert_eq!(of(r#"ingest_limit_remaining_units{account="youtube",limit="daily"}"#), 9_500.0 - by_region);
    assert!(of(r#"ingest_last_success_timestamp_seconds{job="trending",region="GB"}"#) > 1.7e9);
    assert!(of(r#"ingest_requests_total{account="youtube",call="videos.list",class="page"}"#) >= 2.0);
    assert_eq!(of(r#"ingest_runs_total{outcome="complete"}"#), 1.0);
    assert_eq!(of("ingest_unmetered_units_total"), 0.0);
    assert!(of("ingest_last_run_duration_seconds") > 0.0);
    assert_eq!(
        fs::metadata(file(&world)).unwrap().permissions().mode() & 0o777,
        0o644,
        "the collector is another user"
    );
}

#[test]
fn counters_go_on_from_the_run_before() {
    let mut world = World::new();
    world.set("jobs.trending.every=1us");
    run(&world, &[]);
    let first = samples(&file(&world));
    run(&world, &[]);
    let second = samples(&file(&world));
    assert_eq!(second[r#"ingest_runs_total{outcome="complete"}"#], 2.0);
    let videos = r#"ingest_requests_total{account="youtube",call="videos.list",class="page"}"#;
    assert_eq!(second[videos], first[videos] * 2.0);
}

#[test]
fn what_requests_led_to_is_told_apart() {
    let world = World::new();
    world.faults(&json!({ "call": "videos.list", "status": 503, "times": 1 }));
    run(&world, &[]);
    assert_eq!(
        samples(&file(&world))[r#"ingest_requests_total{account="youtube",call="videos.list",class="transient"}"#],
        1.0
    );
}

#[test]
fn metrics_that_cannot_be_written_fail_no_run() {
    let world = World::new();
    let ran = world.ingest(&["--region", "US", "--job", "trending", "--metrics-file", "/nowhere/ingest.prom"]);
    assert_eq!(ran.code, 0);
    assert!(ran.stderr.contains("/nowhere/ingest.prom"), "{ran:?}");
}

#[test]
fn nothing_half_written_is_left_beside() {
    let world = World::new();
    run(&world, &[]);
    let left = fs::read_dir(world.directory.path()).unwrap().map(|entry| entry.unwrap().file_name());
    let left: Vec<_> = left.filter(|name| name.to_string_lossy().contains("prom")).collect();
    assert_eq!(left, ["ingest.prom"]);
}
