//! Cursors: in the last record, in a header, of the first page, and the end of a list.

use serde_json::{Value, json};

use super::{Api, ids, run};
use crate::support::world::World;
use ingest_testing::stub_upstream::{StubAnswer, StubRequest, StubUpstream};

fn rows(ids: impl IntoIterator<Item = u64>) -> Vec<Value> {
    ids.into_iter().map(|id| json!({ "id": id })).collect()
}

/// Stripe's shape: rows after the id that `starting_after` names, two a page.
fn after_the_last(total: u64, says_more: bool) -> StubUpstream {
    StubUpstream::start(move |request: &StubRequest| {
        let after: u64 = request
            .param("starting_after")
            .map_or(0, |id| id.parse().unwrap());
        let mut body = json!({ "data": rows(after + 1..=total.min(after + 2)) });
        if says_more {
            body["has_more"] = json!(after + 2 < total);
        }
        StubAnswer::json(&body)
    })
}

const STRIPE: &str = r#"
page = { kind = "token", param = "starting_after", last = "/id", more = "/has_more", size_param = "limit", size = 2 }
records = { at = "/data", kind = "row", id = "/id" }"#;

#[test]
fn the_last_record_names_the_next_page_and_the_response_says_whether_there_is_one() {
    let stub = after_the_last(4, true);
    let world = Api {
        call: STRIPE,
        ..Api::default()
    }
    .world(&stub);
    assert_eq!(run(&world)["outcome"], "complete");
    assert_eq!((ids(&world).len(), stub.requests().len()), (4, 2));
}

#[test]
fn without_a_word_of_more_a_full_page_is_followed_by_another() {
    for (total, requests) in [(4, 3), (3, 2), (0, 1)] {
        let stub = after_the_last(total, false);
        let world = Api {
            call: STRIPE,
            ..Api::default()
        }
        .world(&stub);
        assert_eq!(run(&world)["outcome"], "complete");
        assert_eq!(
            (ids(&world).len() as u64, stub.requests().len()),
            (total, requests)
        );
    }
}

#[test]
fn a_page_that_promises_more_and_names_no_cursor_does_not_end_a_list() {
    let stub = StubUpstream::answering([StubAnswer::json(
        &json!({ "data": rows([1]), "more": true }),
    )]);
    let world = Api {
        call: r#"
page = { kind = "token", param = "after", next = "/next", more = "/more" }
records = { at = "/data", kind = "row", id = "/id" }"#,
        ..Api::default()
    }
    .world(&stub);
    let run = run(&world);
    assert_eq!(run["passes"][0]["outcome"], "doubtful", "{run}");
    assert_eq!(ids(&world), ["1"], "what was paid for is landed");
}

#[test]
fn a_list_ends_where_the_response_says_no_more_although_it_names_a_cursor() {
    let stub = StubUpstream::answering([StubAnswer::json(
        &json!({ "data": rows([1]), "more": false, "next": "again" }),
    )]);
    let world = Api {
        call: r#"
page = { kind = "token", param = "after", next = "/next", more = "/more" }
records = { at = "/data", kind = "row", id = "/id" }"#,
        ..Api::default()
    }
    .world(&stub);
    assert_eq!(run(&world)["outcome"], "complete");
    assert_eq!(stub.requests().len(), 1);
}

#[test]
fn numbered_pages_go_on_while_the_response_says_more() {
    let stub = StubUpstream::start(|request: &StubRequest| {
        let page: u64 = request.param("page").unwrap().parse().unwrap();
        StubAnswer::json(&json!({ "data": rows([page]), "more": page < 3 }))
    });
    let world = Api {
        call: r#"
page = { kind = "number", param = "page", size = 100, more = "/more" }
records = { at = "/data", kind = "row", id = "/id" }"#,
        ..Api::default()
    }
    .world(&stub);
    assert_eq!(run(&world)["outcome"], "complete");
    assert_eq!((ids(&world).len(), stub.requests().len()), (3, 3));
}

#[test]
fn the_first_page_has_a_cursor_of_its_own_and_a_header_names_the_next() {
    let stub = StubUpstream::start(|request: &StubRequest| match request.param("cursor") {
        Some("*") => StubAnswer::json(&json!({ "data": rows([1]) })).header("x-next", "two"),
        Some("two") => StubAnswer::json(&json!({ "data": rows([2]) })),
        other => StubAnswer::error(400, &json!({ "message": format!("{other:?}") })),
    });
    let world = Api {
        call: r#"
page = { kind = "token", param = "cursor", first = "*", next_header = "x-next" }
records = { at = "/data", kind = "row", id = "/id" }"#,
        ..Api::default()
    }
    .world(&stub);
    let run = run(&world);
    assert_eq!(run["outcome"], "complete", "{run}");
    assert_eq!(ids(&world), ["1", "2"]);
}

