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

#[test]
fn a_table_that_only_the_end_of_its_connection_ends_marks_nothing_as_gone_and_says_so() {
    for (bound, gone) in [("", 0), ("content-length: 5\r\n", 1)] {
        let answer = |body: &str| {
            StubAnswer::raw(format!(
                "HTTP/1.1 200 OK\r\n{bound}connection: close\r\n\r\n{body}"
            ))
        };
        let stub = StubUpstream::answering([
            StubAnswer::status(200).body("id\n1\n2\n"),
            answer("id\n1\n"),
        ]);
        let world = Api {
            call: r#"records = { format = "csv", kind = "row", id = "/id" }"#,
            ..Api::default()
        }
        .world(&stub);
        run(&world);
        let pass = run(&world)["passes"][0].clone();
        let is_said = pass["detail"]
            .to_string()
            .contains("the end of the connection");
        assert_eq!(
            (&pass["outcome"], is_said),
            (&json!("complete"), gone == 0),
            "{pass}"
        );
        let marked = "select count(*) from record where gone_at is not null";
        let marked: i64 = world
            .catalog()
            .query_row(marked, [], |row| row.get(0))
            .unwrap();
        assert_eq!(marked, gone, "{bound}");
    }
}

#[test]
fn a_page_that_perhaps_was_cut_keeps_a_list_from_marking_records_when_another_run_ends_it() {
    let page = |bound: bool, rows: &str| {
        let body = format!("id\n{rows}");
        let length = match bound {
            true => format!("content-length: {}\r\n", body.len()),
            false => String::new(),
        };
        let link = match rows.contains('9') {
            true => "",
            false => "link: </list?after=2b>; rel=\"next\"\r\n",
        };
        let head = format!("HTTP/1.1 200 OK\r\n{length}{link}connection: close\r\n\r\n");
        StubAnswer::raw(head + &body)
    };
    for (bound, gone) in [(true, 1), (false, 0)] {
        let stub = StubUpstream::answering([
            page(true, "1\n2\n"),
            page(true, "9\n"),
            page(bound, "1\n"),
            StubAnswer::text(500, "{}"),
            page(true, "9\n"),
        ]);
        let world = Api {
            upstream: "attempts = 1",
            call: "page = { kind = \"link\" }\nrecords = { format = \"csv\", kind = \"row\", id = \"/id\" }",
            ..Api::default()
        }
        .world(&stub);
        let outcomes = [(); 3].map(|()| run(&world)["passes"][0]["outcome"].clone());
        assert_eq!(outcomes[0], "complete");
        assert_ne!(outcomes[1], "complete");
        assert_eq!(outcomes[2], "complete");
        let marked = "select count(*) from record where gone_at is not null";
        let marked: i64 = world
            .catalog()
            .query_row(marked, [], |row| row.get(0))
            .unwrap();
        assert_eq!(marked, gone, "{bound}");
    }
}
