//! Which records changed, and which no list has any more.

use std::sync::{Arc, Mutex};

use serde_json::{Value, json};

use crate::support::world::World;
use ingest_testing::stub_upstream::{StubAnswer, StubUpstream};

/// The lists by the last part of their path.
type Lists = Arc<Mutex<Value>>;

/// Two regions, a list in each, and a second job with a list of its own.
fn world(lists: &Value, step: &str, records: &str) -> (World, StubUpstream, Lists) {
    let lists: Lists = Arc::new(Mutex::new(lists.clone()));
    let served = Arc::clone(&lists);
    let upstream = StubUpstream::start(move |request| {
        let name = request.path.rsplit('/').next().unwrap_or_default();
        let lists = served.lock().unwrap();
        let page = usize::from(request.param("page").is_some());
        let items = match &lists[name] {
            Value::Object(pages) => pages.get(&page.to_string()).cloned().unwrap_or_default(),
            items => items.clone(),
        };
        let next = (lists[name].is_object() && page == 0).then_some("2");
        if items.is_null() {
            return StubAnswer::json(&json!({ "next": next }));
        }
        StubAnswer::json(&json!({ "items": items, "next": next }))
    });
    let text = format!(
        r#"
regions = ["US", "GB"]
[upstreams.shop]
base_url = "https://shop.example.com"
[upstreams.shop.calls.things]
path = "things/{{region}}"
cost = 1
page = {{ kind = "token", param = "page", next = "/next" }}
records = {{ at = "/items", kind = "thing", id = "/id", columns = {{ name = "/name" }}{records} }}
[upstreams.shop.calls.best]
path = "best"
cost = 1
records = {{ at = "/items", kind = "thing", id = "/id" }}
[credentials.shop]
upstream = "shop"
limits = {{ daily = {{ quota = 100, window = "24h" }} }}
[jobs.shop]
credential = "shop"
steps = [{{ call = "things"{step} }}]
[jobs.best]
credential = "shop"
regions = ["US"]
steps = [{{ call = "best" }}]
"#
    );
    let mut world = World::written(&text, &[]);
    world.set(&format!("upstreams.shop.base_url={}", upstream.url()));
    (world, upstream, lists)
}

fn run(world: &World) {
    let run = world.json(&["--region", "all"]);
    assert_eq!(run["outcome"], "complete", "{run}");
}

fn thing(id: &str) -> Value {
    json!({ "id": id, "name": id })
}

fn gone(world: &World) -> Vec<String> {
    let catalog = world.catalog();
    let mut gone = catalog
        .prepare("select id from shop_thing where gone_at is not null order by id")
        .unwrap();
    let gone = gone.query_map([], |row| row.get(0)).unwrap();
    gone.map(Result::unwrap).collect()
}

#[test]
fn a_record_is_gone_when_no_list_has_it_and_returns_with_any_list() {
    let (a, b, c) = (thing("a"), thing("b"), thing("c"));
    let all = json!({ "US": [a, b, c], "GB": [b], "best": [c] });
    let (world, _upstream, lists) = world(&all, "", "");
    run(&world);
    assert_eq!(gone(&world), [""; 0]);
    *lists.lock().unwrap() = json!({ "US": [], "GB": [b], "best": [c] });
    run(&world);
    assert_eq!(gone(&world), ["a"], "GB has b, the other job has c");
    *lists.lock().unwrap() = json!({ "US": [], "GB": [], "best": [] });
    run(&world);
    assert_eq!(gone(&world), ["a", "b", "c"]);
    *lists.lock().unwrap() = json!({ "US": [], "GB": [a], "best": [c] });
    run(&world);
    assert_eq!(gone(&world), ["b"]);
}

