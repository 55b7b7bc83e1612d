//! A list is complete because its end was proved; a pass with a doubt about a list is not complete.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use serde_json::{Value, json};

use crate::support::world::{World, ended};
use ingest_testing::stub_upstream::{StubAnswer, StubRequest, StubUpstream};

/// A world with one call that pages like this; `job` is added to the job.
fn world(stub: &StubUpstream, page: &str, job: &str) -> World {
    let text = format!(
        "regions = [\"US\"]\n[upstreams.rows]\nbase_url = \"https://rows.example.com\"\n\
         [upstreams.rows.calls.list]\npath = \"list/{{region}}\"\ncost = 1\npage = {page}\n\
         records = {{ at = \"/data\", kind = \"row\", id = \"/id\" }}\n\
         [jobs.rows]\ncredential = \"rows\"\n{job}\n\
         [credentials.rows]\nupstream = \"rows\"\nlimits = {{ daily = {{ quota = 1_000, window = \"24h\" }} }}\n"
    );
    let mut world = World::written(&text, &[]);
    world.set(&format!("upstreams.rows.base_url=\"{}\"", stub.url()));
    world
}

const STEPS: &str = "steps = [{ call = \"list\" }]";

/// Records from an offset on, at most `limit` and never more than `cap`; of `count` in all.
fn rows(
    request: &StubRequest,
    (offset, limit): (&str, &str),
    (count, cap): (u64, u64),
) -> Vec<Value> {
    let number = |name: &str| {
        request
            .param(name)
            .and_then(|text| text.parse::<u64>().ok())
    };
    let from = number(offset).unwrap_or(0);
    let size = number(limit).unwrap_or(cap).min(cap);
    (from..count.min(from + size))
        .map(|id| json!({ "id": id }))
        .collect()
}

/// An upstream that lists `count` rows by `offset` and `limit`, at most `cap` on a page.
fn counted(count: &Arc<AtomicU64>, cap: &Arc<AtomicU64>) -> StubUpstream {
    let (count, cap) = (Arc::clone(count), Arc::clone(cap));
    StubUpstream::start(move |request| {
        let of = (count.load(Ordering::SeqCst), cap.load(Ordering::SeqCst));
        StubAnswer::json(&json!({ "data": rows(request, ("offset", "limit"), of) }))
    })
}

fn number(value: u64) -> Arc<AtomicU64> {
    Arc::new(AtomicU64::new(value))
}

fn run(world: &World) -> Value {
    let ran = world.ingest(&["--region", "all", "--format", "json"]);
    let report = ran.json();
    let is_doubtful = report["passes"][0]["outcome"] == "doubtful";
    assert_eq!(ran.code, i32::from(is_doubtful), "{ran:?}");
    report
}

fn outcome(report: &Value) -> (&str, u64) {
    let pass = &report["passes"][0];
    (
        pass["outcome"].as_str().unwrap(),
        pass["requests"].as_u64().unwrap(),
    )
}

fn doubt(report: &Value) -> &str {
    report["passes"][0]["doubts"][0]["doubt"]
        .as_str()
        .unwrap_or("")
}

fn records(world: &World) -> i64 {
    world.count("select count(*) from record where gone_at is null")
}

const OFFSET: &str = r#"{ kind = "offset", param = "offset", size_param = "limit", size = 10 }"#;

#[test]
fn an_assumed_end_is_proved_by_one_request_for_each_call_once() {
    let stub = counted(&number(7), &number(10));
    let mut world = world(&stub, OFFSET, STEPS);
    world.set("regions=[\"GB\", \"US\", \"FR\"]");
    let dry = world.json(&["--region", "all", "--dry-run"]);
    let steps = dry["steps"].as_array().unwrap();
    let expected: u64 = steps
        .iter()
        .map(|step| step["requests"]["expected"].as_u64().unwrap())
        .sum();
    let report = run(&world);
    assert_eq!(
        (&report["outcome"], &report["requests"]),
        (&json!("complete"), &json!(4)),
        "{report}"
    );
    assert_eq!(expected, 4, "{dry}");
    assert_eq!(world.charged("daily"), 4);
    let dry = world.json(&["--region", "all", "--dry-run"]);
    assert_eq!(run(&world)["requests"], 3);
    assert_eq!(dry["limits"][0]["expected"], 3, "{dry}");
    assert_eq!(
        world.count("select sum(pages) from pass"),
        6,
        "the proof is no page of the list"
    );
    assert_eq!(world.count("select sum(requests) from pass"), 7);
}

