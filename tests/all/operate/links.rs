//! A state directory in which somebody else put something: root gives nothing away, and nothing is opened through a link.

use std::fs;
use std::os::unix::fs::{MetadataExt, PermissionsExt, chown, symlink};
use std::path::Path;
use std::process::Command;
use std::time::Duration;

use rustix::process::geteuid;

use super::files::everything_below;
use crate::support::world::{World, ends_within};

/// A user without a name.
const SOMEBODY: u32 = 12_001;
const CHARGE: [&str; 3] = ["charge", "youtube", "videos.list"];
/// The ledger is a Redis that is away: the journal is used.
const AWAY: [&str; 5] = [
    "charge",
    "youtube",
    "videos.list",
    "--set",
    "ledger.url=redis://127.0.0.1:1",
];

/// A world whose state directory is somebody's; `None` where the tests are not root, who alone can give it away.
fn somebodys() -> Option<World> {
    if !geteuid().is_root() {
        return None;
    }
    let world = World::new();
    // The user has to reach it.
    fs::set_permissions(world.directory.path(), fs::Permissions::from_mode(0o755)).unwrap();
    fs::create_dir(world.state_dir()).unwrap();
    chown(world.state_dir(), Some(SOMEBODY), Some(SOMEBODY)).unwrap();
    Some(world)
}

#[test]
fn root_works_in_no_other_users_directory_unless_as_that_user() {
    let Some(world) = somebodys() else { return };
    for arguments in [
        &["--region", "US"][..],
        &CHARGE,
        &["status"],
        &["check"],
        &["repair"],
        &["--dry-run"],
    ] {
        let ran = world.ingest(arguments);
        assert_eq!(ran.code, 1, "{arguments:?}: {ran:?}");
        assert!(ran.stderr.contains("--as-owner"), "{ran:?}");
        assert!(everything_below(&world.state_dir()).is_empty());
    }
    let ran = world.ingest(&["--region", "US", "--as-owner"]);
    assert_eq!(ran.code, 0, "{ran:?}");
    assert_eq!(world.ingest(&[&AWAY[..], &["--as-owner"]].concat()).code, 0);
    assert_eq!(world.ingest(&["status", "--as-owner"]).code, 0);
    let all = everything_below(&world.state_dir());
    assert!(all.len() > 4, "{all:?}");
    for path in all {
        let about = fs::symlink_metadata(&path).unwrap();
        assert_eq!(
            (about.uid(), about.gid()),
            (SOMEBODY, SOMEBODY),
            "{}",
            path.display()
        );
    }
}

#[test]
fn root_creates_nothing_in_another_users_directory_and_follows_no_link_of_another_user() {
    let Some(world) = somebodys() else { return };
    let state = world.state_dir();
    let own = world.directory.path().join("of-root");
    fs::create_dir(&own).unwrap();
    let link = world.directory.path().join("link");
    symlink(&own, &link).unwrap();
    std::os::unix::fs::lchown(&link, Some(SOMEBODY), Some(SOMEBODY)).unwrap();
    for directory in [state.join("new"), state.join("new/deep"), link] {
        let mut command = world.command(&CHARGE);
        let ran = command
            .env("INGEST_STATE_DIR", &directory)
            .output()
            .unwrap();
        assert_eq!(ran.status.code(), Some(1), "{}", directory.display());
    }
    assert!(everything_below(&state).is_empty() && everything_below(&own).is_empty());
}

#[test]
fn the_owner_alone_does_not_reach_what_is_roots_alone() {
    let Some(world) = somebodys() else { return };
    let secret = world.directory.path().join("of-root");
    fs::write(&secret, "s3cr3t").unwrap();
    fs::set_permissions(&secret, fs::Permissions::from_mode(0o600)).unwrap();
    let set = format!(
        "credentials.youtube.secret={{ file = \"{}\" }}",
        secret.display()
    );
    let ran = world.ingest(&["--region", "US", "--as-owner", "--set", &set]);
    assert_ne!(ran.code, 0, "{ran:?}");
    assert!(ran.stderr.contains("ermission denied"), "{ran:?}");
}

#[test]
fn a_user_who_is_not_root_becomes_nobody_else() {
    if !geteuid().is_root() {
        return;
    }
    let world = World::new();
    let mut command = Command::new("setpriv");
    let made = world.command(&["status", "--as-owner"]);
    command
        .args(["--reuid", "12002", "--clear-groups"])
        .arg(made.get_program())
        .args(made.get_args());
    let ran = command
        .env("INGEST_STATE_DIR", "/root-has-this")
        .current_dir("/")
        .output()
        .unwrap();
    assert_eq!(ran.status.code(), Some(2), "{ran:?}");
}

const RUN: [&str; 4] = ["--region", "US", "--job", "trending"];
const PRACTICE: [&str; 5] = ["--region", "US", "--job", "trending", "--sandbox"];

/// A world whose job requests one page.
fn brief() -> World {
    let mut world = World::new();
    world.set("jobs.trending.steps=[{ call = \"videos.list\", max_pages = 1 }]");
    world
}

