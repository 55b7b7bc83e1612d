//! OpenWeather: places as regions.

use serde_json::{Value, json};

use super::{Answer, Recipe, Then, Units};
use ingest_testing::stub_upstream::{StubAnswer, StubRequest};

pub const RECIPE: Recipe = Recipe {
    name: "openweather",
    instead: &[("https://api.openweathermap.org", "{stub}")],
    secret: ("OPENWEATHER_KEY", "key0123456789"),
    credential: "openweather",
    windows: &["minute"],
    limit: "monthly",
    tries: &[("forecast", None)],
    records: &[("openweather_forecast", 3 * 40)],
    answer,
    refuse,
    then: Then::Stops,
};

fn answer(request: &StubRequest, _: &Units) -> Answer {
    assert_eq!(
        (request.path.as_str(), request.param("appid")),
        ("/data/2.5/forecast", Some("key0123456789"))
    );
    let lat: f64 = request.param("lat").unwrap().parse().unwrap();
    let step = |at: i64| {
        json!({ "dt": 1_750_000_000 + at * 10_800, "main": { "temp": 21.4, "pressure": 1015, "humidity": 60 },
            "weather": [{ "id": 800, "main": "Clear", "description": "clear sky" }], "clouds": { "all": 0 },
            "wind": { "speed": 3.1, "deg": 200 }, "visibility": 10_000, "pop": 0, "dt_txt": "2025-06-15 15:00:00" })
    };
    let body = json!({ "cod": "200", "message": 0, "cnt": 40, "list": (0..40).map(step).collect::<Vec<Value>>(),
        "city": { "id": 1, "name": "Somewhere", "coord": { "lat": lat, "lon": 0.0 } } });
    Answer::one(StubAnswer::json(&body), &["minute", "monthly"])
}

fn refuse(_: &StubRequest) -> Answer {
    let body = json!({ "cod": 429, "message": "Your account is temporary blocked due to exceeding of requests limitation of your subscription type. Please choose the proper subscription https://openweathermap.org/price" });
    Answer::one(StubAnswer::error(429, &body), &["minute", "monthly"])
}
