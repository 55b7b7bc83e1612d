//! The steps of a job are edited while a pass is unfinished: a checkpoint belongs to its call and parameters.

use serde_json::{Value, json};

use crate::support::world::World;
use ingest_testing::stub_upstream::{StubAnswer, StubRequest, StubUpstream};

const LAST: u64 = 4;

/// Lists of four pages, `/a`, `/b` and `/things`, of two rows each. A cursor of another list, or of other parameters, is
/// refused.
fn stub() -> StubUpstream {
    StubUpstream::start(|request| {
        let of = format!(
            "{}{}",
            &request.path[1..],
            request.param("q").unwrap_or_default()
        );
        let page = match request
            .param("after")
            .map(|after| after.rsplit_once('-').unwrap())
        {
            None => 1,
            Some((list, page)) if list == of => page.parse().unwrap(),
            Some(_) => return StubAnswer::error(400, &json!({ "error": "no such cursor" })),
        };
        let row = |number: u64| json!({ "id": format!("{of}{page}{number}"), "of": format!("{of}{number}") });
        let next = (page < LAST).then(|| format!("{of}-{}", page + 1));
        StubAnswer::json(&json!({ "data": [row(1), row(2)], "next": next }))
    })
}

/// A world whose job has these steps and whose quota is `quota` units.
fn world(stub: &StubUpstream, steps: &str, quota: u64) -> World {
    let call = |name: &str| {
        format!(
            "[upstreams.rows.calls.{name}]\npath = \"{name}\"\ncost = 1\n\
             page = {{ kind = \"token\", param = \"after\", next = \"/next\" }}\n\
             records = {{ at = \"/data\", kind = \"{name}\", id = \"/id\" }}\n"
        )
    };
    let text = format!(
        "regions = [\"US\"]\n[upstreams.rows]\nbase_url = \"https://rows.example.com\"\n{}{}{}\n\
         [jobs.rows]\ncredential = \"rows\"\nsteps = [{{ call = \"a\" }}]\n\
         [credentials.rows]\nupstream = \"rows\"\nlimits = {{ daily = {{ quota = 10_000, window = \"24h\" }} }}\n",
        call("a"),
        call("b"),
        call("things")
    );
    let mut world = World::written(&text, &[]);
    world.set(&format!("upstreams.rows.base_url=\"{}\"", stub.url()));
    with(&mut world, steps, quota);
    world
}

/// Edits the steps, and how many units there are in all.
fn with(world: &mut World, steps: &str, quota: u64) {
    world.set(&format!("jobs.rows.steps=[{steps}]"));
    world.set(&format!("credentials.rows.limits.daily.quota={quota}"));
}

/// The pass over the region in the next run.
fn run(world: &World) -> Value {
    world.json(&["--region", "US"])["passes"][0].clone()
}

/// Path and cursor of each request.
fn asked(stub: &StubUpstream) -> Vec<String> {
    let asked = |request: &StubRequest| {
        format!(
            "{}{} {}",
            &request.path[1..],
            request.param("q").unwrap_or_default(),
            request.param("after").unwrap_or("-1")
        )
    };
    stub.requests().iter().map(asked).collect()
}

/// All pages of a list as requests.
fn pages(list: &str, numbers: std::ops::RangeInclusive<u64>) -> Vec<String> {
    numbers
        .map(|page| match page {
            1 => format!("{list} -1"),
            more => format!("{list} {list}-{more}"),
        })
        .collect()
}

fn listed(world: &World) -> i64 {
    world.count("select count(*) from listing")
}

#[test]
fn a_step_that_is_inserted_before_another_leaves_that_its_cursor() {
    let stub = stub();
    let mut world = world(&stub, "{ call = \"a\" }", 2);
    assert_eq!(run(&world)["outcome"], "stopped");
    with(&mut world, "{ call = \"b\" }, { call = \"a\" }", 100);
    let preview = world.json(&["--region", "US", "--dry-run"]);
    assert_eq!(preview["steps"][0]["call"], "b", "{preview}");
    let pass = run(&world);
    assert_eq!(
        (&pass["outcome"], &pass["resumed"], &pass["requests"]),
        (&json!("complete"), &json!(true), &json!(6)),
        "{pass}"
    );
    let expected = [pages("a", 1..=2), pages("b", 1..=4), pages("a", 3..=4)].concat();
    assert_eq!(asked(&stub), expected);
    assert_eq!(listed(&world), 16);
    assert_eq!(world.count("select pages from pass"), 8);
}

