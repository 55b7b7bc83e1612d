//! Regions that a file lists.

use std::collections::BTreeSet;
use std::path::Path;

use serde_json::json;

use super::Api;
use crate::support::world::World;
use ingest_testing::stub_upstream::{StubAnswer, StubUpstream};

/// An upstream whose lists have one record, named by the parameter `place`.
fn stub() -> StubUpstream {
    StubUpstream::start(|request| {
        StubAnswer::json(&json!({ "data": [{ "id": request.param("place") }] }))
    })
}

fn world(stub: &StubUpstream, regions: &str, place: &str) -> World {
    let api = Api {
        call: &format!(
            "params = {{ place = \"{place}\" }}\nrecords = {{ at = \"/data\", kind = \"row\", id = \"/id\" }}"
        ),
        regions,
        ..Api::default()
    };
    api.world(stub)
}

fn written(directory: &Path, name: &str, text: &str) -> String {
    let path = directory.join(name);
    std::fs::write(&path, text).unwrap();
    path.display().to_string()
}

#[test]
fn thousands_of_regions_are_walked() {
    let directory = tempfile::tempdir().unwrap();
    let codes: Vec<String> = (0..2_000).map(|number| format!("R{number}")).collect();
    let file = written(directory.path(), "places", &codes.join("\n"));
    let stub = stub();
    let mut world = world(&stub, &format!("{{ file = \"{file}\" }}"), "{region}");
    world.set("credentials.main.limits.daily.quota=5000");
    let report = super::run(&world);
    assert_eq!(report["outcome"], "complete");
    assert_eq!(report["passes"].as_array().unwrap().len(), 2_000);
    let asked: BTreeSet<String> = stub
        .requests()
        .iter()
        .map(|request| request.param("place").unwrap().to_owned())
        .collect();
    assert_eq!(asked.len(), 2_000);
    assert_eq!(stub.requests().len(), 2_000);
}
