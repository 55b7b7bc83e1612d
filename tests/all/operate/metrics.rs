use std::collections::BTreeMap;
use std::fs;
use std::os::unix::fs::{FileTypeExt, PermissionsExt};
use std::path::{Path, PathBuf};

use crate::support::world::World;

fn file(world: &World) -> PathBuf {
    world.directory.path().join("ingest.prom")
}

fn run(world: &World, more: &[&str]) -> i32 {
    let file = file(world);
    let arguments = [
        "--region",
        "US,GB",
        "--job",
        "trending",
        "--metrics-file",
        file.to_str().unwrap(),
    ];
    world.ingest(&[&arguments, more].concat()).code
}

/// Every sample, by its name and labels; every line is one or a comment.
fn samples(file: &Path) -> BTreeMap<String, f64> {
    let text = fs::read_to_string(file).unwrap();
    let lines = text
        .lines()
        .filter(|line| !line.starts_with("# HELP ") && !line.starts_with("# TYPE "));
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
    let of = |name: &str| {
        *samples
            .get(name)
            .unwrap_or_else(|| panic!("{name} is not in {samples:#?}"))
    };
    let by_region: f64 = samples
        .iter()
        .filter(|(name, _)| name.starts_with("ingest_units_total{"))
        .map(|(_, units)| units)
        .sum();
    assert_eq!(by_region, world.counted("daily") as f64);
    assert!(
        of(
            r#"ingest_units_total{account="youtube",limit="daily",ingest_job="trending",region="US"}"#
        ) >= 1.0
    );
    assert_eq!(
        of(r#"ingest_limit_used_units{account="youtube",limit="daily"}"#),
        world.charged("daily") as f64
    );
    assert_eq!(
        of(r#"ingest_limit_remaining_units{account="youtube",limit="daily"}"#),
        9_500.0 - by_region
    );
    assert!(
        of(r#"ingest_last_success_timestamp_seconds{ingest_job="trending",region="GB"}"#) > 1.7e9
    );
    assert!(of(r#"ingest_requests_total{ingest_job="trending",region="US"}"#) >= 2.0);
    assert_eq!(of(r#"ingest_last_run_outcome{outcome="complete"}"#), 1.0);
    assert_eq!(of("ingest_last_run_unmetered_units"), 0.0);
    assert_eq!(
        of(r#"ingest_region_failed{ingest_job="trending",region="GB"}"#),
        0.0
    );
    assert!(of("ingest_last_run_duration_seconds") > 0.0);
    assert_eq!(
        fs::metadata(file(&world)).unwrap().permissions().mode() & 0o777,
        0o644,
        "the collector is another user"
    );
}

#[test]
fn runs_that_end_at_once_write_a_whole_file_with_all_of_them() {
    let mut world = World::new();
    world.set("jobs.trending.every=1us");
    let path = file(&world);
    let arguments = [
        "--region",
        "US",
        "--job",
        "trending",
        "--metrics-file",
        path.to_str().unwrap(),
    ];
    world.ingest_at_once(12, &arguments);
    // The last one to write may have read the state before another ended.
    run(&world, &[]);
    let samples = samples(&path);
    let units = samples
        .iter()
        .filter(|(name, _)| name.starts_with("ingest_units_total{"));
    assert_eq!(
        units.map(|(_, units)| units).sum::<f64>(),
        world.counted("daily") as f64,
        "{samples:#?}"
    );
}

#[test]
fn what_is_no_file_is_neither_read_nor_replaced_and_a_link_stays_a_link() {
    let world = World::new();
    let path = file(&world);
    let _listener = std::os::unix::net::UnixListener::bind(&path).unwrap();
    let ran = world.ingest(&[
        "--region",
        "US",
        "--job",
        "trending",
        "--metrics-file",
        path.to_str().unwrap(),
    ]);
    assert_eq!(ran.code, 1, "{ran:?}");
    assert!(
        ran.stderr
            .contains("the path exists and is not a regular file"),
        "{ran:?}"
    );
    assert!(fs::metadata(&path).unwrap().file_type().is_socket());
    let (target, link) = (
        world.directory.path().join("target"),
        world.directory.path().join("link.prom"),
    );
    fs::write(&target, "").unwrap();
    std::os::unix::fs::symlink(&target, &link).unwrap();
    world.ingest(&[
        "--region",
        "GB",
        "--job",
        "trending",
        "--metrics-file",
        link.to_str().unwrap(),
    ]);
    assert!(fs::symlink_metadata(&link).unwrap().is_symlink());
    assert!(
        fs::read_to_string(&target)
            .unwrap()
            .contains("ingest_units_total")
    );
}

#[test]
fn nothing_half_written_is_left_beside() {
    let world = World::new();
    run(&world, &[]);
    let left = fs::read_dir(world.directory.path())
        .unwrap()
        .map(|entry| entry.unwrap().file_name());
    let left: Vec<_> = left
        .filter(|name| name.to_string_lossy().contains("prom"))
        .collect();
    assert_eq!(left, ["ingest.prom"]);
}