#[test]
fn a_number_cursor_stays_a_number_in_a_body_and_a_text_stays_a_text() {
    for token in [json!(17), json!("17"), json!("number:17")] {
        let sent = token.clone();
        let stub =
            StubUpstream::start(
                move |request: &StubRequest| match request.json().get("after") {
                    None => StubAnswer::json(&json!({ "data": rows([1]), "next": sent })),
                    Some(_) => StubAnswer::json(&json!({ "data": rows([2]) })),
                },
            );
        let world = Api {
            call: r#"
method = "POST"
json = { what = "rows" }
page = { kind = "token", param = "after", in = "body", next = "/next" }
records = { at = "/data", kind = "row", id = "/id" }"#,
            ..Api::default()
        }
        .world(&stub);
        assert_eq!(run(&world)["outcome"], "complete");
        assert_eq!(
            stub.requests()[1].json(),
            json!({ "what": "rows", "after": token })
        );
    }
}

#[test]
fn a_refusal_that_means_no_more_ends_the_list() {
    let stub = StubUpstream::start(|request: &StubRequest| match request.param("page") {
        Some("3") => StubAnswer::error(404, &json!({ "message": "no such page" })),
        Some(page) => StubAnswer::json(&json!({ "data": rows([page.parse().unwrap()]) })),
        None => StubAnswer::status(500),
    });
    let world = Api {
        upstream: r#"errors = [{ status = 404, class = "end" }]"#,
        call: r#"
page = { kind = "number", param = "page" }
records = { at = "/data", kind = "row", id = "/id" }"#,
        ..Api::default()
    }
    .world(&stub);
    let run = run(&world);
    assert_eq!(run["outcome"], "complete", "{run}");
    assert_eq!((ids(&world).len(), stub.requests().len()), (2, 3));
    assert_eq!(world.charged("daily"), 3, "it was requested and counted");
}

#[test]
fn the_end_of_a_list_costs_nothing_where_its_rule_says_so() {
    let stub = StubUpstream::answering([StubAnswer::status(404)]);
    let world = Api {
        upstream: r#"errors = [{ status = 404, class = "end", free = true }]"#,
        call: r#"records = { at = "/data", kind = "row", id = "/id" }"#,
        ..Api::default()
    }
    .world(&stub);
    assert_eq!(run(&world)["outcome"], "complete");
    assert_eq!(world.charged("daily"), 0);
}

/// Zendesk's shape: the last page has a cursor too, which is that of the next export.
#[test]
fn a_response_that_says_it_is_the_last_page_ends_the_list() {
    let stub = StubUpstream::start(|request| {
        let at: u64 = request.param("cursor").map_or(0, |at| at.parse().unwrap());
        StubAnswer::json(&json!({
            "rows": rows(at + 1..=at + 2), "after_cursor": (at + 2).to_string(), "end_of_stream": at == 2,
        }))
    });
    let world = Api {
        call: r#"
page = { kind = "token", param = "cursor", next = "/after_cursor", done = "/end_of_stream" }
records = { at = "/rows", kind = "row", id = "/id" }"#,
        ..Api::default()
    }
    .world(&stub);
    let run = run(&world);
    assert_eq!(run["outcome"], "complete", "{run}");
    assert!(!run.to_string().contains("twice"), "{run}");
    assert_eq!((ids(&world).len(), stub.requests().len()), (4, 2));
}

/// Elasticsearch's shape: the sort values of the last hit, a number and a text.
#[test]
fn a_list_as_the_token_is_sent_as_a_list_in_a_body() {
    let stub = StubUpstream::start(|request| {
        let after = match request.json().get("search_after") {
            None => 0,
            Some(values) => {
                assert_eq!(values[1], "x");
                values[0].as_u64().unwrap()
            }
        };
        let hits =
            (after + 1..=(after + 2).min(5)).map(|id| json!({ "_id": id, "sort": [id, "x"] }));
        StubAnswer::json(&json!({ "hits": hits.collect::<Vec<_>>() }))
    });
    let world = Api {
        call: r#"
json = { size = 2 }
page = { kind = "token", param = "search_after", in = "body", last = "/sort", size = 2 }
records = { at = "/hits", kind = "hit", id = "/_id" }"#,
        ..Api::default()
    }
    .world(&stub);
    assert_eq!(run(&world)["outcome"], "complete");
    assert_eq!((ids(&world).len(), stub.requests().len()), (5, 3));
}

