//! A rejection of one request by an upstream that accepted the credential before.

use std::path::Path;

use serde_json::{Value, json};

use crate::support::world::{FAKETIME, Ran, World};
use ingest_testing::not_run::not_run;
use ingest_testing::stub_upstream::{StubAnswer, StubUpstream};

const RUN: [&str; 4] = ["--region", "all", "--concurrency", "1"];

/// A list of ids in each of two regions, and the records of these ids.
fn world(stub: &StubUpstream, batch: u64) -> World {
    let text = format!(
        r#"
regions = ["US", "GB"]
[upstreams.things]
base_url = "https://things.example.com"
auth = {{ query = "key" }}
[upstreams.things.calls.list]
path = "list/{{region}}"
cost = 1
records = {{ at = "/items", kind = "named", id = "/id" }}
[upstreams.things.calls.thing]
path = "things/{{ids}}"
cost = 1
records = {{ at = "/items", kind = "thing", id = "/id" }}
[credentials.things]
upstream = "things"
secret = {{ env = "YOUTUBE_API_KEY" }}
limits = {{ daily = {{ quota = 1000, window = "24h" }} }}
[jobs.things]
credential = "things"
every = "1us"
[[jobs.things.steps]]
call = "list"
[[jobs.things.steps]]
call = "thing"
ids = {{ from = "list", at = "/id", batch = {batch} }}
"#
    );
    World::upon(stub, &text)
}

/// Rejects requests for some ids with this status.
fn rejecting(status: u16, ids: &'static [&'static str]) -> StubUpstream {
    StubUpstream::start(move |request| {
        let (kind, rest) = request.path[1..].split_once('/').unwrap();
        let asked: Vec<String> = match kind {
            "list" => (0..4).map(|number| format!("{rest}{number}")).collect(),
            _ => rest
                .replace("%2C", ",")
                .split(',')
                .map(str::to_owned)
                .collect(),
        };
        if asked
            .iter()
            .any(|id| kind != "list" && ids.contains(&id.as_str()))
        {
            return StubAnswer::error(status, &json!({ "message": "private" }));
        }
        let items: Vec<Value> = asked.iter().map(|id| json!({ "id": id })).collect();
        StubAnswer::json(&json!({ "items": items }))
    })
}

fn requests_of(stub: &StubUpstream, path: &str) -> usize {
    stub.requests()
        .iter()
        .filter(|request| request.path == path)
        .count()
}

/// Runs so much later.
fn later(world: &World, by: &str) -> Ran {
    let mut command = world.command(&RUN);
    command.env("LD_PRELOAD", FAKETIME).env("FAKETIME", by);
    command.env("FAKETIME_DONT_FAKE_MONOTONIC", "1");
    Ran::of(command.output().unwrap())
}

#[test]
fn an_id_that_is_forbidden_is_not_requested_again_for_a_day_where_no_id_stays_fresh() {
    if !Path::new(FAKETIME).exists() {
        return not_run("libfaketime is not installed: the day of a forbidden id is not checked");
    }
    for (status, batch) in [(401, 1), (403, 1), (403, 8)] {
        let stub = rejecting(status, &["US2"]);
        let world = world(&stub, batch);
        let asked = |path: &str| requests_of(&stub, path);
        let codes =
            |by: &[&str]| -> Vec<i32> { by.iter().map(|by| later(&world, by).code).collect() };
        assert_eq!(codes(&["+0"]), [1]);
        let (alone, all) = (asked("/things/US2"), stub.requests().len());
        assert_eq!(alone, 1);
        // The ids that came are requested in each pass, as without a rejection.
        assert_eq!(codes(&["+1h", "+12h", "+23h"]), [0, 0, 0]);
        assert_eq!(asked("/things/US2"), alone);
        assert!(stub.requests().len() > all + 6);
        assert_eq!(codes(&["+25h", "+26h", "+47h"]), [1, 0, 0]);
        assert_eq!(asked("/things/US2"), 2 * alone);
        assert_eq!(codes(&["+51h"]), [1]);
        assert_eq!(asked("/things/US2"), 3 * alone);
    }
}
