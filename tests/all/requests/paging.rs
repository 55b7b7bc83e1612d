//! Every way of turning pages, at every length of a list.

use serde_json::{Value, json};

use crate::support::json::{has, says};
use crate::support::world::World;

/// The kinds: the name of a call, its method, whether its pages tell where the list ends, and its `page`.
const KINDS: &str = r#"
token GET told { kind = "token", param = "cursor", next = "/next", size_param = "size", size = 10 }
token_in_body POST told { kind = "token", param = "cursor", in = "body", next = "/next", size_param = "size", size = 10 }
link GET told { kind = "link", size_param = "size", size = 10 }
next_url GET told { kind = "next_url", next = "/next", size_param = "size", size = 10 }
offset GET told { kind = "offset", param = "skip", size_param = "size", size = 10, total = "/total" }
offset_in_body POST untold { kind = "offset", param = "skip", in = "body", size_param = "size", size = 10 }
number GET untold { kind = "number", param = "page", size_param = "size", size = 10 }
number_total GET told { kind = "number", param = "page", first = 0, size_param = "size", size = 10, total = "/total" }
number_pages GET told { kind = "number", param = "page", size_param = "size", size = 10, pages = "/pages" }
last_record GET untold { kind = "token", param = "after", last = "/id", size_param = "size", size = 10 }
none GET told { kind = "none" }
"#;

fn kinds() -> impl Iterator<Item = [&'static str; 4]> {
    KINDS.trim().lines().map(|kind| {
        let mut words = kind.splitn(4, ' ');
        [(); 4].map(|()| words.next().unwrap())
    })
}

/// The kinds of lists that have several pages.
fn turned() -> impl Iterator<Item = &'static str> {
    kinds()
        .map(|[name, ..]| name)
        .filter(|name| *name != "none")
}

fn world() -> World {
    let calls = kinds().map(|[name, method, _, page]| {
        format!(
            "[upstreams.paged.calls.{name}]\npath = \"{name}/{{region}}\"\nmethod = \"{method}\"\ncost = 1\npage = {page}\n\
             records = {{ at = \"/items\", kind = \"{name}\", id = \"/id\" }}\n\
             [jobs.{name}]\ncredential = \"paged\"\nsteps = [{{ call = \"{name}\" }}]\n"
        )
    });
    let text = format!(
        "regions = [\"US\"]\n[upstreams.paged]\nbase_url = \"https://paged.example.com\"\n{}\n[credentials.paged]\n\
         upstream = \"paged\"\nlimits = {{ daily = {{ quota = 10_000, window = \"24h\" }} }}\n",
        calls.collect::<String>()
    );
    World::written(&text, &[])
}

/// What a run says of the one pass of a job.
fn pass<'a>(run: &'a Value, job: &str) -> &'a Value {
    run["passes"]
        .as_array()
        .unwrap()
        .iter()
        .find(|pass| pass["job"] == job)
        .unwrap_or_else(|| panic!("{run}"))
}

fn run(world: &World, job: &str) -> Value {
    pass(&world.json(&["--region", "all", "--job", job]), job).clone()
}

#[test]
fn lists_of_every_length_are_walked_to_their_end_and_no_further() {
    let world = world();
    for total in [0_u64, 1, 10, 11, 47] {
        world.totals(
            &kinds()
                .map(|[name, ..]| (name.to_owned(), json!(total)))
                .collect::<Value>(),
        );
        let report = world.json(&["--region", "all"]);
        assert_eq!(report["outcome"], "complete", "{report}");
        for [name, _, end, _] in kinds() {
            let pages = match name {
                "none" => 1,
                _ if end == "told" => total.div_ceil(10).max(1),
                // Only a page that is not full ends it, which is proved once for the call: by the first such page.
                _ => total / 10 + 1 + u64::from(total == 1),
            };
            let pass = pass(&report, name);
            has(pass, &json!({ "records": total, "requests": pages }));
        }
    }
    assert_eq!(world.charged("daily"), world.counted("daily"));
}

