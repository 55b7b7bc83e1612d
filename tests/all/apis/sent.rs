//! What requests contain: parameters of all calls, and numbers in bodies.

use serde_json::{Value, json};

use super::{Api, run};
use crate::support::world::{SECRET, World};
use ingest_testing::stub_upstream::{StubAnswer, StubRequest, StubUpstream};

const LIST: &str = r#"records = { at = "/items", kind = "row", id = "/id" }"#;

/// A stand-in for every list, in which nothing is.
fn empty() -> StubUpstream {
    StubUpstream::start(|_: &StubRequest| StubAnswer::json(&json!({ "items": [] })))
}

fn world(stub: &StubUpstream, upstream: &str, call: &str) -> World {
    Api {
        upstream,
        call: &format!("{LIST}\n{call}"),
        ..Api::default()
    }
    .world(stub)
}

/// What `check` says of a file with this in it.
fn refused(call: &str, set: &str) -> String {
    let mut world = world(&empty(), "", call);
    world.set(set);
    let ran = world.ingest(&["check", "--config-only"]);
    assert_eq!(ran.code, 2, "{ran:?}");
    ran.stderr
}

fn query(request: &StubRequest) -> Vec<(&str, &str)> {
    let pairs = request.query.iter();
    pairs
        .map(|(name, value)| (name.as_str(), value.as_str()))
        .collect()
}

#[test]
fn parameters_of_an_upstream_are_sent_with_every_call_which_can_override_them() {
    let stub = empty();
    let mut world = world(
        &stub,
        r#"params = { version = "2", lang = "{region}", tag = ["a", "b&c"] }"#,
        r#"params = { lang = "any", own = "1" }"#,
    );
    assert_eq!(run(&world)["outcome"], "complete");
    world.set("jobs.all.steps.0.params.version=3");
    world.set("jobs.all.every=1ms");
    assert_eq!(run(&world)["outcome"], "complete");
    let expected = |version| {
        let own = [("lang", "any"), ("own", "1")];
        let all = [("tag", "a"), ("tag", "b&c"), ("version", version)];
        [&own[..], &all].concat()
    };
    let requests = stub.requests();
    let sent: Vec<_> = requests.iter().map(query).collect();
    assert_eq!(sent, [expected("2"), expected("3")]);
}

