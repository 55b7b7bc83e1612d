use std::collections::BTreeMap;
use std::time::Duration;

use ingest::run::PassOutcome;

use crate::support::lab::{Lab, ended};

const HOURS: Duration = Duration::from_secs(6 * 3600);

/// A day's work is eight regions of four pages, and a day holds ten units.
const SHORT: [&str; 5] = [
    "jobs.trending.steps=[{ call = \"videos.list\", params = { chart = \"mostPopular\", regionCode = \"{region}\" }, max_pages = 4 }]",
    "jobs.trending.leave={}",
    "jobs.discover.leave={}",
    "jobs.trending.every=\"1d\"",
    "credentials.youtube.limits.daily={ quota = 110, headroom = 100, resets = \"UTC\" }",
];

/// The shipped second job takes 100 units a search, more than a short day holds.
const NO_SEARCH: &str =
    "jobs.discover.steps=[{ call = \"videos.list\", params = { chart = \"mostPopular\" } }]";

#[test]
fn ten_units_a_day_where_32_are_due_complete_30_passes_in_12_days_three_or_four_each() {
    let lab = Lab::new(&[SHORT.as_slice(), &[NO_SEARCH]].concat());
    let mut turns: BTreeMap<String, u32> = BTreeMap::new();
    for _ in 0..12 * 4 {
        for region in ended(&lab.run("trending"), PassOutcome::Complete) {
            *turns.entry(region.to_owned()).or_default() += 1;
        }
        lab.pass(HOURS);
    }
    let passes: u32 = turns.values().sum();
    assert_eq!(passes, 30, "{turns:?}");
    assert_eq!(turns.len(), 8, "{turns:?}");
    assert!(
        turns.values().all(|turns| (3..=4).contains(turns)),
        "{turns:?}"
    );
    assert!(lab.most_in_window("daily") <= 10);
}

#[test]
fn a_region_that_is_never_walked_in_time_takes_its_turn_and_leaves_the_others_theirs() {
    let lab = Lab::new(&[
        "jobs.trending.steps=[{ call = \"videos.list\", params = { chart = \"mostPopular\", regionCode = \"{region}\" }, max_pages = 1 }]",
        "jobs.trending.leave={}",
        "jobs.trending.every=\"1d\"",
        "jobs.discover.leave={}",
        "jobs.discover.regions=[\"US\"]",
        "jobs.discover.steps=[{ call = \"videos.list\", params = { chart = \"mostPopular\" }, max_pages = 4 }]",
        "credentials.youtube.limits.daily={ quota = 101, headroom = 100, resets = \"UTC\" }",
    ]);
    let (mut turns, mut abandoned): (BTreeMap<String, u32>, u64) = (BTreeMap::new(), 0);
    for _ in 0..40 * 4 {
        let report = lab.run_all(&["discover", "trending"]);
        for pass in report
            .passes
            .iter()
            .filter(|pass| pass.outcome == PassOutcome::Complete)
        {
            *turns
                .entry(format!("{} {}", pass.job, pass.region))
                .or_default() += 1;
        }
        abandoned += report
            .passes
            .iter()
            .filter(|pass| pass.job == "discover")
            .map(|pass| pass.requests)
            .sum::<u64>();
        lab.pass(HOURS);
    }
    assert_eq!(
        turns.len(),
        8,
        "all of trending, and the other never: {turns:?}"
    );
    assert!(
        turns.values().all(|turns| (3..=4).contains(turns)),
        "{turns:?}"
    );
    assert!(
        (6..=10).contains(&abandoned),
        "it has its turns too: {abandoned}"
    );
}
