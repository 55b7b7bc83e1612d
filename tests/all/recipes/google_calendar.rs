//! Google Calendar: sync tokens that all pages of a pass carry, cancelled events, and 410 for a token that is too old.

use serde_json::{Value, json};

use super::feed::{Feed, lists_what_changed};
use super::{Answer, Recipe, Then, Units, number};
use ingest_testing::stub_upstream::{StubAnswer, StubRequest};

/// The key file of a service account, whose private key is for tests only.
const KEY: &str = include_str!("service_account.json");

pub const RECIPE: Recipe = Recipe {
    name: "google-calendar",
    instead: &[
        (
            "https://www.googleapis.com/calendar/v3",
            "{stub}/calendar/v3",
        ),
        (
            "scope = \"https://www.googleapis.com/auth/calendar.readonly\"",
            "scope = \"https://www.googleapis.com/auth/calendar.readonly\", token_url = \"{stub}/token\"",
        ),
        ("/etc/ingest/service-account.json", "{directory}/secret"),
        // A tenth of the records, on as many pages.
        ("size = 2_500", "size = 250"),
    ],
    secret: ("UNUSED", KEY),
    credential: "calendar",
    windows: &["minute"],
    limit: "minute",
    tries: &[("events", None)],
    records: &[("calendar_event", 2 * 600)],
    answer,
    refuse,
    then: Then::Retries,
};

fn answer(request: &StubRequest, _: &Units) -> Answer {
    Answer::one(respond(request, &Feed::of(600)), &["minute"])
}

fn respond(request: &StubRequest, feed: &Feed) -> StubAnswer {
    let calendar = request
        .path
        .strip_prefix("/calendar/v3/calendars/")
        .unwrap();
    assert!(calendar.ends_with("/events"), "{calendar}");
    let (turn, sync) = (request.param("pageToken"), request.param("syncToken"));
    // A page of a pass that began with a sync token carries it.
    let is_of_changes = turn.is_some_and(|turn| !turn.starts_with("all"));
    assert!(!is_of_changes || sync.is_some());
    let size = number(request.param("maxResults"));
    let Some(page) = feed.page(turn.or(sync), size) else {
        let reason = json!({ "domain": "calendar", "reason": "fullSyncRequired", "message": "Sync token is no longer valid." });
        let error =
            json!({ "errors": [reason], "code": 410, "message": "Sync token is no longer valid." });
        return StubAnswer::error(410, &json!({ "error": error }));
    };
    let event = |(thing, is_there): (usize, bool)| match is_there {
        true => {
            json!({ "id": format!("event{thing}"), "status": "confirmed", "summary": "Meeting", "description": "words",
            "location": "Room 1", "organizer": { "email": "a@example.com" }, "updated": "2026-03-01T10:00:00.000Z",
            "start": { "dateTime": "2026-03-02T10:00:00Z", "date": "2026-03-02" }, "end": { "dateTime": "2026-03-02T11:00:00Z" } })
        }
        false => json!({ "id": format!("event{thing}"), "status": "cancelled" }),
    };
    let events: Vec<Value> = page.things.into_iter().map(event).collect();
    let mut body = json!({ "kind": "calendar#events", "items": events });
    if let Some(next) = page.next {
        body["nextPageToken"] = next.into();
    }
    if let Some(end) = page.end {
        body["nextSyncToken"] = end.into();
    }
    StubAnswer::json(&body)
}

fn refuse(_: &StubRequest) -> Answer {
    let reason = json!({ "domain": "usageLimits", "reason": "rateLimitExceeded", "message": "Rate Limit Exceeded" });
    let error = json!({ "errors": [reason], "code": 403, "message": "Rate Limit Exceeded" });
    let response = StubAnswer::error(403, &json!({ "error": error })).header("retry-after", "1");
    Answer::one(response, &["minute"])
}

#[test]
fn lists_everything_once_and_then_what_changed() {
    lists_what_changed(&RECIPE, "events", respond);
}
