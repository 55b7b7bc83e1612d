//! Other programs read the catalog: Python's SQLite, SQLite's shell, DuckDB, Datasette and sqlite-utils, each as it is
//! installed. `tests/all.sh` installs them below `target/`.

use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::thread;
use std::time::Duration;

use serde_json::{Value, json};

use crate::apis::{Api, run};
use crate::fixture::{Fixture, Page, record};
use ingest_testing::not_run::not_run;
use ingest_testing::stub_upstream::{StubAnswer, StubUpstream};

/// The Python that has the other programs; the system's where there is none.
fn python() -> PathBuf {
    let ours = Path::new(env!("CARGO_MANIFEST_DIR")).join("target/readers/bin/python");
    if ours.exists() {
        ours
    } else {
        PathBuf::from("python3")
    }
}

fn read(catalog: &Path) -> Option<Output> {
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/all/catalog/readers.py");
    Command::new(python())
        .arg(script)
        .arg(catalog)
        .output()
        .ok()
}

#[tokio::test]
async fn every_reader_finds_the_same_rows() {
    let f = Fixture::new();
    let body = |title: &str, views: &str| json!({"snippet": {"title": title, "tags": ["x", "y"]}, "statistics": {"viewCount": views}});
    f.land(&Page::of(vec![
        record("a", body("Été", "22")),
        record("b", body("fox", "222")),
        record("c", body("hen", "22")),
    ]))
    .await;
    let Some(output) = read(&f.path()) else {
        not_run("no python3 to read the catalog with");
        return;
    };
    assert!(output.status.success(), "{output:?}");
    let found: Value = serde_json::from_slice(&output.stdout).unwrap();
    let expected = json!([
        ["a", "Été", "22", "[\"x\",\"y\"]"],
        ["c", "hen", "22", "[\"x\",\"y\"]"]
    ]);
    for (reader, rows) in found.as_object().unwrap() {
        if rows.is_null() {
            not_run(&format!("{reader} is not installed"));
        } else {
            assert_eq!(rows, &expected, "{reader}");
        }
    }
}

/// The last program that closes a database removes its log, unless another one has locks on it.
#[test]
fn a_reader_that_ends_during_a_run_leaves_the_run_its_log() {
    let stub = StubUpstream::start(|_| {
        let answer = StubAnswer::json(&json!([{ "id": 1 }]));
        answer.after(Duration::from_millis(1500))
    });
    let world = Api {
        call: r#"records = { kind = "thing", id = "/id" }"#,
        ..Api::default()
    }
    .world(&stub);
    assert_eq!(run(&world)["outcome"], "complete");
    let reader = world.catalog();
    let count = |reader: &rusqlite::Connection| -> i64 {
        reader
            .query_row("select count(*) from record", [], |row| row.get(0))
            .unwrap()
    };
    assert_eq!(count(&reader), 1);
    let second = thread::spawn({
        let mut command = world.command(&["--region", "all"]);
        move || command.output().unwrap()
    });
    while stub.requests().len() < 2 {
        thread::sleep(Duration::from_millis(20));
    }
    drop(reader);
    let second = second.join().unwrap();
    assert_eq!(second.status.code(), Some(0), "{second:?}");
}
