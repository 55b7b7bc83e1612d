use std::fs;
use std::os::unix::fs::FileExt;

use rusqlite::Connection;
use serde_json::Value;

use crate::support::world::World;

fn landed() -> World {
    let world = World::new();
    assert_eq!(
        world.ingest(&["--region", "US", "--job", "trending"]).code,
        0
    );
    world
}

fn file<'a>(answer: &'a Value, name: &str) -> &'a Value {
    let files = answer["files"].as_array().unwrap();
    files
        .iter()
        .find(|file| file["file"].as_str().unwrap().ends_with(name))
        .unwrap()
}

fn catalog(world: &World) -> Connection {
    Connection::open(world.state_dir().join("catalog.db")).unwrap()
}

/// Words of a record that was landed, and how often a search finds them.
fn found(world: &World, words: &str) -> usize {
    world.json(&["search", words, "--limit", "1000"])["hits"]
        .as_array()
        .unwrap()
        .len()
}

fn a_title(world: &World) -> String {
    let title =
        "select json_extract(body, '$.snippet.title') from record where kind = 'video' limit 1";
    catalog(world)
        .query_row(title, [], |row| row.get(0))
        .unwrap()
}

#[test]
fn whole_files_stay_as_they_are() {
    let world = landed();
    let records = || -> i64 {
        catalog(&world)
            .query_row("select count(*) from record", [], |row| row.get(0))
            .unwrap()
    };
    let (before, charged) = (records(), world.charged("daily"));
    let answer = world.json(&["repair"]);
    assert_eq!(file(&answer, "ledger.db")["outcome"], "whole");
    assert_eq!(file(&answer, "catalog.db")["outcome"], "whole");
    assert_eq!((records(), world.charged("daily")), (before, charged));
}

#[test]
fn a_lost_index_is_made_anew_from_the_records() {
    let world = landed();
    let title = a_title(&world);
    let before = found(&world, &title);
    assert!(before > 0);
    Connection::open(world.state_dir().join("catalog.db"))
        .unwrap()
        .execute(
            "insert into record_text (record_text) values ('delete-all')",
            [],
        )
        .unwrap();
    assert_eq!(found(&world, &title), 0);
    let told = world.ingest(&["repair"]);
    assert_eq!(told.code, 0, "{told:?}");
    assert!(
        told.stdout.contains("its full-text index was rebuilt from"),
        "{told:?}"
    );
    assert_eq!(found(&world, &title), before);
}

#[test]
fn a_damaged_index_is_named_and_the_remedy_that_is_named_works() {
    let world = landed();
    let title = a_title(&world);
    let before = found(&world, &title);
    catalog(&world)
        .execute_batch("delete from record_text_data where id > 10")
        .unwrap();
    let failed = world.ingest(&["search", &title]);
    assert_eq!(failed.code, 1, "{failed:?}");
    let names = failed.stderr.contains("the full-text index is damaged");
    assert!(
        names && failed.stderr.contains("`ingest repair`"),
        "{failed:?}"
    );
    let repaired = world.ingest(&["repair"]);
    assert_eq!(repaired.code, 0, "{repaired:?}");
    assert_eq!(found(&world, &title), before);
}

#[test]
fn a_run_that_meets_a_damaged_index_names_the_remedy_and_the_next_one_lands() {
    for damage in [
        "delete from record_text_data where id > 10",
        "delete from record_text_data",
        "delete from record_text_idx",
        "delete from record_text_docsize",
        "update record_text_data set block = x'00'",
        "update record_text_data set block = zeroblob(length(block)) where id > 10",
        "update record_text_idx set pgno = pgno + 9",
    ] {
        let world = landed();
        let title = a_title(&world);
        let before = found(&world, &title);
        catalog(&world).execute_batch(damage).unwrap();
        let run = ["--region", "GB", "--job", "trending"];
        let ran = world.ingest(&run);
        let said = format!("{}{}", ran.stdout, ran.stderr);
        assert!(
            ran.code == 0 || said.contains("`ingest repair`"),
            "{damage}: {said}"
        );
        let repaired = world.ingest(&["repair"]);
        assert_eq!(repaired.code, 0, "{damage}: {repaired:?}");
        assert!(found(&world, &title) >= before, "{damage}");
        let ran = world.ingest(&run);
        assert_eq!(ran.code, 0, "{damage}: {ran:?}");
    }
}

