//! Numbers keep the digits with which they came, wherever they go; a name that stands twice refuses its page.

use super::{Api, run};
use crate::support::world::World;
use ingest_testing::stub_upstream::{StubAnswer, StubUpstream};
use serde_json::Value;

/// The pass over one response of this body.
fn landed(body: &str, call: &str) -> (Value, World) {
    let stub = StubUpstream::answering([StubAnswer::text(200, body)]);
    let world = Api {
        upstream: "attempts = 1",
        call,
        ..Api::default()
    }
    .world(&stub);
    (run(&world)["passes"][0].clone(), world)
}

const WIDE: [&str; 10] = [
    "123456789012345678901234567890",
    "0.12345678901234567890",
    "1.10",
    "18446744073709551615",
    "9223372036854775807",
    "-9223372036854775809",
    "9007199254740993",
    "1e+400",
    "-0.0",
    "2.50",
];

fn things() -> String {
    let all = WIDE.iter().enumerate();
    let all: Vec<_> = all
        .map(|(id, n)| format!(r#"{{"id":"{id}","n":{n},"l":[{n}]}}"#))
        .collect();
    format!(r#"{{"items":[{}]}}"#, all.join(","))
}

fn selected(world: &World, select: &str) -> Vec<String> {
    let catalog = world.catalog();
    let mut query = catalog.prepare(select).unwrap();
    let rows = query.query_map([], |row| row.get(0)).unwrap();
    rows.collect::<Result<_, _>>().unwrap()
}

#[test]
fn digits_stay_as_they_came_in_bodies_columns_and_exports() {
    let call = r#"records = { at = "/items", kind = "thing", id = "/id", columns = { n = "/n", t = { at = "/n", type = "text" }, l = "/l/*", i = { at = "/n", type = "integer" } } }"#;
    let (pass, world) = landed(&things(), call);
    assert_eq!(pass["outcome"], "complete", "{pass}");
    let bodies = selected(&world, "select body from record order by id");
    for (body, n) in bodies.iter().zip(WIDE) {
        assert!(body.contains(&format!("\"n\":{n},\"l\":[{n}]")), "{body}");
    }
    assert_eq!(
        selected(&world, "select t from api_thing order by id"),
        WIDE
    );
    assert_eq!(
        selected(&world, "select l from api_thing order by id"),
        WIDE.map(|n| format!("[{n}]"))
    );
    assert_eq!(
        selected(
            &world,
            "select typeof(n) || ' ' || n from api_thing order by id"
        ),
        [
            "text 123456789012345678901234567890",
            "text 0.12345678901234567890",
            "real 1.1",
            "text 18446744073709551615",
            "integer 9223372036854775807",
            "text -9223372036854775809",
            "integer 9007199254740993",
            "text 1e+400",
            "real 0.0",
            "real 2.5",
        ]
    );
    assert_eq!(
        selected(
            &world,
            "select cast(i as text) from api_thing where i is not null order by id"
        ),
        ["9223372036854775807", "9007199254740993"]
    );
    let csv = world
        .ingest(&["export", "--kind", "thing", "--as", "csv"])
        .stdout;
    let json = world.ingest(&["export", "--kind", "thing"]).stdout;
    for n in WIDE {
        assert!(csv.contains(&format!(",{n},")), "{n}: {csv}");
        assert!(json.contains(&format!("\"n\":{n}")), "{n}: {json}");
    }
}
