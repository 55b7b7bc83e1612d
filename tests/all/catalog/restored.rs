//! Files that were restored from a dump as text, which holds everything but `user_version` and `application_id`.

use std::fs;
use std::io::Write;
use std::path::Path;
use std::process::{Command, Stdio};

use rusqlite::Connection;

use crate::support::world::World;

const TRENDING: [&str; 4] = ["--region", "US", "--job", "trending"];

/// Makes a file anew, as `sqlite3 FILE .dump | sqlite3 NEW` does, with these changes to its text.
fn dump_and_restore(path: &Path, changes: &[(&str, &str)]) {
    let dumped = Command::new("sqlite3").arg(path).arg(".dump").output();
    let mut dump = String::from_utf8(dumped.expect("sqlite3 is needed").stdout).unwrap();
    for (from, to) in changes {
        assert!(dump.contains(from), "{dump}");
        dump = dump.replace(from, to);
    }
    for side in ["", "-wal", "-shm"] {
        let _ = fs::remove_file(format!("{}{side}", path.display()));
    }
    let mut restoring = Command::new("sqlite3");
    restoring.arg("-bail").arg(path).stdin(Stdio::piped());
    let mut restoring = restoring.spawn().unwrap();
    let mut input = restoring.stdin.take().unwrap();
    input.write_all(dump.as_bytes()).unwrap();
    drop(input);
    assert!(restoring.wait().unwrap().success());
    assert_eq!(identity(path), (0, 0));
}

/// The version of a file, and the digest of its tables.
fn identity(path: &Path) -> (i64, i64) {
    let sql = "select user_version, application_id from pragma_user_version, pragma_application_id";
    let file = Connection::open(path).unwrap();
    file.query_row(sql, [], |row| row.try_into()).unwrap()
}

fn landed() -> World {
    let world = World::new();
    assert_eq!(world.ingest(&TRENDING).code, 0);
    world
}

#[test]
fn a_restored_catalog_is_no_empty_one() {
    let world = landed();
    let path = world.state_dir().join("catalog.db");
    let records = "select count(*) || max(number) || max(id) from record where number % 7 = 0";
    let made =
        "select group_concat(made) from (select type || name made from sqlite_schema order by 1)";
    let read = |sql: &str| -> String {
        let catalog = world.catalog();
        catalog.query_row(sql, [], |row| row.get(0)).unwrap()
    };
    let (identified, before) = (identity(&path), [read(records), read(made)]);
    let found = world.json(&["search", "the"]);
    dump_and_restore(&path, &[]);
    let history = world.json(&["history"]).to_string();
    assert!(history.contains("trending"), "{history}");
    let ran = world.ingest(&TRENDING);
    assert_eq!(ran.code, 0, "{ran:?}");
    assert!(ran.stdout.contains("Nothing was due"), "{ran:?}");
    assert_eq!([read(records), read(made)], before);
    assert_eq!(world.json(&["search", "the"]), found);
    assert_eq!(identity(&path), identified);
}

#[test]
fn a_dump_of_other_tables_is_no_catalog() {
    for change in [
        ("cut         integer not null default false", "cut integer"),
        ("CREATE INDEX record_by_age", "CREATE INDEX record_of_age"),
    ] {
        let world = landed();
        let path = world.state_dir().join("catalog.db");
        dump_and_restore(&path, &[change]);
        for arguments in [&["history"][..], &TRENDING] {
            let ran = world.ingest(arguments);
            assert_eq!(ran.code, 1, "{ran:?}");
            assert!(ran.stderr.contains("not those of a catalog"), "{ran:?}");
        }
        assert_eq!(identity(&path), (0, 0));
    }
}

#[test]
fn a_restored_ledger_grants_nothing_twice() {
    let world = landed();
    let charged = world.charged("daily");
    assert!(charged > 0);
    let path = world.state_dir().join("ledger.db");
    let identified = identity(&path);
    dump_and_restore(&path, &[]);
    assert_eq!(world.charged("daily"), charged);
    assert_eq!(world.ingest(&["charge", "youtube", "videos.list"]).code, 0);
    assert_eq!(world.charged("daily"), charged + 1);
    assert_eq!(identity(&path), identified);
}