#[test]
fn a_step_that_is_removed_before_another_leaves_that_its_cursor() {
    let stub = stub();
    let mut world = world(&stub, "{ call = \"a\" }, { call = \"b\" }", 6);
    assert_eq!(run(&world)["outcome"], "stopped");
    with(&mut world, "{ call = \"b\" }", 100);
    let pass = run(&world);
    assert_eq!(pass["outcome"], "complete", "{pass}");
    assert_eq!(
        asked(&stub),
        [pages("a", 1..=4), pages("b", 1..=4)].concat()
    );
    assert_eq!(
        pass["detail"],
        "a is no longer a step of this job; 4 stored pages of it are not part of this pass"
    );
    assert_eq!(listed(&world), 8, "only what its steps listed");
    assert_eq!(world.count("select pages from pass"), 4);
    assert_eq!(
        world.count("select count(*) from record"),
        16,
        "what was paid for stays"
    );
}

#[test]
fn steps_that_change_their_places_go_on_where_each_stopped() {
    let stub = stub();
    let mut world = world(
        &stub,
        "{ call = \"a\", max_pages = 2 }, { call = \"b\" }",
        3,
    );
    assert_eq!(run(&world)["outcome"], "stopped");
    with(
        &mut world,
        "{ call = \"b\" }, { call = \"a\", max_pages = 2 }",
        100,
    );
    assert_eq!(run(&world)["outcome"], "complete");
    assert_eq!(
        asked(&stub),
        [pages("a", 1..=2), pages("b", 1..=4)].concat()
    );
}

#[test]
fn a_step_whose_call_is_replaced_begins_at_its_first_page() {
    let stub = stub();
    let mut world = world(&stub, "{ call = \"a\" }", 2);
    assert_eq!(run(&world)["outcome"], "stopped");
    with(&mut world, "{ call = \"b\" }", 100);
    let pass = run(&world);
    assert_eq!(pass["outcome"], "complete", "{pass}");
    assert_eq!(
        asked(&stub),
        [pages("a", 1..=2), pages("b", 1..=4)].concat()
    );
    assert!(
        pass["detail"]
            .as_str()
            .unwrap()
            .contains("a is no longer a step"),
        "{pass}"
    );
    assert_eq!(
        world.count("select count(*) from listing where call = 'a'"),
        0
    );
}

#[test]
fn a_step_whose_parameters_are_edited_starts_over_and_says_so() {
    let stub = stub();
    let mut world = world(&stub, "{ call = \"a\", params = { q = \"x\" } }", 2);
    assert_eq!(run(&world)["outcome"], "stopped");
    with(&mut world, "{ call = \"a\", params = { q = \"y\" } }", 100);
    let pass = run(&world);
    assert_eq!(
        (&pass["outcome"], &pass["detail"]),
        (
            &json!("complete"),
            &json!(
                "restarted from the first page: the parameters of a changed after 2 stored pages"
            )
        ),
        "{pass}"
    );
    assert_eq!(
        asked(&stub),
        [pages("ax", 1..=2), pages("ay", 1..=4)].concat()
    );
    assert_eq!(listed(&world), 8);
}

#[test]
fn a_step_that_was_done_starts_over_too_when_its_parameters_are_edited() {
    let stub = stub();
    let mut world = world(
        &stub,
        "{ call = \"a\", params = { q = \"x\" } }, { call = \"b\" }",
        5,
    );
    assert_eq!(run(&world)["outcome"], "stopped");
    with(
        &mut world,
        "{ call = \"a\", params = { q = \"y\" } }, { call = \"b\" }",
        100,
    );
    assert_eq!(run(&world)["outcome"], "complete");
    let expected = [
        pages("ax", 1..=4),
        pages("b", 1..=1),
        pages("ay", 1..=4),
        pages("b", 2..=4),
    ];
    assert_eq!(asked(&stub), expected.concat());
}

#[test]
fn an_edit_that_is_taken_back_before_the_next_run_changes_nothing() {
    let stub = stub();
    let mut world = world(&stub, "{ call = \"a\" }", 2);
    assert_eq!(run(&world)["outcome"], "stopped");
    with(&mut world, "{ call = \"b\" }", 2);
    world.json(&["--region", "US", "--dry-run"]);
    world.json(&["status"]);
    with(&mut world, "{ call = \"a\" }", 100);
    let pass = run(&world);
    assert_eq!(
        (&pass["outcome"], &pass["detail"]),
        (&json!("complete"), &Value::Null)
    );
    assert_eq!(asked(&stub), pages("a", 1..=4));
}

