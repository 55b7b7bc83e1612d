use std::collections::BTreeMap;
use std::fs;
use std::os::unix::fs::{FileTypeExt, PermissionsExt};
use std::path::{Path, PathBuf};

use serde_json::json;

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
fn counters_are_sums_over_runs_whoever_wrote_the_file() {
    let mut world = World::new();
    world.set("jobs.trending.every=1us");
    run(&world, &[]);
    let first = samples(&file(&world));
    fs::remove_file(file(&world)).unwrap();
    run(&world, &[]);
    let second = samples(&file(&world));
    let videos = r#"ingest_requests_total{ingest_job="trending",region="US"}"#;
    assert_eq!(second[videos], first[videos] * 2.0);
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
fn metrics_that_cannot_be_written_fail_no_run() {
    let world = World::new();
    let ran = world.ingest(&[
        "--region",
        "US",
        "--job",
        "trending",
        "--metrics-file",
        "/nowhere/ingest.prom",
    ]);
    assert_eq!(ran.code, 0);
    assert!(ran.stderr.contains("/nowhere/ingest.prom"), "{ran:?}");
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
    assert_eq!(ran.code, 0, "{ran:?}");
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

/// Runs one job, with a metrics file of this name.
fn run_job(world: &World, job: &str, name: &str) -> PathBuf {
    let file = world.directory.path().join(name);
    let path = file.to_str().unwrap();
    let ran = world.ingest(&["--region", "US", "--job", job, "--metrics-file", path]);
    assert_eq!(ran.code, 0, "{ran:?}");
    file
}

/// Prometheus sets `job` and `instance` itself, and renames what a file has under these names.
#[test]
fn no_metric_has_a_label_that_prometheus_sets() {
    let world = World::new();
    run(&world, &[]);
    let text = fs::read_to_string(file(&world)).unwrap();
    for owned in ["{job=", ",job=", "{instance=", ",instance="] {
        assert!(!text.contains(owned), "{owned} in {text}");
    }
    assert!(text.contains("ingest_job=\"trending\""), "{text}");
}

#[test]
fn a_file_holds_the_version_the_last_outcome_and_how_often_each_job_is_due() {
    let mut world = World::new();
    run(&world, &[]);
    let first = samples(&file(&world));
    let version = env!("CARGO_PKG_VERSION");
    assert_eq!(
        first[&format!(r#"ingest_build_info{{version="{version}"}}"#)],
        1.0
    );
    assert_eq!(first["ingest_config_valid"], 1.0);
    assert_eq!(first[r#"ingest_last_run_outcome{outcome="complete"}"#], 1.0);
    assert_eq!(first[r#"ingest_last_run_outcome{outcome="failed"}"#], 0.0);
    assert_eq!(
        first[r#"ingest_job_every_seconds{ingest_job="trending"}"#],
        3600.0
    );
    world.set("upstreams.youtube.attempts=1");
    world.set("jobs.trending.every=1us");
    world.faults(&json!({ "call": "videos.list", "status": 500, "times": 10 }));
    assert_eq!(run(&world, &[]), 1);
    let second = samples(&file(&world));
    assert_eq!(
        second[r#"ingest_last_run_outcome{outcome="complete"}"#],
        0.0
    );
    assert_eq!(second[r#"ingest_last_run_outcome{outcome="failed"}"#], 1.0);
}

#[test]
fn units_that_the_ledger_has_not_recorded_yet_are_in_the_file() {
    let mut world = World::new();
    run(&world, &[]);
    let unrepaid = r#"ingest_unrepaid_units{account="youtube",limit="daily"}"#;
    assert_eq!(samples(&file(&world))[unrepaid], 0.0);
    let port = ingest_testing::redis_server::free_port();
    world.set(&format!("ledger.url=\"redis://127.0.0.1:{port}\""));
    world.set("jobs.trending.every=1us");
    run(&world, &[]);
    let samples = samples(&file(&world));
    assert!(samples[unrepaid] > 0.0, "{samples:#?}");
    assert_eq!(
        samples["ingest_last_run_unmetered_units"],
        samples[unrepaid]
    );
}

#[test]
fn a_file_that_units_of_several_jobs_share_keeps_the_jobs_of_all() {
    let world = World::new();
    let file = run_job(&world, "trending", "ingest.prom");
    run_job(&world, "discover", "ingest.prom");
    let samples = samples(&file);
    for job in ["trending", "discover"] {
        let series =
            format!(r#"ingest_last_success_timestamp_seconds{{ingest_job="{job}",region="US"}}"#);
        assert!(samples[&series] > 1.7e9, "{samples:#?}");
    }
}

#[test]
fn a_configuration_error_is_in_the_file_beside_what_it_held() {
    let mut world = World::new();
    run(&world, &[]);
    let before = samples(&file(&world));
    world.set("jobs.trending.evry=1h");
    assert_eq!(run(&world, &[]), 2);
    let after = samples(&file(&world));
    assert_eq!(after["ingest_config_valid"], 0.0);
    assert_eq!(after[r#"ingest_last_run_outcome{outcome="failed"}"#], 1.0);
    let kept = [
        r#"ingest_last_success_timestamp_seconds{ingest_job="trending",region="US"}"#,
        r#"ingest_job_every_seconds{ingest_job="trending"}"#,
        r#"ingest_limit_used_units{account="youtube",limit="daily"}"#,
    ];
    for series in kept {
        assert_eq!(after[series], before[series], "{series}");
    }
    assert!(
        after["ingest_last_run_timestamp_seconds"] > before["ingest_last_run_timestamp_seconds"]
    );
}

#[test]
fn a_run_that_cannot_use_its_state_directory_is_in_the_file_too() {
    let world = World::new();
    fs::write(world.state_dir(), "no directory").unwrap();
    assert_eq!(run(&world, &[]), 1);
    let samples = samples(&file(&world));
    assert_eq!(samples[r#"ingest_last_run_outcome{outcome="failed"}"#], 1.0);
    assert_eq!(samples["ingest_config_valid"], 1.0);
}

/// What a text says that is written like a label's value, or `None` where it is not.
fn unescaped(value: &str) -> Option<String> {
    let mut letters = value.chars();
    let mut text = String::new();
    while let Some(letter) = letters.next() {
        text.push(match letter {
            '\\' => match letters.next()? {
                'n' => '\n',
                same @ ('\\' | '"') => same,
                _ => return None,
            },
            '"' | '\n' => return None,
            other => other,
        });
    }
    Some(text)
}

/// The labels of a series, from what stands between its braces.
fn labels(text: &str) -> Option<Vec<(String, String)>> {
    let mut all = Vec::new();
    let mut rest = text;
    while !rest.is_empty() {
        let (name, after) = rest.split_once("=\"")?;
        let end = after.char_indices().find(|(at, letter)| {
            *letter == '"'
                && after[..*at]
                    .chars()
                    .rev()
                    .take_while(|before| *before == '\\')
                    .count()
                    % 2
                    == 0
        })?;
        all.push((name.to_owned(), unescaped(&after[..end.0])?));
        rest = after[end.0 + 1..].trim_start_matches(',');
    }
    Some(all)
}

/// As the collector's own checker has it: each name once, with its help and its type before its samples, counters and
/// nothing else called `_total`, labels escaped, a line break at the end.
#[test]
fn the_file_is_what_a_collector_takes_whatever_things_are_called() {
    let mut world = World::configured(&[r#"regions=["US", "G\"B\\X;} 1"]"#], |_| {});
    world.set("upstreams.youtube.attempts=1");
    let path = file(&world);
    let arguments = [
        "--region",
        "all",
        "--job",
        "trending",
        "--metrics-file",
        path.to_str().unwrap(),
    ];
    for _ in 0..2 {
        world.ingest(&arguments);
    }
    let text = fs::read_to_string(&path).unwrap();
    assert!(text.ends_with('\n'));
    let (mut family, mut seen, mut regions) = (String::new(), Vec::new(), Vec::new());
    for line in text.lines() {
        if let Some(help) = line.strip_prefix("# HELP ") {
            help.split_once(' ').unwrap().0.clone_into(&mut family);
            assert!(!seen.contains(&family), "{family} twice");
            seen.push(family.clone());
        } else if let Some(kind) = line.strip_prefix("# TYPE ") {
            let is_total = family.ends_with("_total");
            assert_eq!(
                kind,
                format!("{family} {}", if is_total { "counter" } else { "gauge" })
            );
        } else {
            let (series, value) = line.rsplit_once(' ').unwrap();
            let (name, inner) = series.split_once('{').unwrap_or((series, "}"));
            assert_eq!(name, family, "{line}");
            assert!(value.parse::<f64>().is_ok(), "{line}");
            let labels =
                labels(inner.strip_suffix('}').unwrap()).unwrap_or_else(|| panic!("{line}"));
            regions.extend(
                labels
                    .into_iter()
                    .filter(|(name, _)| name == "region")
                    .map(|(_, region)| region),
            );
        }
    }
    assert!(
        seen.len() > 8 && regions.iter().any(|region| region == "G\"B\\X;} 1"),
        "{seen:?} {regions:?}"
    );
}

#[test]
fn a_file_that_somebody_else_wrote_is_replaced_by_a_right_one() {
    let mut world = World::new();
    let foreign = b"not metrics\n\"{ 3\nother_total 3\ningest_last_run_outcome{outcome=\"x\"} 7\n";
    fs::write(file(&world), foreign).unwrap();
    assert_eq!(run(&world, &[]), 0);
    assert!(
        samples(&file(&world))
            .keys()
            .all(|name| name.starts_with("ingest_"))
    );
    fs::write(file(&world), foreign).unwrap();
    world.set("jobs.trending.evry=1h");
    assert_eq!(run(&world, &[]), 2);
    let samples = samples(&file(&world));
    assert!(
        samples.keys().all(|name| name.starts_with("ingest_")),
        "{samples:?}"
    );
    assert!(!samples.contains_key(r#"ingest_last_run_outcome{outcome="x"}"#));
}
