//! What a success holds: records, or something else.

use serde_json::{Value, json};

use super::{answering, asking, ids, things, token_paging, told};
use ingest_testing::stub_upstream::StubAnswer;

#[tokio::test]
async fn records_are_taken_in_their_order_with_the_whole_of_each() {
    let stub = answering(StubAnswer::json(
        &json!({ "items": [{ "id": "b", "n": 1 }, { "id": "a", "n": [2] }] }),
    ));
    let page = asking(&stub.url()).fetch().await.unwrap();
    assert_eq!(ids(&page), ["b", "a"]);
    assert_eq!(page.records[1].body, json!({ "id": "a", "n": [2] }));
    assert_eq!((page.skipped, page.next), (0, None));
}

#[tokio::test]
async fn a_compressed_answer_is_unpacked() {
    let stub = answering(StubAnswer::json(&things(&["a"])).gzipped());
    assert_eq!(ids(&asking(&stub.url()).fetch().await.unwrap()), ["a"]);
    assert_eq!(stub.requests()[0].header("accept-encoding"), Some("gzip"));
}

#[tokio::test]
async fn a_record_without_an_id_is_left_out_and_counted() {
    let items = json!([null, { "id": "a" }, {}, { "id": "" }, { "id": null }, { "id": ["x"] }, "text", { "id": "n\u{0}ul" }]);
    let stub = answering(StubAnswer::json(&json!({ "items": items })));
    let page = asking(&stub.url()).fetch().await.unwrap();
    assert_eq!((ids(&page), page.skipped), (vec!["a"], 7));
}

#[tokio::test]
async fn an_id_that_is_a_number_is_one() {
    let stub = answering(StubAnswer::json(
        &json!({ "items": [{ "id": 7 }, { "id": 9_007_199_254_740_993_u64 }] }),
    ));
    assert_eq!(
        ids(&asking(&stub.url()).fetch().await.unwrap()),
        ["7", "9007199254740993"]
    );
}

