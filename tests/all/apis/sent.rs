//! What requests contain: parameters of all calls, and numbers in bodies.

use serde_json::json;

use super::Api;
use crate::support::world::{SECRET, World};
use ingest_testing::stub_upstream::{StubAnswer, StubRequest, StubUpstream};

const LIST: &str = r#"records = { at = "/items", kind = "row", id = "/id" }"#;

/// A stand-in for every list, in which nothing is.
fn empty() -> StubUpstream {
    StubUpstream::start(|_: &StubRequest| StubAnswer::json(&json!({ "items": [] })))
}

fn query(request: &StubRequest) -> Vec<(&str, &str)> {
    let pairs = request.query.iter();
    pairs
        .map(|(name, value)| (name.as_str(), value.as_str()))
        .collect()
}

#[test]
fn a_secret_in_the_parameters_of_an_upstream_is_sent_and_never_shown() {
    let stub = empty();
    let world = Api {
        upstream: r#"params = { key = "{secret}" }"#,
        call: LIST,
        credential: r#"secret = { env = "API_KEY" }"#,
        ..Api::default()
    };
    let world = world.world(&stub);
    let tried = world.ingest(&["-v", "try", "main", "list"]);
    assert_eq!(tried.code, 0, "{tried:?}");
    assert_eq!(query(&stub.requests()[0]), [("key", SECRET)]);
    assert!(tried.stdout.contains("key={secret}"), "{tried:?}");
    assert!(!format!("{tried:?}").contains(SECRET), "{tried:?}");
}

#[test]
fn an_id_that_makes_no_number_is_left_out_and_the_others_are_requested() {
    let stub = StubUpstream::start(|request: &StubRequest| match request.path.as_str() {
        "/names" => StubAnswer::json(&json!([{ "id": "seven" }, { "id": "8" }])),
        _ => StubAnswer::json(&json!([{ "id": request.json()["id"].to_string() }])),
    });
    let text = r#"
[upstreams.api]
base_url = "https://api.example.com"
[upstreams.api.calls.names]
path = "names"
cost = 1
records = { kind = "name", id = "/id" }
[upstreams.api.calls.get]
path = "get"
method = "POST"
cost = 1
json = { id = { number = "{id}" } }
records = { kind = "thing", id = "/id" }
[credentials.api]
upstream = "api"
limits = { daily = { quota = 100, window = "24h" } }
[jobs.j]
credential = "api"
every = "1ms"
steps = [{ call = "names" }, { call = "get", ids = { from = "names", at = "/id", batch = 1 } }]
"#;
    let world = World::upon(&stub, text);
    let first = world.ingest(&[]);
    assert_eq!(first.code, 1, "{first:?}");
    assert!(
        first.stdout.contains("seven: `{id}` is no number"),
        "{first:?}"
    );
    assert_eq!(
        world.count("select count(*) from record where kind = 'thing'"),
        1
    );
    world.ingest(&[]);
    let names = stub
        .requests()
        .iter()
        .filter(|one| one.path == "/names")
        .count();
    assert_eq!(names, 2, "the next run lists the names again");
    assert_eq!(world.charged("daily"), stub.requests().len() as u64);
}
