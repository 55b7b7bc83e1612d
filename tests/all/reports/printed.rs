//! What people read, at 80 and at 140 columns, in colour and without: to be looked at when it changes.
//!
//! What is shown began three days, five hours and a half ago, so that the ages in it stay the same while a test runs.

use std::process::Command;
use std::time::Duration;

use ingest_base::clock::{Clock, SystemClock};
use serde_json::json;

use super::JOBS;
use crate::support::lab::Lab;
use crate::support::world::{World, shipped};
use ingest_testing::redis_server::RedisServer;

const AGO: Duration = Duration::from_secs((3 * 24 + 5) * 3600 + 30 * 60);

/// Three regions, and less than the second job wants of them.
const SETS: [&str; 11] = [
    "regions=[\"US\", \"GB\", \"DE\"]",
    "upstreams.youtube.calls.\"videos.list\".page.size=5",
    "upstreams.youtube.calls.\"search.list\".page.size=5",
    "upstreams.youtube.keep=900d",
    "credentials.youtube.limits.daily={ quota = 264, headroom = 50, window = \"30d\", wait = \"0s\" }",
    "credentials.youtube.limits.search={ quota = 100, headroom = 10, window = \"30d\" }",
    "jobs.trending.every=\"10d\"",
    "jobs.trending.leave={}",
    "jobs.discover.every=\"20d\"",
    "jobs.discover.leave={}",
    "jobs.discover.resume_within=\"30d\"",
];

/// The sizes and styles that are looked at.
const SCREENS: [(&str, bool); 4] = [("80", false), ("140", false), ("80", true), ("140", true)];

fn look(name: &str, command: impl Fn() -> Command) {
    for (columns, coloured) in SCREENS {
        let mut command = command();
        command.env("COLUMNS", columns);
        if coloured {
            command.env("CLICOLOR_FORCE", "1");
        }
        let shown = command.output().unwrap();
        let text = steady(
            &(String::from_utf8(shown.stdout).unwrap() + &String::from_utf8(shown.stderr).unwrap()),
        );
        if !coloured {
            let widest = text
                .lines()
                .map(|line| line.chars().count())
                .max()
                .unwrap_or_default();
            assert!(
                widest <= columns.parse().unwrap(),
                "{name}: {widest} columns: {text}"
            );
        }
        insta::assert_snapshot!(
            format!(
                "{name}_{columns}{}",
                if coloured { "_coloured" } else { "" }
            ),
            text
        );
    }
}

/// The same text whenever it was written: other dates of the same width, and escapes that can be seen.
fn steady(text: &str) -> String {
    let shape = |at: &[char], like: &str| {
        at.len() >= like.len()
            && like.chars().zip(at).all(|(like, c)| {
                if like == '0' {
                    c.is_ascii_digit()
                } else {
                    like == *c
                }
            })
    };
    let mut chars: Vec<char> = text.chars().collect();
    for start in 0..chars.len() {
        for (like, instead) in [
            ("0000-00-00", "2026-11-20"),
            ("00:00:00", "12:00:00"),
            (".000000Z", ".000000Z"),
        ] {
            if shape(&chars[start..], like) {
                chars.splice(start..start + like.len(), instead.chars());
            }
        }
    }
    let text = chars.into_iter().collect::<String>();
    let words = text.split_inclusive(" in ").map(|part| {
        // A run takes tenths of seconds: `0.3s`.
        let (time, rest) = part.split_at(part.len().min(4));
        let is_time = shape(&time.chars().collect::<Vec<_>>(), "0.0s");
        format!("{}{rest}", if is_time { "0.1s" } else { time })
    });
    words.collect::<String>().replace('\u{1b}', "␛")
}

/// The binary in the state directory of a lab.
fn on(lab: &Lab, arguments: &[&str]) -> Command {
    let mut command = Command::new(assert_cmd::cargo::cargo_bin!("ingest"));
    command
        .env_clear()
        .arg("--config")
        .arg(shipped())
        .arg("--state-dir")
        .arg(lab.directory.path());
    for set in SETS {
        command.args(["--set", set]);
    }
    command.args(arguments);
    command
}

fn after_a_run() -> Lab {
    let lab = Lab::beginning_at(SystemClock.now() - AGO, &SETS);
    let report = lab.run_all(&JOBS);
    assert!(report.stopped_by.is_some(), "{report:?}");
    lab
}

