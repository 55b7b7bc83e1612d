//! Commands that read, while a run begins, works or ends.

use std::cell::Cell;
use std::collections::BTreeSet;
use std::fs;
use std::io::{BufRead, BufReader};
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::{Child, Command, Stdio};

use ingest_catalog::Catalog;
use ingest_sqlite as sqlite;
use rusqlite::ffi;
use serde_json::Value;

use super::promises::LISTING_ONLY;
use crate::support::world::{Ran, World, as_another_user};

const RUN: [&str; 4] = ["--region", "all", "--job", "trending"];
const EXPORT: [&str; 3] = ["export", "--kind", "video"];

/// A world whose catalog holds more than a pipe does, and whose regions are due at every run.
fn filled() -> World {
    let mut world = World::configured(&LISTING_ONLY[..1], |_| {});
    assert_eq!(world.ingest(&RUN).code, 0);
    world.set("jobs.trending.every=1us");
    world
}

fn records(world: &World) -> usize {
    usize::try_from(world.count("select count(*) from record where kind = 'video'")).unwrap()
}

/// Starts an export into a pipe that is read no further than the first line.
fn begun(mut command: Command) -> (Child, BufReader<std::process::ChildStdout>, String) {
    let mut export = command
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let mut lines = BufReader::new(export.stdout.take().unwrap());
    let mut first = String::new();
    lines.read_line(&mut first).unwrap();
    (export, lines, first)
}

/// What an export wrote is one state of the catalog: each record once, none seen later than `until`.
fn assert_one_snapshot(world: &World, command: Command) {
    let (before, until) = (
        records(world),
        world
            .catalog()
            .query_row("select max(last_seen) from record", [], |row| {
                row.get::<_, String>(0)
            }),
    );
    let (export, lines, first) = begun(command);
    for _ in 0..2 {
        let ran = world.ingest(&RUN);
        assert_eq!(ran.code, 0, "the run does not wait for the export: {ran:?}");
    }
    let rest = lines.lines().map(Result::unwrap);
    let exported: Vec<Value> = [first]
        .into_iter()
        .chain(rest)
        .map(|line| serde_json::from_str(&line).unwrap())
        .collect();
    let ended = Ran::of(export.wait_with_output().unwrap());
    assert_eq!((ended.code, ended.stderr.as_str()), (0, ""));
    let ids: BTreeSet<&str> = exported
        .iter()
        .map(|record| record["id"].as_str().unwrap())
        .collect();
    assert_eq!((exported.len(), ids.len()), (before, before));
    let last = exported
        .iter()
        .map(|record| record["last_seen"].as_str().unwrap())
        .max();
    assert!(last <= until.as_deref().ok(), "rows of two points in time");
}

#[test]
fn an_export_into_a_slow_pipe_is_one_snapshot_though_a_run_begins_and_ends_meanwhile() {
    let world = filled();
    assert_one_snapshot(&world, world.command(&EXPORT));
    let left: Vec<_> = fs::read_dir(world.state_dir())
        .unwrap()
        .map(|file| file.unwrap().file_name().into_string().unwrap())
        .filter(|name| name.contains("-wal") || name.contains("-shm"))
        .collect();
    assert_eq!(left, [""; 0], "whoever closes last tidies up");
    assert_eq!(world.ingest(&["repair"]).code, 0);
}

/// The same command for a user who may read the state directory and not write it; `None` where nobody can become one.
fn as_a_reader(world: &World, arguments: &[&str]) -> Option<Command> {
    let command = as_another_user(&world.command(arguments))?;
    let open = |path: &Path, mode| {
        fs::set_permissions(path, fs::Permissions::from_mode(mode)).unwrap();
    };
    open(world.directory.path(), 0o755);
    open(&world.state_dir(), 0o755);
    open(&world.state_dir().join("catalog.db"), 0o644);
    open(&world.state_dir().join("ledger.db"), 0o644);
    Some(command)
}

#[test]
fn an_export_by_a_user_who_may_not_write_is_one_snapshot_too() {
    let world = filled();
    if let Some(command) = as_a_reader(&world, &EXPORT) {
        assert_one_snapshot(&world, command);
    }
}