/// MediaWiki's shape: every member of `continue` goes into the next request.
#[test]
fn an_object_as_the_token_is_sent_as_one_parameter_for_each_member() {
    let stub = StubUpstream::start(|request| {
        let body = match request.param("gcmcontinue") {
            None => {
                json!({ "pages": rows(1..=2), "continue": { "continue": "gcmcontinue||", "gcmcontinue": "page|2", "lll": 7 } })
            }
            Some(token) => {
                assert_eq!(token, "page|2");
                assert_eq!(request.param("continue"), Some("gcmcontinue||"));
                assert_eq!(request.param("lll"), Some("7"));
                json!({ "pages": rows(3..=3), "batchcomplete": true })
            }
        };
        StubAnswer::json(&body)
    });
    let world = Api {
        call: r#"
page = { kind = "token", param = "continue", next = "/continue" }
records = { at = "/pages", kind = "page", id = "/id" }"#,
        ..Api::default()
    }
    .world(&stub);
    assert_eq!(run(&world)["outcome"], "complete");
    assert_eq!((ids(&world).len(), stub.requests().len()), (3, 2));
}

#[test]
fn a_list_or_another_object_as_the_token_of_a_query_is_refused() {
    for (token, found) in [
        (json!([1]), "an array"),
        (json!({ "cursor": "x" }), "an object"),
    ] {
        let stub = StubUpstream::answering([StubAnswer::json(
            &json!({ "rows": rows(1..=2), "next": token }),
        )]);
        let world = Api {
            call: r#"
page = { kind = "token", param = "after", next = "/next" }
records = { at = "/rows", kind = "row", id = "/id" }"#,
            ..Api::default()
        }
        .world(&stub);
        let run = run(&world);
        assert_eq!(run["outcome"], "failed", "{run}");
        let reason = format!("{found} instead of the next page's token");
        assert!(run.to_string().contains(&reason), "{run}");
    }
}

/// Three pages behind one cursor: the upstream remembers the position (Intercom, Crossref, Elasticsearch's scroll).
fn scrolling() -> StubUpstream {
    let position = std::sync::atomic::AtomicU64::new(0);
    StubUpstream::start(move |request: &StubRequest| {
        if request.param("scroll").is_none() {
            position.store(0, std::sync::atomic::Ordering::SeqCst);
        }
        let at = position.fetch_add(2, std::sync::atomic::Ordering::SeqCst);
        let rows = rows(at + 1..=5.min(at + 2));
        StubAnswer::json(&json!({ "rows": rows, "scroll": "always the same" }))
    })
}

const SCROLL: &str = r#"
page = { kind = "token", param = "scroll", next = "/scroll" }
records = { at = "/rows", kind = "row", id = "/id" }"#;

#[test]
fn a_cursor_that_stays_the_same_continues_until_a_page_is_empty() {
    let stub = scrolling();
    let world = Api {
        call: SCROLL,
        ..Api::default()
    }
    .world(&stub);
    let report = run(&world);
    assert_eq!(report["outcome"], "complete", "{report}");
    assert!(report["passes"][0]["detail"].is_null(), "{report}");
    assert_eq!((ids(&world).len(), stub.requests().len()), (5, 4));
}

#[test]
fn a_cursor_that_stays_the_same_continues_behind_a_limit() {
    let stub = scrolling();
    let mut world = Api {
        call: SCROLL,
        ..Api::default()
    }
    .world(&stub);
    world.set("credentials.main.limits.daily.quota=2");
    assert_eq!(run(&world)["outcome"], "stopped");
    world.set("credentials.main.limits.daily.quota=9");
    assert_eq!(run(&world)["outcome"], "complete");
    assert_eq!((ids(&world).len(), stub.requests().len()), (5, 4));
}

