//! The Odds API: credits per month, whose exhaustion is a 401, and a cost in a header.

use serde_json::{Value, json};

use super::{Answer, Recipe, Then, Units};
use ingest_testing::stub_upstream::{StubAnswer, StubRequest};

pub const RECIPE: Recipe = Recipe {
    name: "monthly-cap",
    instead: &[("https://api.the-odds-api.com", "{stub}")],
    secret: ("ODDS_KEY", "key0123456789"),
    credential: "odds",
    windows: &["pace"],
    limit: "monthly",
    tries: &[("odds", None)],
    // Ice hockey is out of season.
    records: &[("odds_game", 2 * 30)],
    answer,
    refuse,
    then: Then::Stops,
};

fn with_limits(response: StubAnswer, used: u64, last: u64) -> StubAnswer {
    response
        .header("x-requests-remaining", &(20_000 - used - last).to_string())
        .header("x-requests-used", &(used + last).to_string())
        .header("x-requests-last", &last.to_string())
}

fn answer(request: &StubRequest, used: &Units) -> Answer {
    assert_eq!(request.param("apiKey"), Some("key0123456789"));
    let sport = request
        .path
        .strip_prefix("/v4/sports/")
        .unwrap()
        .strip_suffix("/odds")
        .unwrap();
    let (games, last) = match sport {
        "icehockey_nhl" => (0, 0),
        _ => (30, 2),
    };
    let game = |at: usize| {
        json!({ "id": format!("{sport}{at}"), "sport_key": sport, "sport_title": "Sport", "commence_time": "2025-06-15T15:00:00Z",
            "home_team": "North", "away_team": "South", "bookmakers": [{ "key": "one", "title": "One", "markets": [] }] })
    };
    let body = json!((0..games).map(game).collect::<Vec<Value>>());
    let used = used.get("monthly").copied().unwrap_or(0);
    Answer {
        response: with_limits(StubAnswer::json(&body), used, last),
        cost: vec![("monthly".to_owned(), last), ("pace".to_owned(), 1)],
    }
}

fn refuse(_: &StubRequest) -> Answer {
    let body = json!({ "message": "Usage quota has been reached. See usage plans at https://the-odds-api.com", "error_code": "OUT_OF_USAGE_CREDITS",
        "details_url": "https://the-odds-api.com/liveapi/guides/v4/api-error-codes.html#out-of-usage-credits" });
    Answer::free(StubAnswer::error(401, &body))
}
