//! A pass renders every template with the time at which it began, also when it goes on on another day.

use serde_json::{Value, json};

use crate::support::world::World;
use ingest_testing::stub_upstream::{StubAnswer, StubUpstream};

/// Makes the unfinished passes older than they are, so that they began on another day. Returns when the oldest began.
fn age_passes(world: &World) -> String {
    let catalog = world.catalog();
    let age = "update pass set started_at = strftime('%Y-%m-%dT%H:%M:%S', started_at, '-25 hours') || '.000000Z'
        where finished_at is null";
    assert!(catalog.execute(age, []).unwrap() > 0);
    let began: String = catalog
        .query_row(
            "select min(started_at) from pass where finished_at is null",
            [],
            |row| row.get(0),
        )
        .unwrap();
    format!("{}Z", &began[..19])
}

/// Lists of three pages for each region, whose rows are looked up in batches.
fn world(stub: &StubUpstream, steps: &str, quota: u64) -> World {
    let text = format!(
        "regions = [\"US\", \"GB\"]\n[upstreams.rows]\nbase_url = \"https://rows.example.com\"\n\
         headers = {{ x-now = \"{{now}}\" }}\n\
         [upstreams.rows.calls.list]\npath = \"list/{{region}}/{{date:%Y-%m-%d}}\"\ncost = 1\n\
         page = {{ kind = \"token\", param = \"after\", next = \"/next\" }}\n\
         records = {{ at = \"/data\", kind = \"row\", id = \"/id\" }}\n\
         [upstreams.rows.calls.get]\npath = \"get\"\nmethod = \"POST\"\ncost = 1\n\
         json = {{ day = \"{{date}}\", ids = \"{{ids}}\" }}\nrecords = {{ at = \"/data\", kind = \"thing\", id = \"/id\" }}\n\
         [jobs.rows]\ncredential = \"rows\"\nsteps = [{steps}]\n\
         [credentials.rows]\nupstream = \"rows\"\nlimits = {{ daily = {{ quota = {quota}, window = \"24h\" }} }}\n"
    );
    World::upon(stub, &text)
}

fn stub() -> StubUpstream {
    StubUpstream::start(move |request| {
        if request.path == "/get" {
            let ids = request.json()["ids"].as_str().unwrap().to_owned();
            let rows: Vec<Value> = ids.split(',').map(|id| json!({ "id": id })).collect();
            return StubAnswer::json(&json!({ "data": rows }));
        }
        let region = request.path.split('/').nth(2).unwrap();
        let page: u64 = request
            .param("after")
            .map_or(1, |page| page.parse().unwrap());
        let next = (page < 3).then(|| (page + 1).to_string());
        let rows = json!([{ "id": format!("{region}{page}") }]);
        StubAnswer::json(&json!({ "data": rows, "next": next }))
    })
}

#[test]
fn a_pass_that_begins_in_place_of_one_too_old_to_resume_says_so() {
    let stub = stub();
    let mut world = world(&stub, "{ call = \"list\" }", 1);
    world.set("jobs.rows.resume_within=1d");
    let notes = |report: &Value| report["passes"][0]["detail"].to_string();
    let report = world.json(&["--region", "US"]);
    assert!(!notes(&report).contains("resume_within"), "{report:#}");
    let began = age_passes(&world);
    world.set("credentials.rows.limits.daily.quota=100");
    let report = world.json(&["--region", "US"]);
    let said = format!("the unfinished pass that began at {began} is older than `resume_within`");
    assert!(notes(&report).contains(&said), "{report:#}");
    assert_eq!(report["outcome"], "complete");
}

#[test]
fn a_pass_that_goes_on_on_another_day_asks_for_the_day_on_which_it_began() {
    let stub = stub();
    let mut world = world(&stub, "{ call = \"list\" }", 1);
    assert_eq!(world.json(&["--region", "US"])["outcome"], "stopped");
    let began = age_passes(&world);
    world.set("credentials.rows.limits.daily.quota=100");
    let report = world.json(&["--region", "US"]);
    assert_eq!(
        (&report["outcome"], &report["passes"][0]["resumed"]),
        (&json!("complete"), &json!(true)),
        "{report}"
    );
    for request in &stub.requests()[1..] {
        assert_eq!(request.header("x-now"), Some(&*began));
        assert_eq!(request.path, format!("/list/US/{}", &began[..10]));
    }
    assert_eq!(stub.requests().len(), 3);
}

const IDS: &str = "{ call = \"list\" }, { call = \"get\", ids = { from = \"list\", at = \"/id\", batch = 50, fresh_for = \"7d\" } }";

#[test]
fn a_batch_asks_for_the_day_on_which_the_passes_began_that_name_its_ids() {
    let stub = stub();
    let mut world = world(&stub, IDS, 3);
    // The time of day alone differs from pass to pass, and must not keep ids of one day apart.
    world.set("upstreams.rows.headers={}");
    assert_eq!(world.json(&["--region", "US"])["outcome"], "stopped");
    let began = age_passes(&world);
    world.set("credentials.rows.limits.daily.quota=100");
    let report = world.json(&["--region", "all"]);
    assert_eq!(report["outcome"], "complete", "{report}");
    let requests = stub.requests();
    let mut batches: Vec<(String, String)> = requests
        .iter()
        .filter(|request| request.path == "/get")
        .map(|request| {
            let text = |name: &str| request.json()[name].as_str().unwrap().to_owned();
            (text("ids"), text("day"))
        })
        .collect();
    batches.sort();
    let today = requests
        .iter()
        .find_map(|request| request.path.strip_prefix("/list/GB/"))
        .unwrap();
    assert_eq!(
        batches,
        [
            ("GB1,GB2,GB3".to_owned(), today.to_owned()),
            ("US1,US2,US3".to_owned(), began[..10].to_owned())
        ]
    );
}

#[test]
fn batches_of_passes_that_began_on_one_day_are_filled_together() {
    let stub = stub();
    let mut world = world(&stub, IDS, 100);
    world.set("upstreams.rows.headers={}");
    assert_eq!(world.json(&["--region", "all"])["outcome"], "complete");
    let batches = stub
        .requests()
        .iter()
        .filter(|request| request.path == "/get")
        .count();
    assert_eq!(batches, 1);
}
