//! Lists whose next pass begins where the last one ended, with the catalog in PostgreSQL.

use serde_json::json;

use crate::lists::lasting::{complete, feed, run, synced};
use crate::support::shared_world::SharedWorld;
use ingest_testing::postgres::PostgresServer;

#[test]
fn a_pass_begins_at_the_cursor_of_the_last_one_and_anew_once_where_that_is_too_old() {
    let schema = PostgresServer::shared().schema();
    let feed = feed();
    let (stub, mut world) = synced(&feed);
    schema.in_world(&mut world);
    let gone = || {
        let rows = schema.rows("select id from record where gone_at is not null order by id");
        let ids = rows.iter().map(|row| row.get(0));
        ids.collect::<Vec<String>>()
    };
    assert_eq!(run(&world), complete(3, 5));
    feed.lock().unwrap().write(6, 1);
    feed.lock().unwrap().changes.push((3, None));
    assert_eq!(run(&world), complete(1, 1));
    assert_eq!(gone(), ["3"]);
    feed.lock().unwrap().changes.push((6, None));
    feed.lock().unwrap().oldest = 8;
    let pass = world.json(&["--region", "US"])["passes"][0].clone();
    assert_eq!(
        (&pass["outcome"], &pass["requests"]),
        (&json!("complete"), &json!(3))
    );
    assert_eq!(gone(), ["3", "6"], "the full list lacks it");
    assert_eq!(run(&world), complete(1, 0));
    let begins =
        |one: &ingest_testing::stub_upstream::StubRequest| one.param("sync").map(str::to_owned);
    let begins: Vec<_> = stub.requests().iter().map(begins).collect();
    let at = |cursor: &str| Some(cursor.to_owned());
    let expected = [None, None, None, at("5"), at("7"), None, None, at("8")];
    assert_eq!(begins, expected);
}
