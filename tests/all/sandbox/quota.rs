use std::time::Duration;

use ingest_config::{Class, Config, RuleBody, classify};
use ingest_quota::{Timestamp, Units};
use ingest_sandbox::Options;
use serde_json::{Value, json};

use super::{CHART, Table, shipped};
use crate::support::json::has;

const HOUR: Duration = Duration::from_secs(60 * 60);

fn granting(units: u64) -> Options {
    Options {
        quota: Some(Units::new(units)),
        ..Options::default()
    }
}

/// The shipped configuration with another window for its daily limit.
fn with_daily(limit: &str) -> Config {
    shipped(&[&format!("credentials.youtube.limits.daily={limit}")])
}

async fn status(table: &Table) -> u16 {
    table.ask(&format!("{CHART}US")).await.status().as_u16()
}

/// What the shipped rules make of a refusal.
fn class(config: &Config, status: u16, body: &Value) -> Option<Class> {
    let seen = RuleBody {
        document: body,
        text: &body.to_string(),
    };
    classify(&config.upstreams["youtube"].errors, status, |_| None, seen).map(|rule| rule.class)
}

#[tokio::test]
async fn a_spent_bucket_of_its_own_is_refused_by_its_own_name() {
    let config = shipped(&[
        "credentials.youtube.limits.search.quota=11",
        "credentials.youtube.limits.search_burst.quota=99",
    ]);
    let table = Table::laid(&config, Options::default()).await;
    for _ in 0..11 {
        table.json("search?part=snippet").await;
    }
    let response = table.ask("search?part=snippet").await;
    assert_eq!(response.status(), 429);
    let body: Value = response.json().await.unwrap();
    let metadata = &body["error"]["details"][0]["metadata"];
    assert_eq!(metadata["quota_limit"], "defaultSearchListPerDayPerProject");
    assert_eq!(class(&config, 429, &body), Some(Class::Spent));
}

#[tokio::test]
async fn a_sliding_window_is_exactly_as_long_as_it_is() {
    let config = with_daily("{ quota = 10_000, window = \"24h\" }");
    let table = Table::laid(&config, granting(1)).await;
    assert_eq!(status(&table).await, 200);
    table.clock.pass(HOUR * 24 - Duration::from_micros(1));
    assert_eq!(table.used("daily"), 1);
    table.clock.pass(Duration::from_micros(1));
    assert_eq!(table.used("daily"), 0);
    assert_eq!(status(&table).await, 200);
}

#[tokio::test]
async fn a_calendar_day_ends_at_midnight_of_its_zone() {
    let config = with_daily("{ quota = 10_000, resets = \"America/Los_Angeles\" }");
    let table = Table::laid(&config, granting(1)).await;
    assert_eq!(status(&table).await, 200);
    table.clock.pass(HOUR * 20 - Duration::from_micros(1));
    assert_eq!(status(&table).await, 429);
    table.clock.pass(Duration::from_micros(1));
    assert_eq!(table.used("daily"), 0);
    assert_eq!(status(&table).await, 200);
}

#[tokio::test]
async fn where_both_are_said_both_hold() {
    let table = Table::laid(&shipped(&[]), granting(1)).await;
    assert_eq!(status(&table).await, 200);
    table.clock.pass(HOUR * 20);
    assert_eq!(
        status(&table).await,
        429,
        "midnight has passed, 24 hours have not"
    );
}

#[tokio::test]
async fn a_day_of_25_hours_is_one_day() {
    let config =
        with_daily("{ quota = 10_000, window = \"24h\", resets = \"America/Los_Angeles\" }");
    let table = Table::laid(&config, granting(1)).await;
    // 2027-11-07T07:00:00Z is midnight of the day on which the clocks go back.
    table
        .clock
        .set(Timestamp::parse("2027-11-07T07:00:00Z").unwrap());
    assert_eq!(status(&table).await, 200);
    table.clock.pass(HOUR * 24);
    assert_eq!(status(&table).await, 429, "still the same day");
    table.clock.pass(HOUR * 24);
    assert_eq!(status(&table).await, 200);
}

#[tokio::test]
async fn the_most_that_a_window_held_is_remembered() {
    let table = Table::laid(
        &with_daily("{ quota = 10_000, window = \"1h\" }"),
        Options::default(),
    )
    .await;
    for minutes in [0, 20, 20, 20, 20, 300] {
        table.clock.pass(Duration::from_secs(minutes * 60));
        status(&table).await;
    }
    let report = table.report("usage").await;
    let daily = &report["limits"][0];
    has(daily, &json!({ "used": 1, "most_in_window": 3 }));
    assert_eq!(report["calls"]["videos.list"], 6);
}

#[tokio::test]
async fn keys_that_are_not_known_stand_for_one_credential_each() {
    let second = "credentials.second={ upstream = \"youtube\", secret = { env = \"K\" }, limits = { daily = { quota = 9, window = \"1h\" }, search = { quota = 9, window = \"1h\" }, search_burst = { quota = 9, window = \"1h\" } } }";
    let table = Table::laid(&shipped(&[second]), Options::default()).await;
    let url = table.url("youtube", &format!("{CHART}US"));
    for key in ["one", "two", "one", "three", "second", "youtube"] {
        let request = table.client.get(&url).header("x-goog-api-key", key);
        assert_eq!(request.send().await.unwrap().status(), 200);
    }
    let used = |account: &str| {
        let usage = table.sandbox.usage();
        let mut usage = usage.iter();
        let count = usage.find(|one| one.account == account && one.limit == "daily");
        count.unwrap().used.get()
    };
    // The first name, to which further keys belong too; and the other.
    assert_eq!((used("second"), used("youtube")), (4, 2));
}

#[tokio::test]
async fn two_keys_of_one_account_draw_on_one_quota() {
    let config = shipped(&[
        "credentials.second={ upstream = \"youtube\", secret = { env = \"K\" }, account = \"youtube\" }",
    ]);
    let table = Table::laid(&config, Options::default()).await;
    let url = table.url("youtube", &format!("{CHART}US"));
    for credential in ["youtube", "second"] {
        let secret = ingest_sandbox::Sandbox::secret_of(credential);
        assert_eq!(
            table
                .client
                .get(&url)
                .header("x-goog-api-key", secret)
                .send()
                .await
                .unwrap()
                .status(),
            200
        );
    }
    assert_eq!(table.used("daily"), 2);
}
