//! `ingest catalog copy`: from a file to PostgreSQL and back.

use serde_json::Value;

use crate::support::shared_world::SharedWorld;
use crate::support::world::World;
use ingest_testing::postgres::PostgresServer;

fn exported(world: &World) -> String {
    let exported = world.ingest(&["export", "--kind", "video"]);
    assert_eq!(exported.code, 0, "{exported:?}");
    exported.stdout
}

#[test]
fn a_catalog_is_copied_to_postgres_and_back_with_the_same_bytes() {
    let schema = PostgresServer::shared().schema();
    let set = format!("catalog.schema={}", schema.name);
    let mut world = World::new();
    world.set(&set);
    world.json(&["--region", "US", "--region", "GB"]);
    let before = exported(&world);
    assert!(!before.is_empty());
    let history = world.json(&["history"]);
    let copy = |world: &World, from: &str, to: &str| -> Value {
        world.json(&["catalog", "copy", "--from", from, "--to", to])
    };
    let first = copy(&world, "sqlite", &schema.url);
    assert_eq!(first["verified"], true, "{first}");
    let written = |answer: &Value| -> u64 {
        let tables = answer["tables"].as_array().unwrap();
        tables
            .iter()
            .map(|table| table["written"].as_u64().unwrap())
            .sum()
    };
    assert!(written(&first) > 0);
    assert_eq!(
        written(&copy(&world, "sqlite", &schema.url)),
        0,
        "it continues where it stopped"
    );
    let deleted = schema
        .rows("delete from listing where position = 1 returning 1")
        .len();
    schema.rows(
        "update record set body = '{}' where number = (select min(number) from record) returning 1",
    );
    let differing = u64::try_from(deleted + 1).unwrap();
    assert_eq!(written(&copy(&world, "sqlite", &schema.url)), differing);

    let mut shared = World::new();
    schema.in_world(&mut shared);
    assert_eq!(exported(&shared), before, "from PostgreSQL");
    assert_eq!(shared.json(&["history"])["days"], history["days"]);
    let mut back = World::new();
    back.set(&set);
    copy(&back, &schema.url, "sqlite");
    assert_eq!(
        exported(&back),
        before,
        "from the file that was copied back"
    );
    let found = |world: &World| {
        world.json(&["search", "a*"])["hits"]
            .as_array()
            .unwrap()
            .len()
    };
    assert_eq!(
        (found(&shared), found(&back)),
        (found(&world), found(&world))
    );
    assert_eq!(back.json(&["history"])["days"], history["days"]);
}
