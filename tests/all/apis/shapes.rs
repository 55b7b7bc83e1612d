//! Shapes of real APIs that a file from the manual alone has to meet: URLs relative to a base that the response names, a grant
//! of one's own, rows without names, lists that are left out when they are empty.

use serde_json::{Value, json};

use super::{Api, ids, records, run};
use crate::support::world::World;
use ingest_testing::stub_upstream::{StubAnswer, StubRequest, StubUpstream};

fn number(request: &StubRequest, name: &str, or: usize) -> usize {
    request.param(name).map_or(or, |text| text.parse().unwrap())
}

/// Five rows by their ids, of which these are a page.
fn rows(start: usize, size: usize) -> Vec<Value> {
    (start..5.min(start + size))
        .map(|id| json!({ "id": id }))
        .collect()
}

fn detail(report: &Value) -> &str {
    report["passes"][0]["detail"].as_str().unwrap_or_default()
}

/// Returns the world after a run over `call`, whose notes contain `note`.
fn noted_world(stub: &StubUpstream, call: &str, note: &str) -> World {
    let world = Api {
        call,
        ..Api::default()
    }
    .world(stub);
    let report = run(&world);
    assert!(detail(&report).contains(note), "{report}");
    world
}

/// Zoom: the client credentials are exchanged under another name of the grant.
#[test]
fn a_parameter_of_a_token_request_replaces_the_usual_one() {
    let stub = StubUpstream::start(|request| {
        if request.path == "/token" {
            let body = String::from_utf8_lossy(&request.body).into_owned();
            assert_eq!(body, "account_id=a1&grant_type=account_credentials");
            return StubAnswer::json(&json!({ "access_token": "t1", "expires_in": 3600 }));
        }
        assert_eq!(request.header("authorization"), Some("Bearer t1"));
        StubAnswer::json(&json!({ "data": rows(0, 5) }))
    });
    let oauth = format!(
        "auth = {{ oauth = {{ kind = \"client_credentials\", token_url = \"{}/token\", client_id = \"c\", \
         client_secret = \"{{secret}}\", params = {{ grant_type = \"account_credentials\", account_id = \"a1\" }} }} }}",
        stub.url()
    );
    let world = Api {
        upstream: &oauth,
        credential: r#"secret = { command = ["printf", "s3cret-0123456789"] }"#,
        call: r#"records = { at = "/data", kind = "row", id = "/id" }"#,
        ..Api::default()
    }
    .world(&stub);
    let report = run(&world);
    assert_eq!(report["outcome"], "complete", "{report}");
}

/// Binance: lists of values whose names only the manual has.
fn klines() -> StubUpstream {
    StubUpstream::answering([StubAnswer::json(&json!([[1, "2.5"], [2, "3.5"]]))])
}

#[test]
fn rows_without_names_are_named_by_the_configuration() {
    let stub = klines();
    let world = Api {
        call: r#"records = { layout = "rows", fields = ["time", "close"], kind = "kline", id = ["{region}", "/time"], columns = { symbol = "{region}", close = { at = "/close", type = "real" } } }"#,
        ..Api::default()
    }
    .world(&stub);
    let report = run(&world);
    assert_eq!(
        (&report["outcome"], detail(&report)),
        (&"complete".into(), "")
    );
    let kline = |time: u64, close: &str| {
        let body = json!({ "time": time, "close": close, "symbol": "US" });
        (format!("US/{time}"), body)
    };
    assert_eq!(records(&world), [kline(1, "2.5"), kline(2, "3.5")]);
    let closes =
        world.count("select cast(sum(close) as integer) from api_kline where symbol = 'US'");
    assert_eq!(closes, 6);
}

#[test]
fn a_record_that_is_a_list_cannot_take_a_value_of_its_request_and_the_run_says_what_to_do() {
    let stub = klines();
    let world = noted_world(
        &stub,
        r#"records = { kind = "kline", id = ["{region}", "/0"], columns = { symbol = "{region}" } }"#,
        "name their values by `fields`",
    );
    assert_eq!(ids(&world).len(), 2);
}