#[test]
fn so_does_the_list_of_each_parent() {
    let stub = StubUpstream::start(|request: &StubRequest| {
        let answer = match (request.path.as_str(), request.param("scroll")) {
            ("/list", _) => json!({ "rows": rows(1..=1) }),
            (_, None) => json!({ "rows": rows(10..=11), "scroll": "same" }),
            (_, Some(_)) => json!({ "rows": rows(12..=13), "scroll": "same" }),
        };
        StubAnswer::json(&answer)
    });
    let mut world = Api {
        call: r#"records = { at = "/rows", kind = "parent", id = "/id" }
[upstreams.api.calls.child]
path = "child/{id}"
cost = 1
page = { kind = "token", param = "scroll", next = "/scroll" }
records = { at = "/rows", kind = "child", id = "/id" }"#,
        ..Api::default()
    }
    .world(&stub);
    world.set(
        "jobs.all.steps=[{ call = \"list\" }, { call = \"child\", ids = { from = \"list\", at = \"/id\", batch = 1 } }]",
    );
    let report = run(&world);
    assert_eq!(report["passes"][1]["outcome"], "doubtful", "{report}");
    assert!(
        report.to_string().contains("the same cursor twice"),
        "{report}"
    );
    assert_eq!(ids(&world), ["1", "10", "11", "12", "13"]);
}

/// Dropbox's shape: further pages have a path of their own, and a body with nothing but the cursor.
fn folder() -> StubUpstream {
    StubUpstream::start(|request: &StubRequest| {
        let body: Value = serde_json::from_slice(&request.body).unwrap();
        let answer = match request.path.as_str() {
            "/list" => {
                assert_eq!(body, json!({ "path": "/US", "limit": 2 }));
                assert_eq!(request.param("fields"), Some("all"));
                json!({ "rows": rows(1..=2), "cursor": "c2", "more": true })
            }
            "/list/continue" => {
                assert!(request.query.is_empty(), "{:?}", request.query);
                let at: u64 = body["cursor"].as_str().unwrap()[1..].parse().unwrap();
                assert_eq!(body, json!({ "cursor": format!("c{at}"), "keep": "US" }));
                json!({ "rows": rows(at + 1..=6.min(at + 2)), "cursor": format!("c{}", at + 2), "more": at < 4 })
            }
            other => panic!("{other}"),
        };
        StubAnswer::json(&answer)
    })
}

const FOLDER: &str = r#"
json = { path = "/{region}" }
params = { fields = "all" }
page = { kind = "token", param = "/cursor", next = "/cursor", more = "/more", size_param = "/limit", size = 2, then = { path = "list/continue", json = { keep = "{region}" } } }
records = { at = "/rows", kind = "row", id = "/id" }"#;

#[test]
fn a_list_continues_at_another_path_with_another_body() {
    let stub = folder();
    let mut world = Api {
        call: FOLDER,
        ..Api::default()
    }
    .world(&stub);
    world.set("credentials.main.limits.daily.quota=2");
    assert_eq!(run(&world)["outcome"], "stopped");
    world.set("credentials.main.limits.daily.quota=9");
    let report = run(&world);
    assert_eq!(report["outcome"], "complete", "{report}");
    assert_eq!((ids(&world).len(), stub.requests().len()), (6, 3));
    assert_eq!(world.charged("daily"), 3);
}

#[test]
fn the_sandbox_serves_a_list_that_continues_at_another_path() {
    let text = Api {
        call: FOLDER,
        regions: r#"["US", "GB"]"#,
        ..Api::default()
    }
    .text();
    let world = crate::support::world::World::written(&text, &[]);
    world.totals(&json!({ "list": 7 }));
    let preview = world.json(&["--region", "all", "--dry-run"]);
    assert_eq!(preview["steps"][0]["requests"]["min"], 1, "{preview}");
    let report = run(&world);
    assert_eq!(report["outcome"], "complete", "{report}");
    assert_eq!(report["requests"], 8, "{report}");
    for pass in report["passes"].as_array().unwrap() {
        assert_eq!(pass["records"], 7, "{report}");
    }
    assert_eq!(world.counted("daily"), world.charged("daily"));
}

#[test]
fn templates_of_further_pages_are_checked() {
    let wrong = FOLDER.replace("keep = \"{region}\"", "keep = \"{regoin}\"");
    let api = Api {
        call: &wrong,
        ..Api::default()
    };
    let directory = tempfile::tempdir().unwrap();
    std::fs::write(directory.path().join("quotas.toml"), api.text()).unwrap();
    let mut command = std::process::Command::new(assert_cmd::cargo::cargo_bin!("ingest"));
    let checked = command
        .current_dir(directory.path())
        .args(["check", "--config-only"]);
    let checked = checked.output().unwrap();
    assert_eq!(checked.status.code(), Some(2), "{checked:?}");
    let said = String::from_utf8(checked.stderr).unwrap();
    assert!(said.contains("page.then.json.keep"), "{said}");
}

