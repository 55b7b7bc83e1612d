//! A state directory of somebody else, or none at all: what cannot be looked at is never taken for empty.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;

use crate::support::world::{Ran, World, as_another_user};

const LOOKS: [&[&str]; 7] = [
    &["status"],
    &["--region", "US", "--job", "trending", "--dry-run"],
    &["search", "puppy"],
    &["export", "--kind", "video"],
    &["history"],
    &[
        "forecast",
        "--schedule",
        "daily",
        "--days",
        "1",
        "--job",
        "trending",
    ],
    &["repair"],
];

fn allow(path: &Path, mode: u32) {
    fs::set_permissions(path, fs::Permissions::from_mode(mode)).unwrap();
}

/// Runs as a user whom permissions stop; `None` where there is no way to become one.
fn ingest_as_another(world: &World, arguments: &[&str]) -> Option<Ran> {
    if !rustix::process::geteuid().is_root() {
        return Some(world.ingest(arguments));
    }
    allow(world.directory.path(), 0o755);
    let mut command = as_another_user(&world.command(arguments))?;
    Some(Ran::of(command.output().unwrap()))
}

#[test]
fn a_state_directory_that_may_not_be_entered_is_an_error_and_never_an_empty_one() {
    let world = World::new();
    assert_eq!(
        world
            .ingest(&["charge", "youtube", "videos.list", "-q"])
            .code,
        0
    );
    allow(&world.state_dir(), 0o000);
    let all = LOOKS.map(|arguments| (arguments, ingest_as_another(&world, arguments)));
    allow(&world.state_dir(), 0o700);
    for (arguments, ran) in all {
        let Some(ran) = ran else { return };
        assert_eq!(
            (ran.code, ran.stdout.as_str()),
            (1, ""),
            "{arguments:?}: {ran:?}"
        );
        for word in [
            "state/",
            "Permission denied",
            "make the directory readable for this user, or set --state-dir",
        ] {
            assert!(ran.stderr.contains(word), "{arguments:?}: {ran:?}");
        }
    }
}

#[test]
fn a_journal_that_may_not_be_looked_at_is_an_error_too() {
    let mut world = World::new();
    world.set("ledger.url=redis://127.0.0.1:9");
    assert_eq!(
        world
            .ingest(&["charge", "youtube", "videos.list", "-q"])
            .code,
        0
    );
    allow(&world.state_dir(), 0o755);
    allow(&world.state_dir().join("journal.db"), 0o000);
    let Some(ran) = ingest_as_another(&world, &["status"]) else {
        return;
    };
    assert_eq!(ran.code, 1, "{ran:?}");
    for word in [
        "journal.db",
        "Permission denied",
        "make the file readable for this user",
    ] {
        assert!(ran.stderr.contains(word), "{ran:?}");
    }
}

#[test]
fn a_file_that_may_not_be_read_is_named_with_what_to_do() {
    let world = World::new();
    assert_eq!(
        world
            .ingest(&["charge", "youtube", "videos.list", "-q"])
            .code,
        0
    );
    allow(&world.state_dir(), 0o755);
    allow(&world.state_dir().join("ledger.db"), 0o000);
    let file = world.state_dir().join("ledger.db");
    let expected = format!(
        "{}: cannot open the ledger: Permission denied",
        file.display()
    );
    for arguments in [&["status"][..], &["charge", "youtube", "videos.list"]] {
        let Some(ran) = ingest_as_another(&world, arguments) else {
            return;
        };
        assert_eq!(ran.code, 1, "{ran:?}");
        assert!(ran.stderr.contains(&expected), "{ran:?}");
        assert!(
            ran.stderr.contains("make the file readable for this user"),
            "{ran:?}"
        );
        assert!(!ran.stderr.contains("immutable"), "{ran:?}");
    }
}

#[test]
fn a_file_that_may_not_be_made_is_named_with_what_to_do() {
    let world = World::new();
    fs::create_dir(world.state_dir()).unwrap();
    allow(&world.state_dir(), 0o555);
    let Some(ran) = ingest_as_another(&world, &["check", "--format", "json"]) else {
        return;
    };
    allow(&world.state_dir(), 0o700);
    assert_eq!(ran.code, 1, "{ran:?}");
    let answer = ran.json();
    for name in ["ledger.db", "catalog.db"] {
        let of_file =
            |finding: &&serde_json::Value| finding["what"].as_str().unwrap().ends_with(name);
        let finding = answer["findings"]
            .as_array()
            .unwrap()
            .iter()
            .find(of_file)
            .unwrap();
        let detail = finding["detail"].as_str().unwrap();
        assert!(
            detail.contains("make its directory writable for this user, or set --state-dir"),
            "{detail}"
        );
        assert!(
            !detail.contains(name),
            "the path is said already: {finding}"
        );
    }
}
