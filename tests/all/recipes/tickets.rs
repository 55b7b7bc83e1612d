//! Freshdesk: a list for `updated_since`, with the next page in the header `link`.

use serde_json::{Value, json};

use super::{Answer, Recipe, Then, Units, number, span};
use ingest_testing::stub_upstream::{StubAnswer, StubRequest};

pub const RECIPE: Recipe = Recipe {
    name: "tickets",
    instead: &[("https://your-account.freshdesk.com", "{stub}")],
    secret: ("FRESHDESK_KEY", "key0123456789"),
    credential: "freshdesk",
    windows: &["minute"],
    limit: "minute",
    tries: &[("tickets", None)],
    records: &[("freshdesk_ticket", 530)],
    answer,
    refuse,
    then: Then::Retries,
};

const TOTAL: usize = 530;

fn with_limits(response: StubAnswer, used: u64) -> StubAnswer {
    response
        .header("x-ratelimit-total", "1000000")
        .header("x-ratelimit-remaining", &(1_000_000 - used).to_string())
        .header("x-ratelimit-used-currentrequest", "1")
}

fn answer(request: &StubRequest, used: &Units) -> Answer {
    assert_eq!(request.path, "/api/v2/tickets");
    // `key0123456789:X` in base64.
    assert_eq!(
        request.header("authorization"),
        Some("Basic a2V5MDEyMzQ1Njc4OTpY")
    );
    assert_eq!(request.param("updated_since"), Some("2024-01-01T00:00:00Z"));
    let page = request.param("page").map_or(1, |page| number(Some(page)));
    let size = number(request.param("per_page"));
    let (span, more) = span((page - 1) * size, size, TOTAL);
    let ticket = |at: usize| {
        json!({ "id": TOTAL - at, "subject": "It does not work", "status": 2, "priority": 1, "requester_id": 2_043_012_345_678_i64,
            "created_at": "2024-02-01T10:00:00Z", "description_text": "words", "tags": ["late"],
            "updated_at": format!("2024-03-{:02}T10:00:00Z", 28 - at / 20) })
    };
    let used = used.get("minute").copied().unwrap_or(0) + 1;
    let mut response = with_limits(
        StubAnswer::json(&json!(span.map(ticket).collect::<Vec<Value>>())),
        used,
    );
    if more {
        let mut query: Vec<String> = request
            .query
            .iter()
            .filter(|(name, _)| name != "page")
            .map(|(name, value)| format!("{name}={value}"))
            .collect();
        query.push(format!("page={}", page + 1));
        let host = request.header("host").unwrap();
        response = response.header(
            "link",
            &format!(
                "<http://{host}{}?{}>;rel=\"next\"",
                request.path,
                query.join("&")
            ),
        );
    }
    Answer::one(response, &["minute"])
}

fn refuse(_: &StubRequest) -> Answer {
    let body = json!({ "message": "You have exceeded the limit of requests per minute" });
    Answer::one(
        StubAnswer::error(429, &body).header("retry-after", "1"),
        &["minute"],
    )
}
