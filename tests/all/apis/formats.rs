//! Responses in CSV, NDJSON and XML.

use super::{Api, records, run};
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
