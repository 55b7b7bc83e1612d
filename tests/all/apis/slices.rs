//! Backfills: `slices` of a job.

use std::process::Stdio;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use serde_json::json;

use crate::support::world::World;
use ingest_testing::stub_upstream::{StubAnswer, StubRequest, StubUpstream};

/// Thirty days in three slices, oldest first.
const JANUARY: &str =
    r#"{ from = "2024-01-01", to = "2024-01-31", step = "10d", order = "oldest_first" }"#;

/// A world with a backfill of this upstream, and a job that is due at every run.
fn world(stub: &StubUpstream, slices: &str, quota: u64) -> World {
    let text = format!(
        "[upstreams.rows]\nbase_url = \"https://rows.example.com\"\n\
         [upstreams.rows.calls.list]\npath = \"list\"\ncost = 1\n\
         page = {{ kind = \"token\", param = \"after\", next = \"/next\" }}\n\
         records = {{ at = \"/data\", kind = \"row\", id = \"/id\" }}\n\
         [credentials.rows]\nupstream = \"rows\"\n\
         limits = {{ daily = {{ quota = {quota}, window = \"24h\" }} }}\n\
         [jobs.backfill]\ncredential = \"rows\"\nslices = {slices}\nleave = 0\n\
         [[jobs.backfill.steps]]\ncall = \"list\"\n\
         params = {{ from = \"{{slice.from:%Y-%m-%d}}\", to = \"{{slice.to:%Y-%m-%d}}\" }}\n\
         [jobs.today]\ncredential = \"rows\"\n\
         [[jobs.today.steps]]\ncall = \"list\"\nparams = {{ from = \"today\" }}\n"
    );
    World::upon(stub, &text)
}

/// Two pages with a row each for every slice, and one page for the other job.
fn rows(request: &StubRequest) -> StubAnswer {
    let from = request.param("from").unwrap();
    let id = |page: &str| json!([{ "id": format!("{from} {page}") }]);
    StubAnswer::json(&match request.param("after") {
        None if from == "today" => json!({ "data": id("1") }),
        None => json!({ "data": id("1"), "next": "2" }),
        Some(page) => json!({ "data": id(page) }),
    })
}

/// The spans that were requested, page by page.
fn spans(stub: &StubUpstream) -> Vec<String> {
    let span = |request: &StubRequest| {
        let param = |name| request.param(name).unwrap_or("-").to_owned();
        [param("from"), param("to"), param("after")].join(" ")
    };
    stub.requests().iter().map(span).collect()
}

/// The slices of the catalog, each with its outcome, in the order of their passes.
fn passes(world: &World) -> Vec<String> {
    let catalog = world.catalog();
    let mut query = catalog
        .prepare(
            "select substr(slice_from, 1, 10) || ' ' || substr(slice_to, 1, 10) || ' '
            || coalesce(outcome, 'open') from pass where job = 'backfill' order by id",
        )
        .unwrap();
    let rows = query.query_map([], |row| row.get(0)).unwrap();
    rows.collect::<Result<_, _>>().unwrap()
}

#[test]
fn a_run_that_is_killed_in_a_slice_is_continued_in_it() {
    let stub = StubUpstream::start(|request| rows(request).after(Duration::from_millis(60)));
    let world = world(&stub, JANUARY, 100);
    let mut kills = 0;
    let are_complete = || {
        let passes = passes(&world);
        passes
            .iter()
            .filter(|pass| pass.ends_with("complete"))
            .count()
            == 3
    };
    while kills < 2 || !are_complete() {
        let arguments = ["--region", "all", "--job", "backfill", "--concurrency", "1"];
        let mut run = world
            .command(&arguments)
            .stdout(Stdio::null())
            .spawn()
            .unwrap();
        std::thread::sleep(Duration::from_millis(260));
        run.kill().unwrap();
        run.wait().unwrap();
        kills += 1;
        assert!(kills < 100, "{:?}", spans(&stub));
    }
    assert_eq!(world.count("select count(*) from pass"), 3);
    assert_eq!(world.count("select count(*) from record"), 6);
    // Each request was charged; a run can be killed between the two.
    let (charged, requests) = (world.charged("daily") as usize, stub.requests().len());
    assert!(
        (requests..=requests + kills).contains(&charged),
        "{charged} charged, {requests} sent"
    );
}

