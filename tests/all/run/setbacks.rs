//! Responses that say in other words than an error that their list is not whole: a flag, a word or a code that says otherwise than
//! before, a header, a number of pages, a cursor that leads nowhere.

use std::collections::BTreeSet;

use serde_json::{Value, json};

use super::beside::{Api, Changing, detail, doubts, gone, items, outcome, run};
use ingest_testing::stub_upstream::{StubAnswer, StubUpstream};

/// A response with these members and a list of so many records.
fn with_items(beside: &Value, count: u64) -> StubAnswer {
    let mut body = beside.clone();
    body["items"] = items(count);
    StubAnswer::json(&body)
}

/// The report on a list of one record, after one of three, and how many records are gone.
fn second(before: &Value, now: &Value) -> (Value, i64) {
    let (changing, stub) = Changing::start(with_items(before, 3));
    let world = Api::default().world(&stub);
    assert_eq!(outcome(&run(&world)).0, "complete", "{before}");
    changing.answer(with_items(now, 1));
    (run(&world), gone(&world))
}

#[test]
fn a_flag_a_word_or_a_code_that_says_otherwise_than_before_is_a_doubt() {
    for (before, now) in [
        (json!({ "status": "ok" }), json!({ "status": "partial" })),
        (
            json!({ "status": "success" }),
            json!({ "status": "timeout" }),
        ),
        (json!({ "status": "OK" }), json!({ "status": "warning" })),
        (
            json!({ "Ack": "Success" }),
            json!({ "Ack": "PartialFailure" }),
        ),
        (
            json!({ "meta": { "status": "ok" } }),
            json!({ "meta": { "status": "error" } }),
        ),
        (
            json!({ "code": 0 }),
            json!({ "code": 10006, "msg": "slow" }),
        ),
        (json!({ "code": "00000" }), json!({ "code": "40009" })),
        (
            json!({ "meta": { "code": 200 } }),
            json!({ "meta": { "code": 500 } }),
        ),
        (json!({}), json!({ "statusCode": 503 })),
        (json!({ "success": 1 }), json!({ "success": 0 })),
        (json!({ "complete": true }), json!({ "complete": false })),
        (json!({}), json!({ "isPartialResult": true })),
        (json!({}), json!({ "has_errors": true })),
        (json!({}), json!({ "exceptions": ["a shard is down"] })),
        (json!({}), json!({ "odata.error": { "code": "x" } })),
    ] {
        let (report, gone) = second(&before, &now);
        assert_eq!(outcome(&report), ("doubtful", 1), "{now}: {report}");
        assert_eq!(doubts(&report), BTreeSet::from(["error-reported"]), "{now}");
        assert_eq!(gone, 0, "{now}");
    }
    for name in ["truncated", "isTruncated", "exceededTransferLimit"] {
        let (report, gone) = second(&json!({ name: false }), &json!({ name: true }));
        assert_eq!(
            doubts(&report),
            BTreeSet::from(["next-unread"]),
            "{name}: {report}"
        );
        assert_eq!(gone, 0, "{name}");
    }
}

#[test]
fn what_changes_beside_a_list_and_says_nothing_of_it_is_no_doubt() {
    for (before, now) in [
        (json!({ "status": "open" }), json!({ "status": "closed" })),
        (json!({ "status": "ok" }), json!({ "status": "success" })),
        (json!({ "code": 0 }), json!({ "code": 200 })),
        (json!({ "code": 7 }), json!({ "code": 9 })),
        (json!({ "complete": false }), json!({ "complete": false })),
        (
            json!({ "page": { "code": 1 } }),
            json!({ "page": { "code": 500 } }),
        ),
    ] {
        let (report, gone) = second(&before, &now);
        assert_eq!(outcome(&report), ("complete", 1), "{now}: {report}");
        assert_eq!(gone, 2, "{now}");
    }
}

