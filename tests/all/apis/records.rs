//! Where the records of a response are, and what their columns hold.

use serde_json::json;

use super::{Api, ids, records, run};
use ingest_testing::stub_upstream::{StubAnswer, StubUpstream};

fn stub(body: serde_json::Value) -> StubUpstream {
    StubUpstream::answering([StubAnswer::json(&body)])
}

#[test]
fn one_object_is_one_record() {
    let stub = stub(json!({ "weather": { "id": "berlin", "t": 21 } }));
    let world = Api {
        call: r#"records = { at = "/weather", kind = "weather", id = "/id" }"#,
        ..Api::default()
    }
    .world(&stub);
    assert_eq!(run(&world)["outcome"], "complete");
    assert_eq!(
        records(&world),
        [("berlin".to_owned(), json!({ "id": "berlin", "t": 21 }))]
    );
}

#[test]
fn without_a_place_the_whole_response_is_one_record_or_a_list() {
    for (body, expected) in [
        (json!({ "id": 7, "error": null }), vec!["7"]),
        (json!([{ "id": 1 }, { "id": 2 }]), vec!["1", "2"]),
        // This record has a member that other APIs report errors in.
        (json!({ "id": 7, "error": "disk full" }), vec!["7"]),
    ] {
        let stub = stub(body);
        let world = Api {
            call: r#"records = { kind = "thing", id = "/id" }"#,
            ..Api::default()
        }
        .world(&stub);
        assert_eq!(run(&world)["outcome"], "complete");
        assert_eq!(ids(&world), expected);
    }
}

#[test]
fn a_whole_response_that_is_an_error_is_no_record() {
    let stub = stub(json!({ "error": "please slow down" }));
    let world = Api {
        upstream: "attempts = 2",
        call: r#"records = { kind = "thing", id = "/id" }"#,
        ..Api::default()
    }
    .world(&stub);
    let run = run(&world);
    assert_eq!(run["outcome"], "failed", "{run}");
    assert!(run.to_string().contains("please slow down"), "{run}");
}

#[test]
fn a_wildcard_finds_records_in_members_and_the_innermost_name_becomes_a_field() {
    let stub = stub(json!({ "near_earth_objects": {
        "2024-01-01": [{ "id": "a" }, { "id": "b" }],
        "2024-01-02": [{ "id": "c" }],
    } }));
    let world = Api {
        call: r#"records = { at = "/near_earth_objects/*/*", key = "date", kind = "neo", id = ["/date", "/id"] }"#,
        ..Api::default()
    }
    .world(&stub);
    let run = run(&world);
    assert_eq!(run["outcome"], "complete", "{run}");
    assert_eq!(
        ids(&world),
        ["2024-01-01/a", "2024-01-01/b", "2024-01-02/c"]
    );
    assert_eq!(
        records(&world)[2].1,
        json!({ "id": "c", "date": "2024-01-02" })
    );
}

#[test]
fn members_that_are_objects_or_plain_values_are_records_with_their_names() {
    let objects = json!({ "Time Series (Daily)": {
        "2024-01-01": { "1. open": "10.5" },
        "2024-01-02": { "1. open": "11.5" },
    } });
    let values = json!({ "Time Series (Daily)": { "2024-01-01": 10.5, "2024-01-02": 11.5 } });
    for (body, first) in [
        (objects, json!({ "1. open": "10.5", "date": "2024-01-01" })),
        (values, json!({ "date": "2024-01-01", "value": 10.5 })),
    ] {
        let stub = stub(body);
        let world = Api {
            call: r#"records = { at = "/Time Series (Daily)/*", key = "date", kind = "day", id = "/date" }"#,
            ..Api::default()
        }
        .world(&stub);
        assert_eq!(run(&world)["outcome"], "complete");
        assert_eq!(records(&world)[0], ("2024-01-01".to_owned(), first));
        assert_eq!(ids(&world).len(), 2);
    }
}

#[test]
fn ids_and_columns_take_values_from_the_request() {
    let stub = stub(json!({ "list": [{ "dt": 1 }, { "dt": 2 }] }));
    let world = Api {
        call: r#"records = { at = "/list", kind = "hour", id = ["{region}", "/dt"], columns = { place = "{region}", dt = "/dt" } }"#,
        regions: r#"["US", "DE"]"#,
        ..Api::default()
    }
    .world(&stub);
    assert_eq!(run(&world)["outcome"], "complete");
    assert_eq!(ids(&world), ["DE/1", "DE/2", "US/1", "US/2"]);
    let places = world.count("select count(*) from api_hour where place = 'DE'");
    assert_eq!(places, 2);
}

