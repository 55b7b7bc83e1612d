//! Backfills: `slices` of a job.

use std::collections::BTreeSet;
use std::process::Stdio;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use serde_json::{Value, json};

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
    let mut world = World::written(&text, &[]);
    world.set(&format!("upstreams.rows.base_url=\"{}\"", stub.url()));
    world.set("upstreams.rows.pause=1ms");
    world
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

fn backfill(world: &World) -> Value {
    world.json(&["--region", "all", "--job", "backfill", "--concurrency", "1"])
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

fn progress(world: &World) -> Value {
    let status = world.json(&["status"]);
    let regions = status["regions"].as_array().unwrap().clone();
    let mut of_job = regions.into_iter().filter(|one| one["job"] == "backfill");
    let row = of_job.next().unwrap();
    assert_eq!(of_job.next(), None, "one row for each region");
    row
}

#[test]
fn each_slice_is_fetched_once_and_recorded_in_the_catalog() {
    let stub = StubUpstream::start(rows);
    let world = world(&stub, JANUARY, 100);
    let report = backfill(&world);
    assert_eq!(report["outcome"], "complete", "{report}");
    let slice = &report["passes"][0]["slice"];
    assert_eq!(slice["from"], "2024-01-01T00:00:00.000000Z", "{report}");
    assert_eq!(slice["to"], "2024-01-11T00:00:00.000000Z");
    assert_eq!(
        spans(&stub),
        [
            "2024-01-01 2024-01-11 -",
            "2024-01-01 2024-01-11 2",
            "2024-01-11 2024-01-21 -",
            "2024-01-11 2024-01-21 2",
            "2024-01-21 2024-01-31 -",
            "2024-01-21 2024-01-31 2",
        ]
    );
    assert_eq!(
        passes(&world),
        [
            "2024-01-01 2024-01-11 complete",
            "2024-01-11 2024-01-21 complete",
            "2024-01-21 2024-01-31 complete"
        ]
    );
    assert_eq!(backfill(&world)["outcome"], "nothing_due");
    assert_eq!(stub.requests().len(), 6);
    assert_eq!(
        progress(&world)["slices"],
        json!({ "complete": 3, "of": 3 })
    );
}

#[test]
fn the_newest_slice_comes_first_unless_configured_otherwise() {
    let stub = StubUpstream::start(rows);
    let world = world(
        &stub,
        r#"{ from = "2024-01-31", to = "2024-05-15", step = "month" }"#,
        100,
    );
    backfill(&world);
    let froms: Vec<String> = spans(&stub).into_iter().step_by(2).collect();
    assert_eq!(
        froms,
        [
            "2024-04-30 2024-05-15 -",
            "2024-03-31 2024-04-30 -",
            "2024-02-29 2024-03-31 -",
            "2024-01-31 2024-02-29 -",
        ]
    );
}

#[test]
fn a_limit_stops_in_a_slice_and_the_next_run_continues_there_as_the_preview_says() {
    let stub = StubUpstream::start(rows);
    let mut world = world(&stub, JANUARY, 3);
    let report = backfill(&world);
    assert_eq!(report["outcome"], "stopped", "{report}");
    assert_eq!(
        passes(&world),
        [
            "2024-01-01 2024-01-11 complete",
            "2024-01-11 2024-01-21 open"
        ]
    );
    let row = progress(&world);
    assert_eq!(row["slices"], json!({ "complete": 1, "of": 3 }));
    assert_eq!(row["unfinished"], true);
    let text = world.ingest(&["status"]).stdout;
    assert!(text.contains("1 of 3 slices are complete"), "{text}");
    world.set("credentials.rows.limits.daily.quota=100");
    let preview = world.json(&["--region", "all", "--job", "backfill", "--dry-run"]);
    assert_eq!(preview["limits"][0]["spends"], 3, "{preview}");
    let report = backfill(&world);
    assert_eq!(report["outcome"], "complete", "{report}");
    assert_eq!(report["passes"][0]["resumed"], true);
    assert_eq!(report["requests"], 3);
    let all = spans(&stub);
    assert_eq!(
        all.iter().collect::<BTreeSet<_>>().len(),
        all.len(),
        "{all:?}"
    );
    assert_eq!(all.len(), 6);
    assert_eq!(world.count("select count(*) from record"), 6);
    assert_eq!(world.charged("daily"), 6);
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
fn a_slice_that_fails_or_is_refused_leaves_the_others_and_is_fetched_by_a_later_run() {
    for status in [500, 404] {
        let stub = StubUpstream::start(move |request| {
            let is_bad = request.param("from") == Some("2024-01-11");
            match is_bad && request.number < 8 {
                true => StubAnswer::error(status, &json!({})),
                false => rows(request),
            }
        });
        let mut world = world(&stub, JANUARY, 100);
        world.set("jobs.backfill.every=\"1ms\"");
        let report = backfill(&world);
        assert_eq!(report["outcome"], "failed", "{report}");
        assert_eq!(progress(&world)["slices"]["complete"], 2);
        while backfill(&world)["outcome"] != "complete" {
            assert!(stub.requests().len() < 50);
        }
        assert_eq!(progress(&world)["slices"]["complete"], 3);
        assert_eq!(world.count("select count(*) from record"), 6);
    }
}

#[test]
fn no_span_is_fetched_twice_when_from_or_step_are_edited() {
    let stub = StubUpstream::start(rows);
    let mut world = world(&stub, JANUARY, 3);
    backfill(&world);
    // An unfinished pass keeps its slice; the rest is divided anew.
    world.set(r#"jobs.backfill.slices={ from = "2023-12-27", to = "2024-01-31", step = "7d", order = "oldest_first" }"#);
    world.set("credentials.rows.limits.daily.quota=100");
    assert_eq!(backfill(&world)["outcome"], "complete");
    assert_eq!(
        spans(&stub),
        [
            "2024-01-01 2024-01-11 -",
            "2024-01-01 2024-01-11 2",
            "2024-01-11 2024-01-21 -",
            "2024-01-11 2024-01-21 2",
            "2023-12-27 2024-01-01 -",
            "2023-12-27 2024-01-01 2",
            "2024-01-21 2024-01-24 -",
            "2024-01-21 2024-01-24 2",
            "2024-01-24 2024-01-31 -",
            "2024-01-24 2024-01-31 2",
        ]
    );
    assert_eq!(backfill(&world)["outcome"], "nothing_due");
}

#[test]
fn a_backfill_comes_after_everything_else_that_is_due() {
    let stub = StubUpstream::start(rows);
    let world = world(&stub, JANUARY, 3);
    for _ in 0..2 {
        let report = world.json(&["--region", "all", "--concurrency", "1"]);
        assert_eq!(report["passes"][0]["job"], "today", "{report}");
    }
    let requested: Vec<String> = spans(&stub);
    assert_eq!(requested[0], "today - -");
    assert_eq!(requested.len(), 3);
}

#[test]
fn the_forecast_says_when_a_backfill_is_complete() {
    let stub = StubUpstream::start(rows);
    let mut world = world(&stub, JANUARY, 2);
    world.set("jobs.today.every=1d");
    backfill(&world);
    let forecast = |days| {
        let arguments = ["forecast", "--region", "all", "--job", "backfill"];
        let schedule = ["--schedule", "0 * * * *", "--days", days];
        world.json(&[&arguments[..], &schedule[..]].concat())
    };
    // The first slice took two units, so a day has enough for one.
    for days in ["1", "9"] {
        let forecast = forecast(days);
        let backfill = &forecast["backfills"][0];
        assert_eq!(backfill["slices_left"], 2, "{forecast}");
        assert_eq!(backfill["extrapolated"], false);
        let days = backfill["days"].as_f64().unwrap();
        assert!((1.9..2.2).contains(&days), "{backfill}");
    }
    let text = world.ingest(&["forecast", "--region", "all", "--schedule", "hourly"]);
    assert!(
        text.stdout.contains("The backfill of backfill, 2 slices,"),
        "{text:?}"
    );
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
    let mut world = World::written(&text, &[]);
    world.set(&format!("upstreams.rows.base_url=\"{}\"", stub.url()));
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

#[test]
fn a_slice_that_was_refused_is_requested_again_after_a_day() {
    let stub = StubUpstream::start(|request| match request.param("from") {
        Some("2024-01-11") => StubAnswer::error(404, &json!({})),
        _ => rows(request),
    });
    let world = world(&stub, JANUARY, 100);
    assert_eq!(backfill(&world)["outcome"], "failed");
    let requests = stub.requests().len();
    assert_eq!(backfill(&world)["outcome"], "nothing_due");
    let preview = world.json(&["--region", "all", "--job", "backfill", "--dry-run"]);
    assert_eq!(preview["limits"][0]["expected"], 0, "{preview}");
    assert_eq!(stub.requests().len(), requests);
    let yesterday =
        "update pass set started_at = '2024-02-01T00:00:00.000000Z' where outcome = 'refused'";
    let changed = rusqlite::Connection::open(world.state_dir().join("catalog.db"))
        .unwrap()
        .execute(yesterday, [])
        .unwrap();
    assert_eq!(changed, 1);
    assert_eq!(backfill(&world)["outcome"], "failed");
    assert_eq!(stub.requests().len(), requests + 1);
}

#[test]
fn a_slice_that_max_pages_cuts_is_doubtful() {
    let stub = StubUpstream::start(rows);
    let mut world = world(&stub, JANUARY, 100);
    world.set("jobs.backfill.steps=[{ call = \"list\", max_pages = 1, params = { from = \"{slice.from:%Y-%m-%d}\" } }]");
    let report = backfill(&world);
    assert_eq!(report["outcome"], "failed", "{report}");
    for pass in report["passes"].as_array().unwrap() {
        assert_eq!(pass["outcome"], "doubtful", "{report}");
        let detail = pass["detail"].as_str().unwrap_or_default();
        assert!(
            detail.contains("no pass lists the rest of the slice; raise max_pages"),
            "{report}"
        );
    }
}
