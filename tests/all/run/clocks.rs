//! Clocks that were wrong for a while.

use serde_json::Value;

use crate::support::world::World;

const RUN: [&str; 4] = ["--region", "US", "--job", "trending"];

#[test]
fn a_pass_that_a_clock_years_ahead_began_keeps_no_region_from_being_due() {
    let world = World::new();
    assert_eq!(world.json(&RUN)["outcome"], "complete");
    let catalog = rusqlite::Connection::open(world.state_dir().join("catalog.db")).unwrap();
    let later = "update pass set started_at = '2037-01-01T00:00:00.000000Z', finished_at = '2037-01-01T00:00:01.000000Z'";
    assert_eq!(catalog.execute(later, []).unwrap(), 2);
    let us = |status: &Value| {
        status["regions"]
            .as_array()
            .unwrap()
            .iter()
            .find(|one| one["job"] == "trending" && one["region"] == "US")
            .unwrap()
            .clone()
    };
    assert_eq!(us(&world.json(&["status"]))["last_complete"], Value::Null);
    assert_eq!(world.json(&RUN)["passes"][0]["outcome"], "complete");
    assert_eq!(world.json(&RUN)["outcome"], "nothing_due");
    assert!(us(&world.json(&["status"]))["due_at"].as_str().unwrap() < "2037");
}

#[test]
fn a_clock_that_was_set_back_a_little_walks_nothing_twice() {
    let world = World::new();
    assert_eq!(world.json(&RUN)["outcome"], "complete");
    let catalog = rusqlite::Connection::open(world.state_dir().join("catalog.db")).unwrap();
    let later =
        "update pass set started_at = strftime('%Y-%m-%dT%H:%M:%f000Z', 'now', '+2 minutes')";
    catalog.execute(later, []).unwrap();
    assert_eq!(world.json(&RUN)["outcome"], "nothing_due");
}
