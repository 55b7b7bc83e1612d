//! XML: one element, none and several are read alike.

use super::Api;
use crate::support::world::World;
use ingest_testing::stub_upstream::{StubAnswer, StubUpstream};
use serde_json::json;

fn world(stub: &StubUpstream, call: &str) -> World {
    Api {
        upstream: "attempts = 1",
        call,
        ..Api::default()
    }
    .world(stub)
}

/// Papers by so many authors each.
fn feed(papers: &[&[&str]]) -> String {
    let entry = |(at, authors): (usize, &&[&str])| {
        let authors: String = authors
            .iter()
            .map(|name| format!("<author><name>{name}</name></author><tag>{name}!</tag>"))
            .collect();
        format!("<entry><id>p{at}</id>{authors}</entry>")
    };
    let entries: String = papers.iter().enumerate().map(entry).collect();
    format!("<feed><title>t</title><link href=\"a\"/><link href=\"b\"/>{entries}</feed>")
}

const PAPERS: &str = r#"records = { at = "/feed/entry", format = "xml", kind = "paper", id = "/id", text = ["/author/*/name"], columns = { authors = "/author/*/name", tags = "/tag/*", first = "/author/0/name" } }"#;

#[test]
fn a_document_of_another_root_has_no_list() {
    for at in ["/feed", "/feed/*", "/feed/entry"] {
        let call =
            format!(r#"records = {{ at = "{at}", format = "xml", kind = "row", id = "/id" }}"#);
        let stub = StubUpstream::answering([StubAnswer::status(200)]);
        let world = world(&stub, &call);
        let file = world.directory.path().join("saved.xml");
        std::fs::write(&file, "<other><code>7</code></other>").unwrap();
        let shown = world.json(&["try", "main", "list", "--answer", file.to_str().unwrap()]);
        let missing = shown["missing"][0].as_str().unwrap();
        assert!(missing.contains("there are no records at"), "{shown}");
    }
}

#[test]
fn try_shows_one_element_and_several_alike() {
    let stub = StubUpstream::answering([StubAnswer::status(200)]);
    let world = world(&stub, PAPERS);
    let file = world.directory.path().join("saved.xml");
    std::fs::write(&file, feed(&[&["Ann"], &["Bob", "Cleo"]])).unwrap();
    let shown = world.json(&["try", "main", "list", "--answer", file.to_str().unwrap()]);
    assert_eq!(shown["records"][0]["texts"], json!(["Ann"]), "{shown}");
    assert_eq!(shown["records"][1]["texts"], json!(["Bob", "Cleo"]));
    assert_eq!(shown["records"][0]["columns"]["authors"], json!("Ann"));
}
