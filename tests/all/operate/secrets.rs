//! Where a secret may be, and where it never goes, as the program does it.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::PathBuf;
use std::process::{Command, Output};

use assert_cmd::cargo::cargo_bin;

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

#[test]
fn a_secret_is_never_sent_over_plain_http_but_to_this_machine() {
    for far in [
        "http://192.0.2.1/x",
        "http://example.invalid",
        "http://localhost.example.invalid",
        "http://[2001:db8::1]",
    ] {
        let mut world = World::new();
        world.set(&format!("upstreams.youtube.base_url={far}"));
        for arguments in [&US[..], &["check", "--connect"], &["status"]] {
            let ran = world.ingest(arguments);
            assert_eq!(ran.code, 2, "{far}: {ran:?}");
            assert!(
                ran.stderr.contains("sent only over https") && ran.stderr.contains("https://"),
                "{ran:?}"
            );
        }
    }
    let world = World::new();
    assert!(world.base_url().starts_with("http://127."));
    assert_eq!(world.ingest(&US).code, 0);
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

#[test]
fn no_argument_takes_a_secret_and_one_that_is_tried_is_not_said_back() {
    let world = World::new();
    let wrong = [
        format!("credentials.youtube.secret={SECRET}"),
        format!("credentials.youtube.secret={{ value = {SECRET:?} }}"),
        format!("credentials.youtube.secret={{ env = 1, file = {SECRET:?} }}"),
        format!("ledger.url=redis://user:{SECRET}@127.0.0.1:99999"),
    ];
    for set in &wrong {
        let ran = world.ingest(&[&US[..], &["--set", set]].concat());
        assert_eq!(ran.code, 2, "{ran:?}");
        assert!(
            !ran.stderr.contains(SECRET) && !ran.stdout.contains(SECRET),
            "{ran:?}"
        );
    }
    let text = fs::read_to_string(crate::support::world::shipped()).unwrap();
    let text = text.replace(
        "secret = { env = \"YOUTUBE_API_KEY\" }",
        &format!("secret = {SECRET:?}"),
    );
    let path = world.directory.path().join("with-a-secret.toml");
    fs::write(&path, text).unwrap();
    let ran = Command::new(cargo_bin!("ingest"))
        .arg("--config")
        .arg(path)
        .arg("check")
        .output()
        .unwrap();
    let said = String::from_utf8(ran.stderr).unwrap();
    assert_eq!(ran.status.code(), Some(2), "{said}");
    assert!(
        said.contains("the secret itself must not be in this file") && !said.contains(SECRET),
        "{said}"
    );
}

/// What ends the host, in a password that is written as it is, leaves the rest of it where it would be shown.
#[test]
fn a_ledger_url_whose_password_ends_the_host_is_refused_and_not_said_back() {
    let world = World::new();
    for url in [
        "redis+cluster://user:12/s3cr3t@127.0.0.1",
        "redis+cluster://user:12#s3cr3t@127.0.0.1",
        "redis+cluster://user:12?s3cr3t@127.0.0.1",
        "redis+cluster://127.0.0.1,user:12/s3cr3t@127.0.0.1",
        "redis+sentinel://user:12/s3cr3t@127.0.0.1:26379/main",
        "redis://user:12/s3cr3t@127.0.0.1",
        "redis://user:12#s3cr3t@127.0.0.1",
    ] {
        let ran = world.ingest(&["status", "--set", &format!("ledger.url={url:?}")]);
        assert!(
            !ran.stderr.contains("s3cr3t") && !ran.stdout.contains("s3cr3t"),
            "{url}: {ran:?}"
        );
        assert_eq!(ran.code, 2, "{url}: {ran:?}");
        assert!(ran.stderr.contains("as %2F"), "{url}: {ran:?}");
    }
}

#[test]
fn a_missing_secret_is_said_before_anything_is_requested() {
    let world = World::new();
    let mut command = world.command(&US);
    let ran = command.env_remove("YOUTUBE_API_KEY").output().unwrap();
    let said = String::from_utf8(ran.stderr).unwrap();
    assert_eq!(ran.status.code(), Some(2), "{said}");
    assert!(
        said.contains("set YOUTUBE_API_KEY, or set YOUTUBE_API_KEY_FILE"),
        "{said}"
    );
    assert_eq!(world.requests(), 0);
}
