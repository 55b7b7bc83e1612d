//! `ingest exec` is as good as the command itself to whoever starts it: what goes in, comes out, and how it ends.

use std::io::Write;
use std::process::Stdio;

use crate::support::world::World;

fn exec<'a>(command: &[&'a str]) -> Vec<&'a str> {
    [&["exec", "youtube", "videos.list", "--"], command].concat()
}

#[test]
fn what_goes_in_and_comes_out_is_the_commands_own() {
    let world = World::new();
    let mut command = world.command(&exec(&["sh", "-c", "cat; echo aside >&2"]));
    let mut child = command
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    child
        .stdin
        .take()
        .unwrap()
        .write_all(b"some \xff bytes\0\n")
        .unwrap();
    let ended = child.wait_with_output().unwrap();
    assert_eq!(
        (ended.stdout.as_slice(), ended.stderr.as_slice()),
        (&b"some \xff bytes\0\n"[..], &b"aside\n"[..])
    );
    assert_eq!(ended.status.code(), Some(0));
}

#[test]
fn a_command_that_a_signal_ends_is_told_as_a_shell_tells_it() {
    let world = World::new();
    for (signal, code) in [("KILL", 137), ("TERM", 143), ("SEGV", 139)] {
        let ended = world.ingest(&exec(&["sh", "-c", &format!("kill -{signal} $$")]));
        assert_eq!(ended.code, code, "{signal}: {ended:?}");
    }
    assert_eq!(world.charged("daily"), 3, "what was started is paid for");
}

#[test]
fn exit_codes_that_mean_something_to_us_are_the_commands_own_when_it_ran() {
    let world = World::new();
    for code in ["0", "1", "2", "75", "255"] {
        let ended = world.ingest(&exec(&["sh", "-c", &format!("exit {code}")]));
        assert_eq!(
            (ended.code.to_string().as_str(), ended.stdout.as_str()),
            (code, "")
        );
    }
}

#[test]
fn a_signal_that_comes_as_soon_as_the_command_runs_reaches_the_command() {
    let world = World::new();
    let script = "trap 'exit 7' TERM; kill -TERM $PPID; while :; do sleep 0.01; done";
    for _ in 0..20 {
        assert_eq!(world.ingest(&exec(&["sh", "-c", script])).code, 7);
    }
}

#[test]
fn an_id_that_was_released_charges_anew() {
    let world = World::new();
    let charge = ["charge", "youtube", "search.list", "--id", "mine"];
    assert_eq!(world.json(&charge)["id"], "mine");
    assert_eq!(
        world.json(&charge)["id"],
        "mine",
        "a repeat is counted once"
    );
    assert_eq!(world.charged("search"), 1);
    for _ in 0..2 {
        assert_eq!(world.json(&["release", "mine"])["released"], true);
        assert_eq!(world.charged("search"), 0);
    }
    let again = world.json(&charge);
    assert_eq!(
        (&again["decision"], &again["id"]),
        (&"granted".into(), &"mine~1".into())
    );
    assert_eq!(
        (world.json(&charge)["id"].as_str(), world.charged("search")),
        (Some("mine~1"), 1)
    );
    assert_eq!(world.json(&["release", "mine"])["released"], true);
    assert_eq!(world.charged("search"), 0);
}

#[test]
fn an_empty_id_is_refused() {
    let world = World::new();
    for arguments in [
        &["charge", "youtube", "videos.list", "--id", ""][..],
        &["release", ""],
    ] {
        assert_eq!(world.ingest(arguments).code, 2, "{arguments:?}");
    }
}

#[test]
fn an_id_that_was_charged_otherwise_is_refused() {
    let world = World::new();
    assert_eq!(
        world.json(&["charge", "youtube", "videos.list", "--id", "mine"])["decision"],
        "granted"
    );
    for other in [
        ["search.list", "1"],
        ["videos.list", "3"],
        ["search.list", "91"],
    ] {
        let refused = world.ingest(&[
            "charge", "youtube", other[0], "--id", "mine", "--times", other[1],
        ]);
        assert_eq!(refused.code, 1, "{refused:?}");
        assert!(
            refused
                .stdout
                .contains("id `mine` already holds a charge of 1 daily; use a new id for"),
            "{refused:?}"
        );
    }
    assert_eq!((world.charged("daily"), world.charged("search")), (1, 0));
}
