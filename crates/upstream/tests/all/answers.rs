//! What a success holds: records, or something else.

use serde_json::json;

use super::{answering, asking, ids, told};
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
async fn an_id_that_comes_twice_keeps_its_first_place() {
    let items = json!([{ "id": "a", "n": 1 }, { "id": "b" }, { "id": "a", "n": 2 }]);
    let stub = answering(StubAnswer::json(&json!({ "items": items })));
    let page = asking(&stub.url()).fetch().await.unwrap();
    assert_eq!((ids(&page), page.skipped), (vec!["a", "b"], 0));
    assert_eq!(page.records[0].body["n"], 1);
}

#[tokio::test]
async fn json_that_asking_again_cannot_make_readable_is_asked_for_once() {
    let deep = format!("{{\"items\": {}1{}}}", "[".repeat(200), "]".repeat(200));
    let bodies = [(
        &deep,
        "the response is nested deeper than 128 levels: line 1 column 137",
    )];
    for (body, expected) in bodies {
        let stub = answering(StubAnswer::text(200, body));
        assert_eq!(
            told(&asking(&stub.url()).fetch().await.unwrap_err()),
            format!("skip: {expected}")
        );
    }
}
