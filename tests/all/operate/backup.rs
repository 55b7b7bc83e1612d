//! `ingest backup`, and a state directory that is restored from one, whole or in part.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use rusqlite::Connection;

use crate::support::world::World;

const TRENDING: [&str; 4] = ["--region", "US", "--job", "trending"];
const CHARGE: [&str; 3] = ["charge", "youtube", "videos.list"];

fn landed() -> World {
    let world = World::new();
    assert_eq!(world.ingest(&TRENDING).code, 0);
    world
}

fn backed_up(world: &World, name: &str) -> PathBuf {
    let directory = world.directory.path().join(name);
    let ran = world.ingest(&["backup", directory.to_str().unwrap()]);
    assert_eq!(ran.code, 0, "{ran:?}");
    directory
}

/// As deploy/README.md has it: the files go, and what is in the way of a copy beside them.
fn restore(world: &World, backup: &Path, files: &[&str]) {
    for file in files {
        for side in ["", "-wal", "-shm"] {
            let _ = fs::remove_file(world.state_dir().join(format!("{file}{side}")));
        }
        fs::copy(backup.join(file), world.state_dir().join(file)).unwrap();
    }
}

#[test]
fn a_backup_holds_every_file_for_its_owner_alone() {
    let world = landed();
    let backup = backed_up(&world, "backup");
    let mut names: Vec<String> = fs::read_dir(&backup)
        .unwrap()
        .map(|file| file.unwrap().file_name().into_string().unwrap())
        .collect();
    names.sort();
    assert_eq!(names, ["catalog.db", "ledger.db"]);
    for name in names {
        let mode = fs::metadata(backup.join(name))
            .unwrap()
            .permissions()
            .mode();
        assert_eq!(mode & 0o777, 0o600);
    }
    assert_eq!(
        fs::metadata(&backup).unwrap().permissions().mode() & 0o777,
        0o700
    );
}

#[test]
fn a_backup_is_never_mixed_with_another() {
    let world = landed();
    let backup = backed_up(&world, "backup");
    let ran = world.ingest(&["backup", backup.to_str().unwrap()]);
    assert_eq!(ran.code, 1, "{ran:?}");
    assert!(ran.stderr.contains("name a new one"), "{ran:?}");
}

#[test]
fn without_files_there_is_nothing_to_back_up() {
    let world = World::new();
    let ran = world.ingest(&["backup", "backup"]);
    assert_eq!(ran.code, 1, "{ran:?}");
    assert!(ran.stderr.contains("no file to back up"), "{ran:?}");
    assert!(!world.directory.path().join("backup").exists());
}

#[test]
fn files_that_hold_nothing_yet_are_used_after_a_restore() {
    let world = World::new();
    fs::create_dir(world.state_dir()).unwrap();
    for file in ["catalog.db", "ledger.db"] {
        fs::write(world.state_dir().join(file), "").unwrap();
    }
    let backup = backed_up(&world, "backup");
    restore(&world, &backup, &["catalog.db", "ledger.db"]);
    let ran = world.ingest(&TRENDING);
    assert_eq!(ran.code, 0, "{ran:?}");
}

#[test]
fn what_a_backup_holds_is_there_after_it_was_restored() {
    let world = landed();
    let charged = world.charged("daily");
    let records = world.count("select count(*) from record");
    let backup = backed_up(&world, "backup");
    fs::remove_dir_all(world.state_dir()).unwrap();
    fs::create_dir(world.state_dir()).unwrap();
    restore(&world, &backup, &["catalog.db", "ledger.db"]);
    assert_eq!(world.charged("daily"), charged);
    assert_eq!(world.count("select count(*) from record"), records);
    assert_eq!(world.count("select count(*) from record_text"), records);
    let ran = world.ingest(&TRENDING);
    assert_eq!(ran.code, 0, "{ran:?}");
    assert!(ran.stdout.contains("Nothing was due"), "{ran:?}");
}

#[test]
fn who_charges_a_restored_ledger_is_warned_of_what_it_lacks() {
    let world = landed();
    let backup = backed_up(&world, "backup");
    let quiet = world.ingest(&CHARGE);
    assert!(!quiet.stderr.contains("restored"), "{quiet:?}");
    restore(&world, &backup, &["catalog.db", "ledger.db"]);
    let warned = world.ingest(&CHARGE);
    assert_eq!(warned.code, 0, "{warned:?}");
    assert!(
        warned.stderr.contains("restored from a backup")
            && warned.stderr.contains("may be granted again"),
        "{warned:?}"
    );
}

