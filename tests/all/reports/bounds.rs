//! The bounds of a preview hold what the run then spends, and beside them stands what previous passes took.

use ingest::foresight::Preview;
use ingest::run::Range;
use serde_json::json;

use crate::support::lab::{Lab, spent};
use crate::support::world::World;

const LIST: &str = "{ call = \"videos.list\", params = { part = \"snippet\", chart = \"mostPopular\", regionCode = \"{region}\" }, max_pages = 1 }";
const CHANNELS: &str = "{ call = \"channels.list\", params = { id = \"{ids}\" }, ids = { from = \"videos.list\", at = \"/snippet/channelId\", batch = 50, fresh_for = \"7d\" } }";

/// Two jobs that fetch the same.
fn sets(quota: u64, regions: &str, list: &str) -> Vec<String> {
    let steps = |job: &str| format!("jobs.{job}.steps=[{list}, {CHANNELS}]");
    vec![
        format!(
            "credentials.youtube.limits.daily={{ quota = {quota}, window = \"24h\", wait = \"0s\" }}"
        ),
        format!("regions={regions}"),
        steps("trending"),
        steps("discover"),
        "jobs.trending.leave={}".to_owned(),
        "jobs.discover.leave={}".to_owned(),
        "upstreams.youtube.calls.\"videos.list\".page.size=5".to_owned(),
    ]
}

fn lab(quota: u64, regions: &str, list: &str) -> Lab {
    let sets = sets(quota, regions, list);
    Lab::new(&sets.iter().map(String::as_str).collect::<Vec<_>>())
}

fn daily(preview: &Preview) -> Range {
    let mut limits = preview.limits.iter();
    limits.find(|limit| limit.limit == "daily").unwrap().units
}

fn assert_holds(range: Range, spent: u64) {
    let holds = range.min <= spent && range.max.is_none_or(|max| spent <= max);
    assert!(holds, "{spent} is not in {range:?}");
}

#[test]
fn two_jobs_whose_unfinished_passes_name_the_same_ids_request_them_once() {
    let sets = sets(1000, "[\"US\"]", LIST);
    let sets: Vec<&str> = sets.iter().map(String::as_str).collect();
    let world = World::configured(&sets, |_| {});
    // Every attempt at the batch of either job fails.
    world.faults(&json!({ "call": "channels.list", "times": 8, "answer": "backend" }));
    let run = ["--region", "all"];
    let failed = world.json(&run);
    assert_eq!(failed["outcome"], "failed", "{failed}");
    let before = world.charged("daily");
    assert_eq!(before, 10, "{failed}");
    let preview = world.json(&["--region", "all", "--dry-run"]);
    let report = world.json(&run);
    assert_eq!(report["outcome"], "complete", "{report}");
    let spent = world.charged("daily") - before;
    assert_eq!(
        spent, 1,
        "one batch serves both: {failed} {preview} {report}"
    );
    let daily = &preview["limits"][0];
    let bound = |name: &str| daily[name].as_u64().unwrap();
    assert!(bound("min") <= spent && spent <= bound("max"), "{daily}");
    assert_eq!(bound("expected"), spent, "{daily}");
}

#[test]
fn each_wave_can_end_with_a_partial_batch() {
    // Four pages are expected of each region, so that one is walked after the other; but there is one.
    let lab = lab(
        8,
        "[\"US\", \"GB\"]",
        &LIST.replace("max_pages = 1", "max_pages = 4"),
    );
    lab.lists_hold("videos.list", 5);
    let preview = lab.preview(&["trending"]);
    let report = lab.run("trending");
    let batches = report
        .passes
        .iter()
        .find(|pass| pass.region == "*")
        .unwrap();
    assert_eq!(batches.requests, 2, "a batch for each wave: {report:#?}");
    let mut steps = preview.steps.iter();
    let step = steps.find(|step| step.region == "*").unwrap();
    assert_holds(step.requests, batches.requests);
    assert_holds(daily(&preview), spent(&report, "daily"));
}

#[test]
fn where_one_wave_holds_all_regions_the_last_batch_alone_is_partial() {
    let lab = lab(1000, "[\"US\", \"GB\"]", LIST);
    let preview = lab.preview(&["trending"]);
    let step = preview
        .steps
        .iter()
        .find(|step| step.region == "*")
        .unwrap();
    assert_eq!(step.requests.max, Some(1), "{step:?}");
}

#[test]
fn a_list_of_a_size_that_nobody_configured_names_any_number_of_ids() {
    let mut lab = lab(1000, "[\"US\"]", LIST);
    lab.set("upstreams.youtube.calls.\"videos.list\".page={ kind = \"none\" }");
    let preview = lab.preview(&["trending"]);
    let step = preview
        .steps
        .iter()
        .find(|step| step.region == "*")
        .unwrap();
    assert_eq!(step.requests.max, None, "{step:?}");
}