#[test]
fn fields_belong_to_rows_and_have_distinct_names() {
    let right = Api {
        call: r#"records = { kind = "row", id = "/a" }"#,
        ..Api::default()
    };
    let mut world = World::written(&right.text(), &[]);
    for (records, says) in [
        (r#"fields = ["a"]"#, "add layout = \"rows\""),
        (
            r#"layout = "rows", fields = ["a", "a"]"#,
            "name each field once",
        ),
    ] {
        world.set(&format!(
            "upstreams.api.calls.list.records={{ {records}, kind = \"row\", id = \"/a\" }}"
        ));
        let checked = world.ingest(&["check", "--config-only"]);
        assert!(
            checked.code == 2 && checked.stderr.contains(says),
            "{checked:?}"
        );
    }
}

/// X and Gmail: a response without anything new has no list at all.
#[test]
fn a_list_of_what_is_new_may_be_left_out_once_records_were_found() {
    for (first, is_doubtful) in [
        (
            json!({ "data": [{ "id": 1, "at": "2024-05-01T00:00:00Z" }] }),
            false,
        ),
        (json!({ "meta": 0 }), true),
    ] {
        let empty = json!({ "meta": { "result_count": 0 } });
        let stub = StubUpstream::answering([StubAnswer::json(&first), StubAnswer::json(&empty)]);
        let text = Api {
            call: "params = { start = \"{since}\" }\nrecords = { at = \"/data\", kind = \"row\", id = \"/id\" }",
            ..Api::default()
        }
        .text()
        .replace("[jobs.all]", "[jobs.all]\nsince = { at = \"/at\", first = \"2024-01-01T00:00:00Z\" }");
        let mut world = World::written(&text, &[]);
        world.set(&format!("upstreams.api.base_url=\"{}\"", stub.url()));
        let report = run(&world);
        let is = report["passes"][0]["outcome"] == "doubtful";
        assert_eq!(is, is_doubtful, "{report}");
        let named = detail(&report).contains("check its records.at");
        assert_eq!(named, is_doubtful, "{report}");
        let second = run(&world);
        let expected = if is_doubtful {
            "nothing_due"
        } else {
            "complete"
        };
        assert_eq!(second["outcome"], expected, "{second}");
    }
}

/// Facebook and Discourse: the URL of the next page where a flag is expected.
#[test]
fn a_flag_that_is_neither_true_nor_false_is_named() {
    let stub = StubUpstream::start(|request| {
        let start = number(request, "page", 0) * 2;
        StubAnswer::json(&json!({ "data": rows(start, 2), "more_url": "/list?page=1" }))
    });
    let world = noted_world(
        &stub,
        r#"
page = { kind = "number", param = "page", first = 0, more = "/more_url" }
records = { at = "/data", kind = "row", id = "/id" }"#,
        "has no true or false at `/more_url` (`page.more`)",
    );
    assert_eq!(ids(&world).len(), 5);
}

/// Salesforce: `done` is written as `more`.
#[test]
fn a_list_that_ends_although_its_next_page_is_named_is_noted_as_such() {
    let stub = StubUpstream::answering([StubAnswer::json(
        &json!({ "data": rows(0, 2), "done": false, "nextRecordsUrl": "/list?page=2" }),
    )]);
    noted_world(
        &stub,
        r#"
page = { kind = "next_url", next = "/nextRecordsUrl", more = "/done", size = 2 }
records = { at = "/data", kind = "row", id = "/id" }"#,
        "`page.more` and `page.done` are confused",
    );
}

/// Twilio: `next_page_uri` is confused with `uri`, the page itself.
#[test]
fn a_url_of_the_page_itself_is_named_as_the_likely_mistake() {
    let stub = StubUpstream::answering([StubAnswer::json(
        &json!({ "data": rows(0, 2), "uri": "/list?page=1" }),
    )]);
    noted_world(
        &stub,
        r#"
page = { kind = "next_url", next = "/uri" }
records = { at = "/data", kind = "row", id = "/id" }"#,
        "`page.next` may name the page itself",
    );
}

/// Zendesk: the requests behind the first page carry the cursor alone.
#[test]
fn larger_pages_of_further_requests_are_explained() {
    let stub = StubUpstream::start(|request| match request.param("cursor") {
        None => StubAnswer::json(&json!({ "data": rows(0, 1), "after": "a" })),
        Some(_) => StubAnswer::json(&json!({ "data": rows(1, 4), "after": null })),
    });
    let world = noted_world(
        &stub,
        r#"
page = { kind = "token", param = "cursor", next = "/after", size_param = "per_page", size = 1, then = { path = "list" } }
records = { at = "/data", kind = "row", id = "/id" }"#,
        "add params = { per_page = \"1\" }",
    );
    assert_eq!(ids(&world).len(), 5);
}

/// The World Bank: null behind a full last page.
#[test]
fn null_behind_a_page_that_was_counted_ends_the_list() {
    let stub = StubUpstream::start(|request| {
        let data = rows((number(request, "page", 1) - 1) * 5, 5);
        let data = Some(data).filter(|data| !data.is_empty());
        StubAnswer::json(&json!([{ "pages": 1 }, data]))
    });
    let world = Api {
        call: r#"
page = { kind = "number", param = "page", size_param = "per_page", size = 5 }
records = { at = "/1", kind = "row", id = "/id" }"#,
        ..Api::default()
    }
    .world(&stub);
    let report = run(&world);
    assert_eq!(
        (&report["outcome"], detail(&report)),
        (&"complete".into(), "")
    );
    assert_eq!((ids(&world).len(), stub.requests().len()), (5, 2));
}

#[test]
fn a_sandbox_run_refuses_a_catalog_that_it_would_not_use() {
    let directory = tempfile::tempdir().unwrap();
    for (set, code) in [
        ("catalog.url=\"postgres://me@127.0.0.1/db\"", 2),
        ("ledger.url=sqlite", 0),
    ] {
        let ran = std::process::Command::new(assert_cmd::cargo::cargo_bin!("ingest"))
            .current_dir(directory.path())
            .env_clear()
            .env("INGEST_STATE_DIR", directory.path().join("state"))
            .args(["--region", "all", "--sandbox", "--dry-run", "--set", set])
            .output()
            .unwrap();
        let said = String::from_utf8_lossy(&ran.stderr);
        assert_eq!(ran.status.code(), Some(code), "{set}: {said}");
        assert!(code == 0 || said.contains("remove this --set"), "{said}");
    }
}
