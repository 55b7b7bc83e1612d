//! Disks that are full, read-only or shared with others: each a clear error, and nothing half-written.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use serde_json::{Value, json};

use super::files::everything_below;
use crate::support::world::{Ran, World, in_shell};
use ingest_testing::not_run::not_run;
use ingest_testing::stub_upstream::{StubAnswer, StubUpstream};

const CHARGE: [&str; 3] = ["charge", "youtube", "videos.list"];
const RUN: [&str; 6] = ["--region", "US,GB", "--job", "trending", "--format", "json"];

/// Runs with files that cannot grow beyond `blocks` blocks: a full disk looks like that.
fn run_with_full_disk(world: &World, blocks: u32, arguments: &[&str]) -> Ran {
    // Ignored, the signal becomes an error.
    let limited = format!("trap '' XFSZ; ulimit -f {blocks}");
    let mut command = in_shell(&limited, &world.command(arguments));
    Ran::of(command.output().unwrap())
}

/// The passes count what they hold, each page once, and every file is whole.
fn assert_whole(world: &World) {
    if !world.state_dir().join("catalog.db").exists() {
        return;
    }
    let repaired = world.json(&["repair"]);
    let files = repaired["files"].as_array().unwrap();
    assert!(
        files.iter().all(|file| file["outcome"] == "whole"),
        "{repaired}"
    );
    let wrong = "select count(*) from pass where pages <> (select count(*) from checkpoint where pass = pass.id)
                    or records <> (select count(*) from (select 1 from listing where pass = pass.id
            group by step, id, requested, case when parent is null then position end))";
    assert_eq!(world.count(wrong), 0);
}

#[test]
fn what_cannot_be_landed_is_not_paid_for_by_the_other_regions() {
    let page = json!({ "items": [{ "id": "a", "text": "x".repeat(500_000) }] });
    let upstream = StubUpstream::answering([StubAnswer::json(&page)]);
    let mut world = World::new();
    world.set(&format!("upstreams.youtube.base_url={}", upstream.url()));
    let run = ["--region", "all", "--job", "trending", "--concurrency", "1"];
    let ran = run_with_full_disk(&world, 600, &run);
    assert_eq!((ran.code, upstream.requests().len()), (1, 1), "{ran:?}");
}

#[test]
fn a_disk_that_is_full_at_any_point_leaves_whole_files_and_the_next_run_goes_on() {
    for blocks in [0, 8, 72, 160, 300, 600] {
        let world = World::new();
        let ran = run_with_full_disk(&world, blocks, &RUN);
        assert!(ran.code == 0 || ran.code == 1, "{blocks}: {ran:?}");
        if ran.code == 1 {
            let said = format!("{}{}", ran.stdout, ran.stderr);
            assert!(
                said.contains("free some space") || said.contains("check its disk"),
                "{blocks}: {said}"
            );
        }
        assert_whole(&world);
        assert!(
            world.recorded("daily") >= world.counted("daily"),
            "{blocks}: something was requested uncharged"
        );
        assert_eq!(world.ingest(&RUN).code, 0, "{blocks}: with room again");
        assert_whole(&world);
        let complete = "select count(*) from pass where outcome = 'complete' and region <> '*'";
        assert_eq!(world.count(complete), 2, "{blocks}");
    }
}

#[test]
fn a_result_that_cannot_be_written_is_a_failure() {
    let world = World::new();
    assert_eq!(world.ingest(&RUN).code, 0);
    let (result, records) = ("cannot write to stdout", "cannot write the records");
    for (arguments, expected) in [
        (&["status"][..], result),
        (&["status", "--format", "json"], result),
        (&["history"], result),
        (&["search", "the"], result),
        (&["schema"], result),
        (&["--version"], result),
        (&["export", "--kind", "video"], records),
        (&["export", "--kind", "video", "--as", "csv"], records),
    ] {
        let full = fs::OpenOptions::new()
            .write(true)
            .open("/dev/full")
            .unwrap();
        let ran = world
            .command(arguments)
            .stdout(full)
            .stderr(Stdio::piped())
            .output()
            .unwrap();
        let said = String::from_utf8(ran.stderr).unwrap();
        assert_eq!(ran.status.code(), Some(1), "{arguments:?}: {said}");
        assert!(said.contains(expected), "{arguments:?}: {said}");
    }
}

/// A file system of its own, where this user may mount one.
struct Mount(PathBuf);

impl Mount {
    fn new(at: &Path, options: &str) -> Option<Self> {
        fs::create_dir_all(at).unwrap();
        let mounted = mount(&["-t", "tmpfs", "-o", options, "none"], at);
        if !mounted {
            not_run("this user may not mount: what needs a disk of its own is not checked");
        }
        mounted.then(|| Self(at.to_owned()))
    }

    fn remount(&self, options: &str) {
        assert!(mount(&["-o", &format!("remount,{options}")], &self.0));
    }
}

fn mount(arguments: &[&str], at: &Path) -> bool {
    let mut command = Command::new("mount");
    let ran = command
        .args(arguments)
        .arg(at)
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .status();
    ran.is_ok_and(|status| status.success())
}

impl Drop for Mount {
    fn drop(&mut self) {
        let _ = Command::new("umount").arg("-l").arg(&self.0).status();
    }
}

#[test]
fn on_a_small_disk_a_run_fails_clearly_and_goes_on_when_there_is_room() {
    let world = World::new();
    let Some(disk) = Mount::new(&world.state_dir(), "size=600k") else {
        return;
    };
    let ran = world.ingest(&RUN);
    assert_eq!(ran.code, 1, "{ran:?}");
    assert!(
        ran.stdout.contains("free some space on its disk"),
        "{ran:?}"
    );
    let again = world.ingest(&RUN);
    assert_eq!(
        (again.code, again.json()["requests"].as_u64()),
        (1, Some(0)),
        "nothing is asked for in vain: {again:?}"
    );
    disk.remount("size=16m");
    assert_eq!(world.ingest(&RUN).code, 0);
    assert_whole(&world);
}

