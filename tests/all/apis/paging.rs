//! Cursors: in the last record, in a header, of the first page, and the end of a list.

use serde_json::{Value, json};

use super::{Api, ids, run};
use ingest_testing::stub_upstream::{StubAnswer, StubUpstream};

fn rows(ids: impl IntoIterator<Item = u64>) -> Vec<Value> {
    ids.into_iter().map(|id| json!({ "id": id })).collect()
}

const FOLDER: &str = r#"
json = { path = "/{region}" }
params = { fields = "all" }
page = { kind = "token", param = "/cursor", next = "/cursor", more = "/more", size_param = "/limit", size = 2, then = { path = "list/continue", json = { keep = "{region}" } } }
records = { at = "/rows", kind = "row", id = "/id" }"#;

#[test]
fn the_sandbox_serves_a_list_that_continues_at_another_path() {
    let text = Api {
        call: FOLDER,
        regions: r#"["US", "GB"]"#,
        ..Api::default()
    }
    .text();
    let world = crate::support::world::World::written(&text, &[]);
    world.totals(&json!({ "list": 7 }));
    let preview = world.json(&["--region", "all", "--dry-run"]);
    assert_eq!(preview["steps"][0]["requests"]["min"], 1, "{preview}");
    let report = run(&world);
    assert_eq!(report["outcome"], "complete", "{report}");
    assert_eq!(report["requests"], 8, "{report}");
    for pass in report["passes"].as_array().unwrap() {
        assert_eq!(pass["records"], 7, "{report}");
    }
    assert_eq!(world.counted("daily"), world.charged("daily"));
}

/// GitHub's `/users`: one parameter is the cursor, and where a list begins.
#[test]
fn a_list_begins_at_since_in_the_parameter_of_its_cursor() {
    let stub = StubUpstream::start(|request| {
        let after: u64 = request.param("since").unwrap().parse().unwrap();
        let ids = (after + 1..=6).take(2);
        StubAnswer::json(&json!(rows(ids)))
    });
    let mut world = Api {
        call: r#"params = { since = "{since}" }
page = { kind = "token", param = "since", last = "/id", size = 2 }
records = { kind = "user", id = "/id" }"#,
        ..Api::default()
    }
    .world(&stub);
    world.set("jobs.all.since={ at = '/id', first = 0 }");
    assert_eq!(run(&world)["outcome"], "complete");
    assert_eq!(ids(&world).len(), 6);
    let preview = world.ingest(&["--region", "all", "--dry-run"]).stdout;
    let preview = preview.split_whitespace().collect::<Vec<_>>().join(" ");
    assert!(preview.contains("over a list with {since} was the first one"));
    assert_eq!(run(&world)["outcome"], "complete");
    let requests = stub.requests();
    let begun = requests.iter().map(|one| one.param("since").unwrap());
    assert_eq!(begun.collect::<Vec<_>>(), ["0", "2", "4", "6", "6"]);
    let preview = world.ingest(&["--region", "all", "--dry-run"]).stdout;
    assert!(!preview.contains("first one"));
}
