//! Lists that are read wrongly, as APIs answer then: the first run says so, and the run after the correction has every record.

use ingest_testing::stub_upstream::{StubAnswer, StubRequest, StubUpstream};
use serde_json::{Value, json};

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
    let mut world = World::written(&text, &[]);
    world.set(&format!("upstreams.api.base_url=\"{}\"", stub.url()));
    world
}

/// The first run has this doubt, and requests no more than that; with the right configuration, every record comes.
fn doubts(world: &mut World, (doubt, requests): (&str, u64), (right, total): (&str, i64)) {
    let ran = world.ingest(&["--region", "US", "-q"]);
    assert_eq!(ran.code, 1, "{doubt}: {ran:?}");
    assert!(ran.stderr.contains(&format!("({doubt})")), "{ran:?}");
    let region = world.json(&["status"])["regions"][0].clone();
    assert_eq!(region["doubts"][0]["doubt"], doubt, "{region}");
    assert_eq!(region["last_complete"], Value::Null);
    let sum = "select sum(requests) from pass";
    assert_eq!(
        world.count(sum),
        i64::try_from(requests).unwrap(),
        "{doubt}"
    );
    world.set(right);
    let report = world.json(&["--region", "US"]);
    assert_eq!(report["outcome"], "complete", "{report}");
    assert_eq!(world.count("select count(*) from record"), total, "{doubt}");
    let gone = "select count(*) from record where gone_at is not null";
    assert_eq!(world.count(gone), 0, "{doubt}");
}

#[test]
fn a_full_page_with_a_cursor_under_another_name_is_doubtful() {
    let stub = StubUpstream::start(|request| {
        let from = number(request, "offset").unwrap_or(0);
        let mut body = json!({ "records": rows((from..12).take(5)) });
        if from + 5 < 12 {
            body["offset"] = (from + 5).to_string().into();
        }
        StubAnswer::json(&body)
    });
    let page = |next: &str| {
        format!(
            "{{ kind = \"token\", param = \"offset\", next = \"{next}\", size_param = \"size\", size = 5 }}"
        )
    };
    let records = "records = { at = \"/records\", kind = \"row\", id = \"/id\" }";
    let mut world = world(&stub, &format!("page = {}\n{records}", page("/offsets")));
    let right = format!("upstreams.api.calls.list.page={}", page("/offset"));
    doubts(&mut world, ("next-unread", 1), (&right, 12));
}

#[test]
fn a_last_page_that_is_the_page_before_is_doubtful() {
    let stub = StubUpstream::start(|request| {
        let page = number(request, "page").unwrap_or(1);
        StubAnswer::json(&json!({ "pages": 2, "rows": rows(((page - 1) * 5..8).take(5)) }))
    });
    let page = |param: &str| {
        format!("{{ kind = \"number\", param = \"{param}\", pages = \"/pages\", size = 5 }}")
    };
    let records = "records = { at = \"/rows\", kind = \"row\", id = \"/id\" }";
    let mut world = world(&stub, &format!("page = {}\n{records}", page("pg")));
    let right = format!("upstreams.api.calls.list.page={}", page("page"));
    doubts(&mut world, ("cursor-repeats", 2), (&right, 8));
}

#[test]
fn a_parameter_that_leads_back_is_doubtful_at_the_first_page_that_repeats() {
    // The newest record comes first.
    let stub = StubUpstream::start(|request| {
        let page: Vec<usize> = match (number(request, "after"), number(request, "before")) {
            (Some(after), _) => (0..after).rev().take(5).collect(),
            (None, Some(before)) => (before + 1..14).rev().take(5).collect(),
            (None, None) => (0..14).rev().take(5).collect(),
        };
        let is_last = page.len() < 5 || page.contains(&0);
        StubAnswer::json(&json!({ "more": !is_last, "rows": rows(page) }))
    });
    let page = |param: &str| {
        format!("{{ kind = \"token\", param = \"{param}\", last = \"/id\", more = \"/more\" }}")
    };
    let records = "records = { at = \"/rows\", kind = \"row\", id = \"/id\" }";
    let mut world = world(&stub, &format!("page = {}\n{records}", page("before")));
    let right = format!("upstreams.api.calls.list.page={}", page("after"));
    doubts(&mut world, ("records-repeat", 2), (&right, 14));
}

