//! What a person sees at a terminal: the program in a pseudo-terminal.

use std::fs::{File, OpenOptions};
use std::io::Read;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use rustix::pty::{OpenptFlags, grantpt, openpt, ptsname, unlockpt};
use rustix::termios::{Winsize, tcsetwinsize};

use crate::support::world::World;

/// Everything that the program writes to a terminal of so many columns, and its exit code.
pub(super) fn at_a_terminal(command: &mut Command, columns: u16) -> (String, Option<i32>) {
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
    let world = World::with(|options| options.latency = Duration::from_millis(300));
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

/// Sixty regions.
const MANY: &str = "AE AR AT AU AZ BD BE BG BH BO BR BY CA CH CL CO CR CY CZ DE DK DO DZ EC EE EG ES FI FR GB GE GH GR GT HK HN HR HU ID IE IL IN IQ IS IT JM JO JP KE KH KR KW KZ LA LB LI LK LT LU LV";

fn many() -> World {
    let codes: Vec<String> = MANY.split(' ').map(|code| format!("\"{code}\"")).collect();
    let regions = format!("regions=[{}]", codes.join(","));
    let step = "jobs.trending.steps=[{ call = \"videos.list\", params = { chart = \"mostPopular\", regionCode = \"{region}\" }, max_pages = 1 }]";
    World::configured(&[&regions, step], |options| {
        options.latency = Duration::from_millis(60)
    })
}

/// The rows that were written to a terminal, without escapes.
fn rows(shown: &str, columns: u16) -> Vec<String> {
    let mut plain = String::new();
    let mut rest = shown;
    while let Some((before, escape)) = rest.split_once('\u{1b}') {
        plain.push_str(before);
        let end = escape.find(|c: char| c.is_ascii_alphabetic()).unwrap();
        rest = &escape[end + 1..];
    }
    plain.push_str(rest);
    let lines = plain.split(['\r', '\n']).map(|line| line.chars().collect());
    let rows = |line: Vec<char>| {
        let rows = line.chunks(columns.into()).map(String::from_iter);
        rows.collect::<Vec<String>>()
    };
    lines
        .flat_map(rows)
        .map(|row| row.trim_end().to_owned())
        .collect()
}

#[test]
fn the_progress_of_many_regions_fits_its_terminal_and_a_log_of_it() {
    let shown = |(columns, whole): (u16, &str)| {
        let world = many();
        let run = ["--region", "all", "--job", "trending"];
        let began = Instant::now();
        let (shown, code) = at_a_terminal(&mut world.command(&run), columns);
        assert_eq!(code, Some(0), "{shown}");
        let (progress, summary) = shown.split_once("JOB").unwrap();
        let rows = rows(&shown, columns);
        let of_daily = |row: &&String| row.contains(whole) && row.contains(" of 9,500 daily · 0:");
        assert!(rows.iter().any(|row| of_daily(&row)), "{rows:#?}");
        let active = self::rows(progress, columns);
        let mut active = active.iter().filter(|row| row.contains(" record"));
        assert!(active.all(|row| row.starts_with("trending ")), "{rows:#?}");
        // Two pictures a second, each of eight regions and the whole.
        let pictures = 2 * (began.elapsed().as_secs() as usize + 2);
        let most = pictures * 9 * (usize::from(columns) + 40);
        assert!(shown.len() < most, "{} of {most} bytes", shown.len());
        let named = match columns {
            40 => " regions  complete",
            _ => " regions: AE, AR, …, L",
        };
        let summed = rows.iter().any(|row| row.contains(named));
        assert!(summed, "{rows:#?}");
        assert!(!summary.contains("are the same as those of"), "{summary}");
        let summary = self::rows(summary, u16::MAX);
        let widest = summary.iter().map(|row| row.chars().count()).max().unwrap();
        assert!(widest <= columns.into(), "{widest}: {summary:#?}");
    };
    // At the same time: a run waits for the upstream.
    std::thread::scope(|terminals| {
        for terminal in [(200, "passes · "), (80, "passes · "), (40, "/60 · ")] {
            terminals.spawn(move || shown(terminal));
        }
    });
}

#[test]
fn a_command_that_takes_long_shows_that_it_works() {
    let world = World::new();
    let forecast = ["forecast", "--schedule", "*/5 * * * *", "--days", "1"];
    let (shown, code) = at_a_terminal(&mut world.command(&forecast), 80);
    assert_eq!(code, Some(0), "{shown}");
    let (before, _) = shown.split_once(" runs until ").unwrap();
    assert!(before.contains("simulating · 0:0"), "{before:?}");
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