#[test]
fn parameters_of_an_upstream_are_sent_behind_the_first_page_too() {
    let stub = StubUpstream::start(|request: &StubRequest| match request.number {
        0 => StubAnswer::json(&json!({ "items": [{ "id": 1 }], "next": "t" })),
        _ => StubAnswer::json(&json!({ "items": [{ "id": 2 }] })),
    });
    let page = r#"page = { kind = "token", param = "token", next = "/next", then = { path = "more", params = { b = "1" } } }"#;
    let world = world(&stub, r#"params = { version = "2" }"#, page);
    assert_eq!(run(&world)["outcome"], "complete");
    let requests = stub.requests();
    assert_eq!(query(&requests[0]), [("version", "2")]);
    let behind = [("b", "1"), ("token", "t"), ("version", "2")];
    assert_eq!(query(&requests[1]), behind);
}

#[test]
fn a_secret_in_the_parameters_of_an_upstream_is_sent_and_never_shown() {
    let stub = empty();
    let world = Api {
        upstream: r#"params = { key = "{secret}" }"#,
        call: LIST,
        credential: r#"secret = { env = "API_KEY" }"#,
        ..Api::default()
    };
    let world = world.world(&stub);
    let tried = world.ingest(&["-v", "try", "main", "list"]);
    assert_eq!(tried.code, 0, "{tried:?}");
    assert_eq!(query(&stub.requests()[0]), [("key", SECRET)]);
    assert!(tried.stdout.contains("key={secret}"), "{tried:?}");
    assert!(!format!("{tried:?}").contains(SECRET), "{tried:?}");
}

#[test]
fn parameters_of_an_upstream_leave_paging_to_the_call_and_name_variables_that_exist() {
    let page = r#"page = { kind = "number", param = "page", size = 2 }"#;
    let said = refused(page, "upstreams.api.params={ page = \"1\" }");
    assert!(said.contains("upstreams.api.params.page"), "{said}");
    assert!(said.contains("page.param of call \"list\""), "{said}");
    let said = refused("", "upstreams.api.params={ a = \"{regoin}\" }");
    assert!(said.contains("upstreams.api.params.a"), "{said}");
    assert!(said.contains("did you mean region?"), "{said}");
}

/// The body that is sent for a configured one.
fn sent(json: &str, job: &str) -> Value {
    let stub = empty();
    let mut world = world(&stub, "", &format!("json = {json}"));
    if !job.is_empty() {
        world.set(job);
    }
    let run = run(&world);
    assert_eq!(run["outcome"], "complete", "{run}");
    stub.requests()[0].json()
}

#[test]
fn a_number_of_a_body_can_come_from_a_template() {
    let since = "jobs.all.since={ at = '/u', first = 1 }";
    let body =
        r#"{ since = { number = "{since}" }, list = [{ number = "{since}" }], text = "{since}" }"#;
    let expected = json!({ "since": 1, "list": [1], "text": "1" });
    assert_eq!(sent(body, since), expected);
    let digits = "jobs.all.since={ at = '/u', first = '123456789012345678901234.50' }";
    let body = r#"{ since = { number = "{since}" } }"#;
    let text = sent(body, digits).to_string();
    assert_eq!(text, r#"{"since":123456789012345678901234.50}"#);
    let negative = "jobs.all.since={ at = '/u', first = -3 }";
    assert_eq!(sent(body, negative), json!({ "since": -3 }));
}

#[test]
fn a_table_that_has_more_than_a_number_or_no_variable_is_sent_as_it_is() {
    let body = r#"{ number = "{region}", a = { number = "5" }, b = { number = 5 }, c = { number = "{region}", x = 1 } }"#;
    let expected = json!({ "number": "US", "a": { "number": "5" }, "b": { "number": 5 }, "c": { "number": "US", "x": 1 } });
    assert_eq!(sent(body, ""), expected);
    let nested = r#"{ number = { number = "1{region}" } }"#;
    let stub = empty();
    let run = run(&world(&stub, "", &format!("json = {nested}")));
    let detail = run["passes"][0]["detail"].as_str().unwrap();
    assert!(
        detail.contains("is no number with these values: \"1US\""),
        "{run}"
    );
    assert!(stub.requests().is_empty());
}

#[test]
fn a_number_of_graphql_and_the_cursor_of_a_first_page_which_is_null() {
    let stub = StubUpstream::start(|request: &StubRequest| match request.number {
        0 => StubAnswer::json(&json!({ "items": [{ "id": 1 }], "next": 7 })),
        _ => StubAnswer::json(&json!({ "items": [{ "id": 2 }] })),
    });
    let call = r#"page = { kind = "token", param = "/variables/token", next = "/next" }
graphql = { query = "{ x }", variables = { number = { number = "{cursor}" } } }"#;
    let world = world(&stub, "", call);
    assert_eq!(run(&world)["outcome"], "complete");
    let numbers: Vec<Value> = stub
        .requests()
        .iter()
        .map(|request| request.json()["variables"]["number"].clone())
        .collect();
    assert_eq!(numbers, [Value::Null, json!(7)]);
}

#[test]
fn a_secret_is_no_number() {
    let json = "upstreams.api.calls.list.json={ a = { number = \"{secret}\" } }";
    let said = refused("", json);
    assert!(said.contains("list.json.a.number"), "{said}");
    assert!(said.contains("a secret is a text"), "{said}");
}

#[test]
fn an_id_that_makes_no_number_is_left_out_and_the_others_are_requested() {
    let stub = StubUpstream::start(|request: &StubRequest| match request.path.as_str() {
        "/names" => StubAnswer::json(&json!([{ "id": "seven" }, { "id": "8" }])),
        _ => StubAnswer::json(&json!([{ "id": request.json()["id"].to_string() }])),
    });
    let text = r#"
[upstreams.api]
base_url = "https://api.example.com"
[upstreams.api.calls.names]
path = "names"
cost = 1
records = { kind = "name", id = "/id" }
[upstreams.api.calls.get]
path = "get"
method = "POST"
cost = 1
json = { id = { number = "{id}" } }
records = { kind = "thing", id = "/id" }
[credentials.api]
upstream = "api"
limits = { daily = { quota = 100, window = "24h" } }
[jobs.j]
credential = "api"
every = "1ms"
steps = [{ call = "names" }, { call = "get", ids = { from = "names", at = "/id", batch = 1 } }]
"#;
    let mut world = World::written(text, &[]);
    world.set(&format!("upstreams.api.base_url=\"{}\"", stub.url()));
    let first = world.ingest(&[]);
    assert_eq!(first.code, 1, "{first:?}");
    assert!(
        first.stdout.contains("seven: `{id}` is no number"),
        "{first:?}"
    );
    assert_eq!(
        world.count("select count(*) from record where kind = 'thing'"),
        1
    );
    world.ingest(&[]);
    let names = stub
        .requests()
        .iter()
        .filter(|one| one.path == "/names")
        .count();
    assert_eq!(names, 2, "the next run lists the names again");
    assert_eq!(world.charged("daily"), stub.requests().len() as u64);
}