#[test]
fn records_without_an_id_are_doubtful_where_no_later_list_has_them() {
    let stub = StubUpstream::start(|_| {
        let mut all = rows(0..4);
        all[2] = json!({ "key": "002", "id": null, "at": "2026-01-01T00:00:02Z" });
        for row in &mut all {
            row["key"] = row["at"].clone();
        }
        StubAnswer::json(&json!({ "rows": all }))
    });
    let records = |id: &str| format!("{{ at = \"/rows\", kind = \"row\", id = \"{id}\" }}");
    let mut world = world(
        &stub,
        &format!("page = {{ kind = \"none\" }}\nrecords = {}", records("/id")),
    );
    let right = format!("upstreams.api.calls.list.records={}", records("/key"));
    world.set("upstreams.api.calls.list.trust=[\"ids-missing\"]");
    let trusted = world.json(&["--region", "US", "--dry-run"]);
    assert_ne!(trusted["outcome"], "failed", "{trusted}");
    world.set("upstreams.api.calls.list.trust=[]");
    let tried = world.json(&["try", "api", "list"]);
    let notes = tried["notes"].to_string();
    assert!(notes.contains("doubtful (ids-missing)"), "{tried}");
    let ran = world.ingest(&["--region", "US", "-q"]);
    assert_eq!(ran.code, 1, "{ran:?}");
    assert!(ran.stderr.contains("(ids-missing)"), "{ran:?}");
    world.set(&right);
    assert_eq!(world.json(&["--region", "US"])["outcome"], "complete");
    assert_eq!(
        world.count("select count(*) from record where id like '2026%'"),
        4
    );
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
        assert_eq!(
            (&pass["outcome"], &pass["requests"]),
            (&json!("complete"), &json!(expected)),
            "{pass}"
        );
    };
    requests(2);
    requests(2);
    *halved.lock().unwrap() = true;
    requests(4);
    assert_eq!(world.count("select count(*) from record"), 55);
}

#[test]
fn the_first_short_list_of_a_call_does_not_prove_that_its_size_is_honoured() {
    let total = std::sync::Arc::new(std::sync::Mutex::new(6));
    let all = std::sync::Arc::clone(&total);
    let stub = StubUpstream::start(move |request| {
        let from = number(request, "offset").unwrap_or(0);
        let page = (from..*all.lock().unwrap()).take(20);
        StubAnswer::json(&json!({ "rows": rows(page) }))
    });
    // The upstream does not know the parameter, and has pages of 20.
    let page =
        "page = { kind = \"offset\", param = \"offset\", size_param = \"sizes\", size = 50 }";
    let world = world(
        &stub,
        &format!("{page}\nrecords = {{ at = \"/rows\", kind = \"row\", id = \"/id\" }}"),
    );
    let requests = |expected: u64| {
        let pass = world.json(&["--region", "US"])["passes"][0].clone();
        assert_eq!(
            (&pass["outcome"], &pass["requests"]),
            (&json!("complete"), &json!(expected)),
            "{pass}"
        );
    };
    requests(2);
    requests(1);
    *total.lock().unwrap() = 7;
    requests(1);
    *total.lock().unwrap() = 45;
    requests(4);
    assert_eq!(world.count("select count(*) from record"), 45);
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

#[test]
fn a_size_that_the_upstream_ignores_is_noted_by_try_run_and_status_where_the_list_is_whole() {
    let stub = StubUpstream::start(|request| {
        let from = number(request, "after").unwrap_or(0);
        let to = (from + 20).min(116);
        let next = (to < 116).then(|| to.to_string());
        StubAnswer::json(&json!({ "rows": rows(from..to), "next": next }))
    });
    let page = "page = { kind = \"token\", param = \"after\", next = \"/next\", size_param = \"sizes\", size = 100 }";
    let world = world(
        &stub,
        &format!("{page}\nrecords = {{ at = \"/rows\", kind = \"row\", id = \"/id\" }}"),
    );
    let tried = world.ingest(&["try", "api", "list"]).stdout;
    let tried = tried.split_whitespace().collect::<Vec<_>>().join(" ");
    let costs = "the page has 20 records although `sizes` requests 100";
    assert!(tried.contains(costs), "{tried}");
    assert!(
        tried.contains("a list costs 5 times the requests"),
        "{tried}"
    );
    let ran = world.json(&["--region", "US"]);
    let pass = &ran["passes"][0];
    assert_eq!(
        (&pass["outcome"], &pass["requests"], &pass["records"]),
        (&json!("complete"), &json!(6), &json!(116)),
        "{pass}"
    );
    let noted = "pages have 20 records although `sizes` requests 100";
    let detail = pass["detail"].as_str().unwrap();
    assert!(detail.contains(noted), "{pass}");
    // For an upstream whose pages are of 196, 192 and so on, no `size` is right.
    let remedy = "remove `page.size` and `page.size_param`, and write the size as a fixed value of the call: params = { sizes = \"100\" }";
    assert!(detail.contains(remedy), "{pass}");
    let status = world.ingest(&["status"]).stdout;
    let status = status.split_whitespace().collect::<Vec<_>>().join(" ");
    assert!(status.contains(noted), "{status}");
}