#[test]
fn a_child_knows_the_single_id_that_it_was_requested_with() {
    let stub = StubUpstream::start(|request| match request.path.as_str() {
        "/channels" => StubAnswer::json(&json!({ "items": [{ "id": "c1" }, { "id": "c2" }] })),
        _ => StubAnswer::json(&json!({ "items": [{ "ts": "1.5" }] })),
    });
    let mut world = crate::support::world::World::written(
        r#"
regions = ["US"]
[upstreams.api]
base_url = "https://api.example.com"
[upstreams.api.calls.channels]
path = "channels"
cost = 1
records = { at = "/items", kind = "channel", id = "/id" }
[upstreams.api.calls.messages]
path = "channels/{id}/messages"
cost = 1
records = { at = "/items", kind = "message", id = ["{id}", "/ts"], columns = { channel = "{id}" } }
[credentials.main]
upstream = "api"
limits = { daily = { quota = 100, window = "24h" } }
[jobs.all]
credential = "main"
[[jobs.all.steps]]
call = "channels"
[[jobs.all.steps]]
call = "messages"
ids = { from = "channels", at = "/id", batch = 1 }
"#,
        &[],
    );
    world.set(&format!("upstreams.api.base_url=\"{}\"", stub.url()));
    let run = run(&world);
    assert_eq!(run["outcome"], "complete", "{run}");
    assert_eq!(ids(&world), ["c1", "c1/1.5", "c2", "c2/1.5"]);
    assert_eq!(
        world.count("select count(*) from api_message where channel = 'c2'"),
        1
    );
}

