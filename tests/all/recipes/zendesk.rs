//! Zendesk: an export whose last cursor begins the next pass, and deleted tickets.

use serde_json::{Value, json};

use super::feed::{Feed, lists_what_changed};
use super::{Answer, Recipe, Then, Units, number};
use ingest_testing::stub_upstream::{StubAnswer, StubRequest};

pub const RECIPE: Recipe = Recipe {
    name: "zendesk",
    instead: &[("https://your-account.zendesk.com", "{stub}")],
    secret: ("ZENDESK_TOKEN", "0123456789abcdef"),
    credential: "zendesk",
    windows: &["export"],
    limit: "export",
    tries: &[("tickets", None)],
    records: &[("zendesk_ticket", 3_500)],
    answer,
    refuse,
    then: Then::Retries,
};

fn answer(request: &StubRequest, _: &Units) -> Answer {
    Answer::one(respond(request, &Feed::of(3_500)), &["export"])
}

fn respond(request: &StubRequest, feed: &Feed) -> StubAnswer {
    assert_eq!(request.path, "/api/v2/incremental/tickets/cursor.json");
    let (cursor, start) = (request.param("cursor"), request.param("start_time"));
    assert!(cursor.is_some() != start.is_some(), "one of them");
    let Some(page) = feed.page(cursor, number(request.param("per_page"))) else {
        return StubAnswer::error(
            410,
            &json!({ "error": "Gone", "description": "The cursor is gone" }),
        );
    };
    let ticket = |(thing, is_there): (usize, bool)| {
        let status = if is_there { "open" } else { "deleted" };
        json!({ "id": thing, "subject": "It does not work", "description": "words", "tags": ["late"], "status": status,
            "priority": "low", "requester_id": 2_043_012_345_678_i64, "created_at": "2024-02-01T10:00:00Z",
            "updated_at": "2024-03-01T10:00:00Z" })
    };
    let tickets: Vec<Value> = page.things.into_iter().map(ticket).collect();
    let after = page.next.as_ref().or(page.end.as_ref());
    let host = request.header("host").unwrap();
    StubAnswer::json(
        &json!({ "tickets": tickets, "after_cursor": after, "end_of_stream": page.end.is_some(),
        "after_url": after.map(|after| format!("http://{host}{}?cursor={after}", request.path)), "before_cursor": null }),
    )
}

fn refuse(_: &StubRequest) -> Answer {
    let body = json!({ "error": "APIRateLimitExceeded", "description": "Number of allowed API requests per minute exceeded" });
    let response = StubAnswer::error(429, &body).header("retry-after", "1");
    Answer::one(response, &["export"])
}

#[test]
fn lists_everything_once_and_then_what_changed() {
    lists_what_changed(&RECIPE, "tickets", respond);
}
