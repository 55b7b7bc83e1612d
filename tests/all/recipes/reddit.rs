//! Reddit: listings of things, with an app-only token and limits that are fractions.

use serde_json::{Value, json};

use super::{Answer, Recipe, Then, Units, number, span};
use ingest_testing::stub_upstream::{StubAnswer, StubRequest};

pub const RECIPE: Recipe = Recipe {
    name: "reddit",
    instead: &[
        ("https://oauth.reddit.com", "{stub}"),
        ("https://www.reddit.com/api/v1/access_token", "{stub}/token"),
    ],
    secret: ("REDDIT_SECRET", "app-secret-0123456789"),
    credential: "reddit",
    windows: &["requests"],
    limit: "requests",
    tries: &[("new", None)],
    records: &[("reddit_post", 2 * 430)],
    answer,
    refuse,
    then: Then::Exhausted,
};

fn with_limits(response: StubAnswer, used: u64, remaining: &str) -> StubAnswer {
    response
        .header("x-ratelimit-used", &used.to_string())
        .header("x-ratelimit-remaining", remaining)
        .header("x-ratelimit-reset", "417")
}

fn answer(request: &StubRequest, used: &Units) -> Answer {
    assert_eq!(
        request.header("authorization"),
        Some("Bearer token-0123456789abcdef")
    );
    assert!(request.header("user-agent").unwrap().contains("/u/"));
    let name = request
        .path
        .strip_prefix("/r/")
        .unwrap()
        .strip_suffix("/new")
        .unwrap();
    let after = request
        .param("after")
        .map(|after| after.strip_prefix("t3_").unwrap());
    let start = after.map_or(0, |after| number(Some(after)) + 1);
    let (span, more) = span(start, number(request.param("limit")), 430);
    let after = match more {
        true => json!(format!("t3_{}", span.end - 1)),
        false => Value::Null,
    };
    let post = |at: usize| {
        json!({ "kind": "t3", "data": { "name": format!("t3_{name}{at}"), "subreddit": name, "title": "A post", "selftext": "words",
            "author": "someone", "score": 4, "num_comments": 2, "created_utc": 1_700_000_000.0 - at as f64 } })
    };
    let children: Vec<Value> = span.map(post).collect();
    let body = json!({ "kind": "Listing", "data": { "after": after, "dist": children.len(), "modhash": "", "children": children, "before": null } });
    let used = used.get("requests").copied().unwrap_or(0) + 1;
    let response = with_limits(
        StubAnswer::json(&body),
        used,
        &format!("{}.0", 1_000_000 - used),
    );
    Answer::one(response, &["requests"])
}

fn refuse(_: &StubRequest) -> Answer {
    let body = json!({ "message": "Too Many Requests", "error": 429 });
    Answer::one(
        with_limits(StubAnswer::error(429, &body), 1000, "0.0"),
        &["requests"],
    )
}