#[test]
fn what_is_seen_again_after_a_repair_is_indexed_once() {
    let mut world = landed();
    let title = a_title(&world);
    let before = found(&world, &title);
    world.ingest(&["repair"]);
    world.set("jobs.trending.every=1us");
    assert_eq!(
        world.ingest(&["--region", "US", "--job", "trending"]).code,
        0
    );
    assert_eq!(found(&world, &title), before);
}

#[test]
fn an_index_that_does_not_fit_its_table_is_mended() {
    let world = landed();
    let connection = catalog(&world);
    // SQLite lets a table be changed behind its indices where one insists.
    connection
        .execute_batch(
            "pragma writable_schema = on;
         update sqlite_schema set name = 'elsewhere', sql = 'create index elsewhere on record (last_seen)'
         where name = 'record_by_age';
         pragma writable_schema = reset;",
        )
        .unwrap();
    drop(connection);
    let answer = world.json(&["repair"]);
    assert_eq!(file(&answer, "catalog.db")["outcome"], "mended", "{answer}");
    assert_eq!(world.json(&["repair"])["files"][1]["outcome"], "whole");
}

#[test]
fn a_damaged_file_is_said_and_left_alone() {
    let world = landed();
    let path = world.state_dir().join("ledger.db");
    let size = fs::metadata(&path).unwrap().len();
    let damaged = fs::OpenOptions::new().write(true).open(&path).unwrap();
    for page in 1..size / 4096 {
        damaged.write_all_at(&[0xAA; 256], page * 4096).unwrap();
    }
    let before = fs::read(&path).unwrap();
    let ran = world.ingest(&["repair", "--format", "json"]);
    assert_eq!(ran.code, 1, "{ran:?}");
    assert_eq!(file(&ran.json(), "ledger.db")["outcome"], "damaged");
    assert_eq!(
        file(&ran.json(), "catalog.db")["outcome"],
        "whole",
        "the other one is looked at all the same"
    );
    assert_eq!(fs::read(&path).unwrap(), before);
}

#[test]
fn a_catalog_of_a_newer_release_is_not_touched() {
    let world = landed();
    catalog(&world)
        .pragma_update(None, "user_version", 999)
        .unwrap();
    let ran = world.ingest(&["repair"]);
    assert_eq!(ran.code, 1);
    assert!(ran.stdout.contains("upgrade ingest"), "{ran:?}");
}

#[test]
fn a_ledger_or_a_journal_of_a_newer_release_is_not_touched() {
    for (name, url) in [
        ("ledger.db", "sqlite"),
        ("journal.db", "redis://127.0.0.1:9"),
    ] {
        let mut world = World::new();
        world.set(&format!("ledger.url={url}"));
        assert_eq!(
            world
                .ingest(&["charge", "youtube", "videos.list", "-q"])
                .code,
            0
        );
        let path = world.state_dir().join(name);
        Connection::open(&path)
            .unwrap()
            .pragma_update(None, "user_version", 999)
            .unwrap();
        let before = fs::read(&path).unwrap();
        let ran = world.ingest(&["repair"]);
        assert_eq!(ran.code, 1, "{ran:?}");
        assert!(
            ran.stdout.contains("version 999") && ran.stdout.contains("upgrade ingest"),
            "{ran:?}"
        );
        assert_eq!(
            ran.stdout.matches(name).count(),
            1,
            "its path is said once: {ran:?}"
        );
        assert!(fs::read(&path).unwrap() == before);
    }
}

#[test]
fn without_files_there_is_nothing_to_repair() {
    let world = World::new();
    let ran = world.ingest(&["repair"]);
    assert_eq!(ran.code, 0);
    assert!(ran.stdout.contains("no file to repair"));
    assert!(!world.state_dir().exists());
}

#[test]
fn quietly_nothing_is_said_of_files_that_are_whole() {
    let ran = landed().ingest(&["repair", "-q"]);
    assert_eq!((ran.code, ran.stdout.as_str()), (0, ""), "{ran:?}");
}
