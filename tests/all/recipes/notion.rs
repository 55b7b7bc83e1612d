//! Notion: POST with the cursor in the body.

use serde_json::{Value, json};

use super::{Answer, Recipe, Then, Units, number, span};
use ingest_testing::stub_upstream::{StubAnswer, StubRequest};

pub const RECIPE: Recipe = Recipe {
    name: "notion",
    instead: &[("https://api.notion.com", "{stub}")],
    secret: ("NOTION_TOKEN", "ntn_0123456789"),
    credential: "notion",
    windows: &["pace"],
    limit: "pace",
    tries: &[("query", None)],
    records: &[("notion_page", 250 + 120)],
    answer,
    refuse,
    then: Then::Retries,
};

fn answer(request: &StubRequest, _: &Units) -> Answer {
    assert_eq!(
        (request.method.as_str(), request.header("notion-version")),
        ("POST", Some("2022-06-28"))
    );
    let database = request.path.strip_prefix("/v1/databases/").unwrap();
    let (total, name) = match database {
        "0123456789abcdef0123456789abcdef/query" => (250, "task"),
        "fedcba9876543210fedcba9876543210/query" => (120, "note"),
        _ => panic!("{database}"),
    };
    let body = request.json();
    let since = body["filter"]["last_edited_time"]["on_or_after"]
        .as_str()
        .unwrap();
    assert!(since.starts_with("1970-01-01T00:00:00"), "{since}");
    let (span, more) = span(
        number(body["start_cursor"].as_str()),
        body["page_size"].as_u64().unwrap() as usize,
        total,
    );
    let next = match more {
        true => json!(span.end.to_string()),
        false => Value::Null,
    };
    let page = |at: usize| {
        json!({ "object": "page", "id": format!("{name}-{at}"), "archived": false, "url": "https://www.notion.so/x",
            "last_edited_time": format!("2025-03-01T{:02}:{:02}:00.000Z", at / 60, at % 60),
            "properties": { "Name": { "id": "title", "type": "title", "title": [{ "type": "text", "plain_text": "A title" }] },
                "Notes": { "id": "a", "type": "rich_text", "rich_text": [{ "plain_text": "words" }] } } })
    };
    let body = json!({ "object": "list", "results": span.map(page).collect::<Vec<_>>(), "next_cursor": next, "has_more": more,
        "type": "page_or_database", "page_or_database": {}, "request_id": "1" });
    Answer::one(StubAnswer::json(&body), &["pace"])
}

fn refuse(_: &StubRequest) -> Answer {
    let body = json!({ "object": "error", "status": 429, "code": "rate_limited", "message": "You have been rate limited." });
    Answer::one(
        StubAnswer::error(429, &body).header("retry-after", "1"),
        &["pace"],
    )
}
