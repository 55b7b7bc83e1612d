//! Where the records of a response are, and what their columns hold.

use serde_json::json;

use super::{Api, run};
use ingest_testing::stub_upstream::{StubAnswer, StubUpstream};

fn stub(body: serde_json::Value) -> StubUpstream {
    StubUpstream::answering([StubAnswer::json(&body)])
}

/// SQLite before 3.46, for example that of Debian 12, parses a view with a stack of 100 symbols. If one view does not fit, it
/// reads nothing from the whole file.
#[test]
fn the_sqlite_of_older_systems_can_parse_a_view_with_columns_of_every_type() {
    let stub = stub(json!([{ "id": 1, "v": "1714559999" }]));
    let world = Api {
        call: r#"records = { kind = "thing", id = "/id", columns = { at = { at = "/v", type = "timestamp" }, real = { at = "/v", type = "real" }, whole = { at = "/v", type = "integer" }, yes = { at = "/v", type = "boolean" } } }"#,
        ..Api::default()
    }
    .world(&stub);
    assert_eq!(run(&world)["outcome"], "complete");
    let view: String = world
        .catalog()
        .query_row(
            "select sql from sqlite_master where name = 'api_thing'",
            [],
            |row| row.get(0),
        )
        .unwrap();
    let mut depth = 0_i32;
    let mut deepest = 0;
    for character in view.chars() {
        depth += i32::from(character == '(') - i32::from(character == ')');
        deepest = deepest.max(depth);
    }
    assert!(deepest <= 7, "{deepest} levels of parentheses: {view}");
    let query = "import sqlite3, sys; print(sqlite3.connect(sys.argv[1]).execute('select at, whole from api_thing').fetchall())";
    let python = std::process::Command::new("python3")
        .args(["-c", query])
        .arg(world.state_dir().join("catalog.db"))
        .output();
    if let Ok(read) = python {
        assert_eq!(
            String::from_utf8_lossy(&read.stdout).trim(),
            "[('2024-05-01T10:39:59Z', 1714559999)]",
            "{read:?}"
        );
    }
}

#[test]
fn a_record_with_an_id_beyond_the_bound_is_left_out_and_the_bound_is_named() {
    let stub = stub(json!([{ "id": 1 }, { "id": "x".repeat(64 * 1024 + 1) }]));
    let world = Api {
        call: r#"records = { kind = "thing", id = "/id" }"#,
        ..Api::default()
    }
    .world(&stub);
    let report = run(&world);
    let pass = &report["passes"][0];
    assert_eq!(pass["records"], 1, "{report}");
    assert!(
        pass["detail"].as_str().unwrap().contains("64 KiB"),
        "{report}"
    );
}
