//! Passes that a limit stops within a list: what protects the records that the list lacks protects them in the run that resumes it.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use ingest_testing::stub_upstream::{StubAnswer, StubUpstream};
use serde_json::{Value, json};

use crate::support::json::has;
use crate::support::world::World;

const GONE: &str = "select count(*) from record where gone_at is not null";

/// An upstream whose first page is this one once it is told.
fn stub(then: Value) -> (StubUpstream, Arc<AtomicBool>) {
    let is_told = Arc::new(AtomicBool::new(false));
    let told = Arc::clone(&is_told);
    let stub = StubUpstream::start(move |request| {
        if request.path.contains("one") {
            return StubAnswer::json(&json!({ "id": request.param("id") }));
        }
        StubAnswer::json(&match request.param("after") {
            Some("2") => json!({ "data": [{ "id": "r3" }, { "id": "r4" }] }),
            _ if told.load(Ordering::SeqCst) => then.clone(),
            _ => json!({ "data": [{ "id": "r1" }, { "id": "r2" }], "next": "2" }),
        })
    });
    (stub, is_told)
}

fn world(stub: &StubUpstream, steps: &str) -> World {
    let text = format!(
        "regions = [\"US\"]\n[upstreams.api]\nbase_url = \"https://api.example.com\"\n\
         [upstreams.api.calls.list]\npath = \"list\"\ncost = 1\n\
         page = {{ kind = \"token\", param = \"after\", next = \"/next\" }}\n\
         records = {{ at = \"/data\", kind = \"row\", id = \"/id\" }}\n\
         [upstreams.api.calls.one]\npath = \"one\"\ncost = 1\n\
         records = {{ at = \"\", kind = \"detail\", id = \"/id\" }}\n\
         [credentials.api]\nupstream = \"api\"\nlimits = {{ daily = {{ quota = 10_000, headroom = 0, window = \"24h\" }} }}\n\
         [jobs.rows]\ncredential = \"api\"\nevery = \"1ms\"\nsteps = {steps}\n"
    );
    World::upon(stub, &text)
}

/// Runs a pass that a limit stops before its last request, and lifts the limit.
fn stop(world: &mut World) {
    let charged = world.charged("daily");
    world.set(&format!(
        "credentials.api.limits.daily.quota={}",
        charged + 1
    ));
    let stopped = world.json(&["--region", "US"]);
    assert_eq!(stopped["passes"][0]["outcome"], "stopped", "{stopped}");
    world.set("credentials.api.limits.daily.quota=10_000");
}

/// Runs a pass that a limit stops before its last request, and resumes it after these changes. Returns how it ended.
fn stopped_and_resumed(world: &mut World, changes: &[&str]) -> Value {
    stop(world);
    for change in changes {
        world.set(change);
    }
    let resumed = world.json(&["--region", "US"]);
    let pass = resumed["passes"][0].clone();
    has(&pass, &json!({ "resumed": true, "outcome": "complete" }));
    pass
}

#[test]
fn what_a_page_before_the_stop_could_not_be_read_of_is_not_marked_as_gone_after_it() {
    let [without_id, without_list] = [
        json!({ "data": [{ "id": "r1" }, { "name": "no id" }], "next": "2" }),
        json!({ "next": "2" }),
    ];
    for (page, note) in [
        (without_id, Some("1 record without an id was skipped")),
        (without_list, None),
    ] {
        let (stub, is_told) = stub(page.clone());
        let mut world = world(&stub, "[{ call = \"list\" }]");
        world.json(&["--region", "US"]);
        is_told.store(true, Ordering::SeqCst);
        let pass = stopped_and_resumed(&mut world, &[]);
        assert_eq!(world.count(GONE), 0, "{page}");
        if let Some(note) = note {
            assert!(
                pass["detail"].as_str().unwrap_or_default().contains(note),
                "{pass}"
            );
            let notes = "select count(*) from pass where outcome = 'complete' and notes like '%without an id%'";
            assert_eq!(world.count(notes), 1, "{pass}");
        }
    }
}

#[test]
fn a_list_that_max_pages_cut_before_the_stop_stays_cut_whatever_max_pages_is_after_it() {
    let (stub, is_told) = stub(json!({ "data": [{ "id": "r1" }], "next": "2" }));
    let steps = |most: u8| {
        format!(
            "[{{ call = \"list\", max_pages = {most} }}, {{ call = \"one\", params = {{ id = \"{{ids}}\" }}, \
             ids = {{ from = \"list\", at = \"/id\", batch = 1, fresh_for = \"1ms\" }} }}]"
        )
    };
    let mut world = world(&stub, &steps(9));
    world.json(&["--region", "US"]);
    is_told.store(true, Ordering::SeqCst);
    world.set(&format!("jobs.rows.steps={}", steps(1)));
    stopped_and_resumed(&mut world, &[&format!("jobs.rows.steps={}", steps(9))]);
    assert_eq!(world.count(GONE), 0);
}

#[test]
fn what_a_whole_list_lacks_is_marked_as_gone_after_a_stop_too() {
    let (stub, is_told) = stub(json!({ "data": [{ "id": "r1" }], "next": "2" }));
    let mut world = world(&stub, "[{ call = \"list\" }]");
    world.json(&["--region", "US"]);
    is_told.store(true, Ordering::SeqCst);
    stopped_and_resumed(&mut world, &[]);
    assert_eq!(world.count(GONE), 1);
}

#[test]
fn doubts_of_a_stopped_pass_that_cannot_be_read_are_a_doubt() {
    for damaged in ["", "[", "{}", "[{\"doubt\": 1}]"] {
        let (stub, is_told) = stub(json!({ "data": [{ "id": "r1" }], "next": "2" }));
        let mut world = world(&stub, "[{ call = \"list\" }]");
        world.json(&["--region", "US"]);
        is_told.store(true, Ordering::SeqCst);
        stop(&mut world);
        let damage = "update pass set doubts = ?1 where finished_at is null";
        assert_eq!(world.catalog().execute(damage, [damaged]).unwrap(), 1);
        let ran = world.ingest(&["--region", "US", "-q"]);
        assert_eq!(ran.code, 1, "{damaged}: {ran:?}");
        assert!(ran.stderr.contains("cannot be read"), "{ran:?}");
        assert_eq!(world.count(GONE), 0, "{damaged}");
        let status = world.json(&["status"]);
        assert_eq!(
            status["regions"][0]["doubts"][0]["doubt"], "unreadable",
            "{status}"
        );
    }
}
