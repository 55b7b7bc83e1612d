//! A refused region is requested again as soon as its configuration was corrected.

use serde_json::json;

use crate::support::world::World;
use ingest_testing::stub_upstream::{StubAnswer, StubUpstream};

/// An upstream that has only `/list`, and a job with these keys, whose call has another path.
fn world(stub: &StubUpstream, job: &str) -> World {
    let text = format!(
        "regions = [\"US\", \"GB\"]\n[upstreams.rows]\nbase_url = \"https://rows.example.com\"\n\
         [upstreams.rows.calls.list]\npath = \"lst\"\ncost = 1\nparams = {{ country = \"{{region}}\" }}\n\
         records = {{ at = \"/data\", kind = \"row\", id = \"/id\" }}\n\
         [jobs.rows]\ncredential = \"rows\"\n{job}\n\
         [credentials.rows]\nupstream = \"rows\"\nlimits = {{ daily = {{ quota = 100, window = \"24h\" }} }}\n"
    );
    let mut world = World::written(&text, &[]);
    world.set(&format!("upstreams.rows.base_url=\"{}\"", stub.url()));
    world
}

fn stub() -> StubUpstream {
    StubUpstream::start(|request| match request.path.as_str() {
        "/list" => StubAnswer::json(&json!({ "data": [{ "id": request.param("country") }] })),
        _ => StubAnswer::error(404, &json!({ "message": "Not Found" })),
    })
}

const DAILY: &str = "every = \"1d\"\nsteps = [{ call = \"list\" }]";
const RUN: [&str; 2] = ["--region", "all"];

#[test]
fn a_refused_region_is_due_again_when_its_request_changed() {
    let stub = stub();
    let mut world = world(&stub, DAILY);
    let refused = world.json(&RUN);
    let detail = refused["passes"][0]["detail"].as_str().unwrap();
    assert!(
        detail.contains("as soon as its configuration changes"),
        "{detail}"
    );
    // What the requests do not depend on makes no difference.
    world.set("upstreams.rows.keep=30d");
    assert_eq!(world.json(&RUN)["outcome"], "nothing_due");
    assert_eq!(stub.requests().len(), 2);

    world.set("upstreams.rows.calls.list.path=list");
    let preview = world.json(&["--region", "all", "--dry-run"]);
    assert_eq!(preview["limits"][0]["expected"], 2, "{preview}");
    let status = world.json(&["status"]);
    assert!(status["regions"][0]["refused_at"].is_null(), "{status}");
    assert_eq!(world.json(&RUN)["outcome"], "complete");
    assert_eq!(world.json(&RUN)["outcome"], "nothing_due");
    assert_eq!(stub.requests().len(), 4);
}

#[test]
fn status_says_how_to_request_a_refused_region_at_once() {
    let stub = stub();
    let mut world = world(&stub, DAILY);
    assert_eq!(world.json(&RUN)["outcome"], "failed");
    let status = world.ingest(&["status"]).stdout;
    let status = status.split_whitespace().collect::<Vec<_>>().join(" ");
    for said in ["rows US, GB: refused", "`--set jobs.rows.every=1s`"] {
        assert!(status.contains(said), "{said}: {status}");
    }
    world.set("jobs.rows.every=1ms");
    world.json(&RUN);
    assert_eq!(stub.requests().len(), 4);
}