#[test]
fn an_empty_list_with_a_message_of_a_failure_is_a_doubt_and_one_without_results_is_none() {
    for (said, is_failure) in [
        ("rate limit exceeded", true),
        ("The backend timed out, try again later", true),
        ("No results", false),
        ("OK, no errors", false),
    ] {
        for list in [json!([]), Value::Null] {
            let (changing, stub) = Changing::start(with_items(&json!({}), 3));
            let world = Api::default().world(&stub);
            run(&world);
            changing.answer(StubAnswer::json(&json!({ "items": list, "message": said })));
            let report = run(&world);
            let expected = if is_failure { "doubtful" } else { "complete" };
            assert_eq!(outcome(&report), (expected, 1), "{said}: {report}");
            assert_eq!(gone(&world) == 0, is_failure, "{said}");
            assert!(!is_failure || detail(&report).contains(said), "{report}");
        }
    }
}

#[test]
fn an_attribute_of_the_root_of_xml_says_whether_the_request_succeeded() {
    let answer = |status: &str| {
        let body = format!("<rsp stat=\"{status}\"><items><item><id>0</id></item></items></rsp>");
        StubAnswer::text(200, &body)
    };
    let (changing, stub) = Changing::start(answer("ok"));
    let world = Api {
        records: r#"format = "xml", at = "/rsp/items/item""#,
        ..Api::default()
    }
    .world(&stub);
    assert_eq!(outcome(&run(&world)).0, "complete");
    changing.answer(answer("fail"));
    assert_eq!(doubts(&run(&world)), BTreeSet::from(["error-reported"]));
}

#[test]
fn headers_with_the_number_of_all_records_are_compared_with_the_list() {
    for (name, value, doubt) in [
        ("content-range", "items 0-0/5", "partial"),
        ("content-range", "0-0/5", "partial"),
        ("x-total-count", "5", "fewer-than-total"),
        ("x-wp-total", "5", "fewer-than-total"),
    ] {
        let (changing, stub) = Changing::start(with_items(&json!({}), 3));
        let world = Api::default().world(&stub);
        run(&world);
        changing.answer(with_items(&json!({}), 1).header(name, value));
        let report = run(&world);
        assert_eq!(doubts(&report), BTreeSet::from([doubt]), "{name}: {report}");
        assert_eq!(gone(&world), 0, "{name}");
        let whole = with_items(&json!({}), 1).header(name, &value.replace('5', "1"));
        changing.answer(whole);
        let mut report = run(&world);
        // A doubtful pass is due again after `every`.
        while outcome(&report).0 == "not_due" {
            report = run(&world);
        }
        assert_eq!(outcome(&report).0, "complete", "{name}: {report}");
    }
}

#[test]
fn a_number_of_pages_that_falls_while_they_are_read_marks_nothing_as_gone() {
    let stub = StubUpstream::start(|request| {
        let page: u64 = request
            .param("page")
            .map_or(1, |page| page.parse().unwrap());
        // In the second pass, the first two records go behind its first page.
        let gone = if request.number > 4 { 2 } else { 0 };
        let from = (page - 1) * 3 + gone;
        let rows: Vec<Value> = (from..(from + 3).min(10))
            .map(|id| json!({ "id": id }))
            .collect();
        let pages = (10 - gone).div_ceil(3);
        StubAnswer::json(&json!({ "items": rows, "pages": pages }))
    });
    let world = Api {
        call: r#"page = { kind = "number", param = "page", size = 3, pages = "/pages" }"#,
        ..Api::default()
    }
    .world(&stub);
    assert_eq!(outcome(&run(&world)), ("complete", 4));
    let moved = run(&world);
    assert_eq!(outcome(&moved), ("complete", 3), "{moved}");
    assert!(
        detail(&moved).contains("pages at `/pages` went from 4 to 3"),
        "{moved}"
    );
    assert_eq!(gone(&world), 0);
}

