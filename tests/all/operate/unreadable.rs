//! A state directory of somebody else, or none at all: what cannot be looked at is never taken for empty.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::Command;

use crate::support::world::{Ran, World};
use ingest_testing::not_run::not_run;

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
    let inner = world.command(arguments);
    let another = |command: &mut Command| {
        command
            .args(["--reuid", "65534", "--regid", "65534", "--clear-groups"])
            .arg(inner.get_program());
    };
    let mut probe = Command::new("setpriv");
    another(&mut probe);
    if !probe
        .arg("--version")
        .output()
        .is_ok_and(|probed| probed.status.success())
    {
        not_run("nobody else may run here: what needs another user is not checked");
        return None;
    }
    let mut command = Command::new("setpriv");
    another(&mut command);
    command
        .args(inner.get_args())
        .current_dir(world.directory.path());
    command.env_clear().envs(
        inner
            .get_envs()
            .filter_map(|(name, value)| Some((name, value?))),
    );
    command.env("PATH", "/usr/bin:/bin");
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

#[test]
fn a_file_in_the_place_of_the_directory_is_called_one() {
    let world = World::new();
    let file = world.directory.path().join("file");
    fs::write(&file, "").unwrap();
    let writing: [&[&str]; 2] = [
        &["charge", "youtube", "videos.list"],
        &["--region", "US", "--job", "trending"],
    ];
    for state_dir in ["file", "file/state"] {
        for arguments in LOOKS.into_iter().chain(writing) {
            let ran = world.ingest(&[arguments, &["--state-dir", state_dir]].concat());
            assert_eq!(
                (ran.code, ran.stdout.as_str()),
                (1, ""),
                "{arguments:?}: {ran:?}"
            );
            assert!(
                ran.stderr.contains("file is a file, not a directory"),
                "{arguments:?}: {ran:?}"
            );
            assert!(ran.stderr.contains("--state-dir"), "{arguments:?}: {ran:?}");
            assert!(!ran.stderr.contains("os error"), "{arguments:?}: {ran:?}");
        }
    }
    assert_eq!(fs::read(&file).unwrap(), b"");
}

#[test]
fn a_directory_in_the_place_of_a_file_is_called_one_by_who_reads() {
    for (name, arguments) in [
        ("ledger.db", ["status", "-q"]),
        ("catalog.db", ["search", "a"]),
        ("ledger.db", ["repair", "-q"]),
    ] {
        let world = World::new();
        fs::create_dir_all(world.state_dir().join(name)).unwrap();
        let ran = world.ingest(&arguments);
        assert_eq!(ran.code, 1, "{ran:?}");
        let said = format!("{}{}", ran.stdout, ran.stderr);
        assert!(
            said.contains(name) && said.contains("is a directory; move it away"),
            "{arguments:?}: {ran:?}"
        );
    }
}

#[test]
fn a_relative_state_home_is_as_good_as_none() {
    let world = World::new();
    let mut command = world.command(&["charge", "youtube", "videos.list", "-q"]);
    let home = world.directory.path().join("home");
    command
        .env_remove("INGEST_STATE_DIR")
        .env("XDG_STATE_HOME", "relative")
        .env("HOME", &home);
    let ran = Ran::of(command.output().unwrap());
    assert_eq!(ran.code, 0, "{ran:?}");
    assert!(
        home.join(".local/state/ingest/ledger.db").exists(),
        "{ran:?}"
    );
    assert!(!world.directory.path().join("relative").exists());
}