#[test]
fn a_further_page_that_fails_keeps_no_other_list_waiting() {
    let stub = StubUpstream::start(|request| match request.param("offset") {
        None => StubAnswer::json(
            &json!({ "data": (0..6).map(|id| json!({ "id": id })).collect::<Vec<_>>() }),
        ),
        Some("0") => {
            StubAnswer::json(&json!({ "data": [{ "id": "a" }, { "id": "b" }, { "id": "c" }] }))
        }
        Some(_) => StubAnswer::status(500),
    });
    let text = format!(
        "regions = [\"US\"]\n[upstreams.rows]\nbase_url = \"https://rows.example.com\"\npause = \"1ms\"\n\
         [upstreams.rows.calls.parents]\npath = \"parents\"\ncost = 1\n\
         records = {{ at = \"/data\", kind = \"parent\", id = \"/id\" }}\n\
         [upstreams.rows.calls.children]\npath = \"children/{{ids}}\"\ncost = 1\npage = {OFFSET}\n\
         records = {{ at = \"/data\", kind = \"child\", id = \"/id\" }}\n\
         [jobs.rows]\ncredential = \"rows\"\n\
         steps = [{{ call = \"parents\" }}, {{ call = \"children\", ids = {{ from = \"parents\", at = \"/id\", batch = 1 }} }}]\n\
         [credentials.rows]\nupstream = \"rows\"\nlimits = {{ daily = {{ quota = 1_000, window = \"24h\" }} }}\n"
    );
    let mut world = World::written(&text, &[]);
    world.set(&format!("upstreams.rows.base_url=\"{}\"", stub.url()));
    let ran = ended(world.command(&["--region", "all", "--format", "json"]));
    assert_eq!(ran.code, 1, "{ran:?}");
    assert_eq!(ran.json()["outcome"], "failed", "{ran:?}");
}

#[test]
fn a_run_that_stops_before_a_further_page_which_is_refused_completes_later() {
    let stub = StubUpstream::start(|request| match request.param("offset") {
        Some("0") => StubAnswer::json(&json!({ "data": [{ "id": "a" }, { "id": "b" }] })),
        _ => StubAnswer::status(404),
    });
    let mut world = world(&stub, OFFSET, STEPS);
    world.set("credentials.rows.limits.daily.quota=1");
    let stopped = world.json(&["--region", "all"]);
    assert_eq!(outcome(&stopped), ("stopped", 1), "{stopped}");
    world.set("credentials.rows.limits.daily.quota=1000");
    let complete = world.json(&["--region", "all"]);
    assert_eq!(outcome(&complete), ("complete", 3), "{complete}");
    assert_eq!(records(&world), 2);
}

#[test]
fn a_full_page_shows_that_the_size_is_honoured() {
    let stub = counted(&number(25), &number(10));
    let world = world(&stub, OFFSET, STEPS);
    assert_eq!(outcome(&run(&world)), ("complete", 3));
    assert_eq!(outcome(&run(&world)), ("complete", 3));
}

#[test]
fn a_list_goes_on_by_the_size_to_which_the_upstream_caps_its_pages() {
    let (count, cap) = (number(25), number(10));
    let stub = counted(&count, &cap);
    let page = OFFSET
        .replace("\"limit\"", "\"per_page\"")
        .replace("10", "20");
    let world = world(&stub, &page, STEPS);
    let report = run(&world);
    // 10, 10, 5 and an empty one.
    assert_eq!(outcome(&report), ("complete", 4), "{report}");
    let detail = report["passes"][0]["detail"].as_str().unwrap();
    assert!(
        detail.contains("page.size_param") && detail.contains("10"),
        "{report}"
    );
    assert_eq!(records(&world), 25);
    let report = run(&world);
    assert_eq!(outcome(&report), ("complete", 3));
    assert!(
        report["passes"][0]["detail"]
            .as_str()
            .unwrap()
            .contains("page.size_param")
    );
    let status = world.ingest(&["status"]);
    assert!(
        status.stdout.contains("page.size_param"),
        "{}",
        status.stdout
    );
    let history = world.ingest(&["history"]);
    assert!(
        history.stdout.contains("page.size_param"),
        "{}",
        history.stdout
    );
}

