//! What is printed, where, and to whom it makes no difference.

use std::io::pipe;
use std::process::Stdio;

use crate::support::world::{Ran, World};

#[test]
fn a_successful_run_without_a_terminal_prints_its_summary_alone_and_no_colour() {
    let world = World::new();
    let ran = world.ingest(&["--region", "US,GB", "--job", "trending"]);
    assert_eq!(ran.stderr, "");
    assert!(ran.stdout.starts_with("Complete: 2 regions, "), "{ran:?}");
    assert!(!ran.stdout.contains('\u{1b}'), "{ran:?}");
    for no_colour in ["", "1"] {
        let verbose = world
            .command(&["--region", "FR", "-vv"])
            .env("NO_COLOR", no_colour)
            .output()
            .unwrap();
        assert!(!verbose.stderr.contains(&0x1b), "{verbose:?}");
    }
}

#[test]
fn twice_verbose_a_run_logs_where_its_time_goes() {
    let ran = World::new().ingest(&["--region", "US", "--job", "trending", "-vv"]);
    let parts = [
        "configuration read",
        "catalog and ledger opened",
        "page fetched",
        "page landed",
        "catalog and ledger closed",
    ];
    let places = parts.map(|part| ran.stderr.find(part));
    assert!(places.is_sorted() && places[0].is_some(), "{ran:?}");
}

#[test]
fn whoever_stops_reading_early_is_no_error() {
    let world = World::new();
    let long: [&[&str]; 8] = [
        &["--region", "US", "--job", "trending", "-vv"],
        &["status"],
        &["completions", "bash"],
        &["man"],
        &["search", "a", "--format", "json"],
        &["export", "--kind", "video"],
        &["export", "--kind", "video", "--as", "csv"],
        &["--help"],
    ];
    for arguments in long {
        let (reading, writing) = pipe().unwrap();
        drop(reading);
        let mut command = world.command(arguments);
        let ran = command
            .stdout(Stdio::from(writing))
            .stderr(Stdio::piped())
            .output()
            .unwrap();
        assert_eq!(ran.status.code(), Some(0), "{arguments:?}: {ran:?}");
        let said = String::from_utf8(ran.stderr).unwrap();
        assert!(!said.contains("panicked"), "{arguments:?}");
        assert!(arguments.contains(&"-vv") || said.is_empty(), "{said}");
    }
}

#[test]
fn a_stderr_that_nobody_reads_is_no_error() {
    let world = World::new();
    let (reading, writing) = pipe().unwrap();
    drop(reading);
    let mut command = world.command(&["--region", "US", "--job", "trending", "-vvv"]);
    let ran = command.stderr(Stdio::from(writing)).output().unwrap();
    assert_eq!(ran.status.code(), Some(0), "{ran:?}");
}

#[test]
fn completions_and_the_manual_page_name_every_command() {
    let world = World::new();
    let commands = [
        "status",
        "check",
        "search",
        "charge",
        "reopen",
        "sandbox",
        "completions",
        "man",
    ];
    let manual = world.ingest(&["man"]);
    let mut all = vec![("man".to_owned(), manual)];
    for shell in ["bash", "zsh", "fish"] {
        let script = world.ingest(&["completions", shell]);
        assert_eq!((script.code, &*script.stderr), (0, ""), "{shell}");
        let variable = "_INGEST_COMPLETE";
        assert!(script.stdout.contains(variable), "{shell}: {script:?}");
        // What the script runs to complete the first word.
        let mut asked = std::process::Command::new(assert_cmd::cargo::cargo_bin!("ingest"));
        asked
            .args(["--", "ingest", ""])
            .env(variable, shell)
            .env("_CLAP_COMPLETE_INDEX", "1");
        all.push((shell.to_owned(), Ran::of(asked.output().unwrap())));
    }
    for (what, ran) in all {
        assert_eq!((ran.code, &*ran.stderr), (0, ""), "{what}");
        for command in commands {
            assert!(ran.stdout.contains(command), "{what} lacks {command}");
        }
    }
}
