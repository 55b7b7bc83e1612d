//! A list is complete because its end was proved; a pass with a doubt about a list is not complete.

use serde_json::json;

use crate::support::world::World;
use ingest_testing::stub_upstream::{StubAnswer, StubUpstream};

/// A world with one call that pages like this; `job` is added to the job.
fn world(stub: &StubUpstream, page: &str, job: &str) -> World {
    let text = format!(
        "regions = [\"US\"]\n[upstreams.rows]\nbase_url = \"https://rows.example.com\"\n\
         [upstreams.rows.calls.list]\npath = \"list/{{region}}\"\ncost = 1\npage = {page}\n\
         records = {{ at = \"/data\", kind = \"row\", id = \"/id\" }}\n\
         [jobs.rows]\ncredential = \"rows\"\n{job}\n\
         [credentials.rows]\nupstream = \"rows\"\nlimits = {{ daily = {{ quota = 1_000, window = \"24h\" }} }}\n"
    );
    World::upon(stub, &text)
}

const STEPS: &str = "steps = [{ call = \"list\" }]";

#[test]
fn quiet_runs_print_doubts_to_stderr() {
    let stub = StubUpstream::start(|request| match request.param("after") {
        None => StubAnswer::json(&json!({ "data": [{ "id": 1 }], "next": "b" })),
        Some(_) => StubAnswer::json(&json!({ "data": [{ "id": 1 }], "next": "b" })),
    });
    let world = world(
        &stub,
        r#"{ kind = "token", param = "after", next = "/next" }"#,
        STEPS,
    );
    let ran = world.ingest(&["--region", "all", "-q"]);
    assert_eq!((ran.code, ran.stdout.as_str()), (1, ""), "{ran:?}");
    assert_eq!(
        ran.stderr.matches("cursor-repeats").count(),
        2,
        "name and remedy, once: {}",
        ran.stderr
    );
    let ran = world.ingest(&["--region", "all", "-q"]);
    assert_eq!((ran.code, ran.stderr.as_str()), (0, ""), "not due");
}
