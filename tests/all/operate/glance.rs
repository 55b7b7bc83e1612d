//! What is seen at a glance: the verdict of `status`, its worst regions, and which regions and days a report shows.

use std::io::{BufRead, BufReader};
use std::process::Stdio;

use crate::support::world::World;

/// Thirty regions with one page each, of which a day holds twelve.
fn half_walked() -> World {
    let codes =
        "AE AR AT AU BD BE BG BO BR CA CH CL CO CZ DE DK EC EG ES FI FR GB GR HU ID IE IL IN IT JP";
    let codes: Vec<String> = codes.split(' ').map(|code| format!("\"{code}\"")).collect();
    let list = "[{ call = \"videos.list\", params = { chart = \"mostPopular\", regionCode = \"{region}\" }, max_pages = 1 }]";
    let sets = [
        format!("regions=[{}]", codes.join(",")),
        format!("jobs.trending.steps={list}"),
        format!("jobs.discover.steps={list}"),
        "jobs.trending.leave={}".to_owned(),
        "jobs.discover.leave={}".to_owned(),
        "credentials.youtube.limits.daily={ quota = 12, window = \"24h\", wait = \"0s\" }"
            .to_owned(),
    ];
    let world = World::configured(&sets.each_ref().map(String::as_str), |_| {});
    assert_eq!(
        world.ingest(&["--region", "all", "--job", "trending"]).code,
        0
    );
    world
}

#[test]
fn status_begins_with_a_verdict_and_shows_the_worst_regions_first() {
    let world = half_walked();
    let status = |more: &[&str]| {
        let ran = world.ingest(&[&["status"], more].concat());
        assert_eq!(ran.code, 0, "{ran:?}");
        ran.stdout
    };
    let shown = status(&["--job", "trending"]);
    let first = shown.lines().next().unwrap();
    assert_eq!(first, "1 limit full · 18 due · 12 fresh", "{shown}");
    let rows = |shown: &str| {
        shown
            .lines()
            .filter(|line| line.starts_with("trending  "))
            .count()
    };
    let due = shown.find(" now\n").unwrap();
    assert!(due < shown.find("  in ").unwrap(), "worst first: {shown}");
    assert!(
        shown.contains("... and 10 more regions; --all shows them"),
        "{shown}"
    );
    assert!(
        shown.find("DUE").unwrap() < shown.find("youtube/daily").unwrap(),
        "{shown}"
    );
    let all = status(&["--job", "trending", "--all"]);
    assert!(rows(&all) >= 30 && !all.contains("more region"), "{all}");
    let one = status(&["--region", "JP"]);
    assert!(one.contains("JP") && !one.contains("IT "), "{one}");
    let limits = status(&["--limits"]);
    assert!(
        limits.contains("youtube/daily") && !limits.contains("DUE"),
        "{limits}"
    );
    let unknown = world.ingest(&["status", "--region", "UK"]);
    assert_eq!(unknown.code, 2, "{unknown:?}");
    let json = world.json(&["status", "--job", "trending", "--region", "JP"]);
    assert_eq!(json["regions"].as_array().unwrap().len(), 1, "{json}");
}

#[test]
fn a_ledger_that_another_process_locks_is_named_while_it_is_waited_for() {
    let world = World::new();
    let charge = ["charge", "youtube", "videos.list"];
    assert_eq!(world.ingest(&charge).code, 0);
    let ledger = rusqlite::Connection::open(world.state_dir().join("ledger.db")).unwrap();
    ledger.execute_batch("begin immediate").unwrap();
    let mut command = world.command(&charge);
    let mut waiting = command
        .stderr(Stdio::piped())
        .stdout(Stdio::null())
        .spawn()
        .unwrap();
    let mut said = String::new();
    BufReader::new(waiting.stderr.as_mut().unwrap())
        .read_line(&mut said)
        .unwrap();
    assert!(
        said.contains("ledger.db is locked by another process"),
        "{said}"
    );
    ledger.execute_batch("rollback").unwrap();
    assert_eq!(waiting.wait().unwrap().code(), Some(0));
}
