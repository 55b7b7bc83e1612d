//! Google Analytics with a service account: offset and limit in the body, tokens for each property.

use serde_json::{Value, json};

use super::{Answer, Recipe, Then, Units, number, span};
use ingest_testing::stub_upstream::{StubAnswer, StubRequest};

/// The key file of a service account, whose private key is for tests only.
const KEY: &str = include_str!("service_account.json");

pub const RECIPE: Recipe = Recipe {
    name: "google-analytics",
    instead: &[
        ("https://analyticsdata.googleapis.com", "{stub}"),
        (
            "scope = \"https://www.googleapis.com/auth/analytics.readonly\"",
            "scope = \"https://www.googleapis.com/auth/analytics.readonly\", token_url = \"{stub}/token\"",
        ),
        ("/etc/ingest/service-account.json", "{directory}/secret"),
        // A tenth of the records, on as many pages.
        ("size = 10_000", "size = 1_000"),
    ],
    secret: ("UNUSED", KEY),
    credential: "ga4",
    windows: &["hourly", "project"],
    limit: "daily/123456789",
    tries: &[("runReport", None)],
    records: &[("ga4_page_view", 2 * TOTAL as i64)],
    answer,
    refuse,
    then: Then::Stops,
};

const TOTAL: usize = 2_100;

fn property(request: &StubRequest) -> &str {
    let path = request.path.strip_prefix("/v1beta/properties/").unwrap();
    let path = path
        .strip_suffix(":runReport")
        .or(path.strip_suffix("%3ArunReport"));
    path.unwrap()
}

fn answer(request: &StubRequest, used: &Units) -> Answer {
    assert_eq!(
        request.header("authorization"),
        Some("Bearer token-0123456789abcdef")
    );
    let (property, body) = (property(request), request.json());
    assert_eq!(body["returnPropertyQuota"], true);
    let offset = match &body["offset"] {
        Value::Null => 0,
        Value::String(offset) => number(Some(offset)),
        offset => offset.as_u64().unwrap() as usize,
    };
    let limit = match &body["limit"] {
        Value::String(limit) => number(Some(limit)),
        limit => limit.as_u64().unwrap() as usize,
    };
    let (span, _) = span(offset, limit, TOTAL);
    let row = |at: usize| {
        json!({ "dimensionValues": [{ "value": "20250301" }, { "value": format!("/page/{at:05}") }, { "value": "mobile" }],
            "metricValues": [{ "value": "12" }, { "value": "9" }] })
    };
    let consumed = 7 + (offset / limit) as u64;
    let quota = |limit: &str, most: u64| {
        let used = used
            .get(&format!("{limit}/{property}"))
            .copied()
            .unwrap_or(0);
        json!({ "consumed": consumed, "remaining": most - used - consumed })
    };
    let body = json!({
        "dimensionHeaders": [{ "name": "date" }, { "name": "pagePath" }, { "name": "deviceCategory" }],
        "metricHeaders": [{ "name": "screenPageViews", "type": "TYPE_INTEGER" }, { "name": "activeUsers", "type": "TYPE_INTEGER" }],
        "rows": span.map(row).collect::<Vec<_>>(),
        "rowCount": TOTAL,
        "metadata": { "currencyCode": "EUR", "timeZone": "Europe/Berlin" },
        "propertyQuota": {
            "tokensPerDay": quota("daily", 200_000),
            "tokensPerHour": quota("hourly", 1_000_000),
            "tokensPerProjectPerHour": quota("project", 1_000_000),
            "concurrentRequests": { "consumed": 0, "remaining": 10 },
        },
        "kind": "analyticsData#runReport",
    });
    let cost =
        ["daily", "hourly", "project"].map(|limit| (format!("{limit}/{property}"), consumed));
    Answer {
        response: StubAnswer::json(&body),
        cost: cost.into(),
    }
}

/// A request that Google declines costs no tokens.
fn refuse(_: &StubRequest) -> Answer {
    let body = json!({ "error": { "code": 429, "status": "RESOURCE_EXHAUSTED",
        "message": "Exhausted property tokens per hour. These quota tokens will return in under an hour. To learn more, see https://developers.google.com/analytics/devguides/reporting/data/v1/quotas" } });
    Answer::free(StubAnswer::error(429, &body))
}
