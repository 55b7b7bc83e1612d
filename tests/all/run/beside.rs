//! What an upstream says beside its list: error rules over every response, and a success that is no whole list.

use std::collections::BTreeSet;
use std::sync::{Arc, Mutex};

use serde_json::{Value, json};

use crate::support::world::World;
use ingest_testing::stub_upstream::{StubAnswer, StubUpstream};

/// How an upstream is configured, in TOML.
pub struct Api<'a> {
    pub upstream: &'a str,
    pub records: &'a str,
    pub call: &'a str,
}

impl Default for Api<'_> {
    fn default() -> Self {
        Self {
            upstream: "",
            records: r#"at = "/items""#,
            call: "",
        }
    }
}

impl Api<'_> {
    pub fn world(&self, stub: &StubUpstream) -> World {
        let Self {
            upstream,
            records,
            call,
        } = self;
        let text = format!(
            "[upstreams.api]\nbase_url = \"https://api.example.com\"\npause = \"1ms\"\n{upstream}\n\
             [upstreams.api.calls.list]\npath = \"list\"\ncost = 1\n{call}\n\
             records = {{ {records}, kind = \"thing\", id = \"/id\" }}\n\
             [jobs.all]\ncredential = \"api\"\nevery = \"1ms\"\nsteps = [{{ call = \"list\" }}]\n\
             [credentials.api]\nupstream = \"api\"\nlimits = {{ daily = {{ quota = 1_000, window = \"24h\" }} }}\n"
        );
        let mut world = World::written(&text, &[]);
        world.set(&format!("upstreams.api.base_url=\"{}\"", stub.url()));
        world
    }
}

/// An upstream with one answer, which a test replaces.
pub struct Changing(Arc<Mutex<StubAnswer>>);

impl Changing {
    pub fn start(first: StubAnswer) -> (Self, StubUpstream) {
        let answer = Arc::new(Mutex::new(first));
        let held = Arc::clone(&answer);
        let stub = StubUpstream::start(move |_| held.lock().unwrap().clone());
        (Self(answer), stub)
    }

    pub fn answer(&self, answer: StubAnswer) {
        *self.0.lock().unwrap() = answer;
    }
}

pub fn items(count: u64) -> Value {
    (0..count).map(|id| json!({ "id": id })).collect()
}

pub fn run(world: &World) -> Value {
    world
        .ingest(&["--region", "all", "--format", "json"])
        .json()
}

/// The outcome of the only pass, and its requests.
pub fn outcome(report: &Value) -> (&str, u64) {
    let pass = &report["passes"][0];
    (
        pass["outcome"].as_str().unwrap(),
        pass["requests"].as_u64().unwrap(),
    )
}

pub fn detail(report: &Value) -> &str {
    report["passes"][0]["detail"].as_str().unwrap_or("")
}

pub fn doubts(report: &Value) -> BTreeSet<&str> {
    let doubts = report["passes"][0]["doubts"].as_array();
    let doubts = doubts.into_iter().flatten();
    doubts
        .map(|doubt| doubt["doubt"].as_str().unwrap())
        .collect()
}

pub fn gone(world: &World) -> i64 {
    world.count("select count(*) from record where gone_at is not null")
}