/// Runs a command until the others have ended, and counts how often that was.
fn repeated(world: &World, arguments: &[&str], others: &mut [Child]) -> usize {
    let mut times = 0;
    while others
        .iter_mut()
        .any(|child| child.try_wait().unwrap().is_none())
    {
        let ran = world.ingest(arguments);
        assert_eq!((ran.code, ran.stderr.as_str()), (0, ""), "{arguments:?}");
        times += 1;
    }
    times
}

#[test]
fn readers_beside_processes_that_open_and_close_the_files_always_succeed() {
    let world = filled();
    let ingest = world.command(&["charge", "youtube", "videos.list", "-q"]);
    let script = "for i in 1 2 3 4 5 6; do \"$0\" \"$@\" || exit; done";
    let charging = |_| {
        let mut shell = Command::new("sh");
        shell
            .args(["-c", script])
            .arg(ingest.get_program())
            .args(ingest.get_args());
        let set = ingest.get_envs();
        shell
            .env_clear()
            .envs(set.filter_map(|(name, value)| Some((name, value?))))
            .current_dir(world.directory.path());
        shell.spawn().unwrap()
    };
    let mut charging: Vec<Child> = (0..6).map(charging).collect();
    assert!(repeated(&world, &["status"], &mut charging) > 0);
    for child in &mut charging {
        assert!(child.wait().unwrap().success());
    }
    let mut run = [world.command(&RUN).stdout(Stdio::null()).spawn().unwrap()];
    repeated(&world, &["search", "the"], &mut run);
    assert!(run[0].wait().unwrap().success());
}

/// Every column of a row is changed together, so that two states in one answer are seen.
#[test]
fn what_is_read_while_a_writer_opens_changes_and_closes_the_file_is_read_again() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("catalog.db");
    let write = |n: i64| {
        let connection = sqlite::open(&path, Catalog::schema()).unwrap();
        let set = "insert into estimate values ('a', 'b', ?1) on conflict do update set units = ?1";
        connection.execute(set, [n.to_string()]).unwrap();
    };
    write(1);
    let mut reader = sqlite::open_read_only(&path, Catalog::schema())
        .unwrap()
        .unwrap();
    let (asked, meanwhile) = (Cell::new(0), Cell::new(1));
    let read = reader.read(|connection| {
        let units = || {
            connection.query_row("select units from estimate", [], |row| {
                row.get::<_, String>(0)
            })
        };
        let first = units()?;
        asked.set(asked.get() + 1);
        if meanwhile.get() < 3 {
            meanwhile.set(meanwhile.get() + 1);
            write(meanwhile.get());
        }
        Ok((first, units()?))
    });
    assert_eq!(read.unwrap(), ("3".to_owned(), "3".to_owned()));
    assert_eq!(asked.get(), 3);
}

#[test]
fn only_what_an_integrity_check_finds_damaged_is_called_so() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("catalog.db");
    drop(sqlite::open(&path, Catalog::schema()).unwrap());
    let corrupt = || rusqlite::Error::SqliteFailure(ffi::Error::new(ffi::SQLITE_CORRUPT), None);
    let said = sqlite::explain(&sqlite::confirmed(&path, corrupt()));
    assert!(
        !said.contains("damaged") && said.contains("finds no damage"),
        "{said}"
    );
    let mut bytes = fs::read(&path).unwrap();
    bytes[4096..].fill(0xff);
    fs::write(&path, bytes).unwrap();
    let said = sqlite::explain(&sqlite::confirmed(&path, corrupt()));
    assert!(said.contains("the file is damaged"), "{said}");
}

#[test]
fn a_reader_that_was_killed_in_an_export_is_in_nobodys_way() {
    let world = filled();
    let (mut export, lines, _) = begun(world.command(&EXPORT));
    export.kill().unwrap();
    export.wait().unwrap();
    drop(lines);
    for reading in [&["status"][..], &["search", "the"], &EXPORT] {
        assert_eq!(world.ingest(reading).code, 0, "{reading:?}");
    }
    assert_eq!(world.ingest(&RUN).code, 0);
    assert_eq!(world.ingest(&["repair"]).code, 0);
}