#[test]
fn whatever_meets_a_full_disk_says_that_it_is_full() {
    let world = World::new();
    let Some(_disk) = Mount::new(&world.state_dir(), "size=4m") else {
        return;
    };
    assert_eq!(world.ingest(&CHARGE).code, 0);
    // With the files that a run leaves, so that SQLite meets the full disk when it opens them.
    assert_eq!(world.ingest(&RUN).code, 0);
    let filler = world.state_dir().join("filler");
    assert!(fs::write(filler, vec![0; 9 << 20]).is_err());
    for arguments in [&CHARGE[..], &RUN, &["repair"]] {
        let ran = world.ingest(arguments);
        assert_eq!(ran.code, 1, "{arguments:?}: {ran:?}");
        let said = format!("{}{}", ran.stdout, ran.stderr);
        assert!(
            said.contains("full") && said.contains("free some space on its disk"),
            "{arguments:?}: {said}"
        );
    }
}

#[test]
fn a_read_only_disk_is_read_and_whatever_writes_says_why_it_cannot() {
    let world = World::new();
    let Some(disk) = Mount::new(&world.state_dir(), "size=64m") else {
        return;
    };
    assert_eq!(world.ingest(&RUN).code, 0);
    disk.remount("ro");
    for reads in [
        &["status"][..],
        &["history"],
        &["search", "the"],
        &["--region", "all", "--dry-run"],
    ] {
        assert_eq!(world.ingest(reads).code, 0, "{reads:?}");
    }
    let requests = world.requests();
    for writes in [
        &RUN[..],
        &["charge", "youtube", "videos.list"],
        &["repair"],
        &["check"],
    ] {
        let ran = world.ingest(writes);
        assert_eq!(ran.code, 1, "{ran:?}");
        let said = format!("{}{}", ran.stdout, ran.stderr);
        assert!(
            said.contains("writable for this user"),
            "{writes:?}: {said}"
        );
    }
    assert_eq!(world.requests(), requests);
    disk.remount("rw");
}

/// Files of a run that was killed lie there with their logs: these too are nobody else's.
#[test]
fn whatever_the_umask_every_file_is_its_owners_alone() {
    let world = World::new();
    world.faults(&serde_json::json!({ "delay_ms": 60_000, "after": 2, "times": 100 }));
    let mut command = in_shell("umask 0", &world.command(&RUN));
    let mut child = command.stdout(Stdio::null()).spawn().unwrap();
    let wal = world.state_dir().join("catalog.db-wal");
    while world.requests() < 3 || !wal.exists() {
        std::thread::sleep(std::time::Duration::from_millis(5));
    }
    child.kill().unwrap();
    child.wait().unwrap();
    let all = [
        vec![world.state_dir()],
        everything_below(&world.state_dir()),
    ]
    .concat();
    let names: Vec<_> = all
        .iter()
        .filter_map(|path| path.file_name()?.to_str())
        .collect();
    for side in [
        "catalog.db-wal",
        "catalog.db-shm",
        "ledger.db-wal",
        "ledger.db-shm",
    ] {
        assert!(names.contains(&side), "{names:?}");
    }
    for path in all {
        let mode = fs::metadata(&path).unwrap().permissions().mode();
        assert_eq!(
            mode & 0o7777,
            if path.is_dir() { 0o700 } else { 0o600 },
            "{}",
            path.display()
        );
    }
}

/// What has to be there for a machine to go on is told in JSON too, whatever is wrong.
#[test]
fn a_broken_journal_is_said_and_left_alone() {
    let mut world = World::new();
    world.set("ledger.url=redis://127.0.0.1:9");
    let charge = ["charge", "youtube", "videos.list", "-q"];
    assert_eq!(world.ingest(&charge).code, 0);
    let path = world.state_dir().join("journal.db");
    let whole = fs::read(&path).unwrap();
    let newer = || {
        drop(
            rusqlite::Connection::open(&path)
                .unwrap()
                .pragma_update(None, "user_version", 99),
        )
    };
    let torn = || {
        let mut torn = whole.clone();
        torn[4096..].fill(0xAA);
        fs::write(&path, torn).unwrap();
    };
    let broken: [(&str, &dyn Fn()); 4] = [
        ("the file is damaged", &torn),
        ("upgrade ingest", &newer),
        ("the file is damaged", &|| {
            fs::write(
                &path,
                [&b"garbage instead of a header "[..], &whole[28..]].concat(),
            )
            .unwrap()
        }),
        ("the file is damaged", &|| {
            fs::write(&path, &whole[..whole.len() / 2]).unwrap()
        }),
    ];
    for (says, break_it) in broken {
        break_it();
        let before = fs::read(&path).unwrap();
        for arguments in [
            &RUN[..],
            &["charge", "youtube", "videos.list", "--format", "json"],
            &["check", "--format", "json"],
            &["status", "--format", "json"],
        ] {
            let ran = world.ingest(arguments);
            assert_eq!(ran.code, 1, "{says}: {ran:?}");
            assert!(
                serde_json::from_str::<Value>(&ran.stdout).is_ok(),
                "{ran:?}"
            );
            assert!(
                ran.stdout.contains(says) && ran.stdout.contains("journal.db"),
                "{says}: {ran:?}"
            );
        }
        assert_eq!(fs::read(&path).unwrap(), before, "{says}");
        fs::write(&path, &whole).unwrap();
    }
    assert_eq!(world.requests(), 0);
}