/// What every command of a user may open, in a directory that a run, a charge over a Redis that is away, and a sandbox run filled.
fn names(world: &World) -> Vec<String> {
    world.ingest(&RUN);
    world.ingest(&AWAY);
    world.ingest(&PRACTICE);
    let state = world.state_dir();
    let name = |path: &Path| path.strip_prefix(&state).unwrap().display().to_string();
    let mut names: Vec<String> = everything_below(&state)
        .iter()
        .map(|path| name(path))
        .collect();
    for file in ["ledger.db", "catalog.db"] {
        names.extend(["-wal", "-shm"].map(|side| format!("{file}{side}")));
    }
    names.sort();
    names
}

#[test]
fn nothing_in_a_state_directory_is_opened_through_a_link() {
    let world = brief();
    let target = world.directory.path().join("target");
    for name in names(&world) {
        // A target that is there is neither written nor emptied, and one that is not there is not created.
        for is_there in [true, false] {
            fs::remove_dir_all(world.state_dir()).unwrap();
            let _ = fs::remove_file(&target);
            let path = world.state_dir().join(&name);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            symlink(&target, &path).unwrap();
            if is_there {
                fs::write(&target, "precious").unwrap();
            }
            let ran = [
                world.ingest(&RUN),
                world.ingest(&AWAY),
                world.ingest(&PRACTICE),
                world.ingest(&["status"]),
                world.ingest(&["repair"]),
            ];
            let refused = ran
                .iter()
                .any(|ran| format!("{}{}", ran.stdout, ran.stderr).contains("a link"));
            assert!(refused, "{name}: {ran:#?}");
            match is_there {
                true => assert_eq!(fs::read_to_string(&target).unwrap(), "precious", "{name}"),
                false => assert!(fs::symlink_metadata(&target).is_err(), "{name}"),
            }
        }
    }
}

#[test]
fn a_directory_behind_a_link_is_not_entered() {
    for name in ["locks", "sandbox"] {
        let world = World::new();
        let target = world.directory.path().join("target");
        fs::create_dir_all(&target).unwrap();
        fs::create_dir(world.state_dir()).unwrap();
        symlink(&target, world.state_dir().join(name)).unwrap();
        let ran = world.ingest(&RUN);
        let practised = world.ingest(&PRACTICE);
        assert!(
            ran.code == 1 || practised.code == 1,
            "{name}: {ran:?} {practised:?}"
        );
        assert!(everything_below(&target).is_empty(), "{name}");
    }
}

#[test]
fn a_pipe_in_place_of_a_file_is_not_waited_for() {
    let writing: [&[&str]; 3] = [
        &CHARGE,
        &["--region", "US"],
        &["reopen", "youtube", "daily"],
    ];
    let reading: [&[&str]; 5] = [
        &["status", "--limits"],
        &["history"],
        &["--dry-run"],
        &["repair"],
        &["backup", "copy"],
    ];
    let of = |name, some: &[&'static [&'static str]]| -> Vec<_> {
        some.iter().map(|one| (name, *one)).collect()
    };
    let cases = [
        of("locks/charging.lock", &writing[..1]),
        of("ledger.db", &[&writing[..], &reading].concat()),
        of(
            "catalog.db",
            &[&writing[1..2], &reading, &[&["search", "a"]]].concat(),
        ),
        of("journal.db", &[&AWAY[..], &["repair"]]),
    ];
    let world = World::new();
    for (name, arguments) in cases.concat() {
        let _ = fs::remove_dir_all(world.state_dir());
        fs::create_dir_all(world.state_dir().join("locks")).unwrap();
        let pipe = world.state_dir().join(name);
        assert!(Command::new("mkfifo").arg(pipe).status().unwrap().success());
        let mut command = world.command(arguments);
        let child = command
            .stdout(std::process::Stdio::piped())
            .stderr(std::process::Stdio::piped())
            .spawn();
        let ran = ends_within(child.unwrap(), Duration::from_secs(20));
        assert_eq!(ran.code, 1, "{name}: {arguments:?}: {ran:?}");
        for part in [name, "it is a pipe, no regular file; delete it"] {
            assert!(ran.stderr.contains(part), "{name}: {arguments:?}: {ran:?}");
        }
    }
}

#[test]
fn a_state_directory_may_itself_be_behind_links_and_have_any_name() {
    let world = World::new();
    let there = world.directory.path().join("there");
    fs::create_dir(&there).unwrap();
    symlink(&there, world.state_dir()).unwrap();
    assert_eq!(world.ingest(&RUN).code, 0);
    assert!(there.join("ledger.db").exists());
    // SQLite takes such a name for a URI.
    for name in ["file:y", "file:y?mode=memory", "file:/y"] {
        let mut arguments = vec!["--state-dir", name];
        arguments.extend(["--region", "US", "--job", "trending"]);
        let ran = world.ingest(&arguments);
        assert_eq!(ran.code, 0, "{name}: {ran:?}");
        let mut files = fs::read_dir(world.directory.path().join(name)).unwrap();
        assert!(
            files.any(|file| file.unwrap().file_name() == "ledger.db"),
            "{name}"
        );
        let status = world.ingest(&["--state-dir", name, "status"]);
        assert_eq!(status.code, 0, "{name}: {status:?}");
    }
}
