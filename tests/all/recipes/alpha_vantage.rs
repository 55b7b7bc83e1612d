//! Alpha Vantage: members named by dates, and every refusal in a response 200.

use serde_json::{Map, Value, json};

use super::{Answer, Recipe, Then, Units};
use ingest_testing::stub_upstream::{StubAnswer, StubRequest};

pub const RECIPE: Recipe = Recipe {
    name: "alpha-vantage",
    instead: &[("https://www.alphavantage.co", "{stub}")],
    secret: ("ALPHA_VANTAGE_KEY", "KEY0123456789"),
    credential: "alpha-vantage",
    windows: &["pace"],
    limit: "daily",
    tries: &[("daily", None)],
    records: &[("alpha-vantage_price", 3 * 100)],
    answer,
    refuse,
    then: Then::Stops,
};

fn answer(request: &StubRequest, _: &Units) -> Answer {
    assert_eq!(
        (request.path.as_str(), request.param("apikey")),
        ("/query", Some("KEY0123456789"))
    );
    assert_eq!(request.param("function"), Some("TIME_SERIES_DAILY"));
    let day = |at: i64| {
        let date =
            chrono::NaiveDate::from_ymd_opt(2025, 6, 1).unwrap() - chrono::Duration::days(at);
        let prices = json!({ "1. open": "10.5", "2. high": "11.0", "3. low": "10.1", "4. close": "10.9", "5. volume": "1234567" });
        (date.to_string(), prices)
    };
    let days: Map<String, Value> = (0..100).map(day).collect();
    let body = json!({
        "Meta Data": { "1. Information": "Daily Prices (open, high, low, close) and Volumes", "2. Symbol": request.param("symbol"),
            "3. Last Refreshed": "2025-06-01", "4. Output Size": "Compact", "5. Time Zone": "US/Eastern" },
        "Time Series (Daily)": days,
    });
    Answer::one(StubAnswer::json(&body), &["daily", "pace"])
}

fn refuse(_: &StubRequest) -> Answer {
    let body = json!({ "Information": "We have detected your API key as KEY0123456789 and our standard API rate limit is 25 requests per day. Please subscribe to any of the premium plans at https://www.alphavantage.co/premium/ to instantly remove all daily rate limits." });
    Answer::one(StubAnswer::json(&body), &["daily", "pace"])
}
