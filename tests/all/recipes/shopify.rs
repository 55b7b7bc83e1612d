//! Shopify's GraphQL: what a query cost and what is left in `extensions`, throttled in a response 200.

use serde_json::{Value, json};

use super::{Answer, Recipe, Then, Units, number, span};
use ingest_testing::stub_upstream::{StubAnswer, StubRequest};

pub const RECIPE: Recipe = Recipe {
    name: "shopify",
    instead: &[("https://your-shop.myshopify.com", "{stub}")],
    secret: ("SHOPIFY_TOKEN", "shpat_0123456789"),
    credential: "shopify",
    windows: &["points"],
    limit: "points",
    tries: &[("orders", None)],
    records: &[("shopify_order", 330)],
    answer,
    refuse,
    then: Then::Retries,
};

fn extensions(actual: Value) -> Value {
    json!({ "cost": { "requestedQueryCost": 58, "actualQueryCost": actual,
        "throttleStatus": { "maximumAvailable": 1_000_000.0, "currentlyAvailable": 1_000_000.0, "restoreRate": 100.0 } } })
}

fn answer(request: &StubRequest, _: &Units) -> Answer {
    assert_eq!(
        request.header("x-shopify-access-token"),
        Some("shpat_0123456789")
    );
    let body = request.json();
    assert!(
        body["query"]
            .as_str()
            .unwrap()
            .contains("orders(first: $first")
    );
    let variables = &body["variables"];
    assert!(
        variables["filter"]
            .as_str()
            .unwrap()
            .starts_with("updated_at:>='2024-01-01T00:00:00Z'")
    );
    let (span, more) = span(
        number(variables["after"].as_str()),
        variables["first"].as_u64().unwrap() as usize,
        330,
    );
    let end = span.end.to_string();
    let cost = span.len() as u64 + 3;
    let order = |at: usize| {
        json!({ "id": format!("gid://shopify/Order/{at}"), "name": format!("#{at}"), "displayFinancialStatus": "PAID",
            "createdAt": "2024-02-01T10:00:00Z", "updatedAt": format!("2024-03-01T10:{:02}:{:02}Z", at / 60, at % 60),
            "totalPriceSet": { "shopMoney": { "amount": "12.50", "currencyCode": "EUR" } } })
    };
    let body = json!({
        "data": { "orders": { "nodes": span.map(order).collect::<Vec<_>>(), "pageInfo": { "hasNextPage": more, "endCursor": end } } },
        "extensions": extensions(json!(cost)),
    });
    Answer {
        response: StubAnswer::json(&body),
        cost: vec![("points".to_owned(), cost)],
    }
}

fn refuse(_: &StubRequest) -> Answer {
    let body = json!({
        "errors": [{ "message": "Throttled", "extensions": { "code": "THROTTLED", "documentation": "https://shopify.dev/api/usage/rate-limits" } }],
        "extensions": extensions(Value::Null),
    });
    Answer::free(StubAnswer::json(&body))
}