#[test]
fn a_cursor_that_repeats_ends_the_list() {
    let world = world();
    world.totals(&json!({ "link": 5 }));
    let linked = json!({ "link": "</paged/link/US?size=10&after=again>; rel=\"next\"" });
    let same = [
        (
            "token",
            json!({ "call": "token", "after": 1, "times": 9, "answer": "same_cursor" }),
            // The second page again, which has no new record.
            3,
        ),
        (
            "next_url",
            json!({ "call": "next_url", "times": 3, "status": 200, "body": { "items": [{ "id": "a" }], "next": "?after=again" } }),
            2,
        ),
        (
            "link",
            json!({ "call": "link", "times": 3, "status": 200, "body": { "items": [{ "id": "a" }] }, "headers": linked }),
            2,
        ),
    ];
    for (job, fault, requests) in same {
        world.faults(&fault);
        let pass = run(&world, job);
        assert_eq!(pass["outcome"], "doubtful", "{pass}");
        says(&pass["detail"], "the same cursor twice");
        assert_eq!(pass["requests"], requests, "{pass}");
    }
}

#[test]
fn a_refusal_behind_a_full_page_names_the_rule_that_makes_it_the_end_of_the_list() {
    let mut world = world();
    for job in ["number", "last_record"] {
        world.totals(&json!({ job: 20 }));
        world.faults(&json!({ "call": job, "after": 2, "times": 1, "status": 404, "body": {} }));
        let refused = run(&world, job);
        assert_eq!(refused["outcome"], "refused", "{refused}");
        let detail = refused["detail"].as_str().unwrap();
        assert!(detail.contains("class = \"end\""), "{detail}");
    }
    world.set("upstreams.paged.errors=[{ status = 404, class = \"end\" }]");
    for job in ["number", "last_record"] {
        world.faults(&json!({ "call": job, "after": 2, "times": 1, "status": 404, "body": {} }));
        let pass = run(&world, job);
        has(&pass, &json!({ "outcome": "complete", "records": 20 }));
    }
}

#[test]
fn a_list_that_two_runs_walk_is_as_long_as_the_last_one() {
    let mut world = world();
    for job in turned() {
        for total in [40, 35, 41] {
            world.totals(&json!({ job: total }));
            // The first one pays for the proof of how lists of the call end.
            run(&world, job);
            let whole = run(&world, job);
            assert_eq!(whole["outcome"], "complete", "{whole}");
            // Two of the pages fit.
            let fit = world.charged("daily") + 2;
            world.set(&format!("credentials.paged.limits.daily.quota={fit}"));
            assert_eq!(run(&world, job)["outcome"], "stopped", "{job}");
            world.set("credentials.paged.limits.daily.quota=10000");
            let rest = run(&world, job);
            let expected = whole["requests"].as_u64().unwrap() - 2;
            has(
                &rest,
                &json!({ "outcome": "complete", "requests": expected }),
            );
        }
    }
}

#[test]
fn a_cursor_that_expired_between_two_runs_starts_the_list_over_once() {
    let mut world = world();
    for job in turned() {
        // Two of four pages fit.
        let used = world.charged("daily");
        world.set(&format!(
            "credentials.paged.limits.daily.quota={}",
            used + 2
        ));
        assert_eq!(run(&world, job)["outcome"], "stopped", "{job}");
        world.set("credentials.paged.limits.daily.quota=10000");
        world.faults(&json!({ "call": job, "answer": "bad_cursor", "status": 400, "times": 1 }));
        world.set("upstreams.paged.errors=[{ status = 400, class = \"bad_cursor\" }]");
        let pass = run(&world, job);
        has(&pass, &json!({ "outcome": "complete", "resumed": true }));
        says(&pass["detail"], "restarted from the first page");
        assert_eq!(pass["requests"], 5, "one refused, four of the list: {pass}");
        let listed = format!("select count(*) from listing where kind = '{job}'");
        assert_eq!(world.count(&listed), 35, "{job}");
    }
}

#[test]
fn a_cursor_that_is_never_taken_ends_the_pass_and_is_not_asked_for_again_at_every_run() {
    let mut world = world();
    world
        .set("upstreams.paged.errors=[{ status = 400, class = \"bad_cursor\" }]")
        .set("jobs.token.every=1h");
    let refused =
        json!({ "call": "token", "after": 2, "answer": "bad_cursor", "status": 400, "times": 1 });
    world.faults(&json!([refused, { "call": "token", "after": 2, "answer": "bad_cursor", "status": 400, "times": 9 }]));
    let pass = run(&world, "token");
    has(&pass, &json!({ "outcome": "refused", "requests": 6 }));
    says(&pass["detail"], "already restarted once");
    assert_eq!(run(&world, "token")["outcome"], "not_due");
    assert_eq!(
        world.count("select count(*) from listing where kind = 'token'"),
        20,
        "what was landed stays"
    );
}

