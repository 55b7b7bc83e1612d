//! Lists that are read wrongly, as APIs answer then: the first run says so, and the run after the correction has every record.

use ingest_testing::stub_upstream::{StubAnswer, StubRequest, StubUpstream};
use serde_json::{Value, json};

use crate::support::json::has;
use crate::support::world::World;

/// Records with the numbers of a range, as old as their numbers.
fn rows(numbers: impl IntoIterator<Item = usize>) -> Vec<Value> {
    let row = |number: usize| json!({ "id": format!("{number:03}"), "at": format!("2026-01-01T00:{:02}:{:02}Z", number / 60, number % 60) });
    numbers.into_iter().map(row).collect()
}

fn number(request: &StubRequest, param: &str) -> Option<usize> {
    request.param(param).map(|value| value.parse().unwrap())
}

/// A call of these lines in a job with `{since}`.
fn world(stub: &StubUpstream, call: &str) -> World {
    let text = format!(
        "regions = [\"US\"]\n[upstreams.api]\nbase_url = \"https://api.example.com\"\n\
         [upstreams.api.calls.list]\npath = \"list\"\ncost = 1\n{call}\n\
         [credentials.api]\nupstream = \"api\"\nlimits = {{ daily = {{ quota = 10_000, window = \"24h\" }} }}\n\
         [jobs.rows]\ncredential = \"api\"\nevery = \"1ms\"\nsince = {{ at = \"/at\", first = \"2020-01-01T00:00:00Z\" }}\n\
         steps = [{{ call = \"list\", params = {{ since = \"{{since}}\" }} }}]\n"
    );
    World::upon(stub, &text)
}

#[test]
fn a_cap_that_was_halved_ends_no_list_that_names_since() {
    let (halved, updated) = (std::sync::Arc::new(std::sync::Mutex::new(false)), 25);
    let is_halved = std::sync::Arc::clone(&halved);
    let stub = StubUpstream::start(move |request| {
        let from = number(request, "offset").unwrap_or(0);
        let is_first = request.param("since") == Some("2020-01-01T00:00:00Z");
        let (cap, all) = match (*is_halved.lock().unwrap(), is_first) {
            (true, _) => (10, (40..40 + updated).collect::<Vec<_>>()),
            (false, true) => (20, (0..30).collect()),
            (false, false) => (20, vec![29]),
        };
        StubAnswer::json(&json!({ "rows": rows(all.into_iter().skip(from).take(cap)) }))
    });
    let page = "page = { kind = \"offset\", param = \"offset\", size_param = \"size\", size = 20 }";
    let world = world(
        &stub,
        &format!("{page}\nrecords = {{ at = \"/rows\", kind = \"row\", id = \"/id\" }}"),
    );
    let requests = |expected: u64| {
        let pass = world.json(&["--region", "US"])["passes"][0].clone();
        has(
            &pass,
            &json!({ "outcome": "complete", "requests": expected }),
        );
    };
    requests(2);
    requests(2);
    *halved.lock().unwrap() = true;
    requests(4);
    assert_eq!(world.count("select count(*) from record"), 55);
}

#[test]
fn the_list_of_one_id_is_compared_with_its_total_and_keeps_since_where_it_moved() {
    /// The rows of an id, on pages of 20, of which so many are on no page.
    fn of_id(request: &StubRequest, (all, lost): (usize, usize)) -> StubAnswer {
        let from = number(request, "page").unwrap_or(0);
        let to = (from + 20).min(all - lost);
        let next = (to < all - lost).then(|| to.to_string());
        StubAnswer::json(&json!({ "rows": rows(from..to), "total": all, "next": next }))
    }
    let call = "page = { kind = \"token\", param = \"page\", next = \"/next\", total = \"/total\" }\nrecords = { at = \"/rows\", kind = \"row\", id = [\"{ids}\", \"/id\"] }";
    for (all, lost, doubted) in [
        (45, 0, false),
        (45, 25, true),
        (65, 25, true),
        (65, 25, true),
        (20, 5, true),
        (7, 0, false),
        (0, 0, false),
    ] {
        let stub = StubUpstream::start(move |request| match request.path.as_str() {
            "/parents" => StubAnswer::json(&json!([{ "id": "a" }])),
            _ => of_id(request, (all, lost)),
        });
        let mut world = world(&stub, call);
        world
            .set("upstreams.api.calls.parents={ path = \"parents\", cost = 1, records = { at = \"\", kind = \"parent\", id = \"/id\" } }")
            .set(
                "jobs.rows.steps=[{ call = \"parents\" }, { call = \"list\", params = { of = \"{ids}\", since = \"{since}\" }, \
                 ids = { from = \"parents\", at = \"/id\", batch = 1 } }]",
            );
        let report = world.json(&["--region", "US"]);
        let batches = report["passes"].as_array().unwrap().last().unwrap();
        assert_eq!(batches["region"], "*", "{report}");
        let expected = if doubted { "doubtful" } else { "complete" };
        assert_eq!(batches["outcome"], expected, "{all} {lost}: {report}");
        if doubted {
            assert_eq!(
                batches["doubts"][0]["doubt"], "fewer-than-total",
                "{report}"
            );
            let since = world.count("select count(*) from id_since");
            assert_eq!(since, 0, "{{since}} of a doubtful list does not advance");
        }
    }
}

#[test]
fn status_and_metrics_show_a_doubt_about_the_lists_of_ids() {
    let stub = StubUpstream::start(|request| match request.path.as_str() {
        "/parents" => StubAnswer::json(&json!([{ "id": "a" }, { "id": "b" }])),
        _ => StubAnswer::json(&json!({ "rows": rows(0..3), "next_page": "2" })),
    });
    let call = "page = { kind = \"token\", param = \"page\", next = \"/next\" }\nrecords = { at = \"/rows\", kind = \"row\", id = \"/id\" }";
    let mut world = world(&stub, call);
    world
        .set("upstreams.api.calls.parents={ path = \"parents\", cost = 1, records = { at = \"\", kind = \"parent\", id = \"/id\" } }")
        .set(
            "jobs.rows.steps=[{ call = \"parents\" }, { call = \"list\", params = { of = \"{ids}\", since = \"{since}\" }, \
             ids = { from = \"parents\", at = \"/id\", batch = 1 } }]",
        );
    let metrics = world.directory.path().join("ingest.prom");
    let ran = world.ingest(&[
        "--region",
        "US",
        "--metrics-file",
        metrics.to_str().unwrap(),
    ]);
    assert_eq!(ran.code, 1, "{ran:?}");
    let status = world.json(&["status"]);
    assert_eq!(
        status["batches"][0]["doubts"][0]["doubt"], "next-unread",
        "{status}"
    );
    let shown = world.ingest(&["status"]).stdout;
    assert!(
        shown.contains("rows (ids): doubtful (next-unread)"),
        "{shown}"
    );
    let metrics = std::fs::read_to_string(metrics).unwrap();
    let sample = "ingest_region_doubtful{ingest_job=\"rows\",region=\"*\"} 1";
    assert!(metrics.contains(sample), "{metrics}");
}
