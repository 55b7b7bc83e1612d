//! Slack: cursors in `response_metadata`, and `ok: false` in a response 200.

use serde_json::{Value, json};

use super::{Answer, Recipe, Then, Units, number, span};
use crate::support::stub_upstream::{StubAnswer, StubRequest};

pub const RECIPE: Recipe = Recipe {
    name: "slack",
    instead: &[("https://slack.com", "{stub}")],
    secret: ("SLACK_TOKEN", "xoxb-0123456789"),
    credential: "slack",
    windows: &["list", "history"],
    limit: "history",
    tries: &[
        ("conversations.list", None),
        ("conversations.history", Some("C0001")),
    ],
    // The bot is not a member of the last channel.
    records: &[("slack_channel", 4), ("slack_message", 3 * 450)],
    answer,
    refuse,
    then: Then::Retries,
};

fn page(key: &str, things: Vec<Value>, next: Option<usize>) -> StubAnswer {
    let next = next.map_or(String::new(), |at| format!("bmV4dDo={at}"));
    let mut body = json!({ "ok": true, "response_metadata": { "next_cursor": next } });
    body[key] = json!(things);
    StubAnswer::json(&body)
}

fn answer(request: &StubRequest, _: &Units) -> Answer {
    assert_eq!(
        request.header("authorization"),
        Some("Bearer xoxb-0123456789")
    );
    let cursor = request
        .param("cursor")
        .map(|cursor| cursor.strip_prefix("bmV4dDo=").unwrap());
    let (start, size) = (number(cursor), number(request.param("limit")));
    match request.path.as_str() {
        "/api/conversations.list" => {
            let channel = |at| {
                json!({ "id": format!("C000{at}"), "name": format!("team-{at}"), "is_channel": true, "created": 1_600_000_000,
                    "num_members": 12, "purpose": { "value": "work", "creator": "", "last_set": 0 } })
            };
            let response = page("channels", (0..4).map(channel).collect(), None);
            Answer::one(response, &["list"])
        }
        "/api/conversations.history" => {
            let channel = request.param("channel").unwrap();
            assert!(request.param("oldest").unwrap().parse::<u64>().is_ok());
            if channel == "C0003" {
                let body = json!({ "ok": false, "error": "not_in_channel" });
                return Answer::one(StubAnswer::json(&body), &["history"]);
            }
            let (span, more) = span(start, size, 450);
            let message = |at: usize| {
                json!({ "type": "message", "user": "U1", "text": format!("message {at}"), "thread_ts": "1700000000.000100",
                    "ts": format!("{}.{:06}", 1_700_000_000 - at, 100) })
            };
            let next = more.then_some(span.end);
            Answer::one(
                page("messages", span.map(message).collect(), next),
                &["history"],
            )
        }
        other => panic!("{other}"),
    }
}

fn refuse(request: &StubRequest) -> Answer {
    let limit = match request.path.as_str() {
        "/api/conversations.list" => "list",
        _ => "history",
    };
    let body = json!({ "ok": false, "error": "ratelimited" });
    let response = StubAnswer::error(429, &body).header("retry-after", "1");
    Answer::one(response, &[limit])
}
