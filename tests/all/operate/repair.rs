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
