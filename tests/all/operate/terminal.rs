//! What a person sees at a terminal: the program in a pseudo-terminal.

use std::fs::{File, OpenOptions};
use std::io::Read;
use std::process::{Command, Stdio};
use std::time::Duration;

use rustix::pty::{OpenptFlags, grantpt, openpt, ptsname, unlockpt};
use rustix::termios::{Winsize, tcsetwinsize};

use crate::support::world::World;

/// Everything that the program writes to a terminal of so many columns, and its exit code.
fn at_a_terminal(command: &mut Command, columns: u16) -> (String, Option<i32>) {
    let ours = openpt(OpenptFlags::RDWR | OpenptFlags::NOCTTY).unwrap();
    grantpt(&ours).unwrap();
    unlockpt(&ours).unwrap();
    let size = Winsize {
        ws_row: 40,
        ws_col: columns,
        ws_xpixel: 0,
        ws_ypixel: 0,
    };
    tcsetwinsize(&ours, size).unwrap();
    let name = ptsname(&ours, Vec::new()).unwrap().into_string().unwrap();
    let theirs = || {
        OpenOptions::new()
            .read(true)
            .write(true)
            .open(&name)
            .unwrap()
    };
    let mut child = command
        .env("TERM", "xterm-256color")
        .stdin(theirs())
        .stdout(theirs())
        .stderr(theirs())
        .spawn()
        .unwrap();
    // The command keeps ends of its own, and a terminal's output ends when nobody has it open any more.
    command
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null());
    let mut shown = Vec::new();
    // It ends in an error.
    let _ = File::from(ours).read_to_end(&mut shown);
    let code = child.wait().unwrap().code();
    (String::from_utf8(shown).unwrap(), code)
}

const RUN: [&str; 4] = ["--region", "US,GB", "--job", "trending"];

#[test]
fn each_region_has_a_bar_while_it_walks_and_the_summary_is_what_stays() {
    let world = World::with(|options| options.latency = Duration::from_millis(100));
    let (shown, code) = at_a_terminal(&mut world.command(&RUN), 100);
    assert_eq!(code, Some(0), "{shown}");
    let summary = shown.find("OUTCOME").unwrap();
    let (before, after) = shown.split_at(summary);
    for region in ["US", "GB"] {
        assert!(before.contains(&format!("trending {region}")), "{shown:?}");
    }
    assert!(
        ["1/4", "2/4", "3/4"]
            .iter()
            .any(|pages| before.contains(pages)),
        "{before:?}"
    );
    assert!(after.contains("\u{1b}["), "colours: {after:?}");
    assert!(!after.contains('█'), "{after:?}");
}

#[test]
fn a_terminal_shows_no_colours_where_they_are_not_wanted_and_nothing_where_it_is_quiet() {
    let world = World::new();
    let (shown, _) = at_a_terminal(world.command(&RUN).env("NO_COLOR", "1"), 100);
    let (_, summary) = shown.split_at(shown.find("OUTCOME").unwrap());
    assert!(!summary.contains('\u{1b}'), "{summary:?}");
    let world = World::new();
    let (shown, code) = at_a_terminal(world.command(&RUN).arg("-q"), 100);
    assert_eq!((shown.as_str(), code), ("", Some(0)));
}

#[test]
fn a_summary_is_no_wider_than_its_terminal() {
    let world = World::new();
    let (shown, _) = at_a_terminal(world.command(&RUN).env("NO_COLOR", "1"), 60);
    let (_, summary) = shown.split_at(shown.find("JOB").unwrap());
    let widest = summary
        .lines()
        .map(|line| line.trim_end().chars().count())
        .max()
        .unwrap();
    assert!(widest <= 60, "{widest}: {summary}");
}

#[cfg(feature = "parquet")]
#[test]
fn parquet_is_not_written_to_a_terminal() {
    let world = World::new();
    let export = ["export", "--kind", "video", "--as", "parquet"];
    let (shown, code) = at_a_terminal(&mut world.command(&export), 100);
    assert_eq!(code, Some(2), "{shown:?}");
    assert!(shown.contains("--to FILE"), "{shown:?}");
}
