use std::collections::HashMap;
use std::time::Duration;

use ingest::run::PassOutcome;
use ingest_quota::Timestamp;

use crate::support::lab::{Lab, NOON, ended};

const HOUR: Duration = Duration::from_secs(3_600);

const LISTING_ONLY: &str = "jobs.trending.steps=[{ call = \"videos.list\", params = { part = \"snippet\", chart = \"mostPopular\", regionCode = \"{region}\" }, max_pages = 4 }]";
const NO_DISCOVER: &str =
    "jobs.discover.steps=[{ call = \"videos.list\", params = { chart = \"mostPopular\" } }]";

fn lab(daily: &str, every: &str, more: &[&str]) -> Lab {
    let sets = [
        format!("credentials.youtube.limits.daily={daily}"),
        LISTING_ONLY.to_owned(),
        NO_DISCOVER.to_owned(),
        "jobs.trending.leave={}".to_owned(),
        "jobs.discover.leave={}".to_owned(),
        format!("jobs.trending.every=\"{every}\""),
    ];
    let sets: Vec<&str> = sets.iter().map(String::as_str).collect();
    Lab::beginning_at(NOON, &[&sets, more].concat())
}

#[test]
fn over_50_days_at_60_percent_of_the_demand_no_region_waits_much_longer_than_any_other() {
    // Eight regions of one page a day: 8 units are wanted, 5 are there.
    let one_page = ["jobs.trending.steps.0.max_pages=1"];
    let daily = "{ quota = 5, window = \"24h\", wait = \"0s\" }";
    let lab = lab(daily, "24h", &one_page);
    let mut last: HashMap<String, Timestamp> = HashMap::new();
    let mut longest: HashMap<String, Duration> = HashMap::new();
    for tick in 0..300 {
        let now = lab.now();
        for region in ended(&lab.run_briefly(&["trending"]), PassOutcome::Complete) {
            // The first days only fill the window.
            if let Some(before) = last.insert(region.to_owned(), now).filter(|_| tick > 24) {
                let wait = longest.entry(region.to_owned()).or_default();
                *wait = now.since(before).max(*wait);
            }
        }
        lab.pass(4 * HOUR);
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

#[test]
fn a_budget_of_one_region_a_run_serves_eight_regions_in_eight_runs() {
    let lab = lab("{ quota = 4, window = \"1h\", wait = \"0s\" }", "6h", &[]);
    let mut served = Vec::new();
    for _ in 0..8 {
        let report = lab.run_briefly(&["trending"]);
        let complete = ended(&report, PassOutcome::Complete).into_iter();
        served.extend(complete.map(str::to_owned));
        lab.pass(2 * HOUR);
    }
    assert_eq!(served, ["US", "GB", "DE", "FR", "IN", "BR", "AU", "CA"]);
}
