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

/// Rows `1..=total`, a page of `size` after the row that the parameter `after` names.
fn rows_after(request: &StubRequest, size: u64, total: u64) -> Vec<Value> {
    let after: u64 = request
        .param("after")
        .map_or(0, |after| after.parse().unwrap());
    (after + 1..=total.min(after + size))
        .map(|id| json!({ "id": id }))
        .collect()
}

#[test]
fn a_cursor_inside_the_records_leads_to_the_next_page() {
    let stub = StubUpstream::start(|request| {
        StubAnswer::json(&json!({ "data": rows_after(request, 100, 250) }))
    });
    let page = r#"{ kind = "token", param = "after", next = "/data/99/id", size = 100 }"#;
    let pass = run(&world(page, "", &stub));
    assert_eq!(
        (&pass["outcome"], &pass["records"], &pass["requests"]),
        (&json!("complete"), &json!(250), &json!(3)),
        "{pass}"
    );
}

#[test]
fn a_url_and_a_total_inside_the_records_are_read_too() {
    let stub = StubUpstream::start(|request| {
        let rows = rows_after(request, 10, 25);
        let next = format!("?after={}", rows.last().unwrap()["id"]);
        let mut rows: Vec<Value> = rows;
        if rows.len() == 10 {
            rows[9]["next"] = next.into();
        }
        StubAnswer::json(&json!({ "data": rows }))
    });
    let pass = run(&world(
        r#"{ kind = "next_url", next = "/data/9/next" }"#,
        "",
        &stub,
    ));
    assert_eq!(
        (&pass["records"], &pass["requests"]),
        (&json!(25), &json!(3)),
        "{pass}"
    );
    let stub = StubUpstream::start(|request| {
        let mut rows = rows_after(request, 10, 30);
        rows[0]["of"] = 30.into();
        StubAnswer::json(&json!({ "data": rows }))
    });
    let page = r#"{ kind = "offset", param = "after", size = 10, total = "/data/0/of" }"#;
    let pass = run(&world(page, "", &stub));
    assert_eq!(
        (&pass["records"], &pass["requests"]),
        (&json!(30), &json!(3)),
        "the total saves the request for an empty page: {pass}"
    );
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
fn empty_pages_do_not_end_a_list_whose_cursor_continues() {
    let stub = sparse(&[0, 3, 14, 35], 40);
    let pass = run(&world(BY_TOKEN, "", &stub));
    assert_eq!(
        (&pass["outcome"], &pass["records"], &pass["requests"]),
        (&json!("complete"), &json!(4), &json!(41)),
        "{pass}"
    );
    assert_eq!(pass["detail"], Value::Null);
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

#[test]
fn a_pass_that_max_pages_cut_does_not_advance_since() {
    let stub = sparse(&[0, 1, 2], 2);
    let mut world = world(
        BY_TOKEN,
        ", params = { since = \"{since}\" }, max_pages = 2",
        &stub,
    );
    let since_of_next = |world: &World| {
        let before = stub.requests().len();
        let pass = run(world);
        let since = stub.requests()[before].param("since").unwrap().to_owned();
        (pass, since)
    };
    let epoch = "1970-01-01T00:00:00Z";
    let (cut, since) = since_of_next(&world);
    assert_eq!((&cut["outcome"], &*since), (&json!("doubtful"), epoch));
    assert!(
        cut["detail"].as_str().unwrap().contains("the same {since}"),
        "{cut}"
    );
    world.set("upstreams.rows.calls.list.trust=[\"cut\"]");
    let (cut, since) = since_of_next(&world);
    assert_eq!((&cut["outcome"], &*since), (&json!("complete"), epoch));
    world.set(
        "jobs.rows.steps=[{ call = \"list\", params = { since = \"{since}\" }, max_pages = 3 }]",
    );
    let (whole, since) = since_of_next(&world);
    assert_eq!((&whole["detail"], &*since), (&Value::Null, epoch));
    let (_, since) = since_of_next(&world);
    assert_ne!(since, epoch);
    let started: String = world
        .catalog()
        .query_row("select started_at from pass where id = 3", [], |row| {
            row.get(0)
        })
        .unwrap();
    assert_eq!(since[..19], started[..19], "the whole pass began then");
}

#[test]
fn max_pages_of_a_step_without_since_is_no_cut() {
    let stub = sparse(&[0, 1, 2], 2);
    let pass = run(&world(BY_TOKEN, ", max_pages = 2", &stub));
    assert_eq!(
        (&pass["outcome"], &pass["detail"]),
        (&json!("complete"), &Value::Null)
    );
}
