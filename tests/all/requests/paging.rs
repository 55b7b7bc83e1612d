//! Every way of turning pages, at every length of a list.

use serde_json::{Value, json};

use crate::support::world::World;

/// The kinds by the name of their calls; which of them tell where the list ends.
const KINDS: [(&str, &str, &str, bool); 11] = [
    (
        "token",
        "GET",
        r#"{ kind = "token", param = "cursor", next = "/next", size_param = "size", size = 10 }"#,
        true,
    ),
    (
        "token_in_body",
        "POST",
        r#"{ kind = "token", param = "cursor", in = "body", next = "/next", size_param = "size", size = 10 }"#,
        true,
    ),
    (
        "link",
        "GET",
        r#"{ kind = "link", size_param = "size", size = 10 }"#,
        true,
    ),
    (
        "next_url",
        "GET",
        r#"{ kind = "next_url", next = "/next", size_param = "size", size = 10 }"#,
        true,
    ),
    (
        "offset",
        "GET",
        r#"{ kind = "offset", param = "skip", size_param = "size", size = 10, total = "/total" }"#,
        true,
    ),
    (
        "offset_in_body",
        "POST",
        r#"{ kind = "offset", param = "skip", in = "body", size_param = "size", size = 10 }"#,
        false,
    ),
    (
        "number",
        "GET",
        r#"{ kind = "number", param = "page", size_param = "size", size = 10 }"#,
        false,
    ),
    (
        "number_total",
        "GET",
        r#"{ kind = "number", param = "page", first = 0, size_param = "size", size = 10, total = "/total" }"#,
        true,
    ),
    (
        "number_pages",
        "GET",
        r#"{ kind = "number", param = "page", size_param = "size", size = 10, pages = "/pages" }"#,
        true,
    ),
    (
        "last_record",
        "GET",
        r#"{ kind = "token", param = "after", last = "/id", size_param = "size", size = 10 }"#,
        false,
    ),
    ("none", "GET", r#"{ kind = "none" }"#, true),
];

fn world() -> World {
    let calls = KINDS.map(|(name, method, page, _)| {
        format!(
            "[upstreams.paged.calls.{name}]\npath = \"{name}/{{region}}\"\nmethod = \"{method}\"\ncost = 1\npage = {page}\n\
             records = {{ at = \"/items\", kind = \"{name}\", id = \"/id\" }}\n\
             [jobs.{name}]\ncredential = \"paged\"\nsteps = [{{ call = \"{name}\" }}]\n"
        )
    });
    let text = format!(
        "regions = [\"US\"]\n[upstreams.paged]\nbase_url = \"https://paged.example.com\"\n{}\n[credentials.paged]\n\
         upstream = \"paged\"\nlimits = {{ daily = {{ quota = 10_000, window = \"24h\" }} }}\n",
        calls.concat()
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
            &KINDS
                .iter()
                .map(|(name, ..)| ((*name).to_owned(), json!(total)))
                .collect::<Value>(),
        );
        let report = world.json(&["--region", "all"]);
        assert_eq!(report["outcome"], "complete", "{report}");
        for (name, _, _, tells_its_end) in KINDS {
            let pages = match name {
                "none" => 1,
                _ if tells_its_end => total.div_ceil(10).max(1),
                // Only a page that is not full ends it, which is proved once for the call: by the first such page.
                _ => total / 10 + 1 + u64::from(total == 1),
            };
            let pass = pass(&report, name);
            assert_eq!(
                (pass["records"].as_u64(), pass["requests"].as_u64()),
                (Some(total), Some(pages)),
                "{pass}"
            );
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
        assert!(
            pass["detail"]
                .as_str()
                .unwrap()
                .contains("the same cursor twice"),
            "{pass}"
        );
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
        assert_eq!(
            (&pass["outcome"], &pass["records"]),
            (&json!("complete"), &json!(20)),
            "{pass}"
        );
    }
}

#[test]
fn a_list_that_two_runs_walk_is_as_long_as_the_last_one() {
    let mut world = world();
    let kinds = KINDS.into_iter().filter(|(name, ..)| *name != "none");
    for (job, ..) in kinds {
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
            assert_eq!(
                (&rest["outcome"], &rest["requests"]),
                (&json!("complete"), &json!(expected)),
                "{rest}"
            );
        }
    }
}