#[test]
fn what_is_shown_after_a_run_that_a_limit_stopped() {
    let lab = after_a_run();
    look("status", || on(&lab, &["status"]));
    look("dry_run_part", || {
        on(&lab, &["--region", "all", "--dry-run"])
    });
    look("history", || on(&lab, &["history"]));
    look("search", || on(&lab, &["search", "puppy", "--limit", "3"]));
}

#[test]
fn what_is_shown_where_nothing_is_yet() {
    let world = World::configured(&SETS, |_| {});
    look("status_empty", || world.command(&["status"]));
    look("dry_run_first", || {
        world.command(&["--region", "US", "--job", "trending", "--dry-run"])
    });
    look("history_empty", || world.command(&["history"]));
    look("search_empty", || world.command(&["search", "puppy"]));
}

#[test]
fn what_is_shown_without_the_ledger() {
    let mut server = RedisServer::start();
    let mut world = World::configured(&SETS, |_| {});
    world.ledger_at(server.port());
    server.kill();
    world.ingest(&["charge", "youtube", "videos.list", "--times", "3"]);
    let mut quiet = world.command(&["status", "-q"]);
    quiet.env("COLUMNS", "80");
    let shown = String::from_utf8(quiet.output().unwrap().stdout).unwrap();
    insta::assert_snapshot!("status_without_the_ledger_80", steady(&shown));
}

/// A run that waits for its limit is told with a window so long that its end reads the same for a while.
const LONG: &str = "credentials.youtube.limits.daily={ quota = 264, headroom = 50, window = \"100d\", wait = \"0s\" }";

#[test]
fn what_a_run_says_in_the_end() {
    for (columns, coloured) in SCREENS {
        let world = World::configured(&[&SETS[..], &[LONG]].concat(), |_| {});
        let run = |name: &str, arguments: &[&str]| {
            let mut command = world.command(arguments);
            command.env("COLUMNS", columns);
            if coloured {
                command.env("CLICOLOR_FORCE", "1");
            }
            let said = steady(&String::from_utf8(command.output().unwrap().stdout).unwrap());
            insta::assert_snapshot!(
                format!(
                    "{name}_{columns}{}",
                    if coloured { "_coloured" } else { "" }
                ),
                said
            );
        };
        run("run_complete", &["--region", "US,GB", "--job", "trending"]);
        run(
            "run_nothing_due",
            &["--region", "US,GB", "--job", "trending"],
        );
        world.faults(&json!({ "answer": "html", "times": 2 }));
        run("run_failed", &["--region", "DE", "--job", "trending"]);
        run("run_stopped", &["--region", "all"]);
    }
}

#[test]
fn no_line_about_a_limit_is_wider_than_a_narrow_terminal() {
    let world = World::configured(&SETS, |_| {});
    world.ingest(&["--region", "all"]);
    let mut status = world.command(&["status", "--limits"]);
    let shown = status.env("COLUMNS", "40").output().unwrap().stdout;
    let shown = String::from_utf8(shown).unwrap();
    let of_limits = shown
        .lines()
        .filter(|line| line.contains("youtube/") || line.contains("used"));
    let of_limits: Vec<&str> = of_limits.collect();
    assert!(of_limits.len() > 4, "{shown}");
    let wide = of_limits.iter().find(|line| line.chars().count() > 40);
    assert_eq!(wide, None, "{shown}");
}

#[test]
fn no_line_of_a_dry_run_is_wider_than_a_narrow_terminal() {
    let world = World::configured(&SETS, |_| {});
    for columns in [40, 60] {
        let mut preview = world.command(&["--region", "all", "--dry-run"]);
        let shown = preview.env("COLUMNS", columns.to_string()).output();
        let shown = String::from_utf8(shown.unwrap().stdout).unwrap();
        for column in [
            "REQUESTS", "CALL", "UNITS", "ACCOUNT", "LIMIT", "LEFT", "AT LEAST", "AT MOST",
        ] {
            let words = shown.split_whitespace().collect::<Vec<_>>().join(" ");
            assert!(words.contains(column), "nothing says {column}: {shown}");
        }
        let wide = shown.lines().find(|line| line.chars().count() > columns);
        assert_eq!(wide, None, "{shown}");
    }
}