#[test]
fn an_empty_list_of_one_page_is_complete() {
    let stub = StubUpstream::start(|_| StubAnswer::json(&json!({ "items": [], "pages": 1 })));
    let world = Api {
        call: r#"page = { kind = "number", param = "page", size = 3, pages = "/pages" }"#,
        ..Api::default()
    }
    .world(&stub);
    let report = run(&world);
    assert_eq!(outcome(&report), ("complete", 1), "{report}");
}

#[test]
fn a_total_that_is_the_least_number_of_records_ends_no_list() {
    let stub = StubUpstream::start(|request| {
        let from: u64 = request
            .param("from")
            .map_or(0, |from| from.parse().unwrap());
        let rows: Vec<Value> = (from..(from + 5).min(13))
            .map(|id| json!({ "id": id }))
            .collect();
        StubAnswer::json(&json!({ "total": { "value": 10, "relation": "gte" }, "items": rows }))
    });
    let world = Api {
        call: r#"page = { kind = "offset", param = "from", size = 5, total = "/total/value" }"#,
        ..Api::default()
    }
    .world(&stub);
    let report = run(&world);
    assert_eq!(outcome(&report).0, "complete", "{report}");
    assert_eq!(world.count("select count(*) from record"), 13);
}

#[test]
fn pages_that_come_again_behind_new_cursors_end_the_list_with_a_doubt() {
    for period in [1, 3] {
        let stub = StubUpstream::start(move |request| {
            let cursor: u64 = request.param("cursor").map_or(0, |at| at.parse().unwrap());
            let first = cursor % period * 3;
            let rows: Vec<Value> = (first..first + 3).map(|id| json!({ "id": id })).collect();
            StubAnswer::json(&json!({ "items": rows, "next": (cursor + 1).to_string() }))
        });
        let world = Api {
            call: r#"page = { kind = "token", param = "cursor", next = "/next" }"#,
            ..Api::default()
        }
        .world(&stub);
        let report = run(&world);
        assert_eq!(outcome(&report), ("doubtful", period + 3), "{report}");
        assert_eq!(
            doubts(&report),
            BTreeSet::from(["cursor-repeats"]),
            "{report}"
        );
    }
}

#[test]
fn a_link_header_that_cannot_be_read_is_a_doubt() {
    let stub = StubUpstream::start(|_| {
        with_items(&json!({}), 3).header("link", "/list?page=2; rel=\"next\"")
    });
    let world = Api {
        call: r#"page = { kind = "link" }"#,
        ..Api::default()
    }
    .world(&stub);
    let report = run(&world);
    assert_eq!(doubts(&report), BTreeSet::from(["next-unread"]), "{report}");
}

#[test]
fn a_retry_after_holds_as_a_duration_with_its_unit_and_with_an_error_of_status_200() {
    for (status, after) in [(429, "2m"), (503, "120s"), (200, "120")] {
        let stub = StubUpstream::start(move |_| {
            StubAnswer::error(status, &json!({ "error": "slow" })).header("retry-after", after)
        });
        let world = Api::default().world(&stub);
        let report = run(&world);
        assert_eq!(
            outcome(&report),
            ("stopped", 1),
            "{status}, {after}: {report}"
        );
        assert!(detail(&report).contains("daily is closed"), "{report}");
    }
}

#[test]
fn two_records_of_one_id_on_a_page_are_told_where_they_differ() {
    let note = "1 records repeat the id of another record of the page";
    for (second, is_told) in [("b", true), ("a", false)] {
        let record = |id: u64, name: &str| json!({ "id": id, "name": name });
        let items = [record(1, "a"), record(1, second), record(2, "a")];
        let stub = StubUpstream::start(move |_| StubAnswer::json(&json!({ "items": items })));
        let report = run(&Api::default().world(&stub));
        assert_eq!(outcome(&report).0, "complete", "{report}");
        assert_eq!(report.to_string().contains(note), is_told, "{report}");
    }
}
