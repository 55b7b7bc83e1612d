//! Microsoft Graph: delta links, users that are named once more when they are removed, and `syncStateNotFound`.

use serde_json::{Value, json};

use super::feed::{Feed, lists_what_changed};
use super::{Answer, Recipe, Then, Units};
use ingest_testing::stub_upstream::{StubAnswer, StubRequest};

pub const RECIPE: Recipe = Recipe {
    name: "microsoft-graph",
    instead: &[
        ("https://graph.microsoft.com/v1.0\"", "{stub}/v1.0\""),
        (
            "https://login.microsoftonline.com/your-tenant-id/oauth2/v2.0/token",
            "{stub}/token",
        ),
    ],
    secret: ("GRAPH_SECRET", "0123456789abcdef"),
    credential: "graph",
    windows: &["pace"],
    limit: "pace",
    tries: &[("users", None)],
    records: &[("graph_user", 420)],
    answer,
    refuse,
    then: Then::Retries,
};

fn answer(request: &StubRequest, _: &Units) -> Answer {
    Answer::one(respond(request, &Feed::of(420)), &["pace"])
}

fn respond(request: &StubRequest, feed: &Feed) -> StubAnswer {
    assert_eq!(request.path, "/v1.0/users/delta");
    let cursor = request.param("$skiptoken").or(request.param("$deltatoken"));
    // A link has the properties in its token.
    assert_eq!(request.param("$select").is_none(), cursor.is_some());
    let Some(page) = feed.page(cursor, 100) else {
        let error = json!({ "code": "syncStateNotFound", "message": "The sync state generation is not found." });
        return StubAnswer::error(400, &json!({ "error": error }));
    };
    let user = |(thing, is_there): (usize, bool)| {
        let id = format!("87d349ed-44d7-43e1-9a83-{thing:012}");
        match is_there {
            true => {
                json!({ "id": id, "displayName": format!("User {thing}"), "mail": format!("user{thing}@example.com"),
                "jobTitle": "Clerk", "accountEnabled": true })
            }
            false => json!({ "id": id, "@removed": { "reason": "changed" } }),
        }
    };
    let users: Vec<Value> = page.things.into_iter().map(user).collect();
    let host = request.header("host").unwrap();
    let url = format!("http://{host}/v1.0/users/delta?");
    let mut body =
        json!({ "@odata.context": format!("http://{host}/v1.0/$metadata#users"), "value": users });
    if let Some(next) = page.next {
        body["@odata.nextLink"] = format!("{url}$skiptoken={next}").into();
    }
    if let Some(end) = page.end {
        body["@odata.deltaLink"] = format!("{url}$deltatoken={end}").into();
    }
    StubAnswer::json(&body)
}

fn refuse(_: &StubRequest) -> Answer {
    let error = json!({ "code": "TooManyRequests", "message": "Too many requests" });
    let response = StubAnswer::error(429, &json!({ "error": error })).header("retry-after", "1");
    Answer::one(response, &["pace"])
}

#[test]
fn lists_everything_once_and_then_what_changed() {
    lists_what_changed(&RECIPE, "users", respond);
}
