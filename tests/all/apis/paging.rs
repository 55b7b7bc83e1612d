//! Cursors: in the last record, in a header, of the first page, and the end of a list.

use serde_json::json;

use super::{Api, run};

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
