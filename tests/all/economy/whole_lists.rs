//! A list is walked to its end, wherever the answer says what comes next and however many of its pages are empty.

use serde_json::{Value, json};

use crate::support::stub_upstream::{StubAnswer, StubRequest, StubUpstream};
use crate::support::world::World;

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
