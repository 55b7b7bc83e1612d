//! A run names the mistakes of a file that no response matched.

use serde_json::{Value, json};

use crate::support::world::World;
use ingest_testing::stub_upstream::{StubAnswer, StubUpstream};

/// A world whose call reads a cursor, a column, a text and a cost; `more` is added to the step.
fn world(stub: &StubUpstream, regions: &str, more: &str) -> World {
    let text = format!(
        "regions = {regions}\n[upstreams.rows]\nbase_url = \"https://rows.example.com\"\n\
         [upstreams.rows.calls.list]\npath = \"list/{{region}}\"\ncost = 1\nsettle = {{ daily = \"/cost\" }}\n\
         page = {{ kind = \"token\", param = \"after\", next = \"/next\", size = 2 }}\n\
         records = {{ at = \"/data\", kind = \"row\", id = \"/id\", text = [\"/note\"], columns = {{ price = \"/price\" }} }}\n\
         [jobs.rows]\ncredential = \"rows\"\nsteps = [{{ call = \"list\"{more} }}]\n\
         [credentials.rows]\nupstream = \"rows\"\n\
         limits = {{ daily = {{ quota = 1_000, window = \"24h\", reported = {{ remaining = \"x-left\" }} }} }}\n"
    );
    let mut world = World::written(&text, &[]);
    world.set(&format!("upstreams.rows.base_url=\"{}\"", stub.url()));
    world
}

fn detail(report: &Value, pass: usize) -> &str {
    report["passes"][pass]["detail"].as_str().unwrap_or("")
}

#[test]
fn a_run_notes_what_no_response_contained() {
    let stub = StubUpstream::start(|_| {
        StubAnswer::json(&json!({ "data": [{ "id": 1 }, { "id": 2 }], "mark": "c" }))
    });
    let world = world(&stub, "[\"US\"]", "");
    let report = world.json(&["--region", "US"]);
    assert_eq!(report["outcome"], "complete");
    for note in [
        "list: the page is full (2 records) and has no value at `/next`",
        "list: no record has a value for the column `price` at `/price`",
        "list: no record has a text at `/note`",
        "list: the response does not report the limit `daily` in the header `x-left`",
        "list: the response does not report the cost for the limit `daily` at `/cost`",
    ] {
        assert!(detail(&report, 0).contains(note), "{note}: {report}");
    }
    let shown = world.ingest(&["--region", "US"]);
    assert!(
        shown.stdout.contains("the column `price`"),
        "{}",
        shown.stdout
    );
}

#[test]
fn what_one_page_of_a_pass_contained_is_not_noted() {
    let stub = StubUpstream::start(|request| {
        let answer = match request.param("after") {
            None => {
                json!({ "data": [{ "id": 1 }, { "id": 2, "note": "n", "price": 3 }], "next": "b", "cost": 1 })
            }
            Some("b") => json!({ "data": [], "next": "c" }),
            Some(_) => json!({ "data": [{ "id": 3 }, { "id": 4 }] }),
        };
        let answer = StubAnswer::json(&answer);
        match request.param("after") {
            Some("c") => answer.header("x-left", "900"),
            _ => answer,
        }
    });
    let report = world(&stub, "[\"US\"]", "").json(&["--region", "US"]);
    assert_eq!(
        (&report["outcome"], detail(&report, 0)),
        (&json!("complete"), "")
    );
}

#[test]
fn a_page_that_is_all_that_a_step_wants_needs_no_next_one() {
    let stub =
        StubUpstream::start(|_| StubAnswer::json(&json!({ "data": [{ "id": 1 }, { "id": 2 }] })));
    let report = world(&stub, "[\"US\"]", ", max_pages = 1").json(&["--region", "US"]);
    assert!(!detail(&report, 0).contains("/next"), "{report}");
}

#[test]
fn ids_that_have_another_record_in_each_region_are_noted() {
    let answer = |region_matters: bool| {
        StubUpstream::start(move |request| {
            let price = if region_matters {
                request.path.clone()
            } else {
                String::new()
            };
            let rows = json!([{ "id": 1, "price": price, "note": "n" }]);
            StubAnswer::json(&json!({ "data": rows, "cost": 1 })).header("x-left", "900")
        })
    };
    let stub = answer(true);
    let report = world(&stub, "[\"GB\", \"US\"]", "").json(&["--region", "all"]);
    let details = format!("{}{}", detail(&report, 0), detail(&report, 1));
    assert!(
        details.contains(
            "list: 1 of 1 ids that two regions returned have different records, such as `1` in"
        ),
        "{report}"
    );
    let stub = answer(false);
    let report = world(&stub, "[\"GB\", \"US\"]", "").json(&["--region", "all"]);
    assert_eq!(
        (detail(&report, 0), detail(&report, 1)),
        ("", ""),
        "{report}"
    );
}

#[test]
fn a_record_that_changes_between_the_requests_of_two_regions_is_not_noted() {
    // One of three ids differs, as a counter does.
    let stub = StubUpstream::start(move |request| {
        let rows = ["a", "b", "c"].map(|id| {
            let price = if id == "a" { &*request.path } else { "same" };
            json!({ "id": id, "price": price, "note": "n" })
        });
        StubAnswer::json(&json!({ "data": rows, "cost": 1 })).header("x-left", "900")
    });
    let report = world(&stub, "[\"GB\", \"US\"]", ", max_pages = 1").json(&["--region", "all"]);
    let details = format!("{}{}", detail(&report, 0), detail(&report, 1));
    assert!(!details.contains("two regions"), "{report}");
}

#[test]
fn a_column_whose_values_are_not_of_its_type_is_noted_and_a_list_is_a_value() {
    let rows = json!([{ "id": 1, "price": "12,50", "note": "n" }, { "id": 2, "price": "free", "note": "n" }]);
    let stub = StubUpstream::start(move |_| {
        StubAnswer::json(&json!({ "data": rows, "next": null, "cost": 1 })).header("x-left", "900")
    });
    let mut world = world(&stub, "[\"US\"]", ", max_pages = 1");
    world.set(
        "upstreams.rows.calls.list.records.columns.price={ at = \"/price\", type = \"real\" }",
    );
    let report = world.json(&["--region", "US"]);
    let note =
        "no value of the column `price` at `/price` is of the type `real`, so the view shows none";
    assert!(detail(&report, 0).contains(note), "{report}");
    let stub = StubUpstream::start(|_| {
        let rows = json!([{ "id": 1, "price": [], "note": "n" }, { "id": 2, "price": [{ "eur": 3 }], "note": "n" }]);
        StubAnswer::json(&json!({ "data": rows, "cost": 1 })).header("x-left", "900")
    });
    let report = self::world(&stub, "[\"US\"]", ", max_pages = 1").json(&["--region", "US"]);
    assert_eq!(detail(&report, 0), "", "{report}");
}

#[test]
fn a_list_with_a_message_in_place_of_its_records_fails_with_the_upstreams_words() {
    let said = "The provided parameter value is not valid";
    let stub = StubUpstream::start(move |_| {
        StubAnswer::json(&json!([
            { "message": [{ "id": "120", "key": "Invalid value", "value": said }] }
        ]))
    });
    let mut world = world(&stub, "[\"US\"]", "");
    world.set("upstreams.rows.calls.list.records.at=\"/1\"");
    let report = world.json(&["--region", "US"]);
    assert_eq!(report["outcome"], "failed", "{report}");
    assert!(detail(&report, 0).contains(said), "{report}");
    assert_eq!(stub.requests().len(), 1);
}
