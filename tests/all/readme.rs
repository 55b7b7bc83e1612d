//! Every command of the README works as it is written.

use std::fs;
use std::net::TcpStream;
use std::path::Path;
use std::process::{Command, Output};
use std::time::Duration;

use crate::support::world::World;
use ingest_testing::redis_server::free_port;

const README: &str = include_str!("../../README.md");
const USAGE: &str = include_str!("../../docs/usage.md");
const BUILD_AND_RUN: &str = "cargo run --release --locked --";

/// The commands of the README's blocks that are marked so, in their order.
fn commands(mark: &str) -> Vec<&'static str> {
    commands_of(README, mark)
}

fn commands_of(document: &'static str, mark: &str) -> Vec<&'static str> {
    let opening = format!("```{mark}\n");
    let blocks = document
        .split(opening.as_str())
        .skip(1)
        .filter_map(|rest| rest.split("```").next());
    blocks
        .flat_map(str::lines)
        .filter(|line| !line.trim().is_empty())
        .collect()
}

/// Runs a line in a shell whose home is empty at first, with the built program in the place of a build.
fn shell(world: &World, home: &Path, line: &str) -> Output {
    let binary = assert_cmd::cargo::cargo_bin!("ingest")
        .display()
        .to_string();
    let redirected: String = world
        .sets
        .iter()
        .map(|set| format!(" --set '{set}'"))
        .collect();
    let real = if line.contains("--sandbox") {
        String::new()
    } else {
        redirected
    };
    let mut line = match line.trim_start_matches("$ ").strip_prefix("ingest ") {
        Some(rest) => format!("{binary} {rest}"),
        None => line.replace(BUILD_AND_RUN, &binary),
    };
    if !line.contains("sqlite3") && !line.contains("redis-server") {
        line += &real;
    }
    let mut command = Command::new("sh");
    command
        .args(["-c", &line])
        .current_dir(env!("CARGO_MANIFEST_DIR"))
        .env_clear();
    command
        .env("HOME", home)
        .env("PATH", std::env::var_os("PATH").unwrap())
        .env("YOUTUBE_API_KEY", "any");
    command.output().unwrap()
}

#[test]
fn every_command_of_the_readme_succeeds_and_prints_something() {
    let world = World::new();
    let home = world.directory.path();
    let has_sqlite3 = Command::new("sqlite3").arg("--version").output().is_ok();
    let all = [commands("sh"), commands_of(USAGE, "sh")].concat();
    for line in all
        .into_iter()
        .filter(|line| has_sqlite3 || !line.starts_with("sqlite3"))
    {
        let ran = shell(&world, home, line);
        assert!(
            ran.status.success() && !ran.stdout.is_empty(),
            "{line}: {ran:?}"
        );
        assert!(
            !String::from_utf8_lossy(&ran.stdout).contains("No records found"),
            "{line}: {ran:?}"
        );
    }
}

/// A summary, however long its run took.
pub fn whenever(summary: &str) -> String {
    let (before, after) = summary.split_once(" requests in ").unwrap();
    let (_, after) = after.split_once("s.\n").unwrap();
    format!("{before} requests.\n{after}")
}

#[test]
fn the_first_command_prints_what_the_readme_shows_and_the_second_time_nothing_is_due() {
    let world = World::new();
    let first = commands("sh")[0];
    let shown = README
        .split("```text\n")
        .nth(1)
        .unwrap()
        .split("```")
        .next()
        .unwrap();
    let printed = shell(&world, world.directory.path(), first);
    let printed = String::from_utf8(printed.stdout).unwrap();
    assert_eq!(whenever(&printed), whenever(shown));
    let again = shell(&world, world.directory.path(), first);
    assert_eq!(again.status.code(), Some(0));
    assert!(again.stdout.starts_with(b"Nothing was due."), "{again:?}");
    assert_eq!(world.requests(), 0, "practice went to the upstream");
}

/// A server that a command started by itself.
struct Started(String);

impl Drop for Started {
    fn drop(&mut self) {
        let mut command = Command::new("redis-cli");
        let _ = command.args(["-p", &self.0, "shutdown", "nosave"]).status();
    }
}

#[test]
fn two_machines_share_a_quota_as_the_readme_shows() {
    let world = World::new();
    let home = world.directory.path();
    let lines = commands("bash");
    let server = Started(free_port().to_string());
    let line = |at: usize| {
        let here = format!("{}/", home.display());
        let line = lines[at].replace("6390", &server.0).replace("/tmp/", &here);
        line.replace("ingest charge", "BINARY charge --set ledger.timeout=10s")
            .replace(
                "BINARY",
                &assert_cmd::cargo::cargo_bin!("ingest")
                    .display()
                    .to_string(),
            )
    };
    let started = shell(
        &world,
        home,
        &format!("cd {} && {}", home.display(), line(0)),
    );
    assert!(started.status.success(), "{started:?}");
    let port: u16 = server.0.parse().unwrap();
    while TcpStream::connect(("127.0.0.1", port)).is_err() {
        std::thread::sleep(Duration::from_millis(10));
    }
    let charged: Vec<Output> = (1..=2).map(|at| shell(&world, home, &line(at))).collect();
    let codes: Vec<_> = charged.iter().map(|ran| ran.status.code()).collect();
    assert_eq!(codes, [Some(0), Some(75)], "{charged:?}");
    let shown = README.split("```text\n").nth(2).unwrap();
    let shown = shown.split("```").next().unwrap();
    for (shown, ran) in shown.lines().zip(charged) {
        let printed = String::from_utf8(ran.stdout).unwrap();
        assert!(
            printed.starts_with(shown.strip_suffix("...").unwrap()),
            "{printed}"
        );
    }
}

#[test]
fn the_command_with_a_real_key_works_against_the_upstream() {
    let world = World::new();
    for line in commands("console") {
        let line = line.replace("YOUTUBE_API_KEY=... ", "");
        let ran = shell(&world, world.directory.path(), &line);
        assert!(ran.status.success(), "{ran:?}");
        assert!(world.requests() > 0);
    }
}

#[test]
fn the_tour_spends_nothing_of_the_real_ledger() {
    for line in [commands("sh"), commands_of(USAGE, "sh")].concat() {
        let is_read_only = line.contains(" check");
        assert!(
            is_read_only || line.contains("--sandbox") || line.contains("ingest/sandbox"),
            "{line}"
        );
    }
}

#[test]
fn the_cron_line_is_the_shipped_one() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    assert!(root.join("tests/all.sh").exists());
    let shipped = fs::read_to_string(root.join("deploy/cron/ingest.cron")).unwrap();
    for line in commands("cron") {
        assert!(
            shipped.lines().any(|shipped| shipped == line),
            "{line}: {shipped}"
        );
    }
}
