//! Where a secret may be, and where it never goes, as the program does it.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::PathBuf;
use std::process::Output;

use crate::support::world::{SECRET, World};
use ingest_testing::stub_upstream::{StubAnswer, StubUpstream};

const US: [&str; 4] = ["--region", "US", "--job", "trending"];

fn place(world: &World, name: &str, mode: u32) -> PathBuf {
    let path = world.directory.path().join(name);
    fs::write(&path, format!("{SECRET}\n")).unwrap();
    fs::set_permissions(&path, fs::Permissions::from_mode(mode)).unwrap();
    path
}

/// Runs with the secret in a file, which a configuration, a variable or systemd names.
fn run_with_file(world: &World, how: &str, path: &std::path::Path) -> Output {
    let set = match how {
        "configuration" => format!("credentials.youtube.secret={{ file = {path:?} }}"),
        "variable" => "credentials.youtube.secret={ env = \"YOUTUBE_API_KEY\" }".to_owned(),
        _ => "credentials.youtube.secret={ credential = \"key\" }".to_owned(),
    };
    let mut command = world.command(&[&US[..], &["--set", &set]].concat());
    command.env_remove("YOUTUBE_API_KEY");
    match how {
        "variable" => command.env("YOUTUBE_API_KEY_FILE", path),
        "systemd" => command.env("CREDENTIALS_DIRECTORY", path.parent().unwrap()),
        _ => &mut command,
    };
    command.output().unwrap()
}

#[test]
fn a_secret_comes_from_a_file_however_it_is_named_and_who_else_reads_it_is_said() {
    for how in ["configuration", "variable", "systemd"] {
        for (mode, warned) in [
            (0o600, ""),
            (0o640, "every member of its group"),
            (0o644, "every user of this machine"),
        ] {
            let world = World::new();
            let ran = run_with_file(&world, how, &place(&world, "key", mode));
            let said = String::from_utf8(ran.stderr).unwrap();
            assert_eq!(ran.status.code(), Some(0), "{how}: {said}");
            assert_eq!(
                said.contains("can read the secret in"),
                !warned.is_empty(),
                "{how} {mode:o}: {said}"
            );
            assert!(
                said.contains(warned) && !said.contains(SECRET),
                "{how} {mode:o}: {said}"
            );
            assert!(world.requests() > 0);
        }
    }
}

#[test]
fn a_group_that_the_file_was_given_to_us_through_is_not_warned_of() {
    if !rustix::process::geteuid().is_root() {
        return; // Who alone can give files away.
    }
    let world = World::new();
    let path = place(&world, "key", 0o440);
    std::os::unix::fs::chown(&path, Some(65534), None).unwrap();
    let ran = run_with_file(&world, "configuration", &path);
    assert_eq!(
        (
            ran.status.code(),
            String::from_utf8(ran.stderr).unwrap().as_str()
        ),
        (Some(0), "")
    );
}

/// A proxy would be told the secret, too.
#[test]
fn what_is_on_this_machine_is_not_asked_through_a_proxy() {
    let proxy = StubUpstream::answering([StubAnswer::text(200, "{}")]);
    let world = World::new();
    let mut command = world.command(&US);
    for name in ["http_proxy", "HTTP_PROXY", "all_proxy", "ALL_PROXY"] {
        command.env(name, proxy.url());
    }
    assert_eq!(command.output().unwrap().status.code(), Some(0));
    assert_eq!(proxy.requests().len(), 0);
}
