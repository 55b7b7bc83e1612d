//! A state directory that cannot be used: one clear line, exit 1, and nothing requested.

use std::fs;
use std::path::Path;

use crate::support::world::World;

const RUN: [&str; 4] = ["--region", "US", "--job", "trending"];

/// Runs in text and in JSON: both fail alike, say so, and request nothing more.
fn assert_refused(world: &World, arguments: &[&str], words: &[&str]) {
    let before = world.requests();
    let text = world.ingest(arguments);
    assert_eq!(text.code, 1, "{text:?}");
    for word in words {
        assert!(
            text.stderr.contains(word) || text.stdout.contains(word),
            "{word}: {text:?}"
        );
    }
    let json = world.ingest(&[arguments, &["--format", "json"]].concat());
    assert_eq!(json.code, 1, "{json:?}");
    let said = json.json();
    assert!(
        said["error"].is_string() || said["outcome"] == "failed" || said["verdict"] == "bad",
        "{said}"
    );
    assert_eq!(world.requests(), before, "something was requested");
}

fn landed() -> World {
    let mut world = World::new();
    assert_eq!(world.ingest(&RUN).code, 0);
    world.set("jobs.trending.every=1us");
    world
}

#[test]
fn a_file_that_is_damaged_inside_fails_the_run_that_meets_it() {
    for name in ["catalog.db", "ledger.db"] {
        let world = landed();
        let file = world.state_dir().join(name);
        remove_logs(&file);
        let mut bytes = fs::read(&file).unwrap();
        bytes[4096..].fill(0xff);
        fs::write(&file, &bytes).unwrap();
        assert_refused(&world, &RUN, &["damaged"]);
    }
}

fn remove_logs(file: &Path) {
    for suffix in ["-wal", "-shm"] {
        let mut side = file.as_os_str().to_owned();
        side.push(suffix);
        let _ = fs::remove_file(side);
    }
}

#[test]
fn a_log_whose_writer_was_killed_as_it_began_keeps_nobody_from_reading() {
    let world = landed();
    for name in ["catalog.db", "ledger.db"] {
        let beside = |suffix: &str| world.state_dir().join(format!("{name}{suffix}"));
        fs::write(beside("-wal"), [0; 32]).unwrap();
        fs::write(beside("-shm"), [0; 32 * 1024]).unwrap();
    }
    for reading in [
        &["status"][..],
        &["history"],
        &["search", "the"],
        &["--region", "all", "--dry-run"],
    ] {
        let read = world.ingest(reading);
        assert_eq!((read.code, &*read.stderr), (0, ""), "{reading:?}");
    }
    assert_eq!(world.charged("daily"), world.counted("daily"));
}
