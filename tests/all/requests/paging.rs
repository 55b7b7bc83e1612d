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