#[test]
fn a_restore_from_long_ago_lacks_nothing_that_counts() {
    let world = landed();
    let backup = backed_up(&world, "backup");
    Connection::open(backup.join("ledger.db"))
        .unwrap()
        .execute(
            "update backup set made_at = made_at - 400 * 86400000000",
            [],
        )
        .unwrap();
    restore(&world, &backup, &["ledger.db"]);
    let ran = world.ingest(&CHARGE);
    assert_eq!(ran.code, 0, "{ran:?}");
    assert!(!ran.stderr.contains("restored from a backup"), "{ran:?}");
}

#[test]
fn a_ledger_that_is_older_than_the_catalog_is_charged_what_the_passes_since_spent() {
    let world = World::new();
    assert_eq!(world.ingest(&CHARGE).code, 0);
    let backup = backed_up(&world, "backup");
    assert_eq!(world.ingest(&TRENDING).code, 0);
    let charged = world.charged("daily");
    restore(&world, &backup, &["ledger.db"]);
    assert_eq!(world.recorded("daily"), 1);
    assert_eq!(
        world.charged("daily"),
        charged,
        "as the next charge finds it"
    );
    let ran = world.ingest(&CHARGE);
    assert!(
        ran.stderr.contains("older than the catalog"),
        "nothing is reported: {ran:?}"
    );
    assert_eq!(world.charged("daily"), charged + 1);
    assert_eq!(world.ingest(&CHARGE).code, 0);
    assert_eq!(world.charged("daily"), charged + 2, "charged twice");
}

#[test]
fn a_ledger_whose_accounts_are_of_different_ages_is_charged_what_is_missing_of_each() {
    // Before `youtube` in the order of the accounts.
    let limits = ["daily", "search", "search_burst"]
        .map(|name| format!("{name} = {{ quota = 100, window = \"24h\" }}"));
    let newer = format!(
        "credentials.newer={{ upstream = \"youtube\", secret = {{ env = \"YOUTUBE_API_KEY\" }}, limits = {{ {} }} }}",
        limits.join(", ")
    );
    let world = World::configured(&[&newer], |_| {});
    let used = |world: &World| {
        let status = world.json(&["status"]);
        let limits = status["limits"].as_array().unwrap();
        let is_meant =
            |one: &&serde_json::Value| one["account"] == "youtube" && one["limit"] == "daily";
        limits.iter().find(is_meant).unwrap()["used"]
            .as_u64()
            .unwrap()
    };
    assert_eq!(world.ingest(&CHARGE).code, 0);
    let backup = backed_up(&world, "backup");
    assert_eq!(world.ingest(&TRENDING).code, 0);
    let charged = used(&world);
    let now = chrono::Utc::now().timestamp_micros();
    Connection::open(backup.join("ledger.db"))
        .unwrap()
        .execute_batch(&format!(
            "insert into charge (account, at, n, id) values ('newer', {now}, 0, 'later');
            insert into taken values ('newer', 'daily', {now}, 0, 1, 1);"
        ))
        .unwrap();
    restore(&world, &backup, &["ledger.db"]);
    assert_eq!(used(&world), charged, "as the next charge finds it");
    assert_eq!(world.ingest(&CHARGE).code, 0);
    assert_eq!(used(&world), charged + 1);
}

#[test]
fn a_backup_beside_a_run_never_has_a_ledger_that_lacks_what_its_catalog_spent() {
    let world = World::with(|options| options.latency = std::time::Duration::from_millis(5));
    let mut child = world
        .command(&["--region", "all", "--job", "trending", "-q"])
        .spawn()
        .unwrap();
    let (mut compared, mut number, mut running) = (0, 0, true);
    while running {
        running = child.try_wait().unwrap().is_none();
        number += 1;
        let directory = world.directory.path().join(format!("backup-{number}"));
        let ran = world.ingest(&["backup", directory.to_str().unwrap()]);
        let (catalog, ledger) = (directory.join("catalog.db"), directory.join("ledger.db"));
        if ran.code != 0 || !catalog.exists() {
            continue;
        }
        let one = |file: &Path, sql: &str| -> i64 {
            let file = Connection::open(file).unwrap();
            file.query_row(sql, [], |row| row.get(0)).unwrap()
        };
        let has_passes = "select count(*) from sqlite_schema where name = 'pass'";
        if one(&catalog, has_passes) == 0 {
            continue;
        }
        let landed = one(&catalog, "select coalesce(sum(pages), 0) from pass");
        // The run makes its catalog before its ledger: a copy in between has no charges, and no pages either.
        let has_charges = "select count(*) from sqlite_schema where name = 'taken'";
        let sum = "select coalesce(sum(units), 0) from taken where limit_name = 'daily'";
        let charged = match one(&ledger, has_charges) {
            0 => 0,
            _ => one(&ledger, sum),
        };
        assert!(landed <= charged, "{landed} pages, {charged} units");
        compared += 1;
    }
    child.wait().unwrap();
    assert!(compared > 0);
}