#[test]
fn a_cap_that_is_lowered_marks_no_record_as_gone() {
    let (count, cap) = (number(35), number(10));
    let stub = counted(&count, &cap);
    let world = world(&stub, OFFSET, STEPS);
    assert_eq!(outcome(&run(&world)), ("complete", 4));
    cap.store(5, Ordering::SeqCst);
    let report = run(&world);
    assert_eq!(
        (outcome(&report).0, records(&world)),
        ("complete", 35),
        "{report}"
    );
    count.store(32, Ordering::SeqCst);
    assert_eq!(outcome(&run(&world)), ("complete", 7));
    assert_eq!(records(&world), 32);
}

#[test]
fn a_total_that_nobody_reads_proves_that_a_list_is_not_complete() {
    let stub = StubUpstream::start(|request| {
        let page: u64 = request.param("page").unwrap_or("1").parse().unwrap();
        let rows: Vec<Value> = (1..=50)
            .map(|id| json!({ "id": (page.min(1) - 1) * 50 + id }))
            .collect();
        let rows = if page > 1 { Vec::new() } else { rows };
        StubAnswer::json(&json!([{ "page": page, "total": 64 }, rows]))
    });
    let page = r#"{ kind = "number", param = "page", size_param = "per_page", size = 100 }"#;
    let mut world = world(&stub, page, STEPS);
    world.set("upstreams.rows.calls.list.records.at=\"/1\"");
    let report = run(&world);
    assert_eq!(
        (outcome(&report), doubt(&report)),
        (("doubtful", 2), "fewer-than-total"),
        "{report}"
    );
    let text = report["passes"][0]["doubts"][0]["text"].as_str().unwrap();
    assert!(
        text.contains("`/0/total`")
            && text.contains("64")
            && text.contains("trust = [\"fewer-than-total\"]"),
        "{text}"
    );
    let status = world.json(&["status"]);
    let region = &status["regions"][0];
    assert_eq!(
        (&region["last_complete"], &region["doubts"][0]["doubt"]),
        (&json!(null), &json!("fewer-than-total"))
    );
    assert!(
        world
            .ingest(&["status"])
            .stdout
            .contains("fewer-than-total")
    );
    assert!(
        world
            .ingest(&["history"])
            .stdout
            .contains("fewer-than-total")
    );
    // It is due again after a day, or when the way it is read changes.
    assert_eq!(run(&world)["outcome"], "nothing_due");
    world.set("upstreams.rows.calls.list.trust=[\"fewer-than-total\"]");
    assert_eq!(outcome(&run(&world)).0, "complete");
}

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

#[test]
fn a_wrong_place_of_the_records_costs_one_request_and_loses_nothing() {
    let stub = StubUpstream::start(|request| {
        let page: u64 = request
            .param("token")
            .map_or(0, |token| token.parse().unwrap());
        let rows: Vec<Value> = (0..10)
            .map(|id| json!({ "id": page * 10 + id, "at": "2026-01-01T00:00:00Z" }))
            .collect();
        let mut answer = json!({ "issues": rows });
        if page < 2 {
            answer["token"] = json!((page + 1).to_string());
        }
        StubAnswer::json(&answer)
    });
    let page = r#"{ kind = "token", param = "token", next = "/token" }"#;
    let job =
        "since = \"2020-01-01\"\nsteps = [{ call = \"list\", params = { after = \"{since}\" } }]";
    let mut world = world(&stub, page, job);
    let report = run(&world);
    assert_eq!(
        (outcome(&report), doubt(&report)),
        (("doubtful", 1), "no-records"),
        "{report}"
    );
    world.set("upstreams.rows.calls.list.records.at=\"/issues\"");
    assert_eq!(outcome(&run(&world)), ("complete", 3));
    assert_eq!(records(&world), 30);
    assert!(
        stub.requests()
            .iter()
            .all(|request| request.param("after").unwrap().starts_with("2020"))
    );
}

#[test]
fn a_place_that_earlier_pages_had_marks_no_record_as_gone_when_it_is_renamed() {
    let renamed = number(0);
    let now = Arc::clone(&renamed);
    let stub = StubUpstream::start(move |request| {
        let from: u64 = request
            .param("skip")
            .map_or(0, |skip| skip.parse().unwrap());
        let rows: Vec<Value> = (from..25.min(from + 10))
            .map(|id| json!({ "id": id }))
            .collect();
        let mut answer = json!({ "@odata.context": "c", "data": rows });
        let name = if now.load(Ordering::SeqCst) == 1 {
            "@odata.continueAt"
        } else {
            "@odata.nextLink"
        };
        if from + 10 < 25 {
            answer[name] = json!(format!("?skip={}", from + 10));
        }
        StubAnswer::json(&answer)
    });
    let world = world(
        &stub,
        r#"{ kind = "next_url", next = "/@odata.nextLink" }"#,
        STEPS,
    );
    assert_eq!(outcome(&run(&world)), ("complete", 3));
    renamed.store(1, Ordering::SeqCst);
    let report = run(&world);
    assert_eq!(
        (outcome(&report), doubt(&report)),
        (("doubtful", 1), "place-missing"),
        "{report}"
    );
    assert_eq!(records(&world), 25);
    renamed.store(0, Ordering::SeqCst);
    assert_eq!(run(&world)["outcome"], "nothing_due");
}

