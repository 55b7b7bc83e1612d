//! Files that were restored from a dump as text, which holds everything but `user_version`.

use std::fs;
use std::path::Path;

use rusqlite::Connection;

use crate::support::world::World;

const TRENDING: [&str; 4] = ["--region", "US", "--job", "trending"];

/// The file as `sqlite3 FILE .dump | sqlite3 NEW` makes it anew: every statement of its schema, every row, version 0.
fn dump_and_restore(path: &Path) {
    let dumped = Connection::open(path).unwrap();
    dumped
        .pragma_update(None, "wal_checkpoint", "truncate")
        .unwrap();
    let restored_path = path.with_extension("restored");
    let attach = format!("attach '{}' as restored", restored_path.display());
    dumped.execute_batch(&attach).unwrap();
    let statements: Vec<(String, String, String)> = dumped
        .prepare("select type, name, sql from main.sqlite_schema where sql is not null order by type = 'table' desc")
        .unwrap()
        .query_map([], |row| row.try_into())
        .unwrap()
        .map(Result::unwrap)
        .collect();
    let restored = Connection::open(&restored_path).unwrap();
    for (kind, name, sql) in &statements {
        restored.execute_batch(sql).unwrap();
        if kind == "table" {
            let copy = format!("insert into restored.\"{name}\" select * from main.\"{name}\"");
            dumped.execute_batch(&copy).unwrap();
        }
    }
    drop((dumped, restored));
    for side in ["-wal", "-shm"] {
        let _ = fs::remove_file(format!("{}{side}", path.display()));
    }
    fs::rename(restored_path, path).unwrap();
}

fn landed() -> World {
    let world = World::new();
    assert_eq!(world.ingest(&TRENDING).code, 0);
    world
}

#[test]
fn a_restored_catalog_is_no_empty_one() {
    let world = landed();
    let records = world.count("select count(*) from record");
    dump_and_restore(&world.state_dir().join("catalog.db"));
    let history = world.json(&["history"]).to_string();
    assert!(history.contains("trending"), "{history}");
    let ran = world.ingest(&TRENDING);
    assert_eq!(ran.code, 0, "{ran:?}");
    assert!(ran.stdout.contains("Nothing was due"), "{ran:?}");
    assert_eq!(world.count("select count(*) from record"), records);
    let version: i64 = world
        .catalog()
        .pragma_query_value(None, "user_version", |row| row.get(0))
        .unwrap();
    assert!(version > 0, "the version is not written");
}

#[test]
fn a_restored_ledger_grants_nothing_twice() {
    let world = landed();
    let charged = world.charged("daily");
    assert!(charged > 0);
    dump_and_restore(&world.state_dir().join("ledger.db"));
    assert_eq!(world.charged("daily"), charged);
    assert_eq!(world.ingest(&["charge", "youtube", "videos.list"]).code, 0);
    assert_eq!(world.charged("daily"), charged + 1);
}

#[test]
fn tables_of_another_program_are_no_catalog() {
    let world = World::new();
    fs::create_dir_all(world.state_dir()).unwrap();
    let path = world.state_dir().join("catalog.db");
    Connection::open(&path)
        .unwrap()
        .execute_batch("create table somebodys (a)")
        .unwrap();
    for arguments in [&["history"][..], &TRENDING] {
        let ran = world.ingest(arguments);
        assert_eq!(ran.code, 1, "{ran:?}");
        assert!(
            ran.stderr.contains("catalog.db") && ran.stderr.contains("not those of a catalog"),
            "{ran:?}"
        );
    }
    assert_eq!(world.requests(), 0);
}
