//! `keep` deletes records: a preview says how many, and the run says what it deleted.

use serde_json::json;

use crate::support::shared_world::SharedWorld;
use crate::support::world::World;
use ingest_testing::postgres::PostgresServer;

const RUN: [&str; 4] = ["--region", "US", "--job", "trending"];
const LONG_AGO: &str =
    "update record set last_seen = '2020-01-01T00:00:00.000000Z' where number <= 3";

/// Three records were last seen long ago.
fn assert_shown_before_and_after(world: &World) {
    let preview = world.ingest(&[&RUN[..], &["--dry-run"]].concat());
    let said = "3 records of youtube that no response contained for 30d";
    assert!(
        preview.stdout.contains(&format!("would delete {said}")),
        "{preview:?}"
    );
    let wanted = json!([{ "upstream": "youtube", "records": 3, "keep": 2_592_000.0 }]);
    let preview = world.json(&[&RUN[..], &["--dry-run"]].concat());
    assert_eq!(preview["deletions"], wanted);
    let ran = world.ingest(&RUN);
    assert!(ran.stdout.contains(&format!("Deleted {said}.")), "{ran:?}");
    let again = world.json(&RUN);
    assert!(again["deletions"].is_null(), "{again}");
}

#[test]
fn a_preview_says_what_keep_will_delete_and_the_run_says_what_it_deleted() {
    let world = World::new();
    assert_eq!(world.ingest(&RUN).code, 0);
    world.catalog().execute(LONG_AGO, []).unwrap();
    assert_shown_before_and_after(&world);
    assert_eq!(
        world.count("select count(*) from record where number <= 3"),
        0
    );
}

#[test]
fn the_same_holds_for_a_catalog_in_postgres() {
    let schema = PostgresServer::shared().schema();
    let world = schema.world(&[]);
    assert_eq!(world.ingest(&RUN).code, 0);
    schema.rows(&format!("{LONG_AGO} returning 1"));
    assert_shown_before_and_after(&world);
}
