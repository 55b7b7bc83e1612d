//! OpenAlex: a first cursor `*`, and credits in headers.

use serde_json::{Value, json};

use super::{Answer, Recipe, Then, Units, number, span};
use ingest_testing::stub_upstream::{StubAnswer, StubRequest};

pub const RECIPE: Recipe = Recipe {
    name: "openalex",
    instead: &[("https://api.openalex.org", "{stub}")],
    secret: ("OPENALEX_KEY", "key-0123456789"),
    credential: "openalex",
    windows: &[],
    limit: "credits",
    tries: &[("works", None)],
    records: &[("openalex_work", 2 * 500)],
    answer,
    refuse,
    then: Then::Exhausted,
};

fn with_limits(response: StubAnswer, remaining: u64) -> StubAnswer {
    response
        .header("x-ratelimit-limit", "100000")
        .header("x-ratelimit-remaining", &remaining.to_string())
        .header("x-ratelimit-credits-used", "10")
        .header("x-ratelimit-reset", "3600")
}

fn answer(request: &StubRequest, used: &Units) -> Answer {
    assert_eq!(
        (request.path.as_str(), request.param("api_key")),
        ("/works", Some("key-0123456789"))
    );
    let filter = request.param("filter").unwrap();
    assert!(
        filter.contains("from_publication_date:2023-12-25"),
        "{filter}"
    );
    let country = if filter.contains("country_code:CH") {
        "CH"
    } else {
        "AT"
    };
    let start = match request.param("cursor").unwrap() {
        "*" => 0,
        cursor => number(cursor.strip_prefix("Ils")),
    };
    let (span, _) = span(start, number(request.param("per-page")), 500);
    // Only an empty page has no cursor.
    let next = match span.is_empty() {
        true => Value::Null,
        false => json!(format!("Ils{}", span.end)),
    };
    let work = |at: usize| {
        json!({ "id": format!("https://openalex.org/W{country}{at}"), "doi": "https://doi.org/10.1/x", "title": "A work",
            "publication_date": "2024-05-01", "type": "article", "cited_by_count": 3, "open_access": { "is_oa": true } })
    };
    let body = json!({
        "meta": { "count": 500, "db_response_time_ms": 12, "page": null, "per_page": 200, "next_cursor": next },
        "results": span.map(work).collect::<Vec<_>>(), "group_by": [],
    });
    let left = 100_000 - used.get("credits").copied().unwrap_or(0) - 10;
    Answer {
        response: with_limits(StubAnswer::json(&body), left),
        cost: vec![("credits".to_owned(), 10)],
    }
}

fn refuse(_: &StubRequest) -> Answer {
    let body = json!({ "error": "Rate limit exceeded", "message": "Insufficient credits. Your limit resets at midnight UTC." });
    Answer {
        response: with_limits(StubAnswer::error(429, &body), 0),
        cost: vec![("credits".to_owned(), 10)],
    }
}
