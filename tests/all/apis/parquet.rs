//! Exports as Parquet: typed columns, read back by the crate and by DuckDB.

use std::fs::File;
use std::path::{Path, PathBuf};
use std::process::Command;

use parquet::file::reader::{FileReader, SerializedFileReader};
use parquet::record::Field;
use serde_json::json;

use super::{Api, run};
use crate::support::world::World;
use ingest_testing::not_run::not_run;
use ingest_testing::stub_upstream::{StubAnswer, StubUpstream};

const COLUMNS: &str = r#"records = { at = "/list", kind = "thing", id = "/id", columns = { name = "/name", count = { at = "/count", type = "integer" }, price = { at = "/price", type = "real" }, open = { at = "/open", type = "boolean" }, made = { at = "/made", type = "timestamp" }, tags = { at = "/tags", type = "json" }, region = "{region}" } }"#;

fn exported() -> (World, PathBuf) {
    let list = json!([
        { "id": "a", "name": "Été", "count": "12", "price": 2.5, "open": true, "made": "2024-02-28T23:59:59Z", "tags": ["x"] },
        { "id": "b", "name": "=1+1", "count": "many", "price": "3", "open": "FALSE", "made": 1_709_164_799, "tags": null },
        { "id": "c", "made": -1.5 },
    ]);
    let stub = StubUpstream::answering([StubAnswer::json(&json!({ "list": list }))]);
    let world = Api {
        call: COLUMNS,
        ..Api::default()
    }
    .world(&stub);
    assert_eq!(run(&world)["outcome"], "complete");
    let file = world.directory.path().join("things.parquet");
    let path = file.to_str().unwrap().to_owned();
    let ran = world.ingest(&[
        "export", "--kind", "thing", "--as", "parquet", "--to", &path,
    ]);
    assert_eq!(ran.code, 0, "{ran:?}");
    (world, file)
}

/// The values of a column by its name, in the order of the file.
fn column(file: &Path, name: &str) -> Vec<Field> {
    let reader = SerializedFileReader::new(File::open(file).unwrap()).unwrap();
    let rows = reader.get_row_iter(None).unwrap();
    rows.map(|row| {
        let row = row.unwrap();
        let found = row.get_column_iter().find(|(column, _)| *column == name);
        found.unwrap().1.clone()
    })
    .collect()
}

#[test]
fn columns_have_their_types_and_what_is_not_of_the_type_is_null() {
    let (_world, file) = exported();
    let text = |text: &str| Field::Str(text.to_owned());
    assert_eq!(column(&file, "id"), ["a", "b", "c"].map(text));
    assert_eq!(column(&file, "region"), ["US", "US", "US"].map(text));
    assert_eq!(
        column(&file, "name"),
        [text("Été"), text("=1+1"), Field::Null]
    );
    assert_eq!(
        column(&file, "count"),
        [Field::Long(12), Field::Null, Field::Null]
    );
    assert_eq!(
        column(&file, "price"),
        [Field::Double(2.5), Field::Double(3.0), Field::Null]
    );
    assert_eq!(
        column(&file, "open"),
        [Field::Bool(true), Field::Bool(false), Field::Null]
    );
    let made = Field::TimestampMicros(1_709_164_799_000_000);
    let before = Field::TimestampMicros(-1_500_000);
    assert_eq!(column(&file, "made"), [made.clone(), made, before]);
    assert_eq!(
        column(&file, "gone_at"),
        [Field::Null, Field::Null, Field::Null]
    );
    assert!(matches!(
        column(&file, "first_seen")[0],
        Field::TimestampMicros(_)
    ));
}

#[test]
fn a_kind_without_records_is_a_file_with_columns_and_no_rows() {
    let stub = StubUpstream::answering([StubAnswer::json(&json!({ "list": [] }))]);
    let world = Api {
        call: COLUMNS,
        ..Api::default()
    }
    .world(&stub);
    run(&world);
    let output = world
        .command(&["export", "--kind", "thing", "--as", "parquet"])
        .output()
        .unwrap();
    let file = world.directory.path().join("empty.parquet");
    std::fs::write(&file, output.stdout).unwrap();
    let reader = SerializedFileReader::new(File::open(&file).unwrap()).unwrap();
    let schema = reader.metadata().file_metadata().schema();
    assert_eq!(
        (
            reader.metadata().file_metadata().num_rows(),
            schema.get_fields().len()
        ),
        (0, 12)
    );
}

#[test]
fn duckdb_reads_the_file_with_its_types() {
    let (_world, file) = exported();
    let ours = Path::new(env!("CARGO_MANIFEST_DIR")).join("target/readers/bin/python");
    let python = if ours.exists() {
        ours
    } else {
        PathBuf::from("python3")
    };
    let script = "import sys\ntry:\n    import duckdb\nexcept ImportError:\n    sys.exit(77)\n\
        rows = duckdb.sql(f\"select typeof(count), typeof(price), typeof(open), typeof(made), sum(count) over (), tags \
        from '{sys.argv[1]}' order by id\").fetchall()\nprint(rows[0])";
    let Ok(output) = Command::new(python)
        .args(["-c", script])
        .arg(&file)
        .output()
    else {
        not_run("no python3 to read Parquet with");
        return;
    };
    if output.status.code() == Some(77) {
        not_run("duckdb is not installed");
        return;
    }
    let row = String::from_utf8(output.stdout).unwrap();
    let types = "('BIGINT', 'DOUBLE', 'BOOLEAN', 'TIMESTAMP WITH TIME ZONE', 12, ";
    assert!(
        row.starts_with(types),
        "{row} {}",
        String::from_utf8_lossy(&output.stderr)
    );
}