#[test]
fn a_success_that_cannot_be_read_meets_the_error_rules() {
    let formats = [
        r#"at = "/items""#,
        r#"format = "ndjson""#,
        r#"format = "csv""#,
        r#"format = "xml", at = "/r/item""#,
    ];
    let bodies = [
        ("text/plain", "please wait"),
        ("text/html", "<html><body>please wait</body></html>"),
        ("application/json", r#"{"state": "please wait"#),
        ("application/json", r#"{"please wait": 1}"#),
        ("application/xml", "<r><state>please wait</state></r>"),
    ];
    let rules = [
        r#"{ status = 200, text = "please wait", class = "CLASS" }"#,
        r#"{ status = "2xx", header = "x-state", header_is = "pending", class = "CLASS" }"#,
    ];
    for records in formats {
        for (kind, body) in bodies {
            for rule in rules {
                for (class, expected) in [
                    ("end", ("complete", 1)),
                    ("skip", ("refused", 1)),
                    ("transient", ("failed", 3)),
                ] {
                    let stub = StubUpstream::start(move |_| {
                        let answer = StubAnswer::text(200, body).header("content-type", kind);
                        answer.header("x-state", "pending")
                    });
                    let rule = rule.replace("CLASS", class);
                    let world = Api {
                        upstream: &format!("attempts = 3\nerrors = [{rule}]"),
                        records,
                        ..Api::default()
                    }
                    .world(&stub);
                    let report = run(&world);
                    assert_eq!(
                        outcome(&report),
                        expected,
                        "{records} {body} {rule}: {report}"
                    );
                }
            }
        }
    }
}

#[test]
fn an_empty_success_meets_the_error_rules_and_else_is_requested_twice() {
    for records in [r#"at = "/items""#, r#"format = "xml", at = "/r/item""#] {
        for body in ["", " \r\n"] {
            let stub = StubUpstream::start(move |_| StubAnswer::text(200, body));
            let length = body.len();
            let rule = format!(
                r#"errors = [{{ status = 200, header = "content-length", header_is = "{length}", class = "end" }}]"#
            );
            let api = |upstream| Api {
                upstream,
                records,
                ..Api::default()
            };
            let report = run(&api(&rule).world(&stub));
            assert_eq!(outcome(&report), ("complete", 1), "{report}");
            let report = run(&api("attempts = 9").world(&stub));
            assert_eq!(outcome(&report), ("failed", 2), "{report}");
            assert!(detail(&report).contains("has no body"), "{report}");
        }
    }
}

#[test]
fn the_text_of_a_rule_is_looked_for_in_the_body_as_it_came() {
    let bodies = [
        ("json", r#"{"error_code": 17, "message": "REQUEST_DENIED"}"#),
        ("xml", "<error_code>17<m>REQUEST_DENIED</m></error_code>"),
        ("csv", "error_code,message\n17,REQUEST_DENIED\n"),
        ("plain", "error_code 17: REQUEST_DENIED"),
        (
            "json",
            r#"{"error_code": 17, "message": "REQUEST\u005fDENIED"}"#,
        ),
    ];
    for status in [200, 400] {
        for (kind, body) in bodies {
            for text in ["error_code", "17", "REQUEST_DENIED"] {
                let stub = StubUpstream::start(move |_| {
                    StubAnswer::text(status, body)
                        .header("content-type", &format!("application/{kind}"))
                });
                let rule = |text: &str| {
                    format!(
                        "errors = [{{ status = {status}, text = \"{text}\", class = \"end\" }}]"
                    )
                };
                let outcome_of = |text: &str| {
                    let world = Api {
                        upstream: &rule(text),
                        ..Api::default()
                    }
                    .world(&stub);
                    outcome(&run(&world)).0.to_owned()
                };
                assert_eq!(outcome_of(text), "complete", "{status} {text} in {body}");
                assert_ne!(outcome_of("elsewhere"), "complete", "{status} {body}");
            }
        }
    }
}

#[test]
fn a_rule_with_a_place_applies_to_an_error_in_json_whatever_the_format_of_the_pages_is() {
    for records in [
        r#"at = "/items""#,
        r#"format = "ndjson""#,
        r#"format = "csv""#,
        r#"format = "xml", at = "/r/item""#,
    ] {
        for status in [200, 206, 400] {
            let stub = StubUpstream::start(move |_| {
                StubAnswer::error(status, &json!({ "error": { "code": "none_left" } }))
            });
            let world = Api {
                upstream: &format!(
                    r#"errors = [{{ status = {status}, at = "/error/code", is = "none_left", class = "end" }}]"#
                ),
                records,
                ..Api::default()
            }
            .world(&stub);
            let report = run(&world);
            assert_eq!(
                outcome(&report),
                ("complete", 1),
                "{records} {status}: {report}"
            );
        }
    }
}

#[test]
fn an_accepted_request_is_repeated_until_its_list_comes() {
    let whole = StubAnswer::json(&json!({ "items": items(3) }));
    let accepted = StubAnswer::error(202, &json!({ "items": [] }));
    for accepted in [
        accepted,
        StubAnswer::text(202, "accepted"),
        StubAnswer::status(202),
    ] {
        let stub = StubUpstream::answering([accepted.clone(), accepted, whole.clone()]);
        let world = Api::default().world(&stub);
        assert_eq!(outcome(&run(&world)), ("complete", 3));
    }
}

#[test]
fn an_accepted_request_is_no_list_unless_a_rule_says_so() {
    let empty = StubAnswer::error(202, &json!({ "items": [] }));
    for (upstream, expected, left) in [
        ("attempts = 2", "failed", 0),
        (
            "errors = [{ status = 202, class = \"end\" }]",
            "complete",
            3,
        ),
        (
            "errors = [{ status = 202, class = \"skip\" }]",
            "refused",
            0,
        ),
    ] {
        let (changing, stub) = Changing::start(StubAnswer::json(&json!({ "items": items(3) })));
        let world = Api {
            upstream,
            ..Api::default()
        }
        .world(&stub);
        assert_eq!(outcome(&run(&world)), ("complete", 1));
        changing.answer(empty.clone());
        assert_eq!(outcome(&run(&world)).0, expected, "{upstream}");
        assert_eq!(gone(&world), left, "{upstream}");
    }
}

#[test]
fn a_part_of_a_list_is_not_the_whole_list() {
    let parts = [
        (206, None, "doubtful"),
        (206, Some("items 0-0/3"), "doubtful"),
        (206, Some("items 0-0/*"), "doubtful"),
        (206, Some("0-0/3"), "doubtful"),
        (206, Some("bytes 0-0/1"), "doubtful"),
        (206, Some("items 2-2/3"), "doubtful"),
        (206, Some("items 0-0/1"), "complete"),
        (226, None, "doubtful"),
        (299, None, "doubtful"),
        (200, None, "complete"),
        (201, None, "complete"),
        (203, None, "complete"),
        (205, None, "complete"),
        (207, None, "complete"),
    ];
    for (status, range, expected) in parts {
        let (changing, stub) = Changing::start(StubAnswer::json(&json!({ "items": items(3) })));
        let world = Api::default().world(&stub);
        assert_eq!(outcome(&run(&world)), ("complete", 1));
        let part = StubAnswer::error(status, &json!({ "items": items(1) }));
        changing.answer(match range {
            Some(range) => part.header("content-range", range),
            None => part,
        });
        let report = run(&world);
        assert_eq!(
            outcome(&report),
            (expected, 1),
            "{status} {range:?}: {report}"
        );
        let is_whole = expected == "complete";
        assert_eq!(gone(&world), 2 * i64::from(is_whole), "{status} {range:?}");
        if !is_whole {
            assert_eq!(doubts(&report), BTreeSet::from(["partial"]), "{report}");
            assert!(detail(&report).contains(&status.to_string()), "{report}");
        }
    }
}

#[test]
fn pages_that_are_parts_are_a_whole_list_where_their_ranges_say_so() {
    let stub = StubUpstream::start(|request| {
        let from: u64 = request.param("from").unwrap_or("0").parse().unwrap();
        let to = (from + 2).min(5);
        let page: Vec<Value> = (from..to).map(|id| json!({ "id": id })).collect();
        StubAnswer::error(206, &page.into())
            .header("content-range", &format!("{from}-{}/5", to - 1))
    });
    let world = Api {
        records: r#"at = """#,
        call: r#"page = { kind = "offset", param = "from", size = 2 }"#,
        ..Api::default()
    }
    .world(&stub);
    let report = run(&world);
    assert_eq!(outcome(&report).0, "complete", "{report}");
    assert_eq!(world.count("select count(*) from record"), 5);
}

/// What upstreams have beside a list, and whether that is an error.
fn beside_lists() -> Vec<(Value, bool)> {
    let errors = [
        json!({ "status": "OVER_QUERY_LIMIT", "error_message": "quota left: none" }),
        json!({ "status": "OVER_QUERY_LIMIT" }),
        json!({ "error": { "code": 17, "message": "quota left: none" } }),
        json!({ "errors": [{ "message": "quota left: none" }], "timed_out": true }),
        json!({ "errors": ["quota left: none"] }),
        json!({ "Error": "quota left: none" }),
        json!({ "meta": { "error": "quota left: none" } }),
        json!({ "meta": { "errors": [{ "detail": "quota left: none" }] } }),
        json!({ "status": { "error_code": 1008, "error_message": "quota left: none" } }),
        json!({ "_shards": { "total": 2, "failed": 1, "failures": [{ "reason": "quota left: none" }] } }),
        json!({ "errorCode": 7 }),
        json!({ "exception": "quota left: none" }),
        json!({ "ok": false }),
        json!({ "success": "false" }),
        json!({ "timed_out": true }),
        json!({ "incomplete_results": true }),
    ];
    let empty = [
        Value::Null,
        json!(""),
        json!(" "),
        json!([]),
        json!({}),
        json!(false),
        json!(0),
        json!("0"),
        json!("00000"),
        json!("OK"),
        json!("Success"),
        json!("none"),
        json!({ "code": 0, "message": "OK" }),
        json!({ "code": 0, "message": null, "request_id": "a-1" }),
        json!([null]),
    ];
    let none = empty.into_iter().flat_map(|none| {
        ["error", "errors", "error_message", "errorCode"].map(|name| json!({ name: none }))
    });
    let others = [
        json!({ "status": "OK", "ok": true, "timed_out": false, "incomplete_results": false }),
        json!({ "warnings": ["a field is deprecated"] }),
        json!({ "counts": { "error": 5, "info": 7 } }),
        json!({ "query": { "error": "timeout" } }),
        json!({ "message": "3 things" }),
    ];
    let errors = errors.map(|body| (body, true)).into_iter();
    let others = others.map(|body| (body, false));
    errors
        .chain(none.map(|body| (body, false)))
        .chain(others)
        .collect()
}

#[test]
fn an_error_beside_the_list_is_a_doubt_with_the_words_of_the_upstream() {
    for (beside, is_error) in beside_lists() {
        for left in [0, 1] {
            let (changing, stub) = Changing::start(StubAnswer::json(&json!({ "items": items(3) })));
            let world = Api::default().world(&stub);
            run(&world);
            let mut body = beside.clone();
            body["items"] = items(left);
            changing.answer(StubAnswer::json(&body));
            let report = run(&world);
            let expected = if is_error { "doubtful" } else { "complete" };
            assert_eq!(outcome(&report), (expected, 1), "{body}: {report}");
            assert_eq!(gone(&world) == 0, is_error, "{body}");
            if !is_error {
                continue;
            }
            assert_eq!(
                doubts(&report),
                BTreeSet::from(["error-reported"]),
                "{report}"
            );
            if body.to_string().contains("quota left") && body["status"].is_null() {
                assert!(detail(&report).contains("quota left: none"), "{report}");
            }
            let tried = world.ingest(&["try", "api", "list"]);
            assert!(tried.stdout.contains("error-reported"), "{tried:?}");
            // Again, since what an empty list has is never taken for what the call always had.
            if left == 0 {
                assert_eq!(outcome(&run(&world)).0, "doubtful", "{body}");
            }
        }
    }
}

#[test]
fn an_error_beside_a_list_is_found_in_every_format() {
    let xml = |beside: &str| format!("<r>{beside}<items><item><id>0</id></item></items></r>");
    let forms = [
        (
            r#"at = "/data/items""#,
            r#"{"data": {"items": [{"id": 0}]}}"#.to_owned(),
            r#"{"data": {"items": [{"id": 0}]}, "errors": [{"message": "timeout of a resolver"}]}"#
                .to_owned(),
        ),
        (
            r#"at = "/1""#,
            r#"[{"page": 1}, [{"id": 0}]]"#.to_owned(),
            r#"[{"page": 1, "error": "timeout of a resolver"}, [{"id": 0}]]"#.to_owned(),
        ),
        (
            r#"format = "ndjson""#,
            "{\"id\": 0}\n".to_owned(),
            "{\"id\": 0}\n{\"error\": {\"message\": \"timeout of a resolver\"}}\n".to_owned(),
        ),
        (
            r#"format = "xml", at = "/r/items/item""#,
            xml("<error code=\"0\"/>"),
            xml("<error code=\"7\">timeout of a resolver</error>"),
        ),
    ];
    for (records, right, wrong) in forms {
        let (changing, stub) = Changing::start(StubAnswer::text(200, &right));
        let world = Api {
            records,
            ..Api::default()
        }
        .world(&stub);
        let report = run(&world);
        assert_eq!(outcome(&report), ("complete", 1), "{right}: {report}");
        changing.answer(StubAnswer::text(200, &wrong));
        let report = run(&world);
        assert_eq!(outcome(&report), ("doubtful", 1), "{wrong}: {report}");
        assert_eq!(doubts(&report), BTreeSet::from(["error-reported"]));
        assert!(
            detail(&report).contains("timeout of a resolver") || records.contains("xml"),
            "{report}"
        );
    }
}

#[test]
fn what_every_response_of_a_call_had_is_no_doubt_and_trust_accepts_an_error() {
    let body = json!({ "items": items(2), "errors": ["the version is deprecated"] });
    let stub = StubUpstream::start(move |_| StubAnswer::json(&body));
    let mut world = Api::default().world(&stub);
    let first = run(&world);
    assert_eq!(
        doubts(&first),
        BTreeSet::from(["error-reported"]),
        "{first}"
    );
    assert!(
        detail(&first).contains("trust = [\"error-reported\"]"),
        "{first}"
    );
    let second = run(&world);
    assert_eq!(outcome(&second).0, "complete", "{second}");
    world.set("upstreams.api.calls.list.trust=[\"error-reported\"]");
    world.set("upstreams.api.calls.list.params={ v = \"2\" }");
    let third = run(&world);
    assert_eq!(outcome(&third).0, "complete", "{third}");
    assert!(
        detail(&third).contains("accepted: error-reported"),
        "{third}"
    );
}

#[test]
fn an_error_about_a_requested_id_is_no_doubt() {
    let stub = StubUpstream::start(|request| match request.path.as_str() {
        "/list" => StubAnswer::json(&json!({ "items": items(2) })),
        _ => StubAnswer::json(
            &json!({ "items": [{ "id": 1 }], "errors": [{ "title": "Not Found", "value": "0" }] }),
        ),
    });
    let text = "[upstreams.api]\nbase_url = \"https://api.example.com\"\n\
         [upstreams.api.calls]\n\
         list = { path = \"list\", cost = 1, records = { at = \"/items\", kind = \"name\", id = \"/id\" } }\n\
         detail = { path = \"detail\", cost = 1, params = { ids = \"{ids}\" }, records = { at = \"/items\", kind = \"thing\", id = \"/id\" } }\n\
         [jobs.all]\ncredential = \"api\"\nsteps = [{ call = \"list\" }, { call = \"detail\", ids = { from = \"list\", at = \"/id\", batch = 9 } }]\n\
         [credentials.api]\nupstream = \"api\"\nlimits = { daily = { quota = 1_000, window = \"24h\" } }\n";
    let mut world = World::written(text, &[]);
    world.set(&format!("upstreams.api.base_url=\"{}\"", stub.url()));
    let report = run(&world);
    assert_eq!(report["outcome"], "complete", "{report}");
}

#[test]
fn a_table_without_the_column_of_the_id_fails_with_the_columns_it_has() {
    let tables = [
        (
            "Error: too many requests, try again later\n",
            "`Error: too many requests`, `try again later`",
        ),
        ("Error: too many requests", "`Error: too many requests`"),
        ("ID;Name\n", "`ID;Name`"),
        ("name,key\n", "`name`, `key`"),
        ("name,key\na,1\n", "`name`, `key`"),
        ("\u{feff}Id,name\n", "`Id`, `name`"),
    ];
    for (table, columns) in tables {
        let (changing, stub) = Changing::start(StubAnswer::text(200, "id,name\n1,a\n2,b\n"));
        let world = Api {
            records: r#"format = "csv""#,
            ..Api::default()
        }
        .world(&stub);
        run(&world);
        changing.answer(StubAnswer::text(200, table));
        let report = run(&world);
        assert_eq!(outcome(&report), ("failed", 1), "{table}: {report}");
        assert!(detail(&report).contains(columns), "{table}: {report}");
        assert!(detail(&report).contains("no column `id`"), "{report}");
        assert_eq!(gone(&world), 0, "{table}");
    }
}

#[test]
fn a_table_of_no_row_is_an_empty_list_and_one_of_no_byte_is_none_once_the_call_had_rows() {
    for table in [
        "id,name\n",
        "\u{feff}id,name\r\n",
        "id,name",
        "\"id\",name\n",
    ] {
        let (changing, stub) = Changing::start(StubAnswer::text(200, "id,name\n1,a\n2,b\n"));
        let world = Api {
            records: r#"format = "csv""#,
            ..Api::default()
        }
        .world(&stub);
        run(&world);
        changing.answer(StubAnswer::text(200, table));
        assert_eq!(outcome(&run(&world)), ("complete", 1), "{table}");
        assert_eq!(gone(&world), 2, "{table}");
    }
    for nothing in ["", "\r\n", "\u{feff}"] {
        let (changing, stub) = Changing::start(StubAnswer::text(200, nothing));
        let world = Api {
            records: r#"format = "csv""#,
            ..Api::default()
        }
        .world(&stub);
        assert_eq!(outcome(&run(&world)), ("complete", 1), "before any row");
        changing.answer(StubAnswer::text(200, "id,name\n1,a\n2,b\n"));
        run(&world);
        changing.answer(StubAnswer::text(200, nothing));
        let report = run(&world);
        assert_eq!(outcome(&report), ("doubtful", 1), "{nothing:?}: {report}");
        assert_eq!(doubts(&report), BTreeSet::from(["no-records"]));
        assert_eq!(gone(&world), 0);
    }
}

#[test]
fn a_success_without_the_list_is_no_empty_list() {
    for body in [
        json!({ "message": "rate limit exceeded" }),
        json!({}),
        json!({ "items2": [] }),
        json!({ "status": "ok" }),
    ] {
        for page in [
            "",
            "page = { kind = \"token\", param = \"after\", next = \"/next\" }",
        ] {
            let (changing, stub) = Changing::start(StubAnswer::json(&body));
            let world = Api {
                call: page,
                ..Api::default()
            }
            .world(&stub);
            let report = run(&world);
            assert_eq!(outcome(&report), ("doubtful", 1), "{body}: {report}");
            assert_eq!(doubts(&report), BTreeSet::from(["no-records"]));
            let status = world.ingest(&["status", "--fail-if-stale", "1h"]);
            assert_ne!(status.code, 0, "{body}: {status:?}");
            changing.answer(StubAnswer::json(
                &json!({ "items": items(3), "kind": "things" }),
            ));
            assert_eq!(outcome(&run(&world)), ("complete", 1));
            changing.answer(StubAnswer::json(&body));
            assert_eq!(outcome(&run(&world)).0, "doubtful", "{body}");
            assert_eq!(gone(&world), 0, "{body}");
        }
    }
}

#[test]
fn an_empty_list_may_be_left_out_where_the_response_says_so() {
    let whole =
        json!({ "kind": "things#list", "etag": "a1", "items": items(1), "info": { "total": 1 } });
    for (body, expected) in [
        (json!({ "kind": "things#list", "etag": "b2" }), "complete"),
        (json!({ "info": { "total": 0 } }), "complete"),
        (json!({ "meta": { "result_count": 0 } }), "complete"),
        (json!({ "kind": "error#list", "etag": "b2" }), "doubtful"),
        (
            json!({ "kind": "things#list", "message": "slow down" }),
            "doubtful",
        ),
        (json!({ "info": { "total": 4 } }), "doubtful"),
    ] {
        let stub = StubUpstream::answering([StubAnswer::json(&whole), StubAnswer::json(&body)]);
        let world = Api::default().world(&stub);
        run(&world);
        let report = run(&world);
        assert_eq!(outcome(&report), (expected, 1), "{body}: {report}");
        assert_eq!(gone(&world), 0, "{body}");
    }
}

#[test]
fn a_page_behind_the_last_one_that_is_no_list_proves_no_end() {
    for (body, expected) in [
        (json!({ "items": [] }), "complete"),
        (json!({}), "complete"),
        (json!({ "message": "rate limit exceeded" }), "doubtful"),
    ] {
        let stub = StubUpstream::answering([
            StubAnswer::json(&json!({ "items": items(3) })),
            StubAnswer::json(&body),
        ]);
        let world = Api {
            call: r#"page = { kind = "offset", param = "from", size_param = "size", size = 10 }"#,
            ..Api::default()
        }
        .world(&stub);
        let report = run(&world);
        assert_eq!(outcome(&report), (expected, 2), "{body}: {report}");
        // What was proved to be an empty list is one.
        if body == json!({}) {
            assert_eq!(outcome(&run(&world)).0, "complete");
        }
    }
}

#[test]
fn an_endless_cursor_ends_at_an_empty_page_where_the_configuration_says_so() {
    let pages = [
        (
            r#"page = { kind = "token", param = "c", next = "/next", empty_page_ends = true }"#,
            "next",
        ),
        (
            r#"page = { kind = "token", param = "c", next_header = "x-next", empty_page_ends = true }"#,
            "header",
        ),
        (
            r#"page = { kind = "next_url", next = "/url", empty_page_ends = true }"#,
            "url",
        ),
        (
            r#"page = { kind = "link", empty_page_ends = true }"#,
            "link",
        ),
    ];
    for (page, _) in pages {
        for (extra, requests) in [("", 4), ("max_pages = 2", 2)] {
            let stub = StubUpstream::start(|request| {
                let at: u64 = request.param("c").map_or(0, |at| at.parse().unwrap());
                let next = at + 1;
                let page = if at < 3 {
                    json!([{ "id": at }])
                } else {
                    json!([])
                };
                let url = format!("/list?c={next}");
                StubAnswer::json(&json!({ "items": page, "next": next.to_string(), "url": url }))
                    .header("x-next", &next.to_string())
                    .header("link", &format!("<{url}>; rel=\"next\""))
            });
            let mut world = Api {
                call: page,
                ..Api::default()
            }
            .world(&stub);
            world.set(&format!("jobs.all.steps=[{{ call = \"list\", {extra} }}]"));
            let report = run(&world);
            assert_eq!(outcome(&report), ("complete", requests), "{page}: {report}");
            assert_eq!(detail(&report), "", "{report}");
        }
    }
}

#[test]
fn the_sandbox_serves_a_list_that_an_empty_page_ends_and_try_names_the_key() {
    let text = "[upstreams.api]\nbase_url = \"https://api.example.com\"\n\
         [upstreams.api.calls.list]\npath = \"list\"\ncost = 1\n\
         page = { kind = \"token\", param = \"c\", next = \"/next\", size_param = \"n\", size = 50, empty_page_ends = true }\n\
         records = { at = \"/items\", kind = \"thing\", id = \"/id\" }\n\
         [jobs.all]\ncredential = \"api\"\nsteps = [{ call = \"list\" }]\n\
         [credentials.api]\nupstream = \"api\"\nlimits = { daily = { quota = 1_000, window = \"24h\" } }\n";
    let mut world = World::written(text, &[]);
    let report = world
        .ingest(&["--region", "all", "--sandbox", "--format", "json"])
        .json();
    assert_eq!(report["outcome"], "complete", "{report}");
    let stub = StubUpstream::start(|_| StubAnswer::json(&json!({ "items": [], "next": "b" })));
    world.set(&format!("upstreams.api.base_url=\"{}\"", stub.url()));
    world.set("upstreams.api.calls.list.page.empty_page_ends=false");
    let tried = world.ingest(&["try", "api", "list"]);
    assert!(tried.stdout.contains("empty_page_ends = true"), "{tried:?}");
}
