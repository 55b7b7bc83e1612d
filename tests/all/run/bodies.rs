//! What requests contain: JSON, form and GraphQL bodies with the cursor in them, repeated parameters, and lists of ids.

use std::collections::BTreeSet;

use serde_json::{Value, json};

use crate::support::world::{SECRET, World};
use ingest_testing::stub_upstream::{StubAnswer, StubRequest, StubUpstream};

/// Runs a configuration with these calls and steps against a stand-in.
fn received(
    calls: &str,
    steps: &str,
    answer: impl Fn(&StubRequest) -> Value + Send + Sync + 'static,
) -> (World, Vec<StubRequest>) {
    let stub = StubUpstream::start(move |request| StubAnswer::json(&answer(request)));
    let text = format!(
        r#"
        [regions.GB]
        city = "London"
        [upstreams.shop]
        base_url = "https://shop.example.com/v1"
        [upstreams.shop.calls]
        {calls}
        [credentials.shop]
        upstream = "shop"
        limits.daily = {{ quota = 100, window = "24h" }}
        [jobs.all]
        credential = "shop"
        steps = [{steps}]
        "#
    );
    let mut world = World::written(&text, &[]);
    world.set(&format!("upstreams.shop.base_url=\"{}\"", stub.url()));
    let report = world.json(&["--region", "all"]);
    assert_eq!(report["outcome"], "complete", "{report}");
    assert_eq!(world.charged("daily"), stub.requests().len() as u64);
    (world, stub.requests())
}

fn things(ids: &[&str]) -> Value {
    let items = ids.iter().map(|id| json!({ "id": id }));
    json!({ "items": items.collect::<Vec<_>>() })
}

/// Two pages, of which the cursor is at this place.
fn two_pages(cursor: Option<&Value>) -> Value {
    let mut page = things(match cursor {
        None => &["a", "b"],
        Some(_) => &["c"],
    });
    page["next"] = match cursor {
        None => json!("tok"),
        Some(_) => Value::Null,
    };
    page
}

const RECORDS: &str = r#"cost = 1, records = { at = "/items", kind = "thing", id = "/id" }"#;

#[test]
fn a_graphql_query_is_sent_as_it_is_written_and_its_cursor_goes_into_a_variable() {
    let call = format!(
        r#"list = {{ path = "graphql", {RECORDS}, graphql = {{ query = "query ($after: String) {{ things(city: {{name: $city}}) {{{{ id }}}} }}", variables = {{ city = "{{city}}", first = 2, filter = {{ open = true, tags = ["x", "{{region}}"] }} }} }}, page = {{ kind = "token", param = "/variables/after", next = "/next" }} }}"#
    );
    let (_, requests) = received(&call, r#"{ call = "list" }"#, |request| {
        two_pages(request.json().pointer("/variables/after"))
    });
    let query = "query ($after: String) { things(city: {name: $city}) {{ id }} }";
    let mut variables =
        json!({ "city": "London", "first": 2, "filter": { "open": true, "tags": ["x", "GB"] } });
    let first = json!({ "query": query, "variables": variables });
    variables["after"] = json!("tok");
    let second = json!({ "query": query, "variables": variables });
    let bodies: Vec<Value> = requests.iter().map(StubRequest::json).collect();
    assert_eq!(bodies, [first, second]);
    assert_eq!(requests[0].method, "POST");
    assert_eq!(requests[0].header("content-type"), Some("application/json"));
    assert!(requests.iter().all(|request| request.query.is_empty()));
}

#[test]
fn a_step_overrides_values_within_the_json_of_its_call_and_numbers_stay_numbers() {
    let call = format!(
        r#"list = {{ path = "search", method = "PUT", {RECORDS}, json = {{ filter = {{ city = "{{city}}", open = true }}, size = 100, ratio = 0.5 }}, page = {{ kind = "offset", param = "/page/from", size_param = "/page/size", size = 2 }} }}"#
    );
    let step = r#"{ call = "list", json = { filter = { city = "Leeds" }, size = 7 } }"#;
    let (_, requests) = received(&call, step, |request| match request.json()["page"]["from"]
        .as_u64()
    {
        Some(0) => things(&["a", "b"]),
        _ => things(&["c"]),
    });
    let body = |from: u64| json!({ "filter": { "city": "Leeds", "open": true }, "size": 7, "ratio": 0.5, "page": { "size": 2, "from": from } });
    let bodies: Vec<Value> = requests.iter().map(StubRequest::json).collect();
    assert_eq!(bodies, [body(0), body(2)]);
    assert_eq!(requests[0].method, "PUT");
}

#[test]
fn a_form_has_its_fields_encoded_repeated_and_overridden_and_the_cursor_among_them() {
    let call = format!(
        r#"list = {{ path = "search", {RECORDS}, form = {{ city = "{{city}} & more", tag = ["new", "{{region}}"], sort = "old" }}, page = {{ kind = "token", param = "after", next = "/next", in = "body" }} }}"#
    );
    let step = r#"{ call = "list", form = { sort = "new" } }"#;
    let (_, requests) = received(&call, step, |request| {
        let body = String::from_utf8_lossy(&request.body).into_owned();
        two_pages(body.contains("after=tok").then_some(&json!("tok")))
    });
    let first = "city=London+%26+more&sort=new&tag=new&tag=GB";
    let bodies: Vec<_> = requests
        .iter()
        .map(|request| request.body.clone())
        .collect();
    assert_eq!(
        bodies,
        [first.to_owned(), format!("{first}&after=tok")].map(String::into_bytes)
    );
    assert_eq!(
        requests[0].header("content-type"),
        Some("application/x-www-form-urlencoded")
    );
    assert_eq!(requests[0].method, "POST");
}