/// What becomes of one answer of this body.
fn answered(body: &Value) -> (World, Value) {
    let world = world();
    world.faults(&json!({ "call": "token", "times": 1, "status": 200, "body": body }));
    let pass = run(&world, "token");
    (world, pass)
}

#[test]
fn an_empty_cursor_is_the_end() {
    for empty in [json!(""), json!(null), json!("  "), json!(false)] {
        let (world, pass) = answered(&json!({ "items": [{ "id": "a" }], "next": empty }));
        has(&pass, &json!({ "outcome": "complete", "records": 1 }));
        assert_eq!(world.requests(), 1);
    }
}

#[test]
fn a_cursor_that_is_a_number_is_sent_as_it_is() {
    let (world, _) = answered(&json!({ "items": [{ "id": "a" }], "next": 4711 }));
    let requests = world.sandbox_says("requests");
    assert_eq!(requests[1]["cursor"], "4711", "{requests}");
}

#[test]
fn an_empty_page_that_leads_on_is_followed() {
    let world = world();
    let answer = |body: Value| json!({ "call": "token", "times": 1, "status": 200, "body": body });
    let full = |id: &str, next: Value| answer(json!({ "items": [{ "id": id }], "next": next }));
    let empty = |next: &str| answer(json!({ "items": [], "next": next }));
    world.faults(&json!([
        empty("a"),
        full("x", json!("b")),
        empty("c"),
        full("y", Value::Null)
    ]));
    let pass = run(&world, "token");
    has(&pass, &json!({ "outcome": "complete", "requests": 4 }));
    has(&pass, &json!({ "records": 2, "detail": null }));
}

#[test]
fn an_upstream_that_gives_empty_pages_is_not_asked_for_ever() {
    let mut world = world();
    let empty = |next: u64| json!({ "call": "token", "times": 1, "status": 200, "body": { "items": [], "next": format!("n{next}") } });
    world.faults(&(0..30).map(empty).collect());
    let pass = run(&world, "token");
    has(&pass, &json!({ "outcome": "failed", "requests": 21 }));
    assert_eq!(
        pass["detail"],
        "token returned 21 empty pages in a row and its cursor continues, so the list is not complete; if an empty page ends \
         it, write empty_page_ends = true in its `page`"
    );
    // One more request, which is the end.
    world.set("upstreams.paged.calls.token.page.empty_page_ends=true");
    let pass = run(&world, "token");
    has(&pass, &json!({ "outcome": "complete", "requests": 1 }));
}

#[test]
fn a_token_that_no_url_holds_costs_nothing_and_is_not_tried_again() {
    let world = world();
    let body = json!({ "items": [{ "id": "a" }], "next": "t".repeat(100_000) });
    world.faults(&json!({ "call": "token", "times": 1, "status": 200, "body": body }));
    let pass = run(&world, "token");
    has(&pass, &json!({ "outcome": "failed", "requests": 1 }));
    assert_eq!(
        pass["detail"],
        "the next page's token is 100000 characters long, which is too long for a URL"
    );
    assert_eq!((world.charged("daily"), world.requests()), (1, 1));
}

#[test]
fn a_record_without_an_id_is_left_out_and_one_that_is_there_twice_is_stored_once() {
    let world = world();
    let items =
        json!({ "items": [{ "id": "a" }, { "name": "nobody" }, { "id": "a" }, { "id": 7 }] });
    for [name, ..] in kinds() {
        world.totals(&json!({ name: 4 }));
        world.faults(&json!({ "call": name, "times": 1, "status": 200, "body": items }));
        let pass = run(&world, name);
        // The page is not full and has no total, so that a further page proves its end.
        let is_silent = |kind: &&str| name.starts_with(*kind);
        let proof = u64::from(["offset", "number", "last"].iter().any(is_silent));
        assert_eq!(
            (pass["outcome"].as_str(), pass["requests"].as_u64()),
            (Some("complete"), Some(1 + proof)),
            "{pass}"
        );
        assert_eq!(pass["detail"], "1 record without an id was skipped");
        for table in ["record", "listing"] {
            assert_eq!(
                world.count(&format!(
                    "select count(*) from {table} where kind = '{name}'"
                )),
                2,
                "{name}"
            );
        }
    }
}

