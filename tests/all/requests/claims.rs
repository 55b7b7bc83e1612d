//! Two runs of different jobs that name the same ids: each id is paid for once.

use std::collections::HashMap;
use std::process::{Child, Stdio};
use std::time::Duration;

use serde_json::{Value, json};

use crate::support::world::{Ran, World};
use ingest_testing::stub_upstream::{StubAnswer, StubUpstream};

/// Two jobs that list the same 30 ids, `popular` and `newest`, and look them up by five.
fn world(stub: &StubUpstream) -> World {
    let job = |name: &str| {
        format!(
            "[upstreams.rows.calls.{name}]\npath = \"list/{name}\"\ncost = 1\n\
             records = {{ at = \"/data\", kind = \"{name}\", id = \"/id\" }}\n\
             [jobs.{name}]\ncredential = \"rows\"\nsteps = [{{ call = \"{name}\" }}, {{ call = \"get\", params = {{ id = \"{{ids}}\" }}, \
             ids = {{ from = \"{name}\", at = \"/id\", batch = 5, fresh_for = \"1d\" }} }}]\n"
        )
    };
    let text = format!(
        "regions = [\"US\", \"GB\"]\n[upstreams.rows]\nbase_url = \"https://rows.example.com\"\n\
         [upstreams.rows.calls.get]\npath = \"get\"\ncost = 1\nrecords = {{ at = \"/data\", kind = \"thing\", id = \"/id\" }}\n{}{}\
         [credentials.rows]\nupstream = \"rows\"\nlimits = {{ daily = {{ quota = 10_000, window = \"24h\" }} }}\n",
        job("popular"),
        job("newest")
    );
    World::upon(stub, &text)
}

/// Answers batches only after `delay`, and the first of all batches after `first`.
fn stub(delay: Duration, first: Duration) -> StubUpstream {
    let batches = std::sync::atomic::AtomicUsize::new(0);
    StubUpstream::start(move |request| {
        let row = |id: &str| json!({ "id": id });
        if let Some(ids) = request.param("id") {
            let rows: Vec<Value> = ids.split(',').map(row).collect();
            let number = batches.fetch_add(1, std::sync::atomic::Ordering::SeqCst);
            let delay = if number == 0 { first } else { delay };
            return StubAnswer::json(&json!({ "data": rows })).after(delay);
        }
        let rows: Vec<Value> = (0..30).map(|id| row(&format!("t{id}"))).collect();
        StubAnswer::json(&json!({ "data": rows })).after(Duration::from_millis(50))
    })
}

fn start(world: &World, job: &str) -> Child {
    let mut command = world.command(&["--region", "all", "--job", job, "--format", "json"]);
    let piped = command.stdout(Stdio::piped()).stderr(Stdio::piped());
    piped.spawn().unwrap()
}

/// How often each id was requested.
fn times_asked(stub: &StubUpstream) -> HashMap<String, usize> {
    let mut times = HashMap::new();
    for request in stub.requests() {
        for id in request.param("id").iter().flat_map(|ids| ids.split(',')) {
            *times.entry(id.to_owned()).or_default() += 1;
        }
    }
    times
}

#[test]
fn two_runs_at_once_of_different_jobs_pay_for_each_id_once() {
    let stub = stub(Duration::from_millis(60), Duration::from_millis(60));
    let world = world(&stub);
    let runs = ["popular", "newest"].map(|job| start(&world, job));
    for run in runs {
        let ran = Ran::of(run.wait_with_output().unwrap());
        assert_eq!(ran.json()["outcome"], "complete", "{ran:?}");
    }
    let times = times_asked(&stub);
    assert_eq!(times.len(), 30);
    assert!(times.values().all(|times| *times == 1), "{times:?}");
    assert_eq!(
        stub.requests().len(),
        4 + 6,
        "four lists and six full batches"
    );
}

#[test]
fn the_ids_of_a_run_that_is_killed_are_fetched_by_the_run_that_waits_for_it() {
    let stub = stub(Duration::ZERO, Duration::from_secs(30));
    let world = world(&stub);
    let mut killed = start(&world, "popular");
    while times_asked(&stub).is_empty() {
        std::thread::sleep(Duration::from_millis(5));
    }
    let waiting = start(&world, "newest");
    std::thread::sleep(Duration::from_millis(300));
    killed.kill().unwrap();
    killed.wait().unwrap();
    let ran = Ran::of(waiting.wait_with_output().unwrap());
    assert_eq!(ran.json()["outcome"], "complete", "{ran:?}");
    assert_eq!(
        world.count("select count(*) from record where kind = 'thing'"),
        30
    );
}
