//! What is stored of the configuration: it changes with what is requested and read, and with nothing else.

use ingest_testing::stub_upstream::{StubAnswer, StubUpstream};
use serde_json::json;

use crate::support::world::World;

/// A job whose upstream refuses every request, and one whose list has no records at its place.
fn world(stub: &StubUpstream) -> World {
    let text = "regions = [\"US\"]\n[upstreams.api]\nbase_url = \"https://api.example.com\"\n\
         errors = [{ status = 404, at = \"/why\", is = [\"none\"], class = \"skip\" }]\n\
         [upstreams.api.calls.refused]\npath = \"refused\"\ncost = 1\nparams = { of = \"{region}\" }\n\
         records = { at = \"/rows\", kind = \"row\", id = [\"{region}\", \"/id\"] }\n\
         [upstreams.api.calls.list]\npath = \"list\"\ncost = 1\n\
         page = { kind = \"token\", param = \"after\", next = \"/next\", size_param = \"n\", size = 2 }\n\
         records = { at = \"/rows\", kind = \"row\", id = \"/id\", columns = { n = { at = \"/n\", type = \"integer\" } } }\n\
         [credentials.api]\nupstream = \"api\"\nlimits = { daily = { quota = 10_000, window = \"24h\" } }\n\
         [jobs.refused]\ncredential = \"api\"\nevery = \"1d\"\nsteps = [{ call = \"refused\" }]\n\
         [jobs.doubtful]\ncredential = \"api\"\nevery = \"1d\"\nsteps = [{ call = \"list\" }]\n";
    let mut world = World::written(text, &[]);
    at(&mut world, stub);
    world
}

/// As the sandbox of `--sandbox` stands in for an upstream: on this machine, below its name, on any port.
fn at(world: &mut World, stub: &StubUpstream) {
    world.set(&format!("upstreams.api.base_url=\"{}/api\"", stub.url()));
}

fn stub() -> StubUpstream {
    StubUpstream::start(|request| match request.path.as_str() {
        "/api/list" => StubAnswer::json(&json!({ "data": [{ "id": "1" }] })),
        _ => StubAnswer::error(404, &json!({ "why": "none" })),
    })
}

fn requests(world: &World) -> u64 {
    let ran = world.json(&["--region", "US"]);
    ran["requests"].as_u64().unwrap_or_else(|| panic!("{ran}"))
}

#[test]
fn a_refused_and_a_doubtful_region_are_not_due_again_where_only_the_port_of_the_sandbox_differs() {
    let (first, second) = (stub(), stub());
    let mut world = world(&first);
    assert_eq!(requests(&world), 2);
    assert_eq!(requests(&world), 0);
    at(&mut world, &second);
    assert_eq!(requests(&world), 0);
    for change in [
        "upstreams.api.calls.refused.params.also=\"x\"",
        "upstreams.api.calls.list.records.columns.n.type=\"text\"",
        "upstreams.api.calls.list.trust=[\"next-unread\"]",
        "upstreams.api.calls.list.page.more=\"/more\"",
    ] {
        world.set(change);
        assert_eq!(requests(&world), 1, "{change}");
    }
    world.set("upstreams.api.errors=[{ status = 404, at = \"/why\", is = [\"none\", \"any\"], class = \"skip\" }]");
    assert_eq!(requests(&world), 2);
}

/// A key that is added to the program changes no identity of a configuration that does not use it. An identity that changes makes
/// every refused and doubtful region due, costs each call a proof, and forgets every `ETag`.
#[test]
fn the_identities_of_a_configuration_are_those_of_every_build() {
    let stub = stub();
    let world = world(&stub);
    requests(&world);
    let stored = |job: &str| -> String {
        let request = "select request from pass where job = ?1";
        let catalog = world.catalog();
        catalog.query_row(request, [job], |row| row.get(0)).unwrap()
    };
    assert_eq!(
        (stored("refused").as_str(), stored("doubtful").as_str()),
        (
            "b8b21a48de6b1e61e1d5b77a52d9a847",
            "e8469990586489b0f2a053284d864941"
        )
    );
}
