use serde_json::{Value, json};

use crate::support::world::{SECRET, World};

fn events(stderr: &str) -> Vec<Value> {
    stderr
        .lines()
        .map(|line| serde_json::from_str(line).unwrap_or_else(|error| panic!("{error}: {line}")))
        .collect()
}

#[test]
fn every_page_and_every_pass_is_a_json_event_of_one_line() {
    let world = World::new();
    let ran = world.ingest(&["--region", "US", "--job", "trending", "--log", "json"]);
    let events = events(&ran.stderr);
    let page = events
        .iter()
        .find(|event| event["message"] == "page fetched")
        .unwrap();
    assert_eq!(
        (&page["level"], &page["job"], &page["region"]),
        (&json!("INFO"), &json!("trending"), &json!("US"))
    );
    assert_eq!(
        (&page["call"], &page["units"]),
        (&json!("videos.list"), &json!("daily=1"))
    );
    let ended = events
        .iter()
        .find(|event| event["message"] == "pass ended" && event["region"] == "US")
        .unwrap();
    assert_eq!(ended["outcome"], "complete");
    assert!(!ran.stderr.contains(SECRET));
}

#[test]
fn the_log_is_chosen_by_a_variable_too() {
    let world = World::new();
    let ran = world
        .command(&["--region", "US", "--job", "trending"])
        .env("INGEST_LOG", "json")
        .output()
        .unwrap();
    assert!(!events(&String::from_utf8(ran.stderr).unwrap()).is_empty());
}

#[test]
fn a_failure_is_one_event_in_json_and_one_line_for_people() {
    let mut world = World::new();
    world.set("upstreams.youtube.attempts=1");
    world.faults(&json!({ "call": "videos.list", "status": 500, "times": 10 }));
    let failed = world.ingest(&[
        "--region", "US", "--job", "trending", "--log", "json", "-q", "--format", "json",
    ]);
    let failures: Vec<Value> = events(&failed.stderr)
        .into_iter()
        .filter(|event| event["level"] == "ERROR")
        .collect();
    assert_eq!(failures.len(), 1, "{failed:?}");
    assert_eq!(
        (&failures[0]["job"], &failures[0]["region"]),
        (&json!("trending"), &json!("US"))
    );
    let told = world.ingest(&["--region", "US", "--job", "trending"]);
    assert_eq!(
        (told.code, told.stderr.as_str()),
        (1, ""),
        "the summary says it"
    );
    assert_eq!(
        told.stdout.matches("Internal Server Error").count(),
        1,
        "{told:?}"
    );
}

#[test]
fn a_wrong_configuration_is_a_json_event_where_json_is_read() {
    let mut world = World::new();
    world.set("ledger.cheap_max=-1");
    let ran = world.ingest(&["status", "--log", "json"]);
    assert_eq!(ran.code, 2);
    let events = events(&ran.stderr);
    assert!(
        events[0]["message"]
            .as_str()
            .unwrap()
            .contains("ledger.cheap_max"),
        "{events:?}"
    );
}

#[test]
fn a_clock_that_was_set_back_is_said_once_by_whoever_asks_the_ledger() {
    let world = World::new();
    assert_eq!(
        world.ingest(&["charge", "youtube", "videos.list"]).stderr,
        ""
    );
    let ledger = rusqlite::Connection::open(world.state_dir().join("ledger.db")).unwrap();
    let two_hours = 2 * 60 * 60 * 1_000_000_i64;
    for table in ["charge", "taken"] {
        ledger
            .execute(&format!("update {table} set at = at + {two_hours}"), [])
            .unwrap();
    }
    for arguments in [&["charge", "youtube", "videos.list"][..], &["status"]] {
        let said = world.ingest(arguments).stderr;
        assert_eq!(
            said.matches("ahead of this machine's clock").count(),
            1,
            "{said}"
        );
    }
}

#[test]
fn a_variable_that_is_set_to_nothing_is_as_good_as_unset() {
    let world = World::new();
    let mut command = world.command(&["--region", "US", "--job", "trending"]);
    let ran = command
        .env("INGEST_LOG", "")
        .env("INGEST_METRICS_FILE", "")
        .output()
        .unwrap();
    assert_eq!(
        (ran.status.code(), String::from_utf8(ran.stderr).unwrap()),
        (Some(0), String::new())
    );
}
