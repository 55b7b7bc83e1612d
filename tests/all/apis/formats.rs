//! Responses in CSV, NDJSON and XML.

use super::{Api, ids, records, run};
use ingest_testing::stub_upstream::{StubAnswer, StubUpstream};
use serde_json::{Value, json};

/// A run over one response of this body.
fn landed(body: impl Into<Vec<u8>>, records_keys: &str) -> (Value, Vec<(String, Value)>) {
    let stub = StubUpstream::answering([StubAnswer::status(200).body(body)]);
    let world = Api {
        upstream: "attempts = 1",
        call: &format!("records = {{ kind = \"row\", {records_keys} }}"),
        ..Api::default()
    }
    .world(&stub);
    let run = run(&world);
    (run["passes"][0].clone(), records(&world))
}

#[test]
fn rows_of_csv_are_records_named_by_the_first_row() {
    let (pass, rows) = landed(
        "date,close\n2024-01-01,\"1,5\"\n2024-01-02,2\n",
        r#"format = "csv", id = "/date""#,
    );
    assert_eq!(pass["outcome"], "complete", "{pass}");
    assert_eq!(rows.len(), 2);
    assert_eq!(rows[0].1, json!({ "date": "2024-01-01", "close": "1,5" }));
    let (pass, rows) = landed("id;x\r\na;1\r\n", r#"format = "csv_semicolon", id = "/id""#);
    assert_eq!(
        (&pass["outcome"], &rows[0].1),
        (&json!("complete"), &json!({ "id": "a", "x": "1" }))
    );
}

#[test]
fn csv_that_is_no_table_is_not_landed() {
    for body in [
        "id,x\na\n",
        "id,id\na,b\n",
        "<html><title>Sorry</title></html>",
        "other\na\n",
    ] {
        let (pass, rows) = landed(body, r#"format = "csv", id = "/id""#);
        assert_eq!(
            (&pass["outcome"], rows.len()),
            (&json!("failed"), 0),
            "{body}: {pass}"
        );
    }
}

#[test]
fn an_error_in_json_is_understood_though_csv_is_expected() {
    let stub = StubUpstream::answering([StubAnswer::json(
        &json!({ "Information": "the daily limit of 25 requests" }),
    )]);
    let world = Api {
        upstream: r#"errors = [{ status = 200, text = "the daily limit", class = "spent" }]"#,
        call: r#"records = { kind = "row", format = "csv", id = "/id" }"#,
        ..Api::default()
    }
    .world(&stub);
    assert_eq!(run(&world)["outcome"], "stopped");
}

#[test]
fn lines_of_ndjson_are_records() {
    let (pass, rows) = landed(
        "{\"id\":1}\n\n{\"id\":2}",
        r#"format = "ndjson", id = "/id""#,
    );
    assert_eq!(
        (&pass["outcome"], rows.len()),
        (&json!("complete"), 2),
        "{pass}"
    );
    let (pass, _) = landed("", r#"format = "ndjson", id = "/id""#);
    assert_eq!(
        pass["outcome"], "complete",
        "no line is an empty list: {pass}"
    );
    let (pass, rows) = landed("{\"id\":1}\n{\"id\":", r#"format = "ndjson", id = "/id""#);
    assert_eq!(
        (&pass["outcome"], rows.len()),
        (&json!("failed"), 0),
        "{pass}"
    );
}

#[test]
fn xml_becomes_a_tree_by_a_rule() {
    let xml = r#"<?xml version="1.0"?>
        <feed xmlns="urn:x"><entry n="1"><id>a</id><tag>x</tag><tag>y</tag><note lang="de">hallo</note><none/></entry>
        <entry n="2"><id>b</id></entry></feed>"#;
    let (pass, rows) = landed(xml, r#"format = "xml", at = "/feed/entry", id = "/id""#);
    assert_eq!(pass["outcome"], "complete", "{pass}");
    let first = json!({ "@n": "1", "id": "a", "tag": ["x", "y"], "note": { "@lang": "de", "#text": "hallo" }, "none": "" });
    assert_eq!(rows[0].1, first);
    assert_eq!(rows.len(), 2);
    let one = "<feed><entry><id>a</id></entry></feed>";
    let (_, rows) = landed(one, r#"format = "xml", at = "/feed/entry", id = "/id""#);
    assert_eq!(rows.len(), 1, "one element is one record");
}

#[test]
fn xml_in_its_declared_charset_is_decoded_and_entities_do_not_grow() {
    let latin =
        b"<?xml version=\"1.0\" encoding=\"ISO-8859-1\"?><r><i><id>caf\xe9</id></i></r>".to_vec();
    let (pass, rows) = landed(latin, r#"format = "xml", at = "/r/i", id = "/id""#);
    assert_eq!(
        (&pass["outcome"], &*rows[0].0),
        (&json!("complete"), "caf\u{e9}"),
        "{pass}"
    );
    let bomb = "<!DOCTYPE r [<!ENTITY a \"aaaa\">]><r><i><id>&a;</id></i></r>";
    let (pass, rows) = landed(bomb, r#"format = "xml", at = "/r/i", id = "/id""#);
    assert_eq!(
        (&pass["outcome"], rows.len()),
        (&json!("failed"), 0),
        "{pass}"
    );
}

#[test]
fn xml_may_name_a_dtd() {
    let body = "<?xml version=\"1.0\" ?><!DOCTYPE r PUBLIC \"-//X//DTD r//EN\" \"https://example.org/r.dtd\"><r><i><id>a</id></i></r>";
    let (pass, rows) = landed(body, r#"format = "xml", at = "/r/i", id = "/id""#);
    assert_eq!(
        (&pass["outcome"], rows.len()),
        (&json!("complete"), 1),
        "{pass}"
    );
}

#[test]
fn a_format_is_requested_by_its_media_type() {
    let stub = StubUpstream::answering([StubAnswer::text(200, "id\na\n")]);
    let world = Api {
        call: r#"records = { kind = "row", format = "csv", id = "/id" }"#,
        ..Api::default()
    }
    .world(&stub);
    run(&world);
    assert_eq!(stub.requests()[0].header("accept"), Some("text/csv"));
    assert_eq!(ids(&world), ["a"]);
    let shown = world.json(&["try", "main", "list"])["request"].to_string();
    assert!(shown.contains("text/csv"), "{shown}");
    assert!(!shown.contains("application/json"), "{shown}");
}

#[test]
fn a_refusal_in_xml_is_shown_in_its_declared_charset() {
    let refusal =
        b"<?xml version=\"1.0\" encoding=\"ISO-8859-1\"?><error>acc\xe8s refus\xe9</error>"
            .to_vec();
    let stub = StubUpstream::answering([StubAnswer::status(403).body(refusal)]);
    let world = Api {
        call: r#"records = { kind = "row", format = "xml", at = "/r/i", id = "/id" }"#,
        ..Api::default()
    }
    .world(&stub);
    let run = run(&world).to_string();
    assert!(run.contains("acc\u{e8}s refus\u{e9}"), "{run}");
}
