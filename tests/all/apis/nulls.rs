//! Null where a list is, as many servers write an empty one.

use super::{Api, ids, run};
use ingest_testing::stub_upstream::{StubAnswer, StubUpstream};
use serde_json::{Value, json};

/// The pass over responses of these bodies, and the ids that were landed.
fn landed(call: &str, bodies: &[Value]) -> (Value, Vec<String>) {
    let stub = StubUpstream::answering(bodies.iter().map(StubAnswer::json));
    let world = Api {
        upstream: "attempts = 1",
        call,
        ..Api::default()
    }
    .world(&stub);
    let run = run(&world);
    (run["passes"][0].clone(), ids(&world))
}

#[test]
fn null_is_an_empty_list_wherever_the_list_is() {
    for (at, body) in [
        ("/items", json!({ "total": 0, "items": null })),
        ("", json!(null)),
        ("/data/items", json!({ "data": null })),
        ("/data/items", json!({ "data": { "items": null } })),
        (
            "/data/repository/issues/nodes",
            json!({ "data": { "repository": null } }),
        ),
        ("/1", json!([{ "pages": 1 }, null])),
        (
            "/groups/*/items",
            json!({ "groups": [{ "items": null }, { "items": [] }] }),
        ),
        ("/groups/*/items", json!({ "groups": null })),
    ] {
        let call = format!(r#"records = {{ at = "{at}", kind = "row", id = "/id" }}"#);
        let (pass, ids) = landed(&call, std::slice::from_ref(&body));
        assert_eq!(
            (&pass["outcome"], ids.len()),
            (&json!("complete"), 0),
            "{at} {body}: {pass}"
        );
    }
}

#[test]
fn null_on_the_page_behind_a_token_ends_the_list() {
    let call = r#"page = { kind = "token", param = "cursor", next = "/next" }
        records = { at = "/items", kind = "row", id = "/id" }"#;
    let pages = [
        json!({ "items": [{ "id": 1 }], "next": "b" }),
        json!({ "items": null, "next": null }),
    ];
    let (pass, ids) = landed(call, &pages);
    assert_eq!(pass["outcome"], "complete", "{pass}");
    assert_eq!(ids, ["1"]);
}

#[test]
fn null_in_columns_and_rows_is_an_empty_list() {
    for layout in ["columns", "rows"] {
        let call = format!(
            r#"records = {{ at = "/items", layout = "{layout}", kind = "row", id = "/id" }}"#
        );
        let (pass, _) = landed(&call, &[json!({ "items": null })]);
        assert_eq!(pass["outcome"], "complete", "{layout}: {pass}");
    }
}

#[test]
fn null_beside_an_error_is_no_empty_list() {
    for body in [
        json!({ "errors": [{ "message": "no access" }], "data": null }),
        json!({ "errors": [{ "message": "no access" }], "data": { "items": null } }),
    ] {
        let call = r#"records = { at = "/data/items", kind = "row", id = "/id" }"#;
        let (pass, _) = landed(call, std::slice::from_ref(&body));
        assert_eq!(pass["outcome"], "failed", "{body}: {pass}");
        assert!(pass["detail"].as_str().unwrap().contains("no access"));
    }
}

#[test]
fn a_null_among_records_is_a_record_without_an_id() {
    for at in ["/items", "/items/*"] {
        let call = format!(r#"records = {{ at = "{at}", kind = "row", id = "/id" }}"#);
        let (pass, ids) = landed(&call, &[json!({ "items": [{ "id": 1 }, null] })]);
        assert_ne!(pass["outcome"], "failed", "{at}: {pass}");
        assert_eq!(ids, ["1"]);
        let notes = pass.to_string();
        assert!(
            notes.contains("without an id") || notes.contains("no id"),
            "{pass}"
        );
    }
}