#[test]
fn no_more_pages_are_turned_than_configured() {
    let mut world = world();
    for name in turned() {
        world.set(&format!(
            "jobs.{name}.steps=[{{ call = \"{name}\", max_pages = 2 }}]"
        ));
        world.totals(&json!({ name: 47 }));
        for _ in 0..2 {
            let pass = run(&world, name);
            has(&pass, &json!({ "outcome": "complete", "resumed": false }));
            has(&pass, &json!({ "requests": 2, "records": 20 }));
        }
    }
}

#[test]
fn an_upstream_that_gives_the_same_page_for_every_number_is_not_asked_for_ever() {
    let world = world();
    let items: Vec<Value> = (0..10).map(|id| json!({ "id": id })).collect();
    for name in ["offset", "offset_in_body", "number"] {
        world.faults(&json!({ "call": name, "times": 50, "status": 200, "body": { "items": items, "total": 500 } }));
        let pass = run(&world, name);
        has(&pass, &json!({ "outcome": "doubtful", "requests": 2 }));
        says(&pass["detail"], "the same page twice");
    }
}

/// What becomes of a first page with this `Link`, which leads to a second and last one.
fn linked(link: &str) -> (World, Value) {
    let world = world();
    world.totals(&json!({ "link": 5 }));
    let first = json!({ "call": "link", "times": 1, "status": 200, "body": { "items": [{ "id": "a" }] }, "headers": { "link": link } });
    let last =
        json!({ "call": "link", "times": 1, "status": 200, "body": { "items": [{ "id": "b" }] } });
    world.faults(&json!([first, last]));
    let pass = run(&world, "link");
    (world, pass)
}

#[test]
fn of_several_links_the_next_one_is_followed_wherever_it_stands() {
    for link in [
        "<?after=x>; rel=\"next\"",
        "</paged/link/US?after=x>; rel=next",
        "<?after=p>; rel=\"prev\", <?after=x>; title=\"a, b; rel=prev\"; rel=\"last next\", <?after=9>; rel=\"last\"",
        "<?after=p>; rel=\"prev\",<?after=x>;REL=NEXT",
    ] {
        let (world, pass) = linked(link);
        assert_eq!(
            (pass["outcome"].as_str(), pass["records"].as_u64()),
            (Some("complete"), Some(2)),
            "{link}: {pass}"
        );
        assert_eq!(world.sandbox_says("requests")[1]["cursor"], "x", "{link}");
    }
}

#[test]
fn links_that_lead_nowhere_end_the_list() {
    for link in [
        "<>; rel=\"next\"",
        "<?after=x>; rel=\"last\"",
        "nonsense",
        "<?after=x",
        "",
        ", ,",
    ] {
        let (world, pass) = linked(link);
        assert_eq!(
            (pass["outcome"].as_str(), world.requests()),
            (Some("complete"), 1),
            "{link}: {pass}"
        );
    }
}

#[test]
fn a_next_page_on_another_host_is_never_asked_and_the_page_before_it_is_landed() {
    for (name, body, link) in [
        (
            "link",
            json!({ "items": [{ "id": "a" }] }),
            "<https://elsewhere.example/link/US?after=x>; rel=\"next\"",
        ),
        (
            "next_url",
            json!({ "items": [{ "id": "a" }], "next": "https://elsewhere.example/next_url/US" }),
            "",
        ),
    ] {
        let world = world();
        world.totals(&json!({ name: 5 }));
        world.faults(&json!({ "call": name, "times": 1, "status": 200, "body": body, "headers": { "link": link } }));
        let pass = run(&world, name);
        assert_eq!(
            (pass["outcome"].as_str(), world.requests()),
            (Some("refused"), 1),
            "{pass}"
        );
        has(&pass, &json!({ "pages": 1, "records": 1 }));
        says(&pass["detail"], "on another host (elsewhere.example)");
    }
}