#[test]
fn a_wrong_direction_costs_three_requests() {
    // The newest hundred, oldest first; `before` leads to those before the last one of a page.
    let stub = StubUpstream::start(|request| {
        let until: u64 = request
            .param("before")
            .map_or(350, |id| id.parse().unwrap());
        let from = until.saturating_sub(100);
        let rows: Vec<Value> = (from..until)
            .map(|id| json!({ "id": id.to_string() }))
            .collect();
        StubAnswer::json(&json!({ "data": rows }))
    });
    let page =
        r#"{ kind = "token", param = "before", last = "/id", size_param = "limit", size = 100 }"#;
    let world = world(&stub, page, STEPS);
    let report = run(&world);
    assert_eq!(
        (outcome(&report), doubt(&report)),
        (("doubtful", 3), "records-repeat"),
        "{report}"
    );
}

#[test]
fn a_list_that_says_that_there_is_more_and_names_nothing_is_doubtful() {
    let stub =
        StubUpstream::start(|_| StubAnswer::json(&json!({ "data": [{ "id": 1 }], "more": true })));
    let page = r#"{ kind = "token", param = "after", next = "/next", more = "/more" }"#;
    let report = run(&world(&stub, page, STEPS));
    assert_eq!(
        (outcome(&report), doubt(&report)),
        (("doubtful", 1), "next-unnamed"),
        "{report}"
    );
}

#[test]
fn a_list_that_max_pages_cuts_is_not_fresh_where_it_names_since() {
    let stub = counted(&number(25), &number(10));
    let job = "every = \"1h\"\nsince = \"2020-01-01\"\nsteps = [{ call = \"list\", max_pages = 1, params = { after = \"{since}\" } }]";
    let mut world = world(&stub, OFFSET, job);
    let checked = world.ingest(&["check", "--config-only"]);
    assert!(
        format!("{}{}", checked.stdout, checked.stderr).contains("max_pages"),
        "{checked:?}"
    );
    let tried = world.json(&["try", "rows", "list"]);
    assert!(
        tried["notes"].to_string().contains("doubtful (cut)"),
        "{tried}"
    );
    let report = run(&world);
    assert_eq!(
        (outcome(&report), doubt(&report)),
        (("doubtful", 1), "cut"),
        "{report}"
    );
    assert_eq!(
        world.json(&["status"])["regions"][0]["last_complete"],
        json!(null)
    );
    world.set("upstreams.rows.calls.list.trust=[\"cut\"]");
    assert_eq!(outcome(&run(&world)), ("complete", 1));
}

#[test]
fn an_unknown_doubt_is_refused() {
    let stub = counted(&number(5), &number(10));
    let mut world = world(&stub, OFFSET, STEPS);
    world.set("upstreams.rows.calls.list.trust=[\"cursor-repeat\"]");
    let checked = world.ingest(&["check", "--config-only"]);
    assert_eq!(checked.code, 2, "{checked:?}");
    assert!(checked.stderr.contains("cursor-repeats"), "{checked:?}");
}

#[test]
fn relist_requests_everything_again_from_the_first_value_of_since() {
    let stub = counted(&number(5), &number(10));
    let job = "every = \"1h\"\nsince = \"2020-01-01\"\nsteps = [{ call = \"list\", params = { after = \"{since:%Y}\" } }]";
    let world = world(&stub, OFFSET, job);
    assert_eq!(outcome(&run(&world)), ("complete", 2));
    assert_eq!(run(&world)["outcome"], "nothing_due");
    let again = world.json(&["--region", "US", "--job", "rows", "--relist"]);
    assert_eq!(outcome(&again), ("complete", 1), "{again}");
    assert_eq!(stub.requests().last().unwrap().param("after"), Some("2020"));
    assert_eq!(world.ingest(&["--region", "US", "--relist"]).code, 2);
}
