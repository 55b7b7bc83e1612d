//! Windows of every length: short ones are waited out, long ones stop the run until they let it go on.

use chrono::{Days, TimeDelta, TimeZone, Utc};
use chrono_tz::Tz;
use ingest_quota::Timestamp;

use crate::support::world::World;

/// 23 requests for each of two regions.
const PACED: &str = r#"
regions = ["US", "GB"]
[upstreams.paced]
base_url = "https://paced.example.com"
[upstreams.paced.calls.list]
path = "things/{region}"
cost = { pace = 1 }
page = { kind = "number", param = "page", size = 10 }
records = { at = "/items", kind = "thing", id = "/id" }
[credentials.paced]
upstream = "paced"
limits = { pace = { quota = 10, window = "100ms", wait = "2s" } }
[jobs.things]
credential = "paced"
steps = [{ call = "list" }]
"#;

#[test]
fn a_short_window_is_waited_out_and_never_overspent() {
    let world = World::written(PACED, &[]);
    world.totals(&serde_json::json!({ "list": 225 }));
    let run = world.json(&["--region", "all"]);
    assert_eq!(run["outcome"], "complete", "{run}");
    assert_eq!(world.requests(), 46);
    assert!(
        world.most_in_window("pace") <= 10,
        "{}",
        world.most_in_window("pace")
    );
}

fn retry_at(window: &str) -> Timestamp {
    let mut world = World::written(PACED, &[]);
    world.set(&format!(
        "credentials.paced.limits.pace={{ quota = 2, {window} }}"
    ));
    let run = world.json(&["--region", "all"]);
    assert_eq!(run["outcome"], "stopped", "{run}");
    assert_eq!(world.requests(), 2);
    Timestamp::parse(run["stopped_by"]["retry_at"].as_str().unwrap()).unwrap()
}

#[test]
fn an_hours_units_return_an_hour_later() {
    let before = Timestamp::from(Utc::now());
    let hours = retry_at("window = \"1h\"").since(before).as_secs();
    assert!((3_600..3_700).contains(&hours), "{hours}");
}

#[test]
fn a_days_units_return_at_midnight_of_the_upstreams_own_zone() {
    for zone in ["UTC", "Asia/Kathmandu", "America/St_Johns"] {
        let midnight = |now: chrono::DateTime<Utc>| {
            let zone: Tz = zone.parse().unwrap();
            // What is charged a grace before midnight can be counted behind it.
            let counted = now.with_timezone(&zone) + TimeDelta::milliseconds(86_400);
            let tomorrow = counted.date_naive() + Days::new(1);
            Timestamp::from(
                zone.from_local_datetime(&tomorrow.and_hms_opt(0, 0, 0).unwrap())
                    .unwrap()
                    .to_utc(),
            )
        };
        let before = midnight(Utc::now());
        let at = retry_at(&format!("resets = \"{zone}\""));
        let after = midnight(Utc::now());
        let late = [before, after].map(|midnight| at.since(midnight).as_secs());
        assert!(
            late.iter().any(|late| (86..90).contains(late)),
            "{zone}: a grace after midnight: {late:?}"
        );
    }
}

#[test]
fn of_a_sliding_and_a_calendar_window_the_later_one_holds() {
    let before = Timestamp::from(Utc::now());
    let wait = retry_at("window = \"24h\", resets = \"Asia/Kathmandu\"")
        .since(before)
        .as_secs();
    assert!((86_400..86_600).contains(&wait), "{wait}");
}