#[test]
fn max_pages_below_the_landed_pages_pays_for_no_further_page() {
    for most in [1, 2, 3] {
        let stub = stub();
        let mut world = world(&stub, "{ call = \"a\" }", 3);
        assert_eq!(run(&world)["outcome"], "stopped");
        with(
            &mut world,
            &format!("{{ call = \"a\", max_pages = {most} }}"),
            100,
        );
        let preview = world.json(&["--region", "US", "--dry-run"]);
        assert_eq!(preview["steps"][0]["requests"]["max"], 0, "{preview}");
        let pass = run(&world);
        assert_eq!(
            (&pass["outcome"], &pass["resumed"], &pass["requests"]),
            (&json!("complete"), &json!(true), &json!(0)),
            "{pass}"
        );
        assert_eq!(asked(&stub), pages("a", 1..=3));
    }
}

#[test]
fn max_pages_below_the_landed_pages_does_not_advance_since() {
    let stub = stub();
    let step = |most: u64| {
        format!("{{ call = \"a\", params = {{ since = \"{{since}}\" }}, max_pages = {most} }}")
    };
    let mut world = world(&stub, &step(4), 3);
    assert_eq!(run(&world)["outcome"], "stopped");
    // A doubtful pass were due again after a day.
    world.set("upstreams.rows.calls.a.trust=[\"cut\"]");
    with(&mut world, &step(2), 100);
    assert_eq!(run(&world)["outcome"], "complete");
    run(&world);
    let requests = stub.requests();
    assert_eq!(
        requests.last().unwrap().param("since"),
        Some("1970-01-01T00:00:00Z")
    );
}

const IDS: &str = "{ call = \"things\", params = { id = \"{ids}\" }, ids = { from = \"a\", at = \"/of\", batch = 9, fresh_for = \"1d\" } }";

#[test]
fn a_batch_between_two_pages_goes_on_when_a_step_is_inserted_before_it() {
    let stub = stub();
    let list = "{ call = \"a\", max_pages = 1 }";
    let mut world = world(&stub, &format!("{list}, {IDS}"), 3);
    assert_eq!(run(&world)["outcome"], "stopped");
    with(
        &mut world,
        &format!("{list}, {{ call = \"b\", max_pages = 1 }}, {IDS}"),
        100,
    );
    let report = world.json(&["--region", "US"]);
    assert_eq!(report["outcome"], "complete", "{report}");
    let expected = [
        pages("a", 1..=1),
        pages("things", 1..=2),
        pages("b", 1..=1),
        pages("things", 3..=4),
    ];
    assert_eq!(asked(&stub), expected.concat());
}

#[test]
fn a_batch_whose_parameters_are_edited_begins_at_its_first_page() {
    let stub = stub();
    let list = "{ call = \"a\", max_pages = 1 }";
    let mut world = world(&stub, &format!("{list}, {IDS}"), 3);
    assert_eq!(run(&world)["outcome"], "stopped");
    let edited = IDS.replace("id = ", "q = \"new\", id = ");
    with(&mut world, &format!("{list}, {edited}"), 100);
    let report = world.json(&["--region", "US"]);
    assert_eq!(report["outcome"], "complete", "{report}");
    let expected = [
        pages("a", 1..=1),
        pages("things", 1..=2),
        pages("thingsnew", 1..=4),
    ];
    assert_eq!(asked(&stub), expected.concat());
    let shared = &report["passes"][1];
    assert!(
        shared["detail"]
            .as_str()
            .unwrap()
            .contains("the parameters of things changed"),
        "{report}"
    );
}

#[test]
fn max_pages_below_the_landed_pages_of_a_batch_pays_for_no_further_page() {
    let stub = stub();
    let list = "{ call = \"a\", max_pages = 1 }";
    let mut world = world(&stub, &format!("{list}, {IDS}"), 4);
    assert_eq!(run(&world)["outcome"], "stopped");
    let lower = IDS.replace("call = \"things\"", "call = \"things\", max_pages = 2");
    with(&mut world, &format!("{list}, {lower}"), 100);
    let report = world.json(&["--region", "US"]);
    assert_eq!(
        (&report["outcome"], &report["requests"]),
        (&json!("complete"), &json!(0)),
        "{report}"
    );
}