#[test]
fn a_cursor_that_expired_between_two_runs_starts_the_list_over_once() {
    let mut world = world();
    for (count, (job, ..)) in KINDS
        .into_iter()
        .filter(|(name, ..)| *name != "none")
        .enumerate()
    {
        // Two of four pages fit.
        let used = world.charged("daily");
        world.set(&format!(
            "credentials.paged.limits.daily.quota={}",
            used + 2
        ));
        assert_eq!(run(&world, job)["outcome"], "stopped", "{job} {count}");
        world.set("credentials.paged.limits.daily.quota=10000");
        world.faults(&json!({ "call": job, "answer": "bad_cursor", "status": 400, "times": 1 }));
        world.set("upstreams.paged.errors=[{ status = 400, class = \"bad_cursor\" }]");
        let pass = run(&world, job);
        assert_eq!(
            (pass["outcome"].as_str(), pass["resumed"].as_bool()),
            (Some("complete"), Some(true)),
            "{pass}"
        );
        assert!(
            pass["detail"]
                .as_str()
                .unwrap()
                .contains("restarted from the first page"),
            "{pass}"
        );
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
    assert_eq!(
        (pass["outcome"].as_str(), pass["requests"].as_u64()),
        (Some("refused"), Some(6)),
        "{pass}"
    );
    assert!(
        pass["detail"]
            .as_str()
            .unwrap()
            .contains("already restarted once"),
        "{pass}"
    );
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
        assert_eq!(
            (pass["outcome"].as_str(), pass["records"].as_u64()),
            (Some("complete"), Some(1)),
            "{pass}"
        );
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
    assert_eq!(
        (pass["outcome"].as_str(), pass["requests"].as_u64()),
        (Some("complete"), Some(4)),
        "{pass}"
    );
    assert_eq!(
        (pass["records"].as_u64(), &pass["detail"]),
        (Some(2), &json!(null)),
        "{pass}"
    );
}

#[test]
fn an_upstream_that_gives_empty_pages_is_not_asked_for_ever() {
    let mut world = world();
    let empty = |next: u64| json!({ "call": "token", "times": 1, "status": 200, "body": { "items": [], "next": format!("n{next}") } });
    world.faults(&(0..30).map(empty).collect());
    let pass = run(&world, "token");
    assert_eq!(
        (pass["outcome"].as_str(), pass["requests"].as_u64()),
        (Some("failed"), Some(21)),
        "{pass}"
    );
    assert_eq!(
        pass["detail"],
        "token returned 21 empty pages in a row and its cursor continues, so the list is not complete; if an empty page ends \
         it, write empty_page_ends = true in its `page`"
    );
    // One more request, which is the end.
    world.set("upstreams.paged.calls.token.page.empty_page_ends=true");
    let pass = run(&world, "token");
    assert_eq!(
        (pass["outcome"].as_str(), pass["requests"].as_u64()),
        (Some("complete"), Some(1)),
        "{pass}"
    );
}

#[test]
fn a_token_that_no_url_holds_costs_nothing_and_is_not_tried_again() {
    let world = world();
    let body = json!({ "items": [{ "id": "a" }], "next": "t".repeat(100_000) });
    world.faults(&json!({ "call": "token", "times": 1, "status": 200, "body": body }));
    let pass = run(&world, "token");
    assert_eq!(
        (pass["outcome"].as_str(), pass["requests"].as_u64()),
        (Some("failed"), Some(1)),
        "{pass}"
    );
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
    for (name, ..) in KINDS {
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
    for (name, ..) in KINDS.into_iter().filter(|(name, ..)| *name != "none") {
        world.set(&format!(
            "jobs.{name}.steps=[{{ call = \"{name}\", max_pages = 2 }}]"
        ));
        world.totals(&json!({ name: 47 }));
        for _ in 0..2 {
            let pass = run(&world, name);
            assert_eq!(
                (pass["outcome"].as_str(), pass["resumed"].as_bool()),
                (Some("complete"), Some(false)),
                "{pass}"
            );
            assert_eq!(
                (pass["requests"].as_u64(), pass["records"].as_u64()),
                (Some(2), Some(20)),
                "{pass}"
            );
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
        assert_eq!(
            (pass["outcome"].as_str(), pass["requests"].as_u64()),
            (Some("doubtful"), Some(2)),
            "{pass}"
        );
        assert!(
            pass["detail"]
                .as_str()
                .unwrap()
                .contains("the same page twice"),
            "{pass}"
        );
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
        assert_eq!(
            (&pass["pages"], &pass["records"]),
            (&1.into(), &1.into()),
            "{pass}"
        );
        assert!(
            pass["detail"]
                .as_str()
                .unwrap()
                .contains("on another host (elsewhere.example)"),
            "{pass}"
        );
    }
}
