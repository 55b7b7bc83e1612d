//! Stripe: lists with `has_more`, whose next page begins after an id.

use serde_json::{Value, json};

use super::{Answer, Recipe, Then, Units, span};
use ingest_testing::stub_upstream::{StubAnswer, StubRequest};

pub const RECIPE: Recipe = Recipe {
    name: "stripe",
    instead: &[("https://api.stripe.com", "{stub}")],
    secret: ("STRIPE_KEY", "rk_test_0123456789"),
    credential: "stripe",
    windows: &["pace"],
    limit: "pace",
    tries: &[("charges", None)],
    records: &[("stripe_charge", 420)],
    answer,
    refuse,
    then: Then::Retries,
};

const TOTAL: usize = 420;

fn id(at: usize) -> String {
    format!("ch_3{at:06}")
}

fn charge(at: usize) -> Value {
    json!({
        "id": id(at), "object": "charge", "amount": 1_000 + at, "currency": "eur", "status": "succeeded",
        "paid": true, "refunded": false, "customer": "cus_9", "created": 1_700_000_000 - at * 60,
        "description": "An order", "billing_details": { "name": "A buyer", "email": null },
        "metadata": {}, "livemode": false,
    })
}

fn answer(request: &StubRequest, _: &Units) -> Answer {
    // `rk_test_0123456789:` in base64.
    assert_eq!(
        request.header("authorization"),
        Some("Basic cmtfdGVzdF8wMTIzNDU2Nzg5Og==")
    );
    assert_eq!(request.path, "/v1/charges");
    assert!(
        request
            .param("created[gte]")
            .unwrap()
            .parse::<u64>()
            .is_ok()
    );
    let start = match request.param("starting_after") {
        None => 0,
        Some(after) => (0..TOTAL).position(|at| id(at) == after).unwrap() + 1,
    };
    let (span, more) = span(start, super::number(request.param("limit")), TOTAL);
    let data: Vec<Value> = span.map(charge).collect();
    let body = json!({ "object": "list", "url": "/v1/charges", "has_more": more, "data": data });
    Answer::one(StubAnswer::json(&body), &["pace"])
}

fn refuse(_: &StubRequest) -> Answer {
    let body = json!({ "error": {
        "message": "Request rate limit exceeded.", "type": "invalid_request_error", "code": "rate_limit",
    } });
    let response =
        StubAnswer::error(429, &body).header("stripe-rate-limited-reason", "global-rate");
    Answer::one(response, &["pace"])
}
