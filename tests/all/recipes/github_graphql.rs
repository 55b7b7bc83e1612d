//! GitHub's GraphQL: the rate limit in the response, and its refusal in a response 200.

use serde_json::{Value, json};

use super::{Answer, Recipe, Then, Units, number, span};
use ingest_testing::stub_upstream::{StubAnswer, StubRequest};

pub const RECIPE: Recipe = Recipe {
    name: "github-graphql",
    instead: &[("https://api.github.com", "{stub}")],
    secret: ("GITHUB_TOKEN", "ghp_0123456789"),
    credential: "github",
    windows: &["points"],
    limit: "points",
    tries: &[("issues", None)],
    records: &[("github_issue", 2 * 250)],
    answer,
    refuse,
    then: Then::Stops,
};

fn in_an_hour() -> chrono::DateTime<chrono::Utc> {
    chrono::Utc::now() + chrono::Duration::hours(1)
}

fn answer(request: &StubRequest, used: &Units) -> Answer {
    let body = request.json();
    let variables = &body["variables"];
    let name = variables["name"].as_str().unwrap();
    assert!(["cargo", "zig"].contains(&name));
    assert_eq!(variables["since"], "1970-01-01T00:00:00Z");
    let (span, more) = span(
        number(variables["after"].as_str()),
        variables["first"].as_u64().unwrap() as usize,
        250,
    );
    let cursor = span.end.to_string();
    let issue = |at: usize| {
        json!({ "id": format!("I_{name}_{at}"), "number": at, "title": "Something fails", "state": "OPEN",
            "updatedAt": format!("2024-03-01T10:{:02}:{:02}Z", at / 60, at % 60), "author": { "login": "someone" },
            "labels": { "nodes": [{ "name": "bug" }] } })
    };
    let remaining = 1_000_000 - used.get("points").copied().unwrap_or(0) - 1;
    let body = json!({ "data": {
        "rateLimit": { "cost": 1, "remaining": remaining, "resetAt": in_an_hour().to_rfc3339() },
        "repository": { "issues": { "nodes": span.map(issue).collect::<Vec<_>>(), "pageInfo": { "hasNextPage": more, "endCursor": cursor } } },
    } });
    Answer::one(StubAnswer::json(&body), &["points"])
}

fn refuse(_: &StubRequest) -> Answer {
    let body = json!({ "data": Value::Null, "errors": [{ "type": "RATE_LIMITED", "message": "API rate limit exceeded for user ID 1." }] });
    let reset = in_an_hour().timestamp().to_string();
    let response = StubAnswer::json(&body)
        .header("x-ratelimit-remaining", "0")
        .header("x-ratelimit-reset", &reset);
    Answer::one(response, &["points"])
}