#[test]
fn ids_are_repeated_in_lists_and_joined_as_the_configuration_says() {
    let calls = format!(
        r#"list = {{ path = "list", {RECORDS} }}
        get = {{ path = "get", cost = 1, records = {{ at = "/items", kind = "detail", id = "/id" }} }}
        find = {{ path = "find", cost = 1, json = {{ ids = ["{{ids}}"], names = ["n-{{ids}}", 3], all = "{{ids:|}}", deep = [{{ any = ["{{ids}}"] }}] }}, records = {{ at = "/items", kind = "found", id = "/id" }} }}"#
    );
    let ids = r#"ids = { from = "list", at = "/id", batch = 10 }"#;
    let steps = format!(
        r#"{{ call = "list" }}, {{ call = "get", params = {{ id = ["{{ids}}"], piped = "{{ids:|}}", plain = "{{ids}}", array = "{{ids:json}}", both = ["x", "y"] }}, {ids} }}, {{ call = "find", {ids} }}"#
    );
    let (world, requests) = received(&calls, &steps, |_| things(&["a", "b"]));
    let of = |path: &str| {
        let mut found = requests
            .iter()
            .filter(|request| request.path.ends_with(path));
        found.next().unwrap()
    };
    let query: BTreeSet<_> = of("/get").query.iter().cloned().collect();
    let expected = [
        ("id", "a"),
        ("id", "b"),
        ("piped", "a|b"),
        ("plain", "a,b"),
        ("array", r#"["a","b"]"#),
        ("both", "x"),
        ("both", "y"),
    ];
    let expected = expected.map(|(name, value)| (name.to_owned(), value.to_owned()));
    assert_eq!(query, BTreeSet::from(expected));
    assert_eq!(
        of("/find").json(),
        json!({ "ids": ["a", "b"], "names": ["n-a", "n-b", 3], "all": "a|b", "deep": [{ "any": ["a", "b"] }] })
    );
    assert_eq!(world.count("select count(*) from record"), 6);
}

#[test]
fn a_get_with_a_body_is_sent_where_the_method_is_written() {
    let call = format!(
        r#"list = {{ path = "search", method = "GET", {RECORDS}, json = {{ city = "{{city}}" }} }}"#
    );
    let (_, requests) = received(&call, r#"{ call = "list" }"#, |_| things(&["a"]));
    assert_eq!(requests[0].method, "GET");
    assert_eq!(requests[0].json(), json!({ "city": "London" }));
}

/// The sandbox tells two GraphQL calls of one path from each other, and reads ids and cursors out of bodies.
#[test]
fn the_sandbox_serves_graphql_calls_lists_of_ids_and_cursors_in_bodies() {
    let text = format!(
        r#"
        regions = ["GB"]
        [upstreams.shop]
        base_url = "https://shop.example.com/v1"
        [upstreams.shop.calls]
        list = {{ path = "graphql", {RECORDS}, graphql = {{ query = "{{ things }}", variables = {{ first = 5 }} }}, page = {{ kind = "token", param = "/variables/after", next = "/next", size_param = "/variables/first", size = 5 }} }}
        get = {{ path = "graphql", cost = 1, graphql = {{ query = "{{ details }}", variables = {{ ids = ["{{ids}}"] }} }}, records = {{ at = "/items", kind = "detail", id = "/id" }} }}
        [credentials.shop]
        upstream = "shop"
        limits.daily = {{ quota = 100, window = "24h" }}
        [jobs.all]
        credential = "shop"
        steps = [{{ call = "list" }}, {{ call = "get", ids = {{ from = "list", at = "/id", batch = 10 }} }}]
        "#
    );
    let world = World::written(&text, &[]);
    let report = world.json(&["--region", "all"]);
    assert_eq!(report["outcome"], "complete", "{report}");
    let things = world.count("select count(*) from record where kind = 'thing'");
    let details = world.count("select count(*) from record where kind = 'detail'");
    assert!(things > 10, "{things}");
    assert!(
        details > things / 2 && details <= things,
        "{details} of {things}"
    );
}

#[test]
fn a_configuration_without_regions_makes_one_pass_for_each_job_and_sends_secrets_in_bodies() {
    let stub = StubUpstream::start(|_| StubAnswer::json(&things(&["a"])));
    let text = format!(
        r#"
        [upstreams.shop]
        base_url = "https://shop.example.com/v1"
        [upstreams.shop.calls]
        list = {{ path = "list", {RECORDS}, form = {{ key = "{{secret}}" }} }}
        [credentials.shop]
        upstream = "shop"
        secret = {{ env = "YOUTUBE_API_KEY" }}
        limits.daily = {{ quota = 100, window = "24h" }}
        [jobs.all]
        credential = "shop"
        every = "1h"
        steps = [{{ call = "list" }}]
        "#
    );
    let mut world = World::written(&text, &[]);
    world.set(&format!("upstreams.shop.base_url=\"{}\"", stub.url()));
    let preview = world.json(&["--region", "all", "--dry-run"]);
    let pass = json!({ "job": "all", "region": "-", "fits": "all" });
    assert_eq!(preview["passes"], json!([pass]));
    let report = world.json(&["--region", "all"]);
    assert_eq!(report["outcome"], "complete", "{report}");
    world.json(&["--region", "all"]);
    let requests = stub.requests();
    assert_eq!(requests.len(), 1, "the second run is not due");
    let form: Vec<_> = url::form_urlencoded::parse(&requests[0].body).collect();
    assert_eq!(form, [("key".into(), SECRET.into())]);
    assert_eq!(
        world.count("select count(*) from pass where region = '-'"),
        1
    );
}
