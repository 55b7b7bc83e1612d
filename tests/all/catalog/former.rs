//! What the catalog keeps of regions and jobs that the configuration has no longer.

use serde_json::Value;

use crate::serve::Served;
use crate::support::world::{Ran, World};

/// A world whose runs walked US and GB, and the job `former`; its configuration has only US and the other jobs now.
fn world() -> World {
    let mut world = World::new();
    world.set("regions=[\"US\",\"GB\"]");
    let defined = world.sets.len();
    world
        .set("jobs.former.credential=youtube")
        .set("jobs.former.leave={}")
        .set("jobs.former.steps=[{ call = \"videos.list\", params = { part = \"snippet\", chart = \"mostPopular\" }, max_pages = 1 }]");
    let run = world.json(&["--region", "all", "--job", "trending,former"]);
    assert_eq!(run["outcome"], "complete", "{run}");
    world.sets.truncate(defined);
    world.set("regions=[\"US\"]");
    world
}

fn history(world: &World, more: &[&str]) -> Vec<Value> {
    let history = world.json(&[&["history"], more].concat());
    history["rows"].as_array().unwrap().clone()
}

#[test]
fn a_region_of_the_catalog_is_shown_though_the_configuration_has_it_no_longer() {
    let world = world();
    let export = ["export", "--kind", "video", "--region"];
    let exported = |region: &str| world.ingest(&[&export[..], &[region]].concat());
    let british = exported("GB");
    assert_eq!(british.code, 0, "{british:?}");
    assert!(british.stdout.lines().count() > 50, "{british:?}");
    let record: Value = serde_json::from_str(british.stdout.lines().next().unwrap()).unwrap();
    let title = record["body"]["snippet"]["title"].as_str().unwrap();
    let word = title
        .split(' ')
        .find(|word| word.chars().all(char::is_alphanumeric))
        .unwrap();
    let found = world.json(&["search", word, "--region", "GB"]);
    assert!(!found["hits"].as_array().unwrap().is_empty(), "{found}");
    let rows = history(&world, &["--region", "GB"]);
    assert!(
        !rows.is_empty() && rows.iter().all(|row| row["region"] == "GB"),
        "{rows:?}"
    );

    let served = Served::over(world);
    let answer = served.get(&format!("/api/v1/search?q={word}&region=GB"));
    assert_eq!(answer.status, 200, "{}", answer.text());
    assert_eq!(answer.json()["hits"], found["hits"]);
    let unknown = served.get("/api/v1/search?q=a&region=bg");
    assert_eq!(unknown.status, 400);
    assert!(
        unknown.text().contains("did you mean `GB`?"),
        "{}",
        unknown.text()
    );
}

#[test]
fn a_job_of_the_catalog_is_shown_though_the_configuration_has_it_no_longer() {
    let world = world();
    let rows = history(&world, &["--job", "former"]);
    assert!(
        !rows.is_empty() && rows.iter().all(|row| row["job"] == "former"),
        "{rows:?}"
    );
    assert_eq!(
        world.ingest(&["--region", "all", "--job", "former"]).code,
        2
    );
    assert_eq!(world.ingest(&["status", "--job", "former"]).code, 2);
}

#[test]
fn a_name_that_neither_has_is_refused_with_the_nearest_of_both() {
    let world = world();
    let said = |ran: Ran| {
        assert_eq!((ran.code, &*ran.stdout), (2, ""), "{ran:?}");
        ran.stderr
    };
    let region = "unknown region `gb`; did you mean `GB`? defined: US; in the catalog: GB";
    for command in [
        &["export", "--kind", "video"][..],
        &["search", "a"],
        &["history"],
    ] {
        let refused = said(world.ingest(&[command, &["--region", "gb"]].concat()));
        assert!(refused.contains(region), "{refused}");
    }
    let job = said(world.ingest(&["history", "--job", "fomer"]));
    assert!(
        job.contains("unknown job `fomer`; did you mean `former`?"),
        "{job}"
    );
    let job = said(world.ingest(&["history", "--job", "trendnig"]));
    assert!(job.contains("did you mean `trending`?"), "{job}");
    assert!(job.contains("; in the catalog: former"), "{job}");
}

#[test]
fn the_units_of_a_job_that_the_configuration_has_no_longer_count_once() {
    let world = world();
    let rows = history(&world, &[]);
    let units = rows.iter().filter_map(|row| row["units"]["daily"].as_u64());
    assert_eq!(units.sum::<u64>(), world.counted("daily"), "{rows:?}");
    assert!(
        rows.iter().all(|row| row["account"] == "youtube"),
        "{rows:?}"
    );
}
