//! What an upstream says beside its list: error rules over every response, and a success that is no whole list.

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
