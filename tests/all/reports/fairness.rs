use std::collections::HashMap;
use std::time::Duration;

use ingest_base::clock::Clock;
use ingest_quota::Timestamp;

use super::stage::{HOUR, Stage, completed};

const LISTING_ONLY: &str = "jobs.trending.steps=[{ call = \"videos.list\", params = { part = \"snippet\", chart = \"mostPopular\", regionCode = \"{region}\" }, max_pages = 4 }]";
const NO_DISCOVER: &str =
    "jobs.discover.steps=[{ call = \"videos.list\", params = { chart = \"mostPopular\" } }]";

fn stage_with(daily: &str, every: &str) -> Vec<String> {
    vec![
        format!("credentials.youtube.limits.daily={daily}"),
        LISTING_ONLY.to_owned(),
        NO_DISCOVER.to_owned(),
        "jobs.trending.leave={}".to_owned(),
        "jobs.discover.leave={}".to_owned(),
        format!("jobs.trending.every=\"{every}\""),
    ]
}

async fn opened(sets: &[String]) -> Stage {
    let sets: Vec<&str> = sets.iter().map(String::as_str).collect();
    Stage::shipped(&sets).await
}

#[tokio::test]
async fn over_100_days_at_60_percent_of_the_demand_no_region_waits_much_longer_than_any_other() {
    // Eight regions of one page a day: 8 units are wanted, 5 are there.
    let mut sets = stage_with("{ quota = 5, window = \"24h\", wait = \"0s\" }", "24h");
    sets.push("jobs.trending.steps.0.max_pages=1".to_owned());
    let stage = opened(&sets).await;
    let mut last: HashMap<String, Timestamp> = HashMap::new();
    let mut longest: HashMap<String, Duration> = HashMap::new();
    for tick in 0..600 {
        let now = stage.clock.now();
        for region in completed(&stage.run_briefly(&["trending"]).await) {
            // The first days only fill the window.
            if let Some(before) = last.insert(region.clone(), now).filter(|_| tick > 24) {
                let wait = longest.entry(region).or_default();
                *wait = now.since(before).max(*wait);
            }
        }
        stage.clock.advance(4 * HOUR);
    }
    let (shortest, longest_of_all) = (
        longest.values().min().unwrap(),
        longest.values().max().unwrap(),
    );
    assert_eq!(longest.len(), 8);
    assert!(
        longest_of_all.as_secs_f64() <= 1.25 * shortest.as_secs_f64(),
        "{longest:?}"
    );
}

#[tokio::test]
async fn a_budget_of_one_region_a_run_serves_eight_regions_in_eight_runs() {
    let stage = opened(&stage_with(
        "{ quota = 4, window = \"1h\", wait = \"0s\" }",
        "6h",
    ))
    .await;
    let mut served = Vec::new();
    for _ in 0..8 {
        served.extend(completed(&stage.run_briefly(&["trending"]).await));
        stage.clock.advance(2 * HOUR);
    }
    assert_eq!(served, ["US", "GB", "DE", "FR", "IN", "BR", "AU", "CA"]);
}