/// The first run already knows how large a slice is once it has completed one.
#[test]
fn the_slices_behind_the_first_complete_one_walk_together() {
    let (under_way, together) = (AtomicUsize::new(0), Arc::new(AtomicUsize::new(0)));
    let most = Arc::clone(&together);
    let stub = StubUpstream::start(move |request| {
        let now = under_way.fetch_add(1, Ordering::SeqCst) + 1;
        most.fetch_max(now, Ordering::SeqCst);
        // Behind the two pages of the first slice, each request waits for another one.
        let given_up = Instant::now() + Duration::from_secs(2);
        while request.number > 2 && most.load(Ordering::SeqCst) < 2 && Instant::now() < given_up {
            std::thread::sleep(Duration::from_millis(1));
        }
        under_way.fetch_sub(1, Ordering::SeqCst);
        rows(request)
    });
    let world = world(&stub, JANUARY, 100);
    let run = world.json(&["--region", "all", "--job", "backfill"]);
    assert_eq!(run["outcome"], "complete", "{run}");
    assert_eq!(together.load(Ordering::SeqCst), 2);
}

#[test]
fn a_region_has_its_own_slices_and_ids_are_fetched_for_all_of_them() {
    let stub = StubUpstream::start(|request| {
        StubAnswer::json(&match request.path.as_str() {
            "/owners" => {
                let ids = request.param("id").unwrap().split(',');
                json!({ "data": ids.map(|id| json!({ "id": id })).collect::<Vec<_>>() })
            }
            path => {
                let from = request.param("from").unwrap();
                let region = path.rsplit('/').next().unwrap();
                json!({ "data": [{ "id": format!("{region} {from}"), "owner": format!("o{from}") }] })
            }
        })
    });
    let text = format!(
        "regions = [\"US\", \"GB\"]\n[upstreams.rows]\nbase_url = \"{}\"\n\
         [upstreams.rows.calls.list]\npath = \"list/{{region}}\"\ncost = 1\n\
         records = {{ at = \"/data\", kind = \"row\", id = \"/id\" }}\n\
         [upstreams.rows.calls.owners]\npath = \"owners\"\ncost = 1\n\
         records = {{ at = \"/data\", kind = \"owner\", id = \"/id\" }}\n\
         [credentials.rows]\nupstream = \"rows\"\nlimits = {{ daily = {{ quota = 99, window = \"24h\" }} }}\n\
         [jobs.backfill]\ncredential = \"rows\"\nslices = {JANUARY}\n\
         [[jobs.backfill.steps]]\ncall = \"list\"\nparams = {{ from = \"{{slice.from:%d}}\" }}\n\
         [[jobs.backfill.steps]]\ncall = \"owners\"\nparams = {{ id = \"{{ids}}\" }}\n\
         ids = {{ from = \"list\", at = \"/owner\", batch = 2 }}\n",
        stub.url()
    );
    let world = World::written(
        &text,
        &[&format!("upstreams.rows.base_url=\"{}\"", stub.url())],
    );
    let preview = world.json(&["--region", "all", "--dry-run"]);
    let arguments = ["--region", "all", "--set"];
    let set = format!("upstreams.rows.base_url=\"{}\"", stub.url());
    let report = world.json(&[&arguments[..], &[&set]].concat());
    assert_eq!(report["outcome"], "complete", "{report}");
    assert_eq!(
        world.count("select count(*) from record where kind = 'row'"),
        6
    );
    assert_eq!(
        world.count("select count(*) from record where kind = 'owner'"),
        3
    );
    let steps = preview["steps"].as_array().unwrap();
    let listing = steps.iter().filter(|step| step["call"] == "list");
    assert_eq!(listing.count(), 6, "{preview}");
}

#[test]
fn a_backfill_leaves_the_other_jobs_what_they_need_before_its_units_return() {
    let stub = StubUpstream::start(rows);
    let slices = JANUARY.replace("10d", "1d");
    let text = std::fs::read_to_string(world(&stub, &slices, 3).config().path).unwrap();
    let text = text.replace("leave = 0\n", "");
    let mut world = World::upon(&stub, &text);
    world.set("jobs.today.every=1h");
    let arguments = ["--region", "all", "--concurrency", "1"];
    let first = world.json(&[&arguments[..], &["--set", "jobs.backfill.leave=0"]].concat());
    assert_eq!(first["requests"], 3, "{first}");
    // The other job has run once in these 24 hours, and runs 23 or 24 times more.
    world.set("credentials.rows.limits.daily.quota=32");
    let preview = world.json(&[&arguments[..], &["--dry-run"]].concat());
    let report = world.json(&arguments);
    assert_eq!(report["outcome"], "stopped", "{report}");
    assert!(
        report.to_string().contains("reserved for other jobs"),
        "{report}"
    );
    let used = report["limits"][0]["used"].as_u64().unwrap();
    assert!((8..=9).contains(&used), "{report}");
    assert_eq!(preview["limits"][0]["spends"], used - 3, "{preview}");
    // A configured number takes precedence.
    world.set("jobs.backfill.leave={ daily = 1 }");
    assert_eq!(world.json(&arguments)["limits"][0]["used"], 31);
}
