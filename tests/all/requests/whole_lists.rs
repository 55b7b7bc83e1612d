//! A list is walked to its end, wherever the answer says what comes next and however many of its pages are empty.

use serde_json::{Value, json};

use crate::support::world::World;
use ingest_testing::stub_upstream::{StubAnswer, StubRequest, StubUpstream};

/// A world with one job of one step, whose call pages by `page`.
fn world(page: &str, step: &str, stub: &StubUpstream) -> World {
    let text = format!(
        "regions = [\"US\"]\n[upstreams.rows]\nbase_url = \"https://rows.example.com\"\n\
         [upstreams.rows.calls.list]\npath = \"list/{{region}}\"\ncost = 1\npage = {page}\n\
         records = {{ at = \"/data\", kind = \"row\", id = \"/id\" }}\n\
         [jobs.rows]\ncredential = \"rows\"\nsteps = [{{ call = \"list\"{step} }}]\n\
         [credentials.rows]\nupstream = \"rows\"\nlimits = {{ daily = {{ quota = 10_000, window = \"24h\" }} }}\n"
    );
    let mut world = World::written(&text, &[]);
    world.set(&format!("upstreams.rows.base_url=\"{}\"", stub.url()));
    world
}

/// What the next run says of the one pass.
fn run(world: &World) -> Value {
    world.json(&["--region", "US"])["passes"][0].clone()
}

/// A list of one row a page, on the pages whose numbers are given; its cursor is the number of the next page.
fn sparse(rows: &'static [u64], last: u64) -> StubUpstream {
    StubUpstream::start(move |request| {
        let page: u64 = request
            .param("page")
            .map_or(0, |page| page.parse().unwrap());
        let row = rows
            .contains(&page)
            .then(|| json!({ "id": format!("r{page}") }));
        let next = (page < last).then(|| (page + 1).to_string());
        StubAnswer::json(&json!({ "data": Vec::from_iter(row), "next": next }))
    })
}

const BY_TOKEN: &str = r#"{ kind = "token", param = "page", next = "/next" }"#;

fn pages_asked(stub: &StubUpstream) -> Vec<u64> {
    let page = |request: &StubRequest| {
        request
            .param("page")
            .map_or(0, |page| page.parse().unwrap())
    };
    stub.requests().iter().map(page).collect()
}

#[test]
fn a_list_with_more_than_20_empty_pages_is_not_complete_and_is_not_paid_for_again() {
    let stub = sparse(&[0, 30], 30);
    let mut world = world(BY_TOKEN, "", &stub);
    let ran = world.ingest(&["--region", "US", "--format", "json"]);
    let pass = &ran.json()["passes"][0];
    assert_eq!(
        (ran.code, &pass["outcome"], &pass["requests"]),
        (1, &json!("failed"), &json!(22)),
        "20 empty pages are allowed, and one more was seen: {pass}"
    );
    assert!(
        pass["detail"]
            .as_str()
            .unwrap()
            .contains("empty_page_ends = true"),
        "{pass}"
    );
    let preview = world.json(&["--region", "US", "--dry-run"]);
    assert_eq!(preview["steps"][0]["requests"]["max"], 0, "{preview}");
    let pass = run(&world);
    assert_eq!(
        (&pass["outcome"], &pass["requests"]),
        (&json!("failed"), &json!(0)),
        "what it would bring is known: {pass}"
    );
    world.set("upstreams.rows.calls.list.page.empty_page_ends=true");
    let pass = run(&world);
    assert_eq!(
        (&pass["outcome"], &pass["resumed"], &pass["requests"]),
        (&json!("complete"), &json!(true), &json!(1)),
        "{pass}"
    );
    assert_eq!(pages_asked(&stub), Vec::from_iter(0..=22));
}

#[test]
fn empty_pages_of_a_batch_of_ids_do_not_end_it() {
    let stub = StubUpstream::start(|request| {
        if request.path == "/list/US" {
            return StubAnswer::json(&json!({ "data": [{ "id": "x" }] }));
        }
        let page: u64 = request
            .param("page")
            .map_or(0, |page| page.parse().unwrap());
        let row = (page == 25).then(|| json!({ "id": "x" }));
        let next = (page + 1).to_string();
        StubAnswer::json(&json!({ "data": Vec::from_iter(row), "next": next }))
    });
    let mut world = world("{ kind = \"none\" }", "", &stub);
    let call = |ends: bool| {
        format!(
            "upstreams.rows.calls.get={{ path = \"get\", cost = 1, page = {{ kind = \"token\", param = \"page\", next = \"/next\", \
             empty_page_ends = {ends} }}, records = {{ at = \"/data\", kind = \"thing\", id = \"/id\" }} }}"
        )
    };
    world
        .set(&call(false))
        .set("jobs.rows.steps=[{ call = \"list\" }, { call = \"get\", params = { id = \"{ids}\" }, ids = { from = \"list\", at = \"/id\", batch = 5 } }]");
    let first = world.json(&["--region", "US"]);
    assert_eq!(
        (&first["outcome"], &first["requests"]),
        (&json!("failed"), &json!(22)),
        "the list, and 21 empty pages: {first}"
    );
    let again = world.json(&["--region", "US"]);
    assert_eq!(
        (&again["outcome"], &again["requests"]),
        (&json!("failed"), &json!(0)),
        "{again}"
    );
    world.set(&call(true));
    let last = world.json(&["--region", "US"]);
    assert_eq!(
        (&last["outcome"], &last["requests"]),
        (&json!("complete"), &json!(1)),
        "{last}"
    );
}