#[test]
fn columns_have_types_and_an_odd_value_is_null_in_all_of_them() {
    let values = [
        json!("12"),
        json!(-3),
        json!("1.5e3"),
        json!(true),
        json!("FALSE"),
        json!("2024-01-02T03:04:05Z"),
        json!(1_709_164_799_000_i64),
        json!({ "x": [1] }),
        json!("--"),
        json!(null),
        json!(1_709_164_799.75),
        json!(-14_182_940),
        json!("-1500000000000"),
        json!(-62_135_596_800_i64),
        json!(-62_135_596_801_i64),
    ];
    let list: Vec<_> = values
        .iter()
        .enumerate()
        .map(|(id, value)| json!({ "id": id, "v": value }))
        .collect();
    let stub = stub(json!({ "list": list }));
    let world = Api {
        call: r#"records = { at = "/list", kind = "value", id = "/id", columns = { i = { at = "/v", type = "integer" }, r = { at = "/v", type = "real" }, b = { at = "/v", type = "boolean" }, t = { at = "/v", type = "timestamp" }, j = { at = "/v", type = "json" }, s = { at = "/v", type = "text" } } }"#,
        ..Api::default()
    }
    .world(&stub);
    let run = run(&world);
    assert_eq!(run["outcome"], "complete", "{run}");
    let catalog = world.catalog();
    let column = |name: &str| -> Vec<String> {
        let select = format!(
            "select typeof({name}) || ' ' || {name} from api_value order by cast(id as integer)"
        );
        let mut query = catalog.prepare(&select).unwrap();
        let rows = query
            .query_map([], |row| row.get::<_, Option<String>>(0))
            .unwrap();
        rows.map(|row| row.unwrap().unwrap_or_else(|| "-".to_owned()))
            .collect()
    };
    assert_eq!(
        column("i"),
        [
            "integer 12",
            "integer -3",
            "-",
            "integer 1",
            "-",
            "-",
            "integer 1709164799000",
            "-",
            "-",
            "-",
            "-",
            "integer -14182940",
            "integer -1500000000000",
            "integer -62135596800",
            "integer -62135596801"
        ]
    );
    assert_eq!(column("r")[..3], ["real 12.0", "real -3.0", "real 1500.0"]);
    assert_eq!(column("b")[3..5], ["integer 1", "integer 0"]);
    assert_eq!(
        column("t")[5..8],
        [
            "text 2024-01-02T03:04:05Z",
            "text 2024-02-28T23:59:59Z",
            "-"
        ]
    );
    assert_eq!(
        column("t")[10..],
        [
            "text 2024-02-28T23:59:59Z",
            "text 1969-07-20T20:17:40Z",
            "text 1922-06-20T21:20:00Z",
            "text 0001-01-01T00:00:00Z",
            "-"
        ]
    );
    assert_eq!(column("j")[7], r#"text {"x":[1]}"#);
    assert_eq!(column("s")[..2], ["text 12", "text -3"]);
}

/// SQLite before 3.46, for example that of Debian 12, parses a view with a stack of 100 symbols. If one view does not fit, it
/// reads nothing from the whole file.
#[test]
fn the_sqlite_of_older_systems_can_parse_a_view_with_columns_of_every_type() {
    let stub = stub(json!([{ "id": 1, "v": "1714559999" }]));
    let world = Api {
        call: r#"records = { kind = "thing", id = "/id", columns = { at = { at = "/v", type = "timestamp" }, real = { at = "/v", type = "real" }, whole = { at = "/v", type = "integer" }, yes = { at = "/v", type = "boolean" } } }"#,
        ..Api::default()
    }
    .world(&stub);
    assert_eq!(run(&world)["outcome"], "complete");
    let view: String = world
        .catalog()
        .query_row(
            "select sql from sqlite_master where name = 'api_thing'",
            [],
            |row| row.get(0),
        )
        .unwrap();
    let mut depth = 0_i32;
    let mut deepest = 0;
    for character in view.chars() {
        depth += i32::from(character == '(') - i32::from(character == ')');
        deepest = deepest.max(depth);
    }
    assert!(deepest <= 7, "{deepest} levels of parentheses: {view}");
    let query = "import sqlite3, sys; print(sqlite3.connect(sys.argv[1]).execute('select at, whole from api_thing').fetchall())";
    let python = std::process::Command::new("python3")
        .args(["-c", query])
        .arg(world.state_dir().join("catalog.db"))
        .output();
    if let Ok(read) = python {
        assert_eq!(
            String::from_utf8_lossy(&read.stdout).trim(),
            "[('2024-05-01T10:39:59Z', 1714559999)]",
            "{read:?}"
        );
    }
}

/// Hacker News returns null for an item that was deleted, Spotify a list with null for a track that it does not know.
#[test]
fn an_id_that_the_upstream_does_not_have_any_more_does_not_fail_the_others() {
    let stub = StubUpstream::start(|request| match request.path.as_str() {
        "/top" => StubAnswer::json(&json!([1, 2, 3])),
        "/item/2" => StubAnswer::json(&json!(null)),
        path => StubAnswer::json(&json!({ "id": path.trim_start_matches("/item/") })),
    });
    let mut world = crate::support::world::World::written(
        r#"
[upstreams.api]
base_url = "https://api.example.com"
[upstreams.api.calls.top]
path = "top"
cost = 1
records = { kind = "top", id = "" }
[upstreams.api.calls.item]
path = "item/{id}"
cost = 1
records = { kind = "item", id = "/id" }
[credentials.main]
upstream = "api"
limits = { daily = { quota = 100, window = "24h" } }
[jobs.all]
credential = "main"
steps = [{ call = "top" }, { call = "item", ids = { from = "top", at = "", batch = 1 } }]
"#,
        &[],
    );
    world.set(&format!("upstreams.api.base_url=\"{}\"", stub.url()));
    assert_eq!(run(&world)["outcome"], "complete");
    let items = world.count("select count(*) from record where kind = 'item'");
    assert_eq!((items, stub.requests().len()), (2, 4));
}

/// The shapes of Open-Meteo and SEC EDGAR, and of the US Census Bureau.
#[test]
fn columns_and_rows_become_one_record_for_each_index() {
    let columns = json!({ "hourly": { "time": ["t1", "t2"], "rain": [0.5, null], "unit": "mm" } });
    let rows =
        json!({ "hourly": [["time", "rain", "unit"], ["t1", 0.5, "mm"], ["t2", null, "mm"]] });
    for (layout, body) in [("columns", columns), ("rows", rows)] {
        let stub = stub(body);
        let call = format!(
            r#"records = {{ at = "/hourly", layout = "{layout}", kind = "hour", id = ["{{region}}", "/time"] }}"#
        );
        let world = Api {
            call: &call,
            ..Api::default()
        }
        .world(&stub);
        assert_eq!(run(&world)["outcome"], "complete", "{layout}");
        let expected = [
            ("US/t1", json!({ "time": "t1", "rain": 0.5, "unit": "mm" })),
            ("US/t2", json!({ "time": "t2", "rain": null, "unit": "mm" })),
        ];
        assert_eq!(
            records(&world),
            expected.map(|(id, body)| (id.to_owned(), body)),
            "{layout}"
        );
    }
}

#[test]
fn columns_and_rows_that_do_not_fit_together_are_refused_with_a_reason() {
    for (layout, body, reason) in [
        (
            "columns",
            json!({ "a": [1, 2], "b": [1] }),
            "lists of different lengths",
        ),
        ("columns", json!({ "a": 1 }), "an object without lists"),
        (
            "columns",
            json!([{ "a": 1 }]),
            "an array instead of an object with a list for each field",
        ),
        (
            "rows",
            json!([["a"], [1, 2]]),
            "a row with more values than there are names",
        ),
        (
            "rows",
            json!([{ "a": 1 }]),
            "a first row that is no list of names",
        ),
    ] {
        let stub = stub(body.clone());
        let call = format!(r#"records = {{ layout = "{layout}", kind = "thing", id = "/a" }}"#);
        let world = Api {
            call: &call,
            ..Api::default()
        }
        .world(&stub);
        let run = run(&world);
        assert_eq!(run["outcome"], "failed", "{body}");
        assert!(run.to_string().contains(reason), "{run}");
        assert_eq!(stub.requests().len(), 1, "{body}");
    }
}

#[test]
fn an_id_of_several_parts_can_have_constant_text_beside_a_place() {
    let stub = stub(json!({ "data": [{ "id": 7 }, { "id": 8 }] }));
    let call = |id: &str| format!("records = {{ at = \"/data\", kind = \"row\", id = {id} }}");
    let world = Api {
        call: &call(r#"["stock", "{region}", "/id"]"#),
        ..Api::default()
    }
    .world(&stub);
    assert_eq!(run(&world)["outcome"], "complete");
    assert_eq!(ids(&world), ["stock/US/7", "stock/US/8"]);
    for id in [r#""id""#, r#"["{region}", "id"]"#] {
        let text = Api {
            call: &call(r#""/id""#),
            ..Api::default()
        };
        let set = format!("upstreams.api.calls.list.records.id={id}");
        let ran = text
            .world(&stub)
            .ingest(&["check", "--config-only", "--set", &set]);
        assert_eq!(ran.code, 2, "{id}: {ran:?}");
    }
}

/// MediaWiki's properties: each page has the same records, and a part of them another property.
#[test]
fn an_id_may_be_a_number_with_a_fraction() {
    let body = r#"[{ "id": 12.5 }, { "id": 0.10 }, { "id": -3.25 }]"#;
    let stub = StubUpstream::answering([StubAnswer::text(200, body)]);
    let world = Api {
        call: r#"records = { kind = "thing", id = "/id" }"#,
        ..Api::default()
    }
    .world(&stub);
    let report = run(&world);
    assert_eq!(ids(&world), ["-3.25", "0.10", "12.5"], "{report}");
}

#[test]
fn members_that_are_no_objects_are_left_out_beside_objects_and_counted() {
    let stub = stub(json!({ "header": {}, "result": {
        "uids": ["38000001", "38000002"], "count": 2, "next": null,
        "38000001": { "uid": "38000001", "title": "one" },
        "38000002": { "uid": "38000002", "title": "two" },
    } }));
    let world = Api {
        call: r#"records = { at = "/result/*", kind = "article", id = "/uid" }"#,
        ..Api::default()
    }
    .world(&stub);
    let report = run(&world);
    assert_eq!(report["outcome"], "complete", "{report}");
    assert_eq!(ids(&world), ["38000001", "38000002"]);
    let left = "3 members at `/result/*` are no objects and were left out, such as `uids`";
    assert!(report.to_string().contains(left), "{report}");
    let tried = world.ingest(&["try", "main", "list"]);
    assert!(tried.stdout.contains(left), "{tried:?}");
}

#[test]
fn members_of_which_none_is_an_object_are_no_list() {
    for body in [
        json!({ "result": { "error": "no such table" } }),
        json!({ "result": { "a": "b", "c": 1 } }),
    ] {
        let stub = stub(body);
        let world = Api {
            call: r#"records = { at = "/result/*", kind = "article", id = "/uid" }"#,
            ..Api::default()
        }
        .world(&stub);
        assert_eq!(run(&world)["outcome"], "failed");
    }
}
