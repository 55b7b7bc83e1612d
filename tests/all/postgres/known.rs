//! Lists that stop at what is known, with the catalog in PostgreSQL.

use crate::lists::known::{NEVER, feed, stub, world};
use crate::lists::lasting::{complete, run};
use crate::support::shared_world::SharedWorld;
use ingest_testing::postgres::PostgresServer;

#[test]
fn a_pass_stops_at_what_complete_passes_knew_and_not_at_what_a_stopped_one_stored() {
    let schema = PostgresServer::shared().schema();
    let feed = feed();
    let stub = stub(&feed);
    let mut world = world(NEVER, &stub);
    schema.in_world(&mut world);
    assert_eq!(run(&world), complete(4, 8));
    assert_eq!(run(&world), complete(1, 2));
    (9..=16).for_each(|id| feed.lock().unwrap().add(id));
    world.set("credentials.feed.limits.daily.quota=7");
    assert_eq!(run(&world).0, "stopped");
    world.set("jobs.posts.resume_within=\"1ms\"");
    world.set("credentials.feed.limits.daily.quota=1_000");
    assert_eq!(run(&world), complete(5, 10), "the pass was abandoned");
    feed.lock().unwrap().remove(1);
    world.json(&["--region", "US", "--job", "posts", "--relist"]);
    assert_eq!(run(&world), complete(1, 2));
    let gone = schema.rows("select id from record where gone_at is not null order by id");
    let gone: Vec<String> = gone.iter().map(|row| row.get(0)).collect();
    assert_eq!(gone, ["1"]);
}
