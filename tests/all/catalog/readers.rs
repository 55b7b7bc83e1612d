//! Other programs read the catalog: Python's SQLite, SQLite's shell, DuckDB, Datasette and sqlite-utils, each as it is
//! installed. `tests/all.sh` installs them below `target/`.

use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use serde_json::{Value, json};

use super::fixture::{Fixture, Page, record};

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
        eprintln!("NOT TESTED: no python3 to read the catalog with");
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
            eprintln!("NOT TESTED: {reader} is not installed");
        } else {
            assert_eq!(rows, &expected, "{reader}");
        }
    }
}
