//! Numbers keep the digits with which they came, wherever they go; a name that stands twice refuses its page.

use super::{Api, ids, run};
use crate::support::world::World;
use ingest_testing::stub_upstream::{StubAnswer, StubUpstream};
use serde_json::Value;

/// The pass over one response of this body.
fn landed(body: &str, call: &str) -> (Value, World) {
    let stub = StubUpstream::answering([StubAnswer::text(200, body)]);
    let world = Api {
        upstream: "attempts = 1",
        call,
        ..Api::default()
    }
    .world(&stub);
    (run(&world)["passes"][0].clone(), world)
}

const THINGS: &str =
    r#"records = { at = "/items", kind = "thing", id = "/id", columns = { n = "/n" } }"#;

const WIDE: [&str; 10] = [
    "123456789012345678901234567890",
    "0.12345678901234567890",
    "1.10",
    "18446744073709551615",
    "9223372036854775807",
    "-9223372036854775809",
    "9007199254740993",
    "1e+400",
    "-0.0",
    "2.50",
];

fn things() -> String {
    let all = WIDE.iter().enumerate();
    let all: Vec<_> = all
        .map(|(id, n)| format!(r#"{{"id":"{id}","n":{n},"l":[{n}]}}"#))
        .collect();
    format!(r#"{{"items":[{}]}}"#, all.join(","))
}

fn selected(world: &World, select: &str) -> Vec<String> {
    let catalog = world.catalog();
    let mut query = catalog.prepare(select).unwrap();
    let rows = query.query_map([], |row| row.get(0)).unwrap();
    rows.collect::<Result<_, _>>().unwrap()
}

#[test]
fn digits_stay_as_they_came_in_bodies_columns_and_exports() {
    let call = r#"records = { at = "/items", kind = "thing", id = "/id", columns = { n = "/n", t = { at = "/n", type = "text" }, l = "/l/*", i = { at = "/n", type = "integer" } } }"#;
    let (pass, world) = landed(&things(), call);
    assert_eq!(pass["outcome"], "complete", "{pass}");
    let bodies = selected(&world, "select body from record order by id");
    for (body, n) in bodies.iter().zip(WIDE) {
        assert!(body.contains(&format!("\"n\":{n},\"l\":[{n}]")), "{body}");
    }
    assert_eq!(
        selected(&world, "select t from api_thing order by id"),
        WIDE
    );
    assert_eq!(
        selected(&world, "select l from api_thing order by id"),
        WIDE.map(|n| format!("[{n}]"))
    );
    assert_eq!(
        selected(
            &world,
            "select typeof(n) || ' ' || n from api_thing order by id"
        ),
        [
            "text 123456789012345678901234567890",
            "text 0.12345678901234567890",
            "real 1.1",
            "text 18446744073709551615",
            "integer 9223372036854775807",
            "text -9223372036854775809",
            "integer 9007199254740993",
            "text 1e+400",
            "real 0.0",
            "real 2.5",
        ]
    );
    assert_eq!(
        selected(
            &world,
            "select cast(i as text) from api_thing where i is not null order by id"
        ),
        ["9223372036854775807", "9007199254740993"]
    );
    let csv = world
        .ingest(&["export", "--kind", "thing", "--as", "csv"])
        .stdout;
    let json = world.ingest(&["export", "--kind", "thing"]).stdout;
    for n in WIDE {
        assert!(csv.contains(&format!(",{n},")), "{n}: {csv}");
        assert!(json.contains(&format!("\"n\":{n}")), "{n}: {json}");
    }
}

#[test]
fn an_id_is_its_text_however_many_digits_it_has() {
    let wide = [
        "18446744073709551616",
        "18446744073709551617",
        "9007199254740993",
        "0.1234567890123456789",
        "1.0",
    ];
    let items: Vec<_> = wide.iter().map(|id| format!("{{\"id\":{id}}}")).collect();
    let (pass, world) = landed(&format!("{{\"items\":[{}]}}", items.join(",")), THINGS);
    assert_eq!(pass["outcome"], "complete", "{pass}");
    let mut expected = wide;
    expected.sort_unstable();
    assert_eq!(ids(&world), expected);
}

#[test]
fn a_token_and_an_id_of_a_step_are_sent_with_the_digits_that_came() {
    let stub = StubUpstream::start(|request| match request.param("after") {
        None => StubAnswer::text(
            200,
            r#"{"items":[{"id":18446744073709551617}],"next":123456789012345678901234567890}"#,
        ),
        Some(_) => StubAnswer::text(200, r#"{"items":[{"id":2}]}"#),
    });
    let world = Api {
        call: r#"page = { kind = "token", param = "after", next = "/next" }
            records = { at = "/items", kind = "thing", id = "/id" }"#,
        ..Api::default()
    }
    .world(&stub);
    assert_eq!(run(&world)["outcome"], "complete");
    assert_eq!(
        stub.requests()[1].param("after"),
        Some("123456789012345678901234567890")
    );
}

#[test]
fn the_greatest_value_of_a_pass_is_found_by_all_of_its_digits() {
    let stub = StubUpstream::answering([StubAnswer::text(
        200,
        r#"[{"id":1,"at":123456789012345678901234567891},{"id":2,"at":123456789012345678901234567890},{"id":3,"at":1.7e9},{"id":4,"at":9.007199254740992e15}]"#,
    )]);
    let mut world = Api {
        call: r#"params = { since = "{since}" }
            records = { at = "", kind = "thing", id = "/id" }"#,
        ..Api::default()
    }
    .world(&stub);
    world.set("jobs.all.since={at=\"/at\",first=\"0\"}");
    for _ in 0..2 {
        assert_eq!(run(&world)["outcome"], "complete");
    }
    assert_eq!(
        stub.requests()[1].param("since"),
        Some("123456789012345678901234567891")
    );
}

#[test]
fn words_that_python_writes_for_numbers_are_texts_and_refuse_no_page() {
    let body = r#"{"items":[{"id":1,"n":NaN},{"id":2,"n":-Infinity},{"id":3,"n":[Infinity,"NaN \" NaN"]}]}"#;
    let (pass, world) = landed(body, THINGS);
    assert_eq!(pass["outcome"], "complete", "{pass}");
    assert_eq!(
        selected(&world, "select body from record order by id"),
        [
            r#"{"id":1,"n":"NaN"}"#,
            r#"{"id":2,"n":"-Infinity"}"#,
            r#"{"id":3,"n":["Infinity","NaN \" NaN"]}"#
        ]
    );
}

#[test]
fn a_word_that_is_no_number_refuses_its_page_and_says_where() {
    for word in ["nan", "undefined", "+1", "01", "0x1"] {
        let (pass, _) = landed(
            &format!("{{\"items\":[{{\"id\":1,\"n\":{word}}}]}}"),
            THINGS,
        );
        assert_eq!(pass["outcome"], "failed", "{word}: {pass}");
        let detail = pass["detail"].as_str().unwrap();
        assert!(
            detail.contains("is not JSON") && detail.contains("line 1 column 2"),
            "{detail}"
        );
    }
}

#[test]
fn a_name_that_an_object_has_twice_refuses_the_page_at_any_depth() {
    for (body, format) in [
        (r#"{"items":[{"id":1,"n":1,"n":2}]}"#, "json"),
        (
            r#"{"items":[{"id":1}],"items":[{"id":2}],"n":1,"n":1}"#,
            "json",
        ),
        (
            r#"{"items":[{"id":1,"deep":[{"x":{"n":1,"n":1}}]}]}"#,
            "json",
        ),
        (r#"{"items":[{"id":1,"n":1,"\u006e":2}]}"#, "json"),
        ("{\"id\":1}\n{\"id\":2,\"n\":1,\"n\":1}\n", "ndjson"),
        ("id,n,n\n1,2,3\n", "csv"),
        (
            "<r xmlns:a=\"u\" xmlns:b=\"v\"><i a:n=\"1\" b:n=\"2\"/></r>",
            "xml",
        ),
    ] {
        let at = match format {
            "json" => "/items",
            "xml" => "/r/i",
            _ => "",
        };
        let call = format!(
            r#"records = {{ at = "{at}", format = "{format}", kind = "thing", id = "/id" }}"#
        );
        let (pass, world) = landed(body, &call);
        assert_eq!(
            (&pass["outcome"], pass["requests"].as_u64()),
            (&"failed".into(), Some(1)),
            "{pass}"
        );
        let detail = pass["detail"].as_str().unwrap();
        assert!(
            detail.contains("`n`") || detail.contains("`items`"),
            "{detail}"
        );
        assert_eq!(ids(&world), Vec::<String>::new());
    }
    let rows = r#"{"items":[["id","n","n"],[1,2,3]]}"#;
    let (pass, _) = landed(
        rows,
        r#"records = { at = "/items", layout = "rows", kind = "thing", id = "/id" }"#,
    );
    let detail = pass["detail"].as_str().unwrap();
    assert!(detail.contains("has the name `n` twice"), "{detail}");
}

#[test]
fn an_error_that_has_a_name_twice_is_understood() {
    let stub = StubUpstream::answering([StubAnswer::text(
        400,
        r#"{"code":"quota","code":"quota","id":1}"#,
    )]);
    let world = Api {
        upstream: r#"errors = [{ status = 400, at = "/code", is = "quota", class = "spent" }]"#,
        call: THINGS,
        ..Api::default()
    }
    .world(&stub);
    assert_eq!(run(&world)["outcome"], "stopped");
}