/// SPARQL: the page is a part of a text.
#[test]
fn a_template_has_the_count_of_the_page_from_the_first_one_on() {
    let stub = StubUpstream::start(|request: &StubRequest| {
        let query = request.param("query").unwrap();
        let at: u64 = query
            .strip_prefix("limit 2 offset ")
            .unwrap()
            .parse()
            .unwrap();
        assert_eq!(request.param("offset"), Some(at.to_string().as_str()));
        StubAnswer::json(&json!({ "rows": rows(at..=4.min(at + 1)) }))
    });
    let world = Api {
        call: r#"
params = { query = "limit 2 offset {cursor}" }
page = { kind = "offset", param = "offset", first = 1, size = 2 }
records = { at = "/rows", kind = "row", id = "/id" }"#,
        ..Api::default()
    }
    .world(&stub);
    assert_eq!(run(&world)["outcome"], "complete");
    assert_eq!(ids(&world), ["1", "2", "3", "4"]);
}

#[test]
fn no_content_is_an_empty_last_page() {
    let stub = StubUpstream::start(|request: &StubRequest| match request.param("page") {
        Some("1") => StubAnswer::json(&json!({ "rows": rows(1..=2) })),
        _ => StubAnswer::error(204, &json!("")),
    });
    let world = Api {
        call: r#"
page = { kind = "number", param = "page", size = 2 }
records = { at = "/rows", kind = "row", id = "/id" }"#,
        ..Api::default()
    }
    .world(&stub);
    let report = run(&world);
    assert_eq!(report["outcome"], "complete", "{report}");
    assert_eq!((ids(&world).len(), stub.requests().len()), (2, 2));
}

/// GitHub's `/users`: one parameter is the cursor, and where a list begins.
#[test]
fn a_list_begins_at_since_in_the_parameter_of_its_cursor() {
    let stub = StubUpstream::start(|request| {
        let after: u64 = request.param("since").unwrap().parse().unwrap();
        let ids = (after + 1..=6).take(2);
        StubAnswer::json(&json!(rows(ids)))
    });
    let mut world = Api {
        call: r#"params = { since = "{since}" }
page = { kind = "token", param = "since", last = "/id", size = 2 }
records = { kind = "user", id = "/id" }"#,
        ..Api::default()
    }
    .world(&stub);
    world.set("jobs.all.since={ at = '/id', first = 0 }");
    assert_eq!(run(&world)["outcome"], "complete");
    assert_eq!(ids(&world).len(), 6);
    let preview = world.ingest(&["--region", "all", "--dry-run"]).stdout;
    let preview = preview.split_whitespace().collect::<Vec<_>>().join(" ");
    assert!(preview.contains("over a list with {since} was the first one"));
    assert_eq!(run(&world)["outcome"], "complete");
    let requests = stub.requests();
    let begun = requests.iter().map(|one| one.param("since").unwrap());
    assert_eq!(begun.collect::<Vec<_>>(), ["0", "2", "4", "6", "6"]);
    let preview = world.ingest(&["--region", "all", "--dry-run"]).stdout;
    assert!(!preview.contains("first one"));
}

/// Pages with a number, of at most two rows whatever is requested, which report a total or the number of pages.
fn numbered(total: u64, first: u64, says: &'static str) -> StubUpstream {
    StubUpstream::start(move |request: &StubRequest| {
        let page: u64 = request.param("page").unwrap().parse().unwrap();
        let before = (page - first) * 2;
        let mut body = json!({ "data": rows(before + 1..=total.min(before + 2)) });
        body[says] = match says {
            "pages" => json!(total.div_ceil(2)),
            _ => json!(total.to_string()),
        };
        StubAnswer::json(&body)
    })
}

#[test]
fn numbered_pages_end_at_the_reported_total_or_number_of_pages_without_another_request() {
    for (says, first, size, total, requests) in [
        ("total", 1, "", 4, 2),
        ("total", 1, "size_param = \"per\", size = 2,", 4, 2),
        // The upstream returns fewer records than were requested.
        ("total", 0, "size_param = \"per\", size = 50,", 5, 3),
        ("pages", 1, "", 4, 2),
        ("pages", 0, "size_param = \"per\", size = 50,", 5, 3),
        ("pages", 1, "", 0, 1),
    ] {
        let stub = numbered(total, first, says);
        let call = format!(
            "page = {{ kind = \"number\", param = \"page\", first = {first}, {size} {says} = \"/{says}\" }}\n\
            records = {{ at = \"/data\", kind = \"row\", id = \"/id\" }}"
        );
        let world = Api {
            call: &call,
            ..Api::default()
        }
        .world(&stub);
        let report = run(&world);
        assert_eq!(report["outcome"], "complete", "{report}");
        assert_eq!(
            (ids(&world).len() as u64, stub.requests().len()),
            (total, requests),
            "{says} {first} {size}: {report}"
        );
    }
}

