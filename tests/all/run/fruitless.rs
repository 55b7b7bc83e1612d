//! Requests that brought no page: paid for, and so not forgotten.

use rusqlite::Connection;
use serde_json::json;

use crate::support::world::World;

#[test]
fn requests_that_brought_no_page_are_in_the_history() {
    let world = World::new();
    world.faults(&json!({ "answer": "backend", "status": 500, "after": 2, "times": 100 }));
    let ran = world.ingest(&["--region", "US", "--job", "trending"]);
    assert_eq!(ran.code, 1, "{ran:?}");
    world.ingest(&["--region", "GB", "--job", "trending"]);

    let history = world.json(&["history"]);
    let of = |region: &str| {
        let rows = history["rows"].as_array().unwrap();
        let row = rows.iter().find(|row| row["region"] == region).unwrap();
        json!([
            row["passes"],
            row["complete"],
            row["pages"],
            row["requests"],
            row["units"]
        ])
    };
    assert_eq!(of("US"), json!([1, 0, 2, 6, { "daily": 6 }]));
    assert_eq!(of("GB"), json!([1, 0, 0, 4, { "daily": 4 }]));
    assert_eq!(world.requests(), 10);
}

#[test]
fn what_brought_no_page_is_charged_to_a_new_ledger_where_the_old_one_is_gone() {
    let mut world = World::new();
    world.set("regions=[\"US\", \"GB\", \"XX\"]");
    world.faults(&json!({ "answer": "backend", "status": 500, "times": 8 }));
    world.ingest(&["--region", "US,GB", "--job", "trending"]);
    let refused = world.ingest(&["--region", "XX", "--job", "trending"]);
    assert!(refused.stdout.contains("refused"), "{refused:?}");
    let counted = world.counted("daily");
    assert_eq!(counted, 9);
    std::fs::remove_file(world.state_dir().join("ledger.db")).unwrap();
    assert_eq!(world.ingest(&["charge", "youtube", "videos.list"]).code, 0);
    assert_eq!(world.charged("daily"), counted + 1);
}

#[test]
fn a_batch_that_fails_before_its_first_page_is_counted_once_and_leaves_nothing_open() {
    let world = World::new();
    world.faults(&json!({ "answer": "backend", "status": 500, "after": 4, "times": 8 }));
    let run = world.ingest(&["--region", "US", "--job", "trending", "--concurrency", "1"]);
    assert_eq!(run.code, 1, "{run:?}");
    let catalog = Connection::open(world.state_dir().join("catalog.db")).unwrap();
    let shared = "select outcome, pages, requests, units from pass where region = '*'";
    let row = |row: &rusqlite::Row<'_>| Ok((row.get(0)?, row.get(1)?, row.get(2)?, row.get(3)?));
    let rows: Vec<(Option<String>, i64, i64, String)> = catalog
        .prepare(shared)
        .unwrap()
        .query_map([], row)
        .unwrap()
        .map(Result::unwrap)
        .collect();
    let requests: i64 = rows.iter().map(|row| row.2).sum();
    assert_eq!(
        u64::try_from(requests).unwrap() + 4,
        world.requests(),
        "{rows:?}"
    );
    assert_eq!(world.charged("daily"), world.counted("daily"));

    assert_eq!(
        world.json(&["--region", "US", "--job", "trending"])["outcome"],
        "complete"
    );
}