#[tokio::test]
async fn a_number_is_an_id_however_many_digits_it_has() {
    let items = r#"[{"id": 18446744073709551617}, {"id": 18446744073709551618}, {"id": 1.5}, {"id": 18446744073709551615}, {"id": -3}]"#;
    let stub = answering(StubAnswer::text(200, &format!(r#"{{"items": {items}}}"#)));
    let page = asking(&stub.url()).fetch().await.unwrap();
    assert_eq!(
        (ids(&page), page.skipped),
        (
            vec![
                "18446744073709551617",
                "18446744073709551618",
                "1.5",
                "18446744073709551615",
                "-3"
            ],
            0
        )
    );
}

#[tokio::test]
async fn an_id_of_several_parts_needs_them_all() {
    let items = json!([{ "id": "a", "of": { "id": 1 } }, { "id": "b" }]);
    let stub = answering(StubAnswer::json(&json!({ "items": items })));
    let page = asking(&stub.url())
        .records("/items", &["/of/id", "/id"])
        .fetch()
        .await
        .unwrap();
    assert_eq!((ids(&page), page.skipped), (vec!["1/a"], 1));
}

#[tokio::test]
async fn ids_of_several_parts_stay_apart_where_a_part_holds_a_slash() {
    let items = json!([{ "id": "api/x", "of": "docs" }, { "id": "x", "of": "docs/api" }, { "id": "x", "of": "docs%2Fapi" }]);
    let stub = answering(StubAnswer::json(&json!({ "items": items })));
    let page = asking(&stub.url())
        .records("/items", &["/of", "/id"])
        .fetch()
        .await
        .unwrap();
    assert_eq!(ids(&page), ["docs/api/x", "docs%2Fapi/x", "docs%252Fapi/x"]);
}

#[tokio::test]
async fn an_id_that_comes_twice_keeps_its_first_place() {
    let items = json!([{ "id": "a", "n": 1 }, { "id": "b" }, { "id": "a", "n": 2 }]);
    let stub = answering(StubAnswer::json(&json!({ "items": items })));
    let page = asking(&stub.url()).fetch().await.unwrap();
    assert_eq!((ids(&page), page.skipped), (vec!["a", "b"], 0));
    assert_eq!(page.records[0].body["n"], 1);
}

#[tokio::test]
async fn a_list_is_found_at_the_root_and_inside_arrays() {
    let cases = [
        ("", json!([{ "id": "a" }])),
        (
            "/items/0/articles",
            json!({ "items": [{ "articles": [{ "id": "a" }] }] }),
        ),
        (
            "/groups/*/things",
            json!({ "groups": [{ "things": [{ "id": "a" }] }, { "things": [] }, {}] }),
        ),
    ];
    for (at, body) in cases {
        let stub = answering(StubAnswer::json(&body));
        let page = asking(&stub.url())
            .records(at, &["/id"])
            .fetch()
            .await
            .unwrap();
        assert_eq!(ids(&page), ["a"], "{at}");
    }
}

#[tokio::test]
async fn a_page_without_records_is_empty() {
    let bodies = [
        json!({}),
        json!({ "items": [] }),
        json!({ "items": null }),
        json!({ "error": null }),
        json!({ "error": false, "errors": [] }),
    ];
    for body in bodies {
        let stub = answering(StubAnswer::json(&body));
        let page = asking(&stub.url())
            .paging(token_paging())
            .fetch()
            .await
            .unwrap();
        assert_eq!(
            (page.records.len(), page.skipped, page.next),
            (0, 0, None),
            "{body}"
        );
    }
}

#[tokio::test]
async fn an_answer_of_the_wrong_shape_is_a_failure_that_says_so() {
    let shapes: [(Value, &str); 9] = [
        (
            json!([{ "id": "a" }]),
            "the response contains an array instead of an object (at `/items`)",
        ),
        (
            json!([]),
            "the response contains an array instead of an object (at `/items`)",
        ),
        (
            json!({ "items": "many" }),
            "the response contains a string instead of a list or an object (at `/items`)",
        ),
        (
            json!("busy"),
            "the response contains a string instead of an object (at `/items`)",
        ),
        (
            json!(null),
            "the response contains null instead of an object (at `/items`)",
        ),
        (
            json!({ "items": [null, null] }),
            "none of the response's 2 records has an id at `/id`",
        ),
        (
            json!({ "items": [{ "name": "a" }] }),
            "none of the response's 1 records has an id at `/id`; a record has `name`",
        ),
        (
            json!({ "error": "backend\u{1b}[31m down" }),
            "the response is an error: backend down",
        ),
        (
            json!({ "errors": [{ "message": "no such field" }] }),
            "the response is an error: no such field",
        ),
    ];
    for (body, expected) in shapes {
        let stub = answering(StubAnswer::json(&body));
        let failure = asking(&stub.url()).fetch().await.unwrap_err();
        let kind = if expected.starts_with("the response is an error") {
            "transient"
        } else {
            "wrong shape"
        };
        assert_eq!(told(&failure), format!("{kind}: {expected}"), "{body}");
    }
}

#[tokio::test]
async fn a_body_that_is_no_json_is_a_failure_that_says_so() {
    let bodies: [(&[u8], &str); 6] = [
        (b"", "the response has no body"),
        (b" \n", "the response has no body"),
        (
            b"<!doctype html><title>Sign in\x07</title><p>x",
            "the response is HTML instead of JSON: Sign in",
        ),
        (
            b"<html><body>Down for <b>repairs</b>",
            "the response is HTML instead of JSON: Down for repairs",
        ),
        (
            br#"{"items": [{"id": "a"}"#,
            "the response is not JSON: EOF while parsing a list at line 1 column 22",
        ),
        (
            br#"{"items": "a\x"}"#,
            "the response is not JSON: invalid escape at line 1 column 14",
        ),
    ];
    for (body, expected) in bodies {
        let stub = answering(StubAnswer::status(200).body(body));
        let failure = asking(&stub.url()).fetch().await.unwrap_err();
        assert_eq!(told(&failure), format!("transient: {expected}"));
    }
}

#[tokio::test]
async fn json_that_asking_again_cannot_make_readable_is_asked_for_once() {
    let deep = format!("{{\"items\": {}1{}}}", "[".repeat(200), "]".repeat(200));
    let bodies = [(
        &deep,
        "the response is nested too deeply: line 1 column 137",
    )];
    for (body, expected) in bodies {
        let stub = answering(StubAnswer::text(200, body));
        assert_eq!(
            told(&asking(&stub.url()).fetch().await.unwrap_err()),
            format!("skip: {expected}")
        );
    }
}

#[tokio::test]
async fn half_a_surrogate_pair_costs_a_character_and_not_its_page() {
    let titles: [(&[u8], &str); 7] = [
        (br"a\ud83d b", r"a\ud83d b"),
        (br"a\udc00", r"a\udc00"),
        (br"\ud83d\ud83d\ude00", "\\ud83d\u{1f600}"),
        (br"\ud83d\u0041", r"\ud83dA"),
        (br"\\ud83d \udead", r"\ud83d \udead"),
        (br"\uD83D\uDE00 \uDBFF", "\u{1f600} \\uDBFF"),
        ("\u{fffd} of theirs".as_bytes(), "\u{fffd} of theirs"),
    ];
    for (title, expected) in titles {
        let body = [br#"{"items": [{"id": "a", "title": ""#, title, br#""}]}"#].concat();
        let stub = answering(StubAnswer::status(200).body(body));
        let page = asking(&stub.url()).fetch().await.unwrap();
        assert_eq!(page.records[0].body["title"], expected);
    }
}

#[tokio::test]
async fn a_byte_order_mark_does_no_harm() {
    let stub = answering(StubAnswer::text(
        200,
        "\u{feff}{\"items\": [{\"id\": \"a\"}]}",
    ));
    assert_eq!(ids(&asking(&stub.url()).fetch().await.unwrap()), ["a"]);
}