#[test]
fn numbered_pages_with_a_total_go_on_where_a_run_stopped() {
    let stub = numbered(7, 1, "total");
    let call = r#"
page = { kind = "number", param = "page", total = "/total" }
records = { at = "/data", kind = "row", id = "/id" }"#;
    let mut world = Api {
        call,
        ..Api::default()
    }
    .world(&stub);
    world.set("credentials.main.limits.daily.quota=3");
    assert_eq!(run(&world)["outcome"], "stopped");
    world.set("credentials.main.limits.daily.quota=50");
    let report = run(&world);
    assert_eq!(report["outcome"], "complete", "{report}");
    assert_eq!((ids(&world).len(), stub.requests().len()), (7, 4));
}

/// Pages of two rows, as long as there are some; the page whose number is sent begins behind those before it. The first page is refused
/// where its number is sent.
fn unnumbered_first(first: u64) -> StubUpstream {
    StubUpstream::start(move |request: &StubRequest| {
        let number = request
            .param("page")
            .map(|page| page.parse::<u64>().unwrap());
        if number == Some(first) {
            return StubAnswer::error(400, &json!({ "message": "no" }));
        }
        let before = number.map_or(0, |number| 2 * (number - first));
        StubAnswer::json(&json!({ "data": rows(before + 1..=5.min(before + 2)) }))
    })
}

#[test]
fn the_number_of_the_first_page_can_be_left_out() {
    for first in [0, 1] {
        let stub = unnumbered_first(first);
        let call = format!(
            r#"
page = {{ kind = "number", param = "page", size = 2, first = {first}, omit_first = true }}
records = {{ at = "/data", kind = "row", id = "/id" }}"#
        );
        let world = Api {
            call: &call,
            ..Api::default()
        }
        .world(&stub);
        let run = run(&world);
        assert_eq!(run["outcome"], "complete", "{run}");
        assert_eq!(ids(&world), ["1", "2", "3", "4", "5"]);
        let requests = stub.requests();
        let sent: Vec<_> = requests.iter().map(|one| one.param("page")).collect();
        let (second, third) = ((first + 1).to_string(), (first + 2).to_string());
        assert_eq!(sent, [None, Some(&*second), Some(&*third)]);
    }
}

#[test]
fn the_offset_of_the_first_page_can_be_left_out_of_a_body_and_the_sandbox_serves_it() {
    let call = r#"
json = { q = "x" }
page = { kind = "offset", param = "/from", size = 2, size_param = "/size", omit_first = true }
records = { at = "/data", kind = "row", id = "/id" }"#;
    let api = Api {
        call,
        ..Api::default()
    };
    let stub = StubUpstream::start(|request: &StubRequest| {
        let from = request.json()["from"].as_u64();
        let before = from.unwrap_or(0);
        StubAnswer::json(&json!({ "data": rows(before + 1..=3.min(before + 2)) }))
    });
    let world = api.world(&stub);
    assert_eq!(run(&world)["outcome"], "complete");
    let requests = stub.requests();
    let bodies: Vec<Value> = requests.iter().map(StubRequest::json).collect();
    let first = json!({ "q": "x", "size": 2 });
    let second = json!({ "q": "x", "size": 2, "from": 2 });
    assert_eq!(bodies[..2], [first, second]);
    let sandbox = World::written(&api.text(), &[]);
    let run = run(&sandbox);
    assert_eq!(run["outcome"], "complete", "{run}");
    assert!(run["passes"][0]["requests"].as_u64() > Some(1), "{run}");
}

#[test]
fn a_kind_whose_pages_are_not_counted_has_no_first_number_to_leave_out() {
    let call = r#"page = { kind = "token", param = "t", next = "/t" }"#;
    let mut world = World::written(
        &Api {
            call: &format!("{call}\nrecords = {{ kind = \"row\", id = \"/id\" }}"),
            ..Api::default()
        }
        .text(),
        &[],
    );
    world.set("upstreams.api.calls.list.page.omit_first=true");
    let ran = world.ingest(&["check", "--config-only"]);
    assert!(ran.stderr.contains("page.omit_first"), "{ran:?}");
}