#[test]
fn a_record_is_not_gone_while_a_list_that_the_run_did_not_walk_has_it() {
    let (a, b, c) = (thing("a"), thing("b"), thing("c"));
    let all = json!({ "US": [a, b, c], "GB": [b], "best": [c] });
    let (world, _upstream, lists) = world(&all, "", "");
    run(&world);
    *lists.lock().unwrap() = json!({ "US": [], "GB": [b], "best": [c] });
    let run = world.json(&["--job", "shop", "--region", "US"]);
    assert_eq!(run["outcome"], "complete", "{run}");
    assert_eq!(
        gone(&world),
        ["a"],
        "GB had b and the other job c when they were last walked"
    );
}

#[test]
fn an_export_since_a_time_has_what_changed_and_tombstones_of_what_is_gone() {
    let lists =
        json!({ "US": [thing("same"), thing("other"), thing("lost")], "GB": [], "best": [] });
    let (world, _upstream, served) = world(&lists, "", "");
    run(&world);
    let long_ago = "update record set first_seen = '2020-01-01T00:00:00.000000Z',
        last_seen = '2020-01-01T00:00:00.000000Z', changed_at = '2020-01-01T00:00:00.000000Z'";
    let catalog = rusqlite::Connection::open(world.state_dir().join("catalog.db")).unwrap();
    catalog.execute(long_ago, []).unwrap();
    drop(catalog);
    let other = json!({ "id": "other", "name": "changed" });
    *served.lock().unwrap() = json!({ "US": [thing("same"), other], "GB": [], "best": [] });
    run(&world);
    let export = ["export", "--kind", "thing", "--since", "1h"];
    let lines = world.ingest(&export).stdout;
    let lines: Vec<Value> = lines
        .lines()
        .map(|line| serde_json::from_str(line).unwrap())
        .collect();
    let ids: Vec<&str> = lines
        .iter()
        .map(|line| line["id"].as_str().unwrap())
        .collect();
    assert_eq!(ids, ["other", "lost"], "{lines:?}");
    assert_eq!(lines[0]["body"]["name"], "changed");
    assert!(
        lines[1]["gone_at"].is_string() && lines[1]["body"].is_null(),
        "{lines:?}"
    );
    let csv = [&export[..], &["--as", "csv"]].concat();
    let csv = world.ingest(&csv).stdout;
    let mut csv = csv::Reader::from_reader(csv.as_bytes());
    let cells: Vec<[String; 3]> = csv
        .records()
        .map(|line| line.unwrap())
        .map(|line| [1, 4, 5].map(|cell| line[cell].to_owned()))
        .collect();
    assert_eq!(cells[0], ["other", "changed", ""]);
    assert_eq!(cells[1][..2], ["lost", ""]);
    assert_eq!(cells[1][2], lines[1]["gone_at"].as_str().unwrap());
    let seen = ["export", "--kind", "thing", "--seen-since", "1h"];
    let seen = world.ingest(&seen).stdout;
    assert_eq!(seen.lines().count(), 2, "same and other: {seen}");
    let all = world.ingest(&["export", "--kind", "thing"]).stdout;
    assert_eq!(all.lines().count(), 3, "{all}");
}

#[test]
fn former_bodies_are_kept_with_the_pass_that_changed_them_where_a_kind_has_history() {
    for (records, expected) in [("", vec![]), (", history = true", vec!["1 one", "1 two"])] {
        let (world, _upstream, served) = world(&json!({ "GB": [], "best": [] }), "", records);
        for name in ["one", "two", "two", "three"] {
            let item = json!({ "id": 1, "name": name });
            *served.lock().unwrap() = json!({ "US": [item], "GB": [], "best": [] });
            run(&world);
        }
        let catalog = world.catalog();
        let mut kept = catalog
            .prepare(
                "select version.id || ' ' || (version.body ->> '$.name') from record_version version
                join pass on pass.id = version.pass and pass.region = 'US' and pass.started_at <= replaced_at
                order by version.number",
            )
            .unwrap();
        let kept = kept.query_map([], |row| row.get(0)).unwrap();
        let kept: Vec<String> = kept.map(Result::unwrap).collect();
        assert_eq!(kept, expected, "{records}");
    }
}
