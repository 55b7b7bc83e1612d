//! `ingest backup`, and a state directory that is restored from one, whole or in part.

use std::fs;
use std::path::{Path, PathBuf};

use rusqlite::Connection;

use crate::support::world::World;

const TRENDING: [&str; 4] = ["--region", "US", "--job", "trending"];
const CHARGE: [&str; 3] = ["charge", "youtube", "videos.list"];

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
